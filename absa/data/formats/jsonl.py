"""JSONL in the project's own schema: one object per line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import TypeGuard

from absa.data.problems import BadLine, BadRowError, has_surrogate, shown
from absa.data.rows import RawAspect, RawSample, each_line
from absa.data.source import Source
from absa.schemas.json_text import parse_json
from absa.schemas.sample import Cell

ROW_KEYS = frozenset(
    {"uid", "text", "lang", "domain", "split", "aspects", "label", "given_aspects"}
)
# Keys about the row, or about how its gold was made. They are not copied to the output.
ROW_EXTRAS = frozenset(
    {"id", "meta", "metadata", "notes", "extra"}
    | {"dropped_aspects", "incomplete_gold", "relocated_aspects"}
)
ASPECT_KEYS = frozenset(
    {"term", "from", "to", "polarity", "opinion", "opinions", "category", "implicit"}
)
ASPECT_EXTRAS = frozenset({"conflict", "confidence", "evidence", "opinion_from", "opinion_to"})


def looks_like(head: str, source: Source) -> bool:
    """Return whether a line of the head is a JSON object, or at least begins as one."""
    lines = [line for line in head.splitlines() if line.strip()]
    return bool(lines) and (
        lines[0].lstrip().startswith("{") or any(_is_object(line) for line in lines)
    )


def read(source: Source) -> Iterator[RawSample | BadLine]:
    """Yield the rows of the file."""
    return each_line(source, partial(_parse, columns=source.columns))


def parse_object(text: str) -> dict[str, object]:
    """Return the JSON object on a line, or raise `BadRowError`."""
    try:
        row = parse_json(text)
    except ValueError as error:
        raise BadRowError(
            f"this is not valid JSON ({_why(error)}).", "Write one whole JSON object per line."
        ) from error
    if not isinstance(row, dict):
        raise BadRowError("this is not a JSON object.", 'Write {"uid": …, "text": …} on the line.')
    return row


def _why(error: ValueError) -> str:
    """The reason with the column; the error's own line number counts within this one line."""
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    reason = error.msg.removesuffix(" starting at").removesuffix(" at")
    place = f" at column {error.colno}" if error.doc else ""
    return f"{reason[:1].lower()}{reason[1:]}{place}"


def parse_aspects(items: object, notes: list[str]) -> list[RawAspect] | None:
    """Return the gold tuples of our schema, None if there is no gold; note what is ignored."""
    if items is None:
        return None
    if not isinstance(items, list):
        raise BadRowError("aspects is not a list.", 'Write "aspects": [{"term": …}, …].')
    return [aspect for item in items for aspect in _parse_aspect(item, notes)]


def _parse(text: str, columns: Mapping[str, str]) -> RawSample:
    row = _rename(parse_object(text), columns)
    if row.get("uid") is None:
        row["uid"] = row.get("id")
    extra = _extra(row)
    notes = _ignored(row, ROW_KEYS, ROW_EXTRAS, kept=extra)
    return RawSample(
        uid=row["uid"],
        text=row.get("text"),
        lang=row.get("lang"),
        domain=row.get("domain"),
        split=row.get("split"),
        label=row.get("label"),
        aspects=parse_aspects(row.get("aspects"), notes),
        given_aspects=row.get("given_aspects"),
        incomplete=bool(row.get("dropped_aspects")) or row.get("incomplete_gold") is True,
        extra=extra,
        notes=notes,
    )


def _extra(row: Mapping[str, object]) -> dict[str, Cell]:
    """Return the columns to copy to the output: scalar values, or everything in `extra`."""
    inner = row.get("extra")
    columns = {key: value for key, value in row.items() if key not in ROW_KEYS | ROW_EXTRAS}
    if isinstance(inner, dict):
        columns |= inner
    return {key: value for key, value in columns.items() if _is_cell(value)}


def _is_cell(value: object) -> TypeGuard[Cell]:
    if isinstance(value, str):
        return bool(value.strip()) and not has_surrogate(value)
    return isinstance(value, bool | int | float)


def _rename(row: dict[str, object], columns: Mapping[str, str]) -> dict[str, object]:
    taken = set(columns.values())
    kept = {key: value for key, value in row.items() if key not in taken}
    return kept | {field: row.get(column) for field, column in columns.items()}


def _parse_aspect(item: object, notes: list[str]) -> Iterator[RawAspect]:
    """Yield one tuple per opinion: an aspect with two opinions is two triplets."""
    if not isinstance(item, dict):
        raise BadRowError("an aspect is not an object.", 'Write {"term": …, "polarity": …}.')
    notes.extend(_ignored(item, ASPECT_KEYS, ASPECT_EXTRAS))
    opinions = item.get("opinions") or [item.get("opinion")]
    if not isinstance(opinions, list):
        raise BadRowError("opinions is not a list.", 'Write "opinions": ["…", "…"].')
    unplaced = "from" not in item and "to" not in item and item.get("implicit") is not True
    for opinion in opinions:
        yield RawAspect(
            term=item.get("term"),
            start=item.get("from"),
            end=item.get("to"),
            polarity=item.get("polarity"),
            opinion=opinion,
            category=item.get("category"),
            search=unplaced,
        )


def _ignored(
    row: Mapping[str, object],
    expected: frozenset[str],
    extras: frozenset[str],
    kept: Collection[str] = (),
) -> list[str]:
    """Return a note per unknown key; raise an error if it looks like a misspelt missing key.

    Ignoring `aspcts` would turn an annotated row into one without gold.
    """
    foreign = [key for key in row if key not in expected and key not in extras]
    for key in foreign:
        meant = difflib.get_close_matches(key, expected - row.keys(), n=1, cutoff=0.8)
        if meant:
            raise BadRowError(f"unknown key {shown(key)}.", f"Did you mean {meant[0]}?")
    return [f"key {shown(key)} ignored" for key in foreign if key not in kept]


def _is_object(line: str) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except ValueError:
        return False
