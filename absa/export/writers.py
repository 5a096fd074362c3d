"""The formats of `absa export`: one function per format yields the lines of the file.

Tuples that a format cannot hold are left out and counted in the notes. SemEval-2014 and ASTE hold
no unnamed aspects; ACOS and the `####` formats do not hold the label of the text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from absa.export.texts import Judged, Judgement, Place, judged_texts
from absa.files import replacing
from absa.schemas.errors import InputError

NULL = "NULL"
_ACOS_POLARITY = {"negative": "0", "neutral": "1", "positive": "2"}
_ASTE_POLARITY = {"negative": "NEG", "neutral": "NEU", "positive": "POS"}
COLUMNS = (
    *("uid", "text", "lang", "domain", "label", "term", "from", "to", "polarity"),
    *("category", "opinion", "evidence", "confidence", "implicit"),
)


@dataclass
class Notes:
    """Counts of the tuples that are left out of a file."""

    unnamed: int = 0
    uncategorised: int = 0
    without_opinion: int = 0

    @property
    def lines(self) -> list[str]:
        """One sentence each."""
        counts = {
            "unnamed judgements": self.unnamed,
            "tuples without a category": self.uncategorised,
            "tuples without an opinion term": self.without_opinion,
        }
        return [
            f"{count:,} {what} are left out: the format cannot hold them"
            for what, count in counts.items()
            if count
        ]


def rows(texts: Iterable[Judged]) -> Iterator[dict[str, Any]]:
    """One row for each tuple; a text without any has one row without an aspect."""
    for text in texts:
        about = {
            "uid": text.uid,
            "text": text.text,
            "lang": text.lang,
            "domain": text.domain,
            "label": text.label,
        }
        for j in text.judgements or (None,):
            yield {**about, **(_row(j) if j else dict.fromkeys(COLUMNS[5:])), **text.extra}


def _tuple(j: Judgement) -> dict[str, Any]:
    start, end = j.place or (None, None)
    return {"term": j.term, "from": start, "to": end, "polarity": j.polarity}


def _row(j: Judgement) -> dict[str, Any]:
    return {
        **_tuple(j),
        "category": j.category,
        "opinion": j.opinion,
        "evidence": j.evidence,
        "confidence": j.confidence,
        "implicit": j.place is None,
    }


def write_csv(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """One row per tuple; the columns of the data come last."""
    table = list(rows(texts))
    columns = dict.fromkeys([*COLUMNS, *(name for row in table for name in row)])
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    yield buffer.getvalue()


def sample(text: Judged) -> dict[str, Any]:
    """A line of the project's own JSONL."""
    aspects = [
        {
            **_tuple(j),
            **({"opinion": j.opinion} if j.opinion else {}),
            **({"category": j.category} if j.category else {}),
        }
        for j in text.judgements
    ]
    return {
        "uid": text.uid,
        "text": text.text,
        "lang": text.lang,
        **({"domain": text.domain} if text.domain else {}),
        "label": text.label,
        "aspects": aspects,
        **({"extra": text.extra} if text.extra else {}),
    }


