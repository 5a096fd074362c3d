"""More than one process: `python -m benchmarks.scale`.

The same debates over HTTP, answers after 200 ms, so many in flight that the processes' own time is
the limit: by the local engine, by Dask with one worker (what does Dask cost?) and by Dask with two
(what does it bring?). All rates are taken one after the other in one run, while every place is
taken.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from absa.runs import Progress, RunPlan, run
from absa.runs.loop import run_in_quick_loop
from absa.schemas.settings import BackendSettings, Settings
from benchmarks.throughput import serve, wait_for, write_data

ENGINES: dict[str, dict[str, Any]] = {
    "local": {"engine": "local"},
    "dask, 1 worker": {"engine": "dask", "workers": 1},
    "dask, 2 workers": {"engine": "dask", "workers": 2},
}
GOAL = 1.6


def rate(folder: Path, url: str, samples: int, width: int, engine: dict[str, Any]) -> float:
    """Debates per second in the middle of a run: starting, filling and draining do not count."""
    name = f"run {time.monotonic_ns()}"
    plan = RunPlan(
        data=write_data(folder, samples),
        out=folder / name,
        settings=Settings(
            backend=BackendSettings(
                kind="openai", model="benchmark", base_url=url, max_concurrency=width * 3
            )
        ),
        concurrency=width,
        cache_path=folder / f"{name}.db",
        **engine,
    )
    seen: list[float] = []

    def watch(progress: Progress) -> None:
        seen.append(time.perf_counter())

    report = run_in_quick_loop(run(plan, on_progress=watch))
    if report.exit_code:
        raise SystemExit(f"the run failed: {report}; see {plan.out / 'errors.jsonl'}")
    steady = seen[len(seen) // 3 : -width]
    return (len(steady) - 1) / (steady[-1] - steady[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1200)
    parser.add_argument("--width", type=int, default=128, help="samples in flight, over all")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds per answer")
    args = parser.parse_args()
    if args.samples < 3 * args.width:
        parser.error("--samples must be at least three times --width")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(port, args.delay), daemon=True
    )
    server.start()
    found: dict[str, float] = {}
    try:
        wait_for(port)
        with tempfile.TemporaryDirectory() as name:
            for engine, options in ENGINES.items():
                url = f"http://127.0.0.1:{port}/v1"
                found[engine] = rate(Path(name), url, args.samples, args.width, options)
                print(f"{engine:16} {found[engine]:6.1f} debates/s", flush=True)
    finally:
        server.terminate()
        server.join()
    local, one, two = found.values()
    print(
        json.dumps(
            {
                "cores": os.cpu_count(),
                "samples": args.samples,
                "samples_in_flight": args.width,
                "answer_delay_s": args.delay,
                "debates_per_s": {name: round(value, 2) for name, value in found.items()},
                "one_worker_of_local": round(one / local, 3),
                "two_workers_of_one": round(two / one, 3),
                "two_workers_of_local": round(two / local, 3),
                "goal_two_workers_of_one": GOAL,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
