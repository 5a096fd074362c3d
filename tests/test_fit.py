"""`absa ablate --fit`: trust and threshold of `selective` from a labelled run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from absa import load_settings
from absa.cli import run as absa

TEXT = "Table {n}: the soup was cold, the waiter was lovely and the evening was long."
SOUP, WAITER, EVENING = ("soup", "negative"), ("waiter", "positive"), ("evening", "positive")


def joint(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"tuples": [{"aspect_term": t, "polarity": p, "confidence": 0.9} for t, p in pairs]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every call names the evening, which is wrong; only the analyzer sees the waiter."""
    folder = tmp_path_factory.mktemp("fit")
    rows, lines = [], []
    for n in range(40):
        text = TEXT.format(n=n)
        gold = [
            {"term": t, "from": text.index(t), "to": text.index(t) + len(t), "polarity": p}
            for t, p in (SOUP, WAITER)
        ]
        rows.append({"uid": f"u{n}", "text": text, "lang": "en", "aspects": gold})
        seen = [{"aspect_term": t, "polarity": p, "probability": 0.8} for t, p in (SOUP, WAITER)]
        answers: dict[tuple[str, int], Any] = {
            **{("extract", turn): joint(SOUP, EVENING) for turn in range(3)},
            ("second_reader", 0): {"tuples": seen},
        }
        for (node, turn), answer in answers.items():
            lines.append({"uid": f"u{n}", "node": node, "turn": turn, "output": answer})
    data, recorded = folder / "data.jsonl", folder / "answers.jsonl"
    for path, records in ((data, rows), (recorded, lines)):
        path.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
    sets = {
        "backend.kind": "replay",
        "backend.path": recorded,
        "pipeline.selective.trust": 0.2,
        "pipeline.selective.sample": 0,
    }
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    out = folder / "run"
    assert absa(["run", str(data), "--config", "selective", "--out", str(out), *words]) == 0
    return out


def test_fit_finds_whom_to_trust_and_writes_a_config(run: Path, tmp_path: Path) -> None:
    assert absa(["ablate", "--fit", "--from", str(run), "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "fit.json").read_text("utf-8"))
    assert (found["texts"], found["contested"]) == (40, 40)
    # As decided: the soup and the evening. Fitted: the soup and the waiter, in every fold.
    assert found["before"]["value"] == pytest.approx(0.5)
    assert found["cross_validated"]["value"] == found["cross_validated"]["low"] == 1.0
    assert found["difference"]["low"] == pytest.approx(0.5)
    assert len(found["values_of_folds"]) == 5
    fitted = load_settings(
        str(tmp_path / "fitted.yaml"), {"backend.kind": "replay", "backend.path": "x"}
    ).pipeline
    trust, threshold = fitted.selective.trust, fitted.selective.threshold
    assert fitted.protocol == "selective" and trust is not None
    # Three calls without the analyzer do not keep a tuple, the analyzer without a call does.
    assert (1 - trust) < threshold <= trust * 0.8
    # The fitted config decides so, over the same answers.
    again = tmp_path / "again"
    command = ["replay", str(run), "--out", str(again)]
    words = (f"pipeline.selective.trust={trust}", f"pipeline.selective.threshold={threshold}")
    assert absa([*command, *(w for word in words for w in ("--set", word))]) == 0
    output = json.loads((again / "outputs.jsonl").read_text("utf-8").splitlines()[0])
    tuples = {(t["aspect_term"], t["polarity"]) for t in output["final_result"]["final_tuples"]}
    assert tuples == {SOUP, WAITER}


def test_fit_says_what_is_missing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert absa(["ablate", "--fit", "--out", str(tmp_path)]) == 2
    assert "needs --from RUN" in capsys.readouterr().err
    short = tmp_path / "short"
    text = "The soup was cold."
    data = tmp_path / "one.jsonl"
    data.write_text(json.dumps({"uid": "u", "text": text, "aspects": []}) + "\n", "utf-8")
    assert absa(["run", str(data), "--out", str(short)]) == 0
    assert absa(["ablate", "--fit", "--from", str(short), "--out", str(tmp_path / "out")]) == 2
    assert "not a run of protocol selective" in capsys.readouterr().err
