"""What people say, without gold: columns that travel, topics, trends, comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from absa.cli import run as run_cli
from absa.insights import Insights
from absa.schemas.output import AnalysisFlags, FinalAspect, FinalOutput, FinalResult, Meta
from absa.schemas.records import Aggregate


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_columns_of_the_data_travel_into_outputs_and_replays_and_into_no_prompt(
    tmp_path: Path,
) -> None:
    data = tmp_path / "reviews.csv"
    data.write_text("review,product,stars\n배터리는 좋아요.,phone-x,5\n", encoding="utf-8")
    one, two = tmp_path / "one", tmp_path / "two"
    assert run_cli(["run", str(data), "--out", str(one), "--no-cache"]) == 0
    assert run_cli(["replay", str(one), "--out", str(two)]) == 0
    assert run_cli(["verify", str(two)]) == 0
    for out in (one, two):
        (output,) = lines(out / "outputs.jsonl")
        assert output["extra"] == {"product": "phone-x", "stars": "5"}
        assert "phone-x" not in (out / "traces.jsonl").read_text(encoding="utf-8")


REVIEWS = """review,product,date
The battery is great but the screen is terrible.,x,2025-01-03
The screens are terrible.,x,2025-01-20
The battery is great.,y,2025-02-02
Absolutely wonderful!,y,2025-03-09
"""


def analysed(tmp_path: Path) -> Path:
    data, out = tmp_path / "reviews.csv", tmp_path / "run"
    data.write_text(REVIEWS, encoding="utf-8")
    assert run_cli(["run", str(data), "--out", str(out), "--no-cache"]) == 0
    return out


def test_insights_count_topics_with_quotes_trends_and_comparisons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = analysed(tmp_path)
    capsys.readouterr()
    assert run_cli(["insights", str(out), "--by", "product", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    topics = {topic["name"]: topic for topic in found["topics"]}
    # Singular and plural are one topic, and each quote is a piece of its text.
    assert (topics["screen"]["negative"], topics["screen"]["names"]) == (
        2,
        {"screen": 1, "screens": 1},
    )
    assert topics["battery"]["positive"] == 2 and topics["(not named)"]["positive"] == 1
    assert (found["liked"], found["disliked"]) == (["battery"], ["screen"])
    texts = {line["uid"]: str(line["text"]) for line in lines(out / "outputs.jsonl")}
    for topic in found["topics"]:
        for quotes in topic["quotes"].values():
            assert all(quote["quote"] in texts[quote["uid"]] for quote in quotes)
    assert [(b["bucket"], b["texts"]) for b in found["trend"]["buckets"]] == [
        ("2025-01", 2),
        ("2025-02", 1),
        ("2025-03", 1),
    ]
    compared = {value["value"]: value for value in found["by"]["values"]}
    assert compared["x"]["disliked"] == [["screen", 2]] and compared["y"]["negative"] == 0
    assert run_cli(["insights", str(out), "--by", "colour"]) != 0
    assert "no column 'colour'; its columns: product, date" in capsys.readouterr().err
    assert run_cli(["insights", str(out)]) == 0
    assert "terrible" in capsys.readouterr().out


def test_a_narrow_terminal_shows_quotes_below_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = analysed(tmp_path)
    for columns in ("60", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        capsys.readouterr()
        assert run_cli(["insights", str(out), "--by", "product"]) == 0
        shown = capsys.readouterr().out
        assert "Disliked: screen 2" in shown and "Liked: battery 2" in shown
        assert max(map(len, shown.splitlines())) <= int(columns)
        assert ("screen: “The " in shown) == (columns == "60")
        assert ("x: liked battery 1; disliked screen 2" in shown) == (columns == "60")


def test_korean_synonyms_and_categories_are_topics() -> None:
    def output(*aspects: FinalAspect, lang: str = "ko") -> FinalOutput:
        return FinalOutput(
            uid="a",
            text="값이 비싸고 가격이 비싸요",
            lang=lang,
            final_result=FinalResult(label="negative", confidence=1, final_aspects=aspects),
            stage1_ate=Aggregate(label="negative", confidence=1),
            analysis_flags=AnalysisFlags(),
            meta=Meta(),
        )

    found = Insights()
    found.add(
        output(
            FinalAspect(aspect_term="값", polarity="negative"),
            FinalAspect(aspect_term="가격", polarity="negative"),
            FinalAspect(aspect_term="맛", category="food quality", polarity="positive"),
            FinalAspect(aspect_term=None, category="food quality", polarity="positive"),
        )
    )
    assert {(t.kind, t.total, sum(t.names.values())) for t in found.topics.values()} == {
        ("aspect", 1, 2),
        ("category", 1, 2),
    }


def test_the_report_of_a_run_without_gold_begins_with_what_people_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = analysed(tmp_path), tmp_path / "report.html"
    assert run_cli(["report", str(out), "-o", str(page), "--by", "product"]) == 0
    html = page.read_text(encoding="utf-8")
    assert html.index("What people complain about") < html.index("Samples analyzed")
    assert "People complain most about screen (2). People like most battery (2)." in html
    assert "topic=screen%3A+negative" in html
    # Months and products link to texts. A quote is the sentence, with its evidence in bold.
    assert "period=2025-01" in html and "group=product%3A+x&amp;topic=screen%3A+negative" in html
    assert "The screens are <b>terrible</b>" in html and "2 texts · 50 %" in html
    assert "By product" in html and "Over time, by date" in html
    # Nothing in the page may style itself by an attribute: the page's policy forbids it.
    assert " style=" not in html[html.index("<main") : html.index("</main>")]


def test_unreadable_lines_are_named_with_their_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "broken.jsonl", tmp_path / "run"
    data.write_text('{"text": "The food was good."}\n{"text": \n', encoding="utf-8")
    run_cli(["run", str(data), "--out", str(out), "--no-cache"])
    said = " ".join(capsys.readouterr().err.split())
    assert f"unreadable in {data}: line 2: " in said
    assert str(out / "errors.jsonl") in said


def test_a_missing_text_column_names_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "x.csv"
    data.write_text("meinung,datum\ngut,2025-01-01\n", encoding="utf-8")
    assert run_cli(["data", str(data)]) != 0
    assert "--column text=COLUMN" in " ".join(capsys.readouterr().err.split())
