"""`absa train`: a model of one's own, its use, and what it says when it cannot be made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from absa.cli import run as absa
from absa.offline.analysis import Analyser
from absa.offline.models.loading import Models
from absa.offline.training import own_data

HOTELS = Path(__file__).parent / "fixtures" / "m_absa_hotel_en.jsonl"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "mine"
    assert absa(["train", str(HOTELS), "--out", str(folder)]) == 0
    return folder


def test_a_trained_model_is_a_folder_built_on_the_shipped_one(model: Path) -> None:
    assert sorted(path.name for path in model.iterdir()) == [
        "decision_en.json",
        "manifest.json",
        "polarity_en.npz",
        "tagger_en.crf",
    ]
    decision = Models(model).of("en").decision
    assert decision.stacked
    assert decision.domains == ("hotel",)
    # A language that it lacks is the shipped one's.
    assert not Models(model).of("ko").decision.stacked


def test_it_is_used_through_the_settings(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "The room was spacious and the staff was friendly ."
    named = {f.aspect.term for f in Analyser(Models(model))(text, "en", "hotel").findings}
    assert {"room", "staff"} <= named
    assert absa(["analyze", text, "--set", f"backend.model={model}", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["final_result"]["final_aspects"]


def test_a_model_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "nothing"
    assert absa(["analyze", "The room was big.", "--set", f"backend.model={wrong}"]) == 2
    assert f"{wrong} is not a model" in capsys.readouterr().err


def test_equal_data_gives_equal_bytes(model: Path, tmp_path: Path) -> None:
    assert absa(["train", str(HOTELS), "--out", str(tmp_path / "again")]) == 0
    for path in model.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_the_score_is_of_texts_that_were_not_trained_on() -> None:
    kept, unseen = own_data.hold_out(_cases(), parts=5)
    assert kept and unseen
    assert not {c.sample.text for c in kept} & {c.sample.text for c in unseen}


def _cases() -> list[own_data.Case]:
    from absa.data import BadLine, read_samples

    return own_data.read(row for row in read_samples(HOTELS) if not isinstance(row, BadLine))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"uid": "1", "text": "Nice."}, "no text has gold aspects"),
        ({"uid": "1", "text": "Nice.", "aspects": []}, "0 texts name an aspect"),
    ],
)
def test_too_little_data_is_said_so(
    line: dict[str, object], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "few.jsonl"
    data.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert absa(["train", str(data), "--out", str(tmp_path / "m"), "--dev", str(data)]) == 2
    assert complaint in capsys.readouterr().err


def test_texts_that_are_all_alike_are_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "alike.jsonl"
    food = {"term": "food", "from": 4, "to": 8, "polarity": "positive"}
    lines = [{"uid": str(n), "text": f"The food number {n} was great."} for n in range(40)]
    data.write_text("".join(json.dumps({**r, "aspects": [food]}) + "\n" for r in lines))
    assert absa(["train", str(data), "--out", str(tmp_path / "m"), "--dev", str(data)]) == 2
    assert "too alike" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "file"
    taken.write_text("here already")
    assert absa(["train", str(HOTELS), "--out", str(taken)]) == 2
    assert "is a file" in capsys.readouterr().err
