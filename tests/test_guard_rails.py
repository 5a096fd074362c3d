"""What `absa` says where a user most likely meant something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from absa.cli import run as absa
from absa.offline.training import own_data
from absa.offline.training.own_data import Score

HOTELS = Path(__file__).parent / "fixtures" / "m_absa_hotel_en.jsonl"


def test_the_name_of_a_file_is_analyzed_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my reviews.txt").write_text("The food is good.\n", encoding="utf-8")
    assert absa(["analyze", "my reviews.txt"]) == 0
    assert "absa analyze --file 'my reviews.txt'" in capsys.readouterr().err
    assert absa(["analyze", "The food is good."]) == 0
    assert "--file" not in capsys.readouterr().err


def test_another_language_gets_a_notice_and_no_aspects(capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["analyze", "C'est très bon mais le service est lent."]) == 0
    shown = capsys.readouterr()
    assert "French" in shown.err and "Korean and English" in shown.err
    assert "not analyzed: French" in shown.out and "neutral" not in shown.out


def test_a_run_counts_texts_in_languages_that_are_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "reviews.csv"
    data.write_text("text\nThe food is good.\nLe service était affreux.\n", encoding="utf-8")
    out = tmp_path / "run"
    assert absa(["run", str(data), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "1 text seems to be in French" in shown.err and "found nothing in it;" in shown.err
    assert "--set backend.kind=openai --set backend.model=NAME" in shown.err
    assert (
        "1 of 2 samples analyzed, 1 not read (French; recorded as neutral 0.00), 0 failed"
        in shown.out
    )
    counts = json.loads((out / "manifest.json").read_text("utf-8"))["counts"]
    assert counts["unread_languages"] == {"French": 1}


def test_a_path_that_is_not_a_run_gets_the_same_message_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "outputs.jsonl"
    file.write_text("{}\n", encoding="utf-8")
    runs = tmp_path / "runs"
    for name in ("first", "labelled"):
        (runs / name).mkdir(parents=True)
        (runs / name / "manifest.json").write_text("{}", encoding="utf-8")
    page = str(tmp_path / "report.html")
    for command in (["insights"], ["evaluate"], ["top"], ["review"], ["report", "-o", page]):
        assert absa([*command, str(file)]) == 2
        expected = f"{file} is not a run directory (absa run --out makes one)"
        assert expected in capsys.readouterr().err, command
        assert absa([*command, str(runs)]) == 2
        expected = f"{runs} is not a run directory; name one of the runs inside it: first, labelled"
        assert expected in capsys.readouterr().err, command


def test_demos_for_the_offline_analyzer_get_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert absa(["analyze", "The food is good.", "--demos", str(HOTELS)]) == 0
    assert "--demos has no effect" in capsys.readouterr().err
    few = tmp_path / "few.jsonl"
    few.write_text('{"text": "The tea is good.", "aspects": []}\n', encoding="utf-8")
    assert absa(["analyze", "The food is good.", "--demos", str(few)]) == 0
    (note,) = capsys.readouterr().err.splitlines()
    assert "--demos has no effect" in note
    out = str(tmp_path / "run")
    assert absa(["run", str(few), "--out", out, "--demos", str(few)]) == 0
    assert absa(["verify", out]) == 0


@pytest.mark.parametrize(("trained", "warned"), [(0.4, True), (0.6, False)])
def test_training_warns_of_a_worse_model(
    trained: float,
    warned: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(own_data, "train", lambda *args: None)
    monkeypatch.setattr(own_data, "score", lambda *args: [Score("en", 3, 0.5, trained)])
    assert absa(["train", str(HOTELS), "--out", str(tmp_path / "model")]) == 0
    assert ("worse than the shipped one" in capsys.readouterr().err) == warned
