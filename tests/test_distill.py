"""`absa train --from-run`: the analyzer learns from what a model answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedBackend

from absa.cli import run as absa
from absa.graph import build
from absa.offline.analysis import Analyser
from absa.offline.models.loading import Models
from absa.offline.training.teacher import as_sample, is_sure, taught_by
from absa.schemas.output import FinalOutput
from absa.schemas.settings import PipelineSettings

HOTELS = Path(__file__).parent / "fixtures" / "m_absa_hotel_en.jsonl"
ROWS = [json.loads(line) for line in HOTELS.read_text("utf-8").splitlines()]
UNSURE = 10


def joint(*pairs: tuple[str, str], sure: float = 0.9) -> dict[str, Any]:
    return {"tuples": [{"aspect_term": t, "polarity": p, "confidence": sure} for t, p in pairs]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A teacher that says what annotators said. The data's own gold says nothing is judged."""
    folder = tmp_path_factory.mktemp("teacher")
    data, recorded = folder / "data.jsonl", folder / "answers.jsonl"
    with data.open("w", encoding="utf-8") as rows, recorded.open("w", encoding="utf-8") as lines:
        for n, given in enumerate(ROWS):
            row = {"uid": f"u{n}", "text": given["text"], "lang": "en", "domain": "hotel"}
            rows.write(json.dumps({**row, "aspects": []}) + "\n")
            pairs = [(a["term"], a["polarity"]) for a in given["aspects"] if a["term"]]
            # A text without a tuple has nothing to be unsure about.
            answer = joint(*pairs, sure=0.4 if pairs and n < UNSURE else 0.9)
            record = {"uid": f"u{n}", "node": "extract", "turn": 0, "output": answer}
            lines.write(json.dumps(record) + "\n")
    sets = ["pipeline.protocol=single", "backend.kind=replay", f"backend.path={recorded}"]
    words = [word for s in sets for word in ("--set", s)]
    assert absa(["run", str(data), "--out", str(folder / "run"), *words]) == 0
    return folder / "run"


def test_only_sure_texts_teach_and_gold_is_not_read(run: Path) -> None:
    taught = taught_by(run, 0.6)
    assert len(ROWS) - UNSURE <= len(taught.samples) < taught.texts == len(ROWS)
    assert len(taught_by(run, 0.0).samples) == len(ROWS)
    by_text = {row["text"]: row for row in ROWS}
    named = 0
    for sample in taught.samples:
        assert sample.domain == "hotel" and sample.aspects is not None
        gold = {(a["term"], a["polarity"]) for a in by_text[sample.text]["aspects"]}
        for a in sample.aspects:
            assert sample.text[a.from_ : a.to] == a.term
            named += (a.term, a.polarity) in gold
    assert named > len(taught.samples) / 2


def test_training_on_a_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    assert absa(["train", "--from-run", str(run), "--out", str(folder)]) == 0
    said = capsys.readouterr()
    assert f"of {len(ROWS)} texts are sure enough" in said.err
    assert "its labels are those of the run" in said.out
    model = Models(folder)
    assert model.of("en").decision.domains == ("hotel",)
    text = "The room was spacious and the staff was friendly ."
    assert {"room", "staff"} <= {
        f.aspect.term for f in Analyser(model)(text, "en", "hotel").findings
    }


def test_what_is_missing_is_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "model")]
    assert absa(["train", *out]) == 2
    assert "name DATA, or a run with --from-run" in capsys.readouterr().err
    assert absa(["train", *out, "--from-run", str(tmp_path)]) == 2
    assert "has no outputs.jsonl" in capsys.readouterr().err
    words = ["--from-run", str(run), "--min-confidence", "0.95"]
    assert absa(["train", *out, *words]) == 2
    assert "texts name an aspect at a place in the text" in capsys.readouterr().err
    assert absa(["train", str(HOTELS), *out, "--min-confidence", "0.9"]) == 2
    assert "name a run" in capsys.readouterr().err


def outcome(protocol: str, calls: list[dict[str, Any]], **more: Any) -> FinalOutput:
    p = PipelineSettings.model_validate({"protocol": protocol, **more})
    answers: dict[Any, Any] = {("extract", n): answer for n, answer in enumerate(calls)}
    answers["second_reader"] = {
        "tuples": [{"aspect_term": "soup", "polarity": "negative", "probability": 0.9}]
    }
    text = "The soup was cold and the waiter came."
    output: FinalOutput = build(p, ScriptedBackend(answers)).invoke({"text": text, "lang": "en"})[
        "output"
    ]
    return output


def test_how_sure_a_run_is() -> None:
    soup, waiter = ("soup", "negative"), ("waiter", "neutral")
    # One of three calls names the waiter: it is left out, but not beyond doubt.
    calls = [joint(soup), joint(soup), joint(soup, waiter)]
    doubtful = outcome("vote", calls, vote={"n": 3})
    assert [is_sure(doubtful, least) for least in (0.6, 2 / 3, 0.7)] == [True, True, False]
    assert is_sure(outcome("vote", [joint(soup)] * 3, vote={"n": 3}), 1.0)
    # Agreement of both readers: 0.5 + 0.5 x 0.9.
    agreed = outcome("selective", [joint(soup)], selective={"trust": 0.5})
    assert [is_sure(agreed, least) for least in (0.95, 0.96)] == [True, False]
    # Three calls that the analyzer does not confirm: 0.5, and neither in nor out.
    contested = outcome(
        "selective", [joint(soup, waiter)] * 3, selective={"trust": 0.5, "threshold": 0.6}
    )
    assert not is_sure(contested, 0.6)
    assert [a.term for a in as_sample(contested, None).aspects or ()] == ["soup"]
