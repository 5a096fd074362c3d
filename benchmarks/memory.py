"""How long memory takes to find the three best of many cases: `python -m benchmarks.memory`.

What the node `recall` does, without the graph around it: read the index, rank, read the episodes.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from langgraph.store.base import BaseStore

from absa.memory import open_memory
from absa.nodes.memory import advice_of, best, episodes_in, index_of, index_reads, writes
from absa.schemas.memory import Episode, Signature
from absa.schemas.settings import MemorySettings

GOAL_MS = 5
_CHUNK = 1000


def draw_signature(rng: random.Random) -> Signature:
    chances = {"contrast": 0.3, "implicit": 0.2, "irony": 0.05, "negation": 0.3}
    found = tuple(name for name, chance in chances.items() if rng.random() < chance)
    return Signature.model_validate(
        {
            "lang": rng.choice(["ko", "en"]),
            "structures": found or ("plain",),
            "aspects": min(8, 1 + int(rng.expovariate(0.8))),
            "length": rng.choice(["short", "mid", "long"]),
        }
    )


def draw_episode(rng: random.Random, number: int) -> Episode:
    signature = draw_signature(rng)
    tuples = [
        {"aspect": f"A{n + 1}", "polarity": rng.choice(["positive", "negative"])}
        for n in range(signature.aspects)
    ]
    return Episode.model_validate(
        {
            "sample": f"{number:024x}",
            "split": rng.choice(["train", "dev", None]),
            "signature": signature,
            "stage1": tuples,
            "final": tuples,
            "outcome": rng.choice(["success", "harm", "neutral"]),
            "at": number,
        }
    )


@contextmanager
def filled(kind: str, episodes: list[Episode]) -> Iterator[BaseStore]:
    with tempfile.TemporaryDirectory() as folder:
        settings: Any = {"condition": "on", "store": kind, "path": folder}
        with open_memory(MemorySettings.model_validate(settings)) as store:
            assert store is not None
            for start in range(0, len(episodes), _CHUNK):
                chunk = episodes[start : start + _CHUNK]
                store.batch([writes(episode, None, None)[0] for episode in chunk])
            store.batch(index_of(episodes))
            yield store


def recall(store: BaseStore, signature: Signature) -> int:
    found: Any = store.batch(index_reads(signature))
    places = best(found, signature, sample="none", split="dev", any_split=False)
    read: Any = store.batch(places)
    return len([advice_of(episode) for episode in episodes_in(read)])


def times(store: BaseStore, signatures: list[Signature]) -> tuple[list[float], list[float]]:
    """Milliseconds by the clock and of CPU: on a busy machine the first has others' work in it."""
    clock, cpu = [], []
    for signature in signatures:
        start, start_cpu = time.perf_counter(), time.process_time()
        found = recall(store, signature)
        clock.append((time.perf_counter() - start) * 1000)
        cpu.append((time.process_time() - start_cpu) * 1000)
        assert found == 3
    return clock, cpu


def quantiles(taken: list[float]) -> dict[str, float]:
    median, p95 = np.percentile(taken, [50, 95])
    return {"median_ms": round(float(median), 2), "p95_ms": round(float(p95), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    episodes = [draw_episode(rng, number) for number in range(args.episodes)]
    signatures = [draw_signature(rng) for _ in range(args.queries)]
    report: dict[str, Any] = {"episodes": args.episodes, "queries": args.queries}
    for kind in ("memory", "sqlite"):
        with filled(kind, episodes) as store:
            clock, cpu = times(store, signatures)
        report[kind] = {"clock": quantiles(clock), "cpu": quantiles(cpu)}
    print(json.dumps({**report, "goal_ms": GOAL_MS}, indent=2))


if __name__ == "__main__":
    main()
