"""What the graph itself costs: `python -m benchmarks.overhead`.

Beside a bare asyncio program that makes the same ten calls in the same order and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from absa.graph import build
from absa.runs.loop import Spread, run_in_quick_loop
from absa.runs.sample import output_of
from absa.schemas.settings import PipelineSettings
from benchmarks.answers import CALLS, CRITICAL_PATH, TEXT, DelayedBackend

Job = Callable[[], Awaitable[object]]


async def in_flight(job: Job, samples: int, width: int) -> list[float]:
    """When each of `samples` jobs was done, `width` at a time, started as the run engine does."""
    left = iter(range(samples))
    done = [time.perf_counter()]
    spread = Spread(width)

    async def work() -> None:
        for _ in left:
            async with spread.start():
                await job()
            done.append(time.perf_counter())

    await asyncio.gather(*(work() for _ in range(width)))
    return done


def rates(done: list[float], width: int) -> tuple[float, float]:
    """Jobs per second: over everything, and while all places were taken."""
    steady = done[2 * width : -width]
    whole = (len(done) - 1) / (done[-1] - done[0])
    return whole, (len(steady) - 1) / (steady[-1] - steady[0])


def graph_job(delay: float) -> Job:
    graph = build(PipelineSettings(), DelayedBackend(delay))

    async def job() -> object:
        return await output_of(graph, {"text": TEXT})

    return job


def bare_job(delay: float) -> Job:
    async def call() -> None:
        if delay:
            await asyncio.sleep(delay)

    async def job() -> None:
        await asyncio.gather(call(), call(), call())  # Stage 1
        for _ in range(4):  # epm, tan, cj, judge
            await call()
        await asyncio.gather(call(), call())  # reviews
        await call()  # validator_review

    return job


def own_time(job: Job, samples: int, repeats: int) -> float:
    """Milliseconds of CPU per sample, one at a time; the best of some repeats, others are noise."""

    def once() -> float:
        start = time.process_time()
        run_in_quick_loop(in_flight(job, samples, 1))
        return (time.process_time() - start) / samples * 1000

    once()
    return min(once() for _ in range(repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--width", type=int, default=64, help="samples in flight")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds per answer")
    args = parser.parse_args()

    graph_ms = own_time(graph_job(0), args.samples, args.repeats)
    bare_ms = own_time(bare_job(0), args.samples, args.repeats)
    ideal = args.width / (CRITICAL_PATH * args.delay)
    many = args.width * 12
    graph_done = run_in_quick_loop(in_flight(graph_job(args.delay), many, args.width))
    graph_whole, graph_rate = rates(graph_done, args.width)
    bare_done = run_in_quick_loop(in_flight(bare_job(args.delay), many, args.width))
    bare_whole, bare_rate = rates(bare_done, args.width)
    print(
        json.dumps(
            {
                "calls_per_sample": CALLS,
                "graph_ms_per_sample": round(graph_ms, 2),
                "bare_asyncio_ms_per_sample": round(bare_ms, 3),
                "goal_ms_per_sample": 12,
                "samples_in_flight": args.width,
                "answer_delay_s": args.delay,
                "ideal_samples_per_s": round(ideal, 2),
                "graph_samples_per_s": round(graph_rate, 2),
                "bare_samples_per_s": round(bare_rate, 2),
                "graph_share_of_ideal": round(graph_rate / ideal, 4),
                "with_filling_and_draining": {
                    "graph": round(graph_whole / ideal, 4),
                    "bare": round(bare_whole / ideal, 4),
                },
                "goal_share_of_ideal": 0.95,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
