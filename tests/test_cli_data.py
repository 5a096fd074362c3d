"""`absa data`: the numbers of a file, its bad lines, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from absa.cli import run as absa

FIXTURES = Path(__file__).parent / "fixtures" / "data"
KOREAN = FIXTURES / "한국어 리뷰.jsonl"


def write(path: Path, *rows: object) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, whatever the width of the terminal made of it."""
    return " ".join(capsys.readouterr().out.split())


def test_shares_are_given_with_both_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["data", str(KOREAN)]) == 0
    text = shown(capsys)
    for part in ("samples 14", "with gold 14/14 (100.0 %)", "implicit 9/13 (69.2 %)", "hotel 8/14"):
        assert part in text


def test_a_share_of_nothing_has_no_percentage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert absa(["data", str(write(tmp_path / "a.jsonl", {"text": "좋아요"}))]) == 0
    text = shown(capsys)
    assert "implicit 0/0" in text and "0/0 (" not in text


def test_bad_lines_are_shown_with_place_reason_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": "좋아요"}, *["not json"] * 7, {"text": ""}]
    path = write(tmp_path / "a.jsonl", *rows)
    assert absa(["data", str(path)]) == 1
    text = capsys.readouterr().out
    assert f"{path}:2: this is not valid JSON" in text
    assert "Write one whole JSON object per line." in text
    assert "8 unreadable lines" in text and "and 3 more" in text


def test_the_overlap_with_another_file_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write(tmp_path / "test.jsonl", {"text": "좋아요!"}, {"text": "별로예요"})
    other = write(tmp_path / "train.jsonl", {"text": "좋아요"})
    assert absa(["data", str(one), "--other", str(other)]) == 0
    assert "shared texts 1/2 (50.0 %) are in" in shown(capsys)


def test_columns_and_format_can_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("번호,review\n1,좋아요\n2,별로예요\n", "utf-8")
    args = ["data", str(path), "--format", "csv", "--column", "text=review", "--json"]
    assert absa(args) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["format"], summary["samples"]) == ("csv", 2)


def test_json_holds_numerators_and_denominators(capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["data", str(KOREAN), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["implicit"] == {"numerator": 9, "denominator": 13, "value": 9 / 13}


@pytest.mark.parametrize(
    "args",
    [
        ["nowhere.jsonl"],
        [str(FIXTURES)],
        [str(KOREAN), "--format", "parquet"],
        [str(KOREAN), "--column", "review"],
        [str(KOREAN), "--column", "txt=review"],
        [str(KOREAN), "--other", "nowhere.jsonl"],
        [],
    ],
)
def test_wrong_use_is_told_in_one_line(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["data", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1 and err.startswith("absa")


def test_control_characters_of_a_file_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"text": "좋아요", "domain": "a\x1b[31mb", "split": "[red]x[/red]"}
    assert absa(["data", str(write(tmp_path / "a.jsonl", row))]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and "[red]x[/red]" in text
