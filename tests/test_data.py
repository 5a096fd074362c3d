"""Data files: every format, every kind of bad line, and what a file holds."""

from __future__ import annotations

import codecs
import gzip
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from absa.data import FORMATS, BadLine, DataError, describe, detect_format, read_samples
from absa.data.source import MAX_LINE
from absa.schemas.sample import GoldAspect, Sample

FIXTURES = Path(__file__).parent / "fixtures" / "data"
SOUP = "The soup was lovely but the waiter seemed bored ."


def samples_of(path: Path, **options: object) -> list[Sample]:
    """Read a file in which nothing is wrong."""
    rows = list(read_samples(path, **options))  # type: ignore[arg-type]
    assert [row for row in rows if isinstance(row, BadLine)] == []
    return [row for row in rows if isinstance(row, Sample)]


def split(path: Path, **options: object) -> tuple[list[Sample], list[BadLine]]:
    """Read a file in which something is."""
    rows = list(read_samples(path, **options))  # type: ignore[arg-type]
    return (
        [row for row in rows if isinstance(row, Sample)],
        [row for row in rows if isinstance(row, BadLine)],
    )


def written(folder: Path, name: str, content: str | bytes) -> Path:
    """Write a file as it is, without touching line ends."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def tuples(sample: Sample) -> list[tuple[str | None, int | None, int | None, str]]:
    """Return the gold of a sample, short."""
    return [(a.term, a.from_, a.to, a.polarity) for a in sample.aspects or ()]


# --- the fixtures: every format is recognised and read ---------------------------------------

EXPECTED = {
    # name: format, samples, gold tuples, implicit ones
    "한국어 리뷰.jsonl": ("jsonl", 14, 13, 9),
    "nikl 형식.jsonl": ("nikl", 2, 3, 1),
    "영화 리뷰.csv": ("csv", 10, 0, 0),
    "mams excerpt.xml": ("semeval2014", 8, 22, 0),
    "semeval2014 made up.xml": ("semeval2014", 3, 2, 0),
    "semeval2016 made up.xml": ("semeval2016", 4, 2, 1),
    "aste made up.txt": ("aste", 3, 5, 0),
    "acos made up.tsv": ("acos", 3, 4, 1),
    "asqp made up.txt": ("asqp", 2, 3, 1),
    "m-absa 한국어.txt": ("mabsa", 10, 14, 2),
}


def test_every_format_has_a_fixture() -> None:
    assert {format for format, *_ in EXPECTED.values()} == {known.name for known in FORMATS}


@pytest.mark.parametrize("name", EXPECTED)
def test_format_is_recognised_and_read_without_loss(name: str) -> None:
    format, samples, aspects, implicit = EXPECTED[name]
    path = FIXTURES / name
    assert detect_format(path) == format
    read = samples_of(path)
    gold = [aspect for sample in read for aspect in sample.aspects or ()]
    assert (len(read), len(gold), sum(a.implicit for a in gold)) == (samples, aspects, implicit)
    assert samples_of(path, format=format) == read
    for sample in read:
        for aspect in sample.aspects or ():
            assert aspect.implicit or sample.text[aspect.from_ : aspect.to] == aspect.term


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("how", ["gzip", "bom", "crlf", "utf-16-le", "utf-16-be"])
def test_packing_and_encoding_make_no_difference(name: str, how: str, tmp_path: Path) -> None:
    content = (FIXTURES / name).read_bytes()
    text = content.decode("utf-8")
    packed = {
        "gzip": gzip.compress(content, mtime=0),
        "bom": codecs.BOM_UTF8 + content,
        "crlf": text.replace("\n", "\r\n").encode("utf-8"),
        "utf-16-le": codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
        "utf-16-be": codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    }[how]
    path = written(tmp_path, name + (".gz" if how == "gzip" else ""), packed)
    assert samples_of(path) == samples_of(FIXTURES / name)


# --- what each format says -----------------------------------------------------------------------


def test_aste_word_numbers_become_character_offsets() -> None:
    first, second, third = samples_of(FIXTURES / "aste made up.txt")
    assert tuples(first) == [("soup", 4, 8, "positive"), ("waiter", 28, 34, "negative")]
    assert tuples(second) == [("room key", 4, 12, "negative")]
    assert [a.opinion for a in second.aspects or ()] == ["stopped working"]
    assert [a.opinion for a in third.aspects or ()] == ["warm", "rich"]  # one tuple per opinion
    assert first.uid == "aste_made_up-00001"


def test_acos_spans_and_implicit_parts() -> None:
    first, second, third = samples_of(FIXTURES / "acos made up.tsv")
    assert tuples(first) == [("soup", 4, 8, "positive"), ("waiter", 28, 34, "negative")]
    assert tuples(second) == [(None, None, None, "positive")]
    assert second.aspects is not None and second.aspects[0].opinion is None
    assert tuples(third) == [("lamp shade", 4, 14, "neutral")]
    assert third.aspects is not None and third.aspects[0].category == "DECOR#GENERAL"


def test_asqp_terms_are_found_in_the_text() -> None:
    first, second = samples_of(FIXTURES / "asqp made up.txt")
    assert tuples(first) == [("soup", 4, 8, "positive"), ("waiter", 28, 34, "negative")]
    assert tuples(second) == [(None, None, None, "positive")]


def test_mabsa_takes_a_word_of_its_own_before_a_part_of_one(tmp_path: Path) -> None:
    lines = "the bags hold one bag .####[['bag', 'x', 'neutral'], ['bag', 'x', 'neutral']]\n"
    lines += "새음식점 음식은 좋고 음식 양도####[['음식', 'x', 'neutral']]\n"
    english, korean = samples_of(written(tmp_path, "m.txt", lines))
    assert tuples(english) == [("bag", 18, 21, "neutral")]  # and a repeated tuple counts once
    assert tuples(korean) == [("음식", 5, 7, "neutral")]


def test_semeval2014_conflict_is_left_out_and_marks_gold_incomplete() -> None:
    first, second, third = samples_of(FIXTURES / "semeval2014 made up.xml")
    assert tuples(first) == [("Soup & bread", 0, 12, "positive"), ("waiter", 30, 36, "negative")]
    assert (second.aspects, second.incomplete_gold, second.dropped_aspects) == ((), True, 1)
    assert "conflict" in second.notes[0]
    assert (third.aspects, third.incomplete_gold) == ((), False)


def test_semeval2014_categories_count_only_where_there_are_no_terms(tmp_path: Path) -> None:
    xml = (
        "<sentences><sentence><text>Fine.</text><aspectCategories>"
        '<aspectCategory category="food" polarity="positive"/></aspectCategories></sentence>'
        "<sentence><text>We sat.</text></sentence></sentences>"
    )
    first, second = samples_of(written(tmp_path, "one line.xml", xml))
    food = GoldAspect.model_validate({"polarity": "positive", "category": "food"})
    assert first.aspects == (food,)
    assert second.aspects == ()
    assert [first.uid, second.uid] == ["one_line-00001", "one_line-00001.2"]


def test_xml_without_any_annotation_has_no_gold(tmp_path: Path) -> None:
    xml = "<sentences><sentence id='1'><text>Fine.</text></sentence></sentences>"
    assert [s.aspects for s in samples_of(written(tmp_path, "t.xml", xml))] == [None]


def test_semeval2016_null_target_is_implicit_and_out_of_scope_has_no_gold() -> None:
    lamp, never, cat, monday = samples_of(FIXTURES / "semeval2016 made up.xml")
    assert tuples(lamp) == [("lamp", 4, 8, "positive")]
    assert tuples(never) == [(None, None, None, "negative")]
    assert (cat.uid, cat.aspects) == ("78:0", None)
    assert (monday.uid, monday.aspects) == ("78:1", ())


def test_nikl_sentences_are_korean_with_categories() -> None:
    first, second = samples_of(FIXTURES / "nikl 형식.jsonl")
    assert tuples(first) == [("손잡이", 0, 3, "positive"), ("뚜껑", 10, 12, "negative")]
    assert tuples(second) == [(None, None, None, "positive")]
    assert (first.uid, first.lang) == ("made-up-1", "ko")
    assert first.aspects is not None and first.aspects[1].category == "본품#편의성"


def test_jsonl_keeps_every_field_and_reads_its_own_output_again(tmp_path: Path) -> None:
    row = {
        "uid": "a",
        "text": SOUP,
        "lang": "EN",
        "domain": "restaurant",
        "split": "dev",
        "label": "mixed",
        "aspects": [
            {"term": "soup", "from": 4, "to": 8, "polarity": "POS", "opinions": ["lovely"]},
            {"term": None, "from": None, "to": None, "polarity": "neg", "category": "price"},
        ],
    }
    (sample,) = samples_of(written(tmp_path, "a.jsonl", json.dumps(row)))
    assert (sample.lang, sample.domain, sample.split) == ("en", "restaurant", "dev")
    assert sample.label == "mixed"
    assert tuples(sample) == [("soup", 4, 8, "positive"), (None, None, None, "negative")]
    assert sample.aspects is not None and sample.aspects[0].opinion == "lovely"
    again = written(tmp_path, "b.jsonl", sample.model_dump_json(by_alias=True))
    assert samples_of(again) == [sample]


def test_jsonl_tells_no_gold_from_empty_gold(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", '{"text": "좋아요"}\n{"text": "네", "aspects": []}\n')
    assert [s.aspects for s in samples_of(path)] == [None, ()]


def test_jsonl_missing_uid_is_made_from_file_and_line(tmp_path: Path) -> None:
    rows = '{"text": "하나"}\n\n{"id": 7, "text": "둘"}\n{"text": "셋"}\n'
    path = written(tmp_path, "내 리뷰.jsonl", rows)
    assert [s.uid for s in samples_of(path)] == ["내_리뷰-00001", "7", "내_리뷰-00004"]


def test_jsonl_dropped_aspects_mark_gold_incomplete(tmp_path: Path) -> None:
    row = {"text": "좋아요", "aspects": [], "dropped_aspects": [{"term": "x"}], "source": "y"}
    (sample,) = samples_of(written(tmp_path, "a.jsonl", json.dumps(row)))
    assert sample.incomplete_gold and sample.notes == ()


def test_jsonl_other_keys_travel_and_what_is_no_value_is_ignored_with_a_note(
    tmp_path: Path,
) -> None:
    row = {"text": "좋아요", "product": "A", "rating": 4, "empty": "", "extra": {"shop": "x"}}
    (sample,) = samples_of(written(tmp_path, "a.jsonl", json.dumps({**row, "colour": [1]})))
    assert sample.extra == {"product": "A", "rating": 4, "shop": "x"}
    assert sample.notes == ("key empty ignored", "key colour ignored")


def test_csv_columns_without_a_meaning_travel(tmp_path: Path) -> None:
    content = "text,Product,date,term,polarity,confidence\n좋아요,A,2024-01-02,,,0.5\n"
    (sample,) = samples_of(written(tmp_path, "a.csv", content))
    assert sample.extra == {"Product": "A", "date": "2024-01-02"}


def test_jsonl_keys_can_be_mapped(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", '{"review": "좋아요", "no": "r1"}')
    (sample,) = samples_of(path, columns={"text": "review", "uid": "no"})
    assert (sample.text, sample.uid) == ("좋아요", "r1")


def test_jsonl_term_without_offsets_is_searched_for(tmp_path: Path) -> None:
    row = {"text": "음식은 좋아요", "aspects": [{"term": "음식", "polarity": "긍정"}]}
    (sample,) = samples_of(written(tmp_path, "a.jsonl", json.dumps(row)))
    assert tuples(sample) == [("음식", 0, 2, "positive")]


def test_jsonl_null_offsets_say_implicit_even_if_the_term_stands_there(tmp_path: Path) -> None:
    aspect = {"term": "음식", "from": None, "to": None, "polarity": "positive"}
    row = {"text": "음식은 좋아요", "aspects": [aspect]}
    (sample,) = samples_of(written(tmp_path, "a.jsonl", json.dumps(row)))
    assert tuples(sample) == [("음식", None, None, "positive")]


# --- tables --------------------------------------------------------------------------------------


def test_csv_label_column_is_the_sentence_label() -> None:
    samples = samples_of(FIXTURES / "영화 리뷰.csv")
    assert samples[0].uid == "nsmc-8055991"
    assert [s.label for s in samples[:3]] == ["negative", "neutral", "positive"]
    assert all(s.aspects is None for s in samples)


def test_csv_columns_can_be_mapped(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "번호;감상;text\n1;좋아요;x\n")
    (sample,) = samples_of(path, columns={"text": "감상", "uid": "번호"})
    assert (sample.text, sample.uid) == ("좋아요", "1")


def test_csv_quoted_cell_may_hold_commas_quotes_and_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", 'text,uid\n"하나, ""둘""\n\n셋",a\n넷,b\n')
    assert [(s.text, s.uid) for s in samples_of(path)] == [('하나, "둘"\n\n셋', "a"), ("넷", "b")]


def test_csv_aspects_cell_holds_json(tmp_path: Path) -> None:
    gold = '"[{""term"": ""soup"", ""from"": 4, ""to"": 8, ""polarity"": ""positive""}]"'
    for name, mark in (("a.csv", ","), ("a.tsv", "\t")):
        path = written(tmp_path, name, f"text{mark}aspects\n{SOUP}{mark}{gold}\nx{mark}\n")
        first, second = samples_of(path)
        assert tuples(first) == [("soup", 4, 8, "positive")]
        assert second.aspects is None


def test_csv_rows_of_one_text_make_one_sample(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "a.csv",
        f"text,term,polarity,category\n{SOUP},soup,positive,\n{SOUP},waiter,negative,\n"
        f"Nothing here,,,\nNever again,NULL,negative,shop\n",
    )
    soup, nothing, never = samples_of(path)
    assert tuples(soup) == [("soup", 4, 8, "positive"), ("waiter", 28, 34, "negative")]
    assert nothing.aspects == ()
    assert tuples(never) == [(None, None, None, "negative")]


def test_csv_bad_line_makes_gold_of_its_neighbours_incomplete(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "a.csv",
        f"text,term,polarity\n{SOUP},soup,positive\n{SOUP},waiter\nx y,y,neutral\nz,z,neutral\n",
    )
    samples, bad = split(path)
    assert [b.line for b in bad] == [3]
    assert [s.incomplete_gold for s in samples] == [True, True, False]


def test_tsv_stray_quotes_swallow_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", 'id\tdocument\n1\t"아쉽다\n2\t5" 화면\n3\t"인용"\n')
    assert [s.text for s in samples_of(path)] == ['"아쉽다', '5" 화면', "인용"]


def test_csv_unclosed_quote_costs_its_line_only(tmp_path: Path) -> None:
    rows = "".join(f"row {n}\n" for n in range(1200))
    samples, bad = split(written(tmp_path, "a.csv", f'text\n"never closed\n{rows}'))
    assert [(b.line, b.reason) for b in bad] == [(2, "a quote is opened but not closed.")]
    assert len(samples) == 1200


def test_csv_stray_quotes_on_every_line_cost_each_line_once(tmp_path: Path) -> None:
    samples, bad = split(written(tmp_path, "a.csv", 'text\n"a\n"b\n"c\nd\n'))
    assert [b.line for b in bad] == [2, 3, 4]
    assert [s.text for s in samples] == ["d"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,b,c", "the line has 3 cells, the header 2."),
        ("a", "the line has 1 cells, the header 2."),
        ('"a"b,c', "not valid CSV"),
        (",[]", "text is missing"),
        ("a,[1", "not valid JSON"),
        ("a,{}", "aspects is not a list"),
    ],
)
def test_csv_bad_row(row: str, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", f"text,aspects\n{row}\ngood,\n")
    samples, bad = split(path)
    assert [s.text for s in samples] == ["good"]
    assert len(bad) == 1 and bad[0].line == 2 and reason in bad[0].reason


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("a,b\n1,2\n", None, "columns are: a, b"),
        ("text,b\n1,2\n", {"text": "c"}, "no column c"),
        ("text,b\n1,2\n", {"txt": "b"}, "Fields are: "),
        ("text,Text\n1,2\n", None, "two columns are named text"),
        ("리뷰,b\n좋아요,2\n".encode("cp949"), None, "UTF-8"),
    ],
)
def test_csv_header_that_cannot_be_used(
    content: str | bytes, columns: dict[str, str] | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        list(read_samples(written(tmp_path, "a.csv", content), columns=columns))


# --- bad lines -----------------------------------------------------------------------------------


def one_aspect(**aspect: object) -> str:
    """Return a JSONL row with one aspect."""
    return json.dumps({"text": "the food, the food and a bar", "aspects": [aspect]})


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"text": "brok', "this is not valid JSON (unterminated string at column 10)."),
        ('{"text": "a"} x', "this is not valid JSON (extra data at column 15)."),
        ('{"text" "a"}', "(expecting ':' delimiter at column 9)"),
        ("[" * 100_000, "not valid JSON"),
        ('["a"]', "not a JSON object"),
        ('{"uid": "a"}', "text is missing"),
        ('{"text": "  "}', "text is missing"),
        ('{"text": null}', "text is missing"),
        ('{"text": 5}', "text is a number"),
        ('{"text": ["a"]}', "text is a list"),
        ('{"text": "half \\ud83d"}', "lone surrogate"),
        ('{"text": "a", "uid": true}', "uid is true/false"),
        ('{"text": "a", "uid": "\\udc00"}', "lone surrogate"),
        ('{"text": "a", "lang": "../ko"}', "not a language code"),
        ('{"text": "a", "domain": {}}', "domain is an object"),
        ('{"text": "a", "aspects": {}}', "aspects is not a list"),
        ('{"text": "a", "aspects": ["b"]}', "an aspect is not an object"),
        ('{"text": "a", "aspcts": []}', "unknown key aspcts"),
        (one_aspect(term="bar", polariy="positive"), "unknown key polariy"),
        (one_aspect(term="food", **{"from": 0, "to": 4}, polarity="neg"), "more than once"),
        (one_aspect(term="wine", **{"from": 0, "to": 4}, polarity="neg"), "does not occur"),
        (one_aspect(term="wine", polarity="neg"), "does not occur"),
        (one_aspect(term="bar", **{"from": 25}, polarity="neg"), "only one of from and to"),
        (one_aspect(term="bar", **{"from": "25", "to": 28}, polarity="neg"), "from is a string"),
        (one_aspect(term="bar", **{"from": 25.0, "to": 28}, polarity="neg"), "from is a number"),
        (one_aspect(term="bar", **{"from": True, "to": 28}, polarity="neg"), "true/false"),
        (one_aspect(term=None, **{"from": 3, "to": 8}, polarity="neg"), "but no term"),
        (one_aspect(term=["bar"], polarity="neg"), "term is a list"),
        (one_aspect(term="bar", polarity="neg", opinions="x"), "opinions is not a list"),
    ],
)
def test_jsonl_bad_line_costs_that_line_only(row: str, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", f'{{"text": "하나"}}\n{row}\n{{"text": "둘"}}\n')
    samples, bad = split(path)
    assert [s.text for s in samples] == ["하나", "둘"]
    assert [(b.file, b.line) for b in bad] == [(str(path), 2)]
    assert reason in bad[0].reason and bad[0].remedy
    assert row.startswith(bad[0].excerpt.rstrip("…")[:100])


def test_wrong_offsets_are_corrected_when_the_term_stands_there_once(tmp_path: Path) -> None:
    for start, end in ((0, 3), (24, 27), (-4, -1), (25, 99), (9, 3)):
        row = one_aspect(term="bar", **{"from": start, "to": end}, polarity="neg")
        (sample,) = samples_of(written(tmp_path, "a.jsonl", row))
        assert tuples(sample) == [("bar", 25, 28, "negative")]
        assert sample.relocated_aspects == 1 and not sample.incomplete_gold


@pytest.mark.parametrize("polarity", ["conflict", "mixed", "postive", "", None, 2])
def test_unknown_polarity_is_left_out_never_made_neutral(polarity: object, tmp_path: Path) -> None:
    row = {
        "text": SOUP,
        "aspects": [
            {"term": "soup", "from": 4, "to": 8, "polarity": polarity},
            {"term": "waiter", "from": 28, "to": 34, "polarity": "negative"},
        ],
    }
    (sample,) = samples_of(written(tmp_path, "a.jsonl", json.dumps(row)))
    assert tuples(sample) == [("waiter", 28, 34, "negative")]
    assert (sample.incomplete_gold, sample.dropped_aspects, len(sample.notes)) == (True, 1, 1)


def test_unknown_label_is_left_out_with_a_note(tmp_path: Path) -> None:
    (sample,) = samples_of(written(tmp_path, "a.jsonl", '{"text": "좋아요", "label": 1}'))
    assert sample.label is None and "label 1" in sample.notes[0]


def test_repeated_uid_is_a_bad_line_that_names_the_first(tmp_path: Path) -> None:
    rows = '{"uid": "a", "text": ""}\n' + '{"uid": "a", "text": "하나"}\n' * 2
    samples, bad = split(written(tmp_path, "a.jsonl", rows))
    assert [s.uid for s in samples] == ["a"]  # a row that could not be used takes no uid
    assert [b.line for b in bad] == [1, 3] and "on line 2" in bad[1].reason


def test_other_encodings_cost_the_lines_they_are_in(tmp_path: Path) -> None:
    korean = '{"text": "좋아요"}\n'
    content = korean.encode() + korean.encode("cp949") + b'{"text": "ok"}\n'
    samples, bad = split(written(tmp_path, "a.jsonl", content))
    assert [s.text for s in samples] == ["좋아요", "ok"]
    assert bad[0].line == 2 and "CP949" in bad[0].remedy
    bad[0].model_dump_json().encode("utf-8")  # the excerpt can be written


def test_excerpt_and_reason_are_safe_to_print(tmp_path: Path) -> None:
    _, bad = split(written(tmp_path, "a.jsonl", '{"text": "a", "lang": "\\u001b[31m"} \x1b[2J'))
    assert "\x1b" not in str(bad[0]) + bad[0].excerpt
    _, bad = split(written(tmp_path, "b.jsonl", '{"text": "a", "lang": "\\u001b[31m"}'))
    assert "\x1b" not in str(bad[0]) + bad[0].excerpt


def test_cut_gzip_gives_what_can_be_read_and_says_so(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": f"문장 {n} {n * 7919 % 1013}"}) + "\n" for n in range(5000))
    packed = gzip.compress(rows.encode(), mtime=0)
    samples, bad = split(written(tmp_path, "a.jsonl.gz", packed[: len(packed) * 3 // 4]))
    assert 0 < len(samples) < 5000
    assert "cannot be read beyond this line" in bad[-1].reason
    assert bad[-1].line == len(samples) + 1


def test_cut_small_gzip_still_gives_its_whole_lines(tmp_path: Path) -> None:
    packed = gzip.compress('{"text": "하나"}\n{"text": "둘"}\n'.encode(), mtime=0)
    samples, bad = split(written(tmp_path, "a.jsonl.gz", packed[:-8]))  # only the check sum is gone
    assert [s.text for s in samples] == ["하나", "둘"]
    assert len(bad) == 1 and bad[0].line == 3


def test_cut_utf16_does_not_crash(tmp_path: Path) -> None:
    content = codecs.BOM_UTF16_LE + '{"text": "하나"}\n{"text": "둘"}'.encode("utf-16-le")
    samples, bad = split(written(tmp_path, "a.jsonl", content[:-1]), format="jsonl")
    assert len(bad) == 1 and len(samples) <= 1


def test_endless_line_is_a_bad_line_and_not_kept(tmp_path: Path) -> None:
    content = '{"text": "' + "a" * (2 * MAX_LINE) + '"}\n{"text": "둘"}\n'
    samples, bad = split(written(tmp_path, "a.jsonl", content))
    assert [s.text for s in samples] == ["둘"]
    assert bad[0].line == 1 and len(bad[0].excerpt) < 300


@pytest.mark.parametrize(
    ("format", "line", "reason"),
    [
        ("aste", "no separator", "not contain ####"),
        ("aste", "a b####[([0], [1], 'POS')", "not a list"),
        ("aste", "a b####5", "not a list"),
        ("aste", "a b####__import__('os')", "not a list"),
        ("aste", "a b####" + "[" * 5000, "not a list"),
        ("aste", "a b####[([0], 'POS')]", "the expected form"),
        ("aste", "a b####[([0], [2], 'POS')]", "word 2 is not in a sentence of 2 words"),
        ("aste", "a b####[([-1], [0], 'POS')]", "word -1"),
        ("aste", "a b####[([], [0], 'POS')]", "not a list of word numbers"),
        ("aste", "a b####[(['0'], [0], 'POS')]", "not a list of word numbers"),
        ("aste", "  ####[]", "text is missing"),
        ("asqp", "a b####[['a', 'x', 'positive']]", "the expected form"),
        ("asqp", "a b####[['c', 'x', 'positive', 'b']]", "does not occur"),
        ("mabsa", "a b####[['a', 'x']]", "the expected form"),
        ("acos", "a b\t0,1 X 2", "not a valid quadruple"),
        ("acos", "a b\t0,3 X 2 -1,-1", "words 0,3"),
        ("acos", "a b\t1,1 X 2 -1,-1", "words 1,1"),
        ("nikl", '{"sentence_form": "a", "annotation": 1}', "annotation is not a list"),
        ("nikl", '{"sentence_form": "a", "annotation": [["x", "a", "b"]]}', "the expected form"),
        ("nikl", '{"text": "a"}', "text is missing"),
    ],
)
def test_bad_line_of_a_text_format(format: str, line: str, reason: str, tmp_path: Path) -> None:
    _, bad = split(written(tmp_path, "a.txt", line + "\n"), format=format)
    assert [b.line for b in bad] == [1] and reason in bad[0].reason and bad[0].remedy


# --- XML -----------------------------------------------------------------------------------------

GOOD = "<sentence id='{0}'>\n<text>{0}</text>\n</sentence>\n"


def xml(*parts: str) -> str:
    """Return a document in which `1`, `2` … stand for good sentences."""
    return "<sentences>\n" + "".join(GOOD.format(p) if p.isdigit() else p for p in parts)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("<sentence id='x'><text>a & b</text></sentence>\n", "not well-formed"),
        ("<sentence id='x'><text>a < b</text></sentence>\n", "not well-formed"),
        ("<sentence id='x'><text>a</sentence>\n", "mismatched tag"),
        ("<sentence id='x'><text>&nbsp;</text></sentence>\n", "undefined entity"),
        ("<sentence id='x'><text>a</text>\n", "not closed"),
        ("<sentence id='x'><text>a\x01</text></sentence>\n", "not well-formed"),
        ("<sentence id='x'><text> </text></sentence>\n", "text is missing"),
        ("<sentence id='x'/>\n", "text is missing"),
        ("<sentence id='x'><text>a<b/></text></sentence>\n", "elements in it"),
        ("<sentence id='1'><text>a</text></sentence>\n", "uid 1 was already used on line 2"),
        (
            "<sentence id='x'><text>a</text><aspectTerm term='a' from='q' to='1'"
            " polarity='neutral'/></sentence>\n",
            "not a whole number",
        ),
        (
            "<sentence id='x'><text>a b</text><aspectTerm term='c' from='0' to='1'"
            " polarity='neutral'/></sentence>\n",
            "does not occur in the text",
        ),
    ],
)
def test_broken_sentence_costs_that_sentence_only(broken: str, reason: str, tmp_path: Path) -> None:
    document = xml("1", broken, "2", "3") + "</sentences>\n"
    samples, bad = split(written(tmp_path, "a.xml", document))
    assert [s.uid for s in samples] == ["1", "2", "3"]
    assert [b.line for b in bad] == [5] and reason in bad[0].reason


def test_undecodable_bytes_cost_their_sentence_only(tmp_path: Path) -> None:
    sentence = "<sentence id='x'><text>좋아요</text></sentence>\n".encode("cp949")
    content = xml("1").encode() + sentence + GOOD.format("2").encode() + b"</sentences>"
    samples, bad = split(written(tmp_path, "a.xml", content))
    assert [s.uid for s in samples] == ["1", "2"]
    assert [b.line for b in bad] == [5] and "UTF-8" in bad[0].reason


@pytest.mark.parametrize("end", ["<sentence id='x'><te", "<sentence id='x'>\n<text>a</text>", ""])
def test_truncated_xml_keeps_what_is_whole(end: str, tmp_path: Path) -> None:
    samples, bad = split(written(tmp_path, "a.xml", xml("1", "2", end)))
    assert [s.uid for s in samples] == ["1", "2"]
    assert len(bad) == 1 and "the file ends" in bad[0].reason


def test_sentence_tag_in_a_comment_is_no_sentence(tmp_path: Path) -> None:
    odd = "<sentence id='2'><!-- was <sentence id='9'> --><text>2</text></sentence>"
    path = written(tmp_path, "a.xml", xml("1", odd, "3") + "</sentences>")
    assert [s.uid for s in samples_of(path)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "declaration",
    [
        "<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>",
        "<!ENTITY b SYSTEM 'file:///etc/hostname'>",
        "<!ENTITY % b SYSTEM 'http://localhost/x'> %b;",
    ],
)
def test_xml_entities_are_refused(declaration: str, tmp_path: Path) -> None:
    document = f"<!DOCTYPE sentences [{declaration}]>{xml('1')}</sentences>"
    with pytest.raises(DataError, match="declares entities"):
        list(read_samples(written(tmp_path, "a.xml", document)))


def test_external_dtd_is_not_fetched_and_its_entities_are_unknown(tmp_path: Path) -> None:
    broken = "<sentence id='x'><text>&b;</text></sentence>\n"
    document = f"<!DOCTYPE sentences SYSTEM 'x.dtd'>{xml('1', broken, '2')}</sentences>"
    samples, bad = split(written(tmp_path, "a.xml", document))
    assert [s.uid for s in samples] == ["1", "2"]
    assert len(bad) == 1 and "undefined entity b" in bad[0].reason


@pytest.mark.parametrize("content", ["no xml at all", "<a><b></a>", "<sentences></sentences>"])
def test_xml_that_cannot_be_parsed_at_all_is_one_error(content: str, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        list(read_samples(written(tmp_path, "a.xml", content), format="semeval2014"))


# --- files ---------------------------------------------------------------------------------------


def test_directory_is_an_error_that_lists_its_data_files() -> None:
    with pytest.raises(DataError, match="영화 리뷰.csv") as caught:
        read_samples(FIXTURES)
    assert "ATTRIBUTION" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "empty"),
        ("a.jsonl", "\n \n", "empty"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0)[:5], "cannot be read"),
        ("a.json", '[{"text": "a"}]', "one JSON list"),
        ("a.txt", "그냥 글\n두 줄\n", "not recognised"),
        ("a.xlsx", b"PK\x03\x04\x00\x00", "not a text file"),
        ("a.jsonl", '{"text": "a"}'.encode("utf-16-le"), "not a text file"),
    ],
)
def test_file_that_is_no_data(
    name: str, content: str | bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read_samples(written(tmp_path, name, content))


def test_missing_file_and_unknown_format_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_samples(tmp_path / "a.jsonl")
    path = written(tmp_path, "a.jsonl", '{"text": "a"}')
    with pytest.raises(DataError, match="formats are: .*jsonl"):
        read_samples(path, format="parquet")
    with pytest.raises(DataError, match="no named columns"):
        read_samples(FIXTURES / "aste made up.txt", columns={"text": "a"})


def test_first_line_broken_does_not_hide_the_format(tmp_path: Path) -> None:
    assert detect_format(written(tmp_path, "a", 'oops\n{"text": "a"}\n')) == "jsonl"
    assert detect_format(written(tmp_path, "b", "oops\na b####[([0], [1], 'POS')]\n")) == "aste"
    assert detect_format(written(tmp_path, "c", "a####[]\nb####[]\n")) == "mabsa"


def test_reading_is_streaming(tmp_path: Path) -> None:
    content = '{"text": "하나"}\n' * 100_000
    rows: Iterator[Sample | BadLine] = read_samples(written(tmp_path, "a.jsonl", content))
    assert isinstance(next(rows), Sample)
    assert not isinstance(rows, list)


def test_data_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(DataError("a", "b.", "c.")))
    assert (str(error), error.remedy) == ("a: b. c.", "c.")


# --- schema --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "aspect",
    [
        {"term": "soup", "from": 4, "to": None, "polarity": "positive"},
        {"term": None, "from": 4, "to": 8, "polarity": "positive"},
        {"term": "soup", "from": 4, "to": 8, "polarity": "positive", "implicit": True},
        {"term": "soup", "from": 5, "to": 9, "polarity": "positive"},
        {"term": " .", "from": 47, "to": 99, "polarity": "positive"},
        {"term": "soup", "from": 4, "to": 8, "polarity": "conflict"},
        {"term": "soup", "from": 4, "to": 8, "polarity": "positive", "other": 1},
    ],
)
def test_a_sample_that_is_not_sound_cannot_be_made(aspect: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Sample.model_validate({"uid": "a", "text": SOUP, "aspects": [aspect]})


def test_a_sample_cannot_be_changed() -> None:
    sample: Any = Sample(uid="a", text="b")
    with pytest.raises(ValidationError):
        sample.text = "c"


# --- describe ------------------------------------------------------------------------------------


def test_describe_counts_with_numerators_and_denominators() -> None:
    summary = describe(FIXTURES / "한국어 리뷰.jsonl")
    assert (summary.format, summary.samples, summary.bad_lines) == ("jsonl", 14, 0)
    assert summary.aspects == 13 == sum(summary.polarities.values())
    assert summary.languages == {"ko": 14}
    assert summary.domains == {"hotel": 8, "restaurant": 4, "food": 2}
    assert summary.splits == {"dev": 10, "train": 4}
    assert (summary.implicit.numerator, summary.implicit.denominator) == (9, 13)
    assert (summary.conflict.numerator, summary.conflict.denominator) == (2, 8)
    assert (summary.without_aspects.numerator, summary.without_aspects.denominator) == (6, 14)
    assert summary.conflict.value == 0.25
    assert summary.mean_length == summary.characters / 14
    assert summary.overlap is None


def test_describe_finds_duplicates_and_overlap_by_normalised_text(tmp_path: Path) -> None:
    first = '{"text": "Good food ."}\n{"text": "good FOOD!"}\n{"text": "!!"}\n{"text": "??"}\nbad'
    other = '{"text": "Good  food"}\n{"text": "나쁨"}\n'
    summary = describe(
        written(tmp_path, "a.jsonl", first), other=written(tmp_path, "b.jsonl", other)
    )
    assert (summary.samples, summary.bad_lines, len(summary.bad_line_examples)) == (4, 1, 1)
    assert (summary.duplicate_texts.numerator, summary.duplicate_texts.denominator) == (1, 4)
    assert summary.overlap is not None
    assert (summary.overlap.numerator, summary.overlap.denominator) == (2, 4)
    assert summary.with_gold.value == 0 and summary.implicit.value is None
    json.loads(summary.model_dump_json())
