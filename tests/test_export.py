"""Results in the formats of other tools: written, read again, the same tuples."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from absa.cli import run as run_cli
from absa.data import BadLine, read_samples
from absa.export import WRITERS, Judged, Judgement, export
from absa.export.writers import Notes, utf16
from absa.schemas.errors import InputError

TEXT = "음식은 👍🏽맛있지만 값이 비싸고, 직원은 느려요. 최고예요!"
Full = tuple[str | None, str | None, str, str | None]


def judgement(term: str | None, category: str, polarity: str, opinion: str) -> Judgement:
    def place(words: str | None) -> tuple[int, int] | None:
        return (TEXT.index(words), TEXT.index(words) + len(words)) if words else None

    return Judgement(term, place(term), polarity, category, opinion, place(opinion), opinion, 0.9)


JUDGED = Judged(
    uid="r1",
    text=TEXT,
    lang="ko",
    label="mixed",
    confidence=0.8,
    judgements=(
        judgement("음식", "food quality", "positive", "맛있지만"),
        judgement("값", "food prices", "negative", "비싸고"),
        judgement("직원", "service general", "negative", "느려요"),
        judgement(None, "restaurant general", "positive", "최고예요"),
    ),
    extra={"product": "A", "stars": "4"},
    domain="restaurant",
)
EVERY = [(j.term, j.category, j.polarity, j.opinion) for j in JUDGED.judgements]


def written(to: str, path: Path, *texts: Judged) -> tuple[str, Notes]:
    notes = Notes()
    writer = WRITERS[to].lines
    assert writer is not None
    content = "".join(writer(texts or [JUDGED], notes))
    path.write_text(content, encoding="utf-8")
    return content, notes


def read_back(path: Path, format: str | None = None) -> list[Full]:
    (sample,) = [s for s in read_samples(path, format)]
    assert not isinstance(sample, BadLine), sample
    return [(a.term, a.category, a.polarity, a.opinion) for a in sample.aspects or ()]


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("jsonl", EVERY),
        ("csv", EVERY),
        ("asqp", EVERY),
        ("tasd", [(t, c, p, None) for t, c, p, _ in EVERY]),
        ("nikl", [(t, c, p, None) for t, c, p, _ in EVERY]),
        ("semeval", [(t, c, p, None) for t, c, p, _ in EVERY]),
        ("acos", [(t, str(c).replace(" ", "#"), p, o) for t, c, p, o in EVERY]),
        ("aste", [(t, None, p, o) for t, _, p, o in EVERY if t]),
    ],
)
def test_what_is_written_is_read_again(to: str, expected: list[Full], tmp_path: Path) -> None:
    path = tmp_path / f"x{WRITERS[to].suffix}"
    _, notes = written(to, path)
    assert read_back(path) == expected
    assert notes.unnamed == (to == "aste")


def test_columns_of_the_data_are_in_csv_and_jsonl(tmp_path: Path) -> None:
    for to in ("csv", "jsonl"):
        path = tmp_path / f"x.{to}"
        written(to, path)
        (sample,) = read_samples(path)
        assert not isinstance(sample, BadLine) and sample.extra == JUDGED.extra


def test_without_categories_semeval_is_that_of_2014(tmp_path: Path) -> None:
    bare = [Judgement(**{**vars(j), "category": None}) for j in JUDGED.judgements]
    path = tmp_path / "x.xml"
    _, notes = written("semeval", path, Judged(**{**vars(JUDGED), "judgements": tuple(bare)}))
    assert [(t, p) for t, _, p, _ in read_back(path)] == [(t, p) for t, _, p, _ in EVERY if t]
    assert notes.lines == ["1 unnamed judgements are left out: the format cannot hold them"]


def test_label_studio_counts_in_utf16_units(tmp_path: Path) -> None:
    assert utf16(TEXT, TEXT.index("맛")) == TEXT.index("맛") + 2  # two signs of two units each
    (task,) = json.loads(written("label-studio", tmp_path / "x.json")[0])
    (prediction,) = task["predictions"]
    units = task["data"]["text"].encode("utf-16-le")
    found = []
    for region in prediction["result"]:
        value = region["value"]
        if region["type"] == "labels":
            words = units[2 * value["start"] : 2 * value["end"]].decode("utf-16-le")
            assert words == value["text"]
            found.append((words, value["labels"][0]))
    assert found == [(t, p) for t, _, p, _ in EVERY if t]
    unnamed = prediction["result"][-1]
    assert unnamed["value"] == {"choices": ["restaurant general: positive"]}
    assert task["data"]["product"] == "A"


def test_argilla_and_annoabsa_name_the_same_tuples(tmp_path: Path) -> None:
    record = json.loads(written("argilla", tmp_path / "x.jsonl")[0])
    spans = {s["question_name"]: s["value"] for s in record["suggestions"]}
    assert [(TEXT[s["start"] : s["end"]], s["label"]) for s in spans["aspects"]] == [
        (t, f"{c}: {p}") for t, c, p, _ in EVERY if t
    ]
    assert spans["label"] == "mixed" and record["metadata"] == JUDGED.extra

    def quads(labels: list[dict[str, Any]]) -> list[Full]:
        for label in labels:
            if "at_start" in label:
                assert TEXT[label["at_start"] : label["at_end"] + 1] == label["aspect_term"]
        names = ("aspect_term", "aspect_category", "sentiment_polarity", "opinion_term")
        return [tuple(None if x[n] == "NULL" else x[n] for n in names) for x in labels]  # type: ignore[misc]

    (row,) = json.loads(written("annoabsa-json", tmp_path / "x.json")[0])
    assert quads(row["label"]) == EVERY
    written("annoabsa-csv", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        (cells,) = csv.DictReader(file)
    assert quads(json.loads(cells["label"])) == EVERY


@pytest.mark.parametrize("to", ["parquet", "hf"])
def test_heavy_formats_are_read_again_or_name_their_package(to: str, tmp_path: Path) -> None:
    save, path = WRITERS[to].save, tmp_path / "x"
    assert save is not None
    try:
        save([JUDGED], path, Notes())
    except InputError as error:
        assert "pip install 'absa-debate-graph[export]'" in str(error)
        return
    if to == "parquet":
        import pyarrow.parquet as pq

        rows = pq.read_table(path).to_pylist()
        assert [(r["term"], r["category"], r["polarity"], r["opinion"]) for r in rows] == EVERY
    else:
        import datasets

        (row,) = datasets.load_from_disk(str(path))
        assert [a["term"] for a in row["aspects"]] == [t for t, *_ in EVERY]


def test_the_command_writes_a_run_and_says_what_it_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = tmp_path / "r.csv", tmp_path / "run"
    data.write_text("review,product\n정말 최고예요!,A\n음식은 맛있어요.,B\n", encoding="utf-8")
    assert run_cli(["run", str(data), "--out", str(run), "--no-cache"]) == 0
    assert run_cli(["export", str(run), "--to", "aste"]) == 0
    assert "1 unnamed judgements are left out" in capsys.readouterr().err
    assert (tmp_path / "run-aste.txt").read_text(encoding="utf-8").count("####") == 2
    with pytest.raises(InputError, match="there is no format 'xls'"):
        export(run, "xls", tmp_path / "x")