def write_jsonl(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """The format that every command reads."""
    for text in texts:
        yield _json(sample(text)) + "\n"


def write_semeval(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """SemEval-2016 XML where tuples have categories, else SemEval-2014."""
    every = list(texts)
    has_categories = any(j.category for text in every for j in text.judgements)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield "<Reviews><Review><sentences>\n" if has_categories else "<sentences>\n"
    for text in every:
        yield f"<sentence id={quoteattr(text.uid)}><text>{escape(text.text)}</text>"
        yield from (_opinions if has_categories else _terms)(text, notes)
        yield "</sentence>\n"
    yield "</sentences></Review></Reviews>\n" if has_categories else "</sentences>\n"


def _opinions(text: Judged, notes: Notes) -> Iterator[str]:
    yield "<Opinions>"
    for j in text.judgements:
        place = j.place or (0, 0)
        yield (
            f"<Opinion target={quoteattr(j.term if j.term and j.place else NULL)} "
            f"category={quoteattr(j.category or NULL)} polarity={quoteattr(j.polarity)} "
            f'from="{place[0]}" to="{place[1]}"/>'
        )
    yield "</Opinions>"


def _terms(text: Judged, notes: Notes) -> Iterator[str]:
    yield "<aspectTerms>"
    for j in text.judgements:
        if j.place is None or j.term is None:
            notes.unnamed += 1
            continue
        yield (
            f"<aspectTerm term={quoteattr(j.term)} polarity={quoteattr(j.polarity)} "
            f'from="{j.place[0]}" to="{j.place[1]}"/>'
        )
    yield "</aspectTerms>"


def write_asqp(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """`sentence####[[term, category, polarity, opinion]]`."""
    for text in texts:
        quads = [
            [j.term or NULL, _category(j, notes), j.polarity, j.opinion or NULL]
            for j in text.judgements
        ]
        yield f"{_one_line(text.text)}####{[q for q in quads if q[1]]}\n"


def write_tasd(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """`sentence####[[term, category, polarity]]`, as M-ABSA has it."""
    for text in texts:
        triples = [[j.term or NULL, _category(j, notes), j.polarity] for j in text.judgements]
        yield f"{_one_line(text.text)}####{[t for t in triples if t[1]]}\n"


def _category(j: Judgement, notes: Notes) -> str | None:
    notes.uncategorised += j.category is None
    return j.category


def write_acos(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """Words separated by spaces, and quadruples of word numbers."""
    for text in texts:
        words = Words(text)
        quads = [
            f"{words.numbers(j.place)} {str(j.category).replace(' ', '#')} "
            f"{_ACOS_POLARITY[j.polarity]} {words.numbers(j.opinion_place)}"
            for j in text.judgements
            if _category(j, notes)
        ]
        yield "\t".join([words.line, *quads]) + "\n"


def write_aste(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """ASTE-Data-V2: words and triplets of word numbers."""
    for text in texts:
        words = Words(text)
        triplets = []
        for j in text.judgements:
            notes.unnamed += j.place is None
            notes.without_opinion += j.place is not None and j.opinion_place is None
            if j.place is not None and j.opinion_place is not None:
                aspect, opinion = words.within(j.place), words.within(j.opinion_place)
                triplets.append((aspect, opinion, _ASTE_POLARITY[j.polarity]))
        yield f"{words.line}####{triplets}\n"


class Words:
    """A text in words, with a cut where a term begins or ends inside a word: 가격|은."""

    def __init__(self, text: Judged) -> None:
        places = [p for j in text.judgements for p in (j.place, j.opinion_place) if p]
        cuts = {end for place in places for end in place}
        self._starts: list[int] = []
        words: list[str] = []
        for at, char in enumerate(text.text):
            if char.isspace():
                continue
            is_new = at == 0 or text.text[at - 1].isspace() or at in cuts
            if is_new:
                self._starts.append(at)
                words.append("")
            words[-1] += char
        self.line = " ".join(words)

    def within(self, place: Place) -> list[int]:
        """The numbers of the words at a place."""
        return [n for n, start in enumerate(self._starts) if place[0] <= start < place[1]]

    def numbers(self, place: Place | None) -> str:
        """First and end of the words at a place, `-1,-1` for none."""
        words = self.within(place) if place else []
        return f"{words[0]},{words[-1] + 1}" if words else "-1,-1"


def write_nikl(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """NIKL's JSONL: category, [term, from, to], polarity."""
    for text in texts:
        annotation = [
            [_category(j, notes), [j.term, *(j.place or (0, 0))], j.polarity]
            for j in text.judgements
        ]
        kept = [a for a in annotation if a[0]]
        yield _json({"id": text.uid, "sentence_form": text.text, "annotation": kept}) + "\n"


def utf16(text: str, offset: int) -> int:
    """An offset in UTF-16 units, as JavaScript counts: an emoji has two."""
    return len(text[:offset].encode("utf-16-le")) // 2


def write_label_studio(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """Label Studio tasks with predictions; an unnamed aspect is a choice for the whole text."""
    tasks: list[dict[str, Any]] = []
    for text in texts:
        result: list[dict[str, Any]] = []
        unnamed = []
        for number, j in enumerate(text.judgements):
            if j.place is None:
                unnamed.append(f"{j.category or 'unnamed'}: {j.polarity}")
                continue
            start, end = (utf16(text.text, offset) for offset in j.place)
            about: dict[str, Any] = {"id": f"{number}", "to_name": "text", "score": j.confidence}
            value: dict[str, Any] = {"start": start, "end": end, "text": j.term}
            labels: dict[str, Any] = {"from_name": "aspect", "type": "labels"}
            result.append({**about, **labels, "value": {**value, "labels": [j.polarity]}})
            if j.category:
                choice: dict[str, Any] = {"from_name": "category", "type": "choices"}
                result.append({**about, **choice, "value": {**value, "choices": [j.category]}})
        if unnamed:
            choices: dict[str, Any] = {"from_name": "unnamed", "to_name": "text", "type": "choices"}
            result.append({**choices, "value": {"choices": unnamed}})
        tasks.append(
            {
                "data": {"uid": text.uid, "text": text.text, **text.extra},
                "predictions": [
                    {"model_version": "absa", "score": text.confidence, "result": result}
                ],
            }
        )
    yield json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"


def write_argilla(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """Argilla records, one a line: a span question `aspects`, a label question `label`."""
    for text in texts:
        spans = []
        for j in text.judgements:
            if j.place is None:
                notes.unnamed += 1
                continue
            label = f"{j.category}: {j.polarity}" if j.category else j.polarity
            spans.append({"start": j.place[0], "end": j.place[1], "label": label})
        suggestions: list[dict[str, Any]] = [
            {"question_name": "aspects", "value": spans},
            {"question_name": "label", "value": text.label, "score": text.confidence},
        ]
        record = {
            "id": text.uid,
            "fields": {"text": text.text},
            "metadata": text.extra,
            "suggestions": [{**suggestion, "agent": "absa"} for suggestion in suggestions],
        }
        yield _json(record) + "\n"


def annoabsa(text: Judged) -> list[dict[str, Any]]:
    """The labels of AnnoABSA; the ends of places are inclusive there."""
    labels = []
    for j in text.judgements:
        label: dict[str, Any] = {
            "aspect_term": j.term or NULL,
            "aspect_category": j.category or NULL,
            "sentiment_polarity": j.polarity,
            "opinion_term": j.opinion or NULL,
        }
        if j.place:
            label.update(at_start=j.place[0], at_end=j.place[1] - 1)
        if j.opinion_place:
            label.update(ot_start=j.opinion_place[0], ot_end=j.opinion_place[1] - 1)
        labels.append(label)
    return labels


def write_annoabsa_json(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """AnnoABSA's JSON."""
    records = [{**t.extra, "id": t.uid, "text": t.text, "label": annoabsa(t)} for t in texts]
    yield json.dumps(records, ensure_ascii=False, indent=1) + "\n"


def write_annoabsa_csv(texts: Iterable[Judged], notes: Notes) -> Iterator[str]:
    """AnnoABSA's CSV: the labels as JSON in one column."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["text", "label"])
    writer.writerows([t.text, _json(annoabsa(t))] for t in texts)
    yield buffer.getvalue()


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def save_parquet(texts: Iterable[Judged], path: Path, notes: Notes) -> None:
    """The rows of the CSV as a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise _missing("parquet", "pyarrow") from error
    pq.write_table(pa.Table.from_pylist(list(rows(texts))), path)


def save_hf(texts: Iterable[Judged], path: Path, notes: Notes) -> None:
    """A folder that `datasets.load_from_disk` reads."""
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise _missing("hf", "datasets") from error
    made = [{**sample(t), "extra": _json(t.extra) if t.extra else None} for t in texts]
    datasets.Dataset.from_list(made).save_to_disk(str(path))


def _missing(name: str, package: str) -> InputError:
    return InputError(
        f"--to {name} needs the package {package}: pip install 'absa-debate-graph[export]'"
    )


Lines = Callable[[Iterable[Judged], Notes], Iterator[str]]
Save = Callable[[Iterable[Judged], Path, Notes], None]


@dataclass(frozen=True)
class Writer:
    """A format: the usual suffix of its files, and the function that writes one."""

    suffix: str
    lines: Lines | None = None
    save: Save | None = None


WRITERS: Mapping[str, Writer] = {
    "csv": Writer(".csv", write_csv),
    "parquet": Writer(".parquet", save=save_parquet),
    "jsonl": Writer(".jsonl", write_jsonl),
    "semeval": Writer(".xml", write_semeval),
    "aste": Writer(".txt", write_aste),
    "tasd": Writer(".txt", write_tasd),
    "acos": Writer(".tsv", write_acos),
    "asqp": Writer(".txt", write_asqp),
    "nikl": Writer(".jsonl", write_nikl),
    "label-studio": Writer(".json", write_label_studio),
    "argilla": Writer(".jsonl", write_argilla),
    "annoabsa-json": Writer(".json", write_annoabsa_json),
    "annoabsa-csv": Writer(".csv", write_annoabsa_csv),
    "hf": Writer("", save=save_hf),
}


def export(run: Path, to: str, path: Path) -> list[str]:
    """Write the results of a run; return notes on the tuples that are left out.

    Raises:
        InputError: There is no such format, a package is missing, or it is not a run.
        StorageError: The file cannot be written.
    """
    if to not in WRITERS:
        raise InputError(f"there is no format {to!r}; there are: {', '.join(WRITERS)}")
    writer, notes = WRITERS[to], Notes()
    texts = judged_texts(run)
    if writer.save is not None:
        writer.save(texts, path, notes)
    elif writer.lines is not None:
        with replacing(path) as file:
            for line in writer.lines(texts, notes):
                file.write(line.encode())
    return notes.lines
