"""What `absa` says where a user most likely meant something else."""

from __future__ import annotations

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
    assert "no aspects found" in shown.out


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
