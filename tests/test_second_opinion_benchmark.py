"""The benchmark of `selective` decides as the graph does."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from scripted import ScriptedBackend

from absa.backends.offline import OfflineBackend
from absa.backends.second_reader import WithSecondReader
from absa.graph import build
from absa.schemas.output import FinalOutput
from absa.schemas.settings import BackendSettings, PipelineSettings, SelectiveSettings
from benchmarks import second_opinion as benchmark

TEXTS = {
    "a": "The soup was cold but the waiter was lovely.",
    "b": "Great pasta and a rude host.",
    "c": "The terrace is fine.",
}
TURNS = 3
Pair = tuple[str, str]
SAID: dict[str, list[list[Pair]]] = {
    "a": [[("soup", "negative")], [("soup", "negative"), ("waiter", "positive")], []],
    "b": [[("pasta", "positive"), ("host", "negative")], [("pasta", "negative")], []],
    "c": [[("terrace", "positive")], [("terrace", "neutral")], [("terrace", "neutral")]],
}
GOLD: dict[str, list[Pair]] = {
    "a": [("soup", "negative"), ("waiter", "positive")],
    "b": [("pasta", "positive"), ("host", "negative")],
    "c": [("terrace", "positive")],
}


def joint(pairs: list[Pair]) -> dict[str, Any]:
    return {"tuples": [{"aspect_term": t, "polarity": p, "confidence": 0.9} for t, p in pairs]}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[benchmark.Cell]:
    folder = tmp_path_factory.mktemp("recorded")
    for data in ("one", "other"):
        rows, lines = [], []
        for uid, text in TEXTS.items():
            gold = [
                {"term": t, "from": text.index(t), "to": text.index(t) + len(t), "polarity": p}
                for t, p in GOLD[uid]
            ]
            rows.append({"uid": uid, "text": text, "lang": "en", "aspects": gold})
            for turn, pairs in enumerate(SAID[uid]):
                record = {"uid": uid, "node": "extract", "turn": turn, "output": joint(pairs)}
                lines.append(json.dumps(record))
        (folder / f"{data}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
        packed = gzip.compress(("\n".join(lines) + "\n").encode())
        (folder / f"{data}.model_1b.k10.jsonl.gz").write_bytes(packed)
    return list(benchmark.read_cells(folder))


def decided(uid: str, first: int, choice: benchmark.Choice) -> FinalOutput:
    calls = {("extract", n): joint(SAID[uid][(first + n) % TURNS]) for n in range(TURNS)}

    class Model(ScriptedBackend):
        def recorded(self, question: Any) -> Any:
            return OfflineBackend().ask(question)

    settings = SelectiveSettings(trust=choice.trust, threshold=choice.threshold)
    pipeline = PipelineSettings(protocol="selective", selective=settings)
    backend = WithSecondReader(Model(calls), BackendSettings(kind="replay", path="x"))
    output: FinalOutput = build(pipeline, backend).invoke({"text": TEXTS[uid], "lang": "en"})[
        "output"
    ]
    return output


@pytest.mark.parametrize("choice", [(0.45, 0.4), (0.7, 0.35), (0.0, 0.5)])
def test_the_benchmark_decides_as_the_graph(
    cells: list[benchmark.Cell], choice: tuple[float, float]
) -> None:
    chosen = benchmark.Choice(*choice, 0.0)
    counts, calls = benchmark.selective(cells[0], chosen)
    made, spent = [], 0
    for first in range(TURNS):
        for uid in TEXTS:
            output = decided(uid, first, chosen)
            found = {
                (t.aspect_term, t.polarity)
                for t in output.final_result.final_aspects
                if not t.is_implicit
            }
            made.append((len(found & set(GOLD[uid])), len(found), len(GOLD[uid])))
            spent += output.meta.usage.calls
    assert counts.sum(axis=0) * TURNS == pytest.approx([sum(c) for c in zip(*made, strict=True)])
    assert calls == pytest.approx(spent / TURNS / len(TEXTS))


def test_a_row_has_the_baselines_and_both_choices(cells: list[benchmark.Cell]) -> None:
    assert [(c.data, c.model, c.demos) for c in cells] == [
        ("one", "model_1b", 10),
        ("other", "model_1b", 10),
    ]
    found = list(benchmark.rows(cells))
    single = benchmark.f1(benchmark.vote(cells[0], 1))
    assert found[0]["single"] == single and found[0]["vote_calls"] == TURNS
    for which in ("shipped", "left_out"):
        own = found[0][which]
        low, high = own["less_vote_interval"]
        assert low - 1e-9 <= own["less_vote"] <= high + 1e-9
        text = "\n".join(benchmark.table(found, which))
        assert f"| one | model_1b | 10 | {single:.1f} |" in text
    # A vote of a broken number of calls lies between the two beside it.
    one, two = (benchmark.vote(cells[0], n) for n in (1, 2))
    assert benchmark.vote_of_mean(cells[0], 1.25) == pytest.approx(0.75 * one + 0.25 * two)
