"""Starts of samples: spread over the time one takes, and never later than that asks for."""

from __future__ import annotations

import asyncio
import time

from absa.runs.loop import Spread


async def _starts(spread: Spread, seconds: list[float], width: int) -> list[float]:
    begun: list[float] = []
    left = iter(seconds)

    async def work() -> None:
        for takes in left:
            async with spread.start():
                begun.append(time.perf_counter())
                await asyncio.sleep(takes)

    await asyncio.gather(*(work() for _ in range(width)))
    return [moment - begun[0] for moment in begun]


def test_samples_are_spread_over_the_time_one_takes() -> None:
    starts = asyncio.run(_starts(Spread(4), [0.2] * 12, 4))
    gaps = [later - earlier for earlier, later in zip(starts[6:], starts[7:], strict=False)]
    assert min(gaps) > 0.02


def test_a_slow_first_sample_holds_nobody_up() -> None:
    # By what the first one took the third would have to wait 0.8 s after the second.
    starts = asyncio.run(_starts(Spread(1), [1.0, 0.05, 0.05], 1))
    assert starts[2] - starts[1] < 0.5
    # Two at a time: the one that waits by the slow one's time is let go when a quick one ends.
    starts = asyncio.run(_starts(Spread(2), [2.0, 2.0, 0.05, 0.05, 0.05], 2))
    assert starts[4] - starts[2] < 1.2
