"""How fast batches are: `python -m benchmarks.throughput`.

The run engine with many samples in flight, beside what its ancestor did (ten calls one after the
other), with in-process answers, over HTTP through ChatOpenAI, the memory of a long run, and what it
costs to start a finished one again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from absa.backends import make_backend
from absa.nodes.morphemes import kiwi
from absa.runs import Progress, RunPlan, run
from absa.runs.loop import run_in_quick_loop
from absa.schemas.backend import Backend
from absa.schemas.settings import BackendSettings, Settings
from benchmarks.answers import ANSWERS, CALLS, CRITICAL_PATH, TEXT, DelayedBackend


def write_data(folder: Path, samples: int) -> Path:
    path = folder / f"samples {samples}.jsonl"
    lines = (
        json.dumps({"uid": f"s{n}", "text": f"{TEXT} {n}", "lang": "ko"}, ensure_ascii=False)
        for n in range(samples)
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def timed_run(
    folder: Path,
    samples: int,
    width: int,
    backend: BackendSettings,
    backend_for: Callable[[BackendSettings], Backend],
    on_progress: Callable[[Progress], None] = lambda progress: None,
    out: Path | None = None,
) -> float:
    """Samples per second of a run in its steady state."""
    plan = RunPlan(
        data=write_data(folder, samples),
        out=out or folder / f"run {time.monotonic_ns()}",
        settings=Settings(backend=backend),
        concurrency=width,
        cache_path=folder / "answers.db",
    )
    seen: list[float] = []

    def watch(progress: Progress) -> None:
        seen.append(time.perf_counter())
        on_progress(progress)

    report = run_in_quick_loop(run(plan, backend_for=backend_for, on_progress=watch))
    if report.exit_code:
        raise SystemExit(f"the run failed: {report}; see {plan.out / 'errors.jsonl'}")
    # While all places were taken and spread out: filling and draining do not count.
    steady = seen[2 * width : -width] if samples > 4 * width else seen
    return (len(steady) - 1) / (steady[-1] - steady[0])


def in_process_rate(folder: Path, samples: int, width: int, delay: float) -> float:
    backend = DelayedBackend(delay)
    return timed_run(folder, samples, width, BackendSettings(), lambda settings: backend)


def sequential_rate(delay: float) -> float:
    """The ten calls of a sample one after the other."""
    start = time.perf_counter()
    for _ in range(CALLS):
        time.sleep(delay)
    return 1 / (time.perf_counter() - start)


def serve(port: int, delay: float) -> None:
    """An OpenAI-compatible server that answers each agent after `delay` seconds."""
    from benchmarks.server import serve_forever

    run_in_quick_loop(serve_forever(port, delay, ANSWERS))


def http_rate(folder: Path, samples: int, width: int, delay: float) -> float:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(port, delay), daemon=True
    )
    server.start()
    try:
        wait_for(port)
        backend = BackendSettings(
            kind="openai",
            model="benchmark",
            base_url=f"http://127.0.0.1:{port}/v1",
            max_concurrency=width * 3,
        )
        return timed_run(folder, samples, width, backend, make_backend)
    finally:
        server.terminate()
        server.join()


def wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"no server on port {port}")


def memory_growth(folder: Path, samples: int, width: int) -> dict[str, Any]:
    """MB from sample 1,000 to the last (resident size, instant answers)."""
    at: dict[str, float] = {}

    def watch(progress: Progress) -> None:
        if progress.finished == 1000:
            at["first"] = _resident_mb()
        at["last"] = _resident_mb() if progress.finished % 500 == 0 else at.get("last", 0.0)

    out = folder / "long run"
    rate = timed_run(
        folder, samples, width, BackendSettings(), lambda settings: DelayedBackend(), watch, out
    )
    return {
        "resuming_when_finished_s": round(resume_time(write_data(folder, samples), out), 2),
        "goal_resuming_s": 5,
        "samples": samples,
        "samples_per_s": round(rate, 1),
        "mb_at_1000": round(at["first"], 1),
        "mb_at_end": round(at["last"], 1),
        "growth_mb": round(at["last"] - at["first"], 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "goal_growth_mb": 50,
    }


def resume_time(data: Path, out: Path) -> float:
    """Seconds of the whole command on a finished run: it has nothing to do but see that."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "absa", "run", str(data), "--out", str(out)],
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - start


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=64, help="samples in flight")
    parser.add_argument("--memory-samples", type=int, default=10_000)
    parser.add_argument(
        "--only", choices=["in_process", "http", "memory"], help="One of the three."
    )
    args = parser.parse_args()
    kiwi().tokenize("가격")  # loading the Korean analyzer is start-up, to its first word
    results: dict[str, Any] = {"samples_in_flight": args.width}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key, delay, goal in (("in_process", 0.2, 0.95), ("http", 1.0, 0.90)):
            if args.only not in (None, key):
                continue
            ideal = args.width / (CRITICAL_PATH * delay)
            many = args.width * 12
            if key == "http":
                rate = http_rate(folder, many, args.width, delay)
            else:
                rate = in_process_rate(folder, many, args.width, delay)
            results[key] = {
                "answer_delay_s": delay,
                "samples_per_s": round(rate, 2),
                "ideal_samples_per_s": round(ideal, 2),
                "share_of_ideal": round(rate / ideal, 4),
                "goal_share": goal,
                "sequential_samples_per_s": round(sequential_rate(delay), 3),
            }
        if args.only in (None, "memory"):
            results["memory"] = memory_growth(folder, args.memory_samples, args.width)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
