"""Schemas for requests to chat models, and parsing of the JSON they return.

Pure functions that do not depend on a server.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from absa.backends.lenient import repair_json
from absa.nodes.agent import encodable
from absa.nodes.assets import read_json
from absa.schemas.answers import Answer, read_answer
from absa.schemas.errors import AnswerError

_KEPT = frozenset({"type", "enum", "const", "anyOf", "items", "properties"})
"""Schema keywords that every strict-mode server supports. Bounds and defaults are not."""

_VERDICTS = ("polarity", "action", "value")

_THOUGHTS_BEGIN = re.compile(r"<think(?:ing)?>")
_THOUGHTS_END = re.compile(r"</think(?:ing)?>")

_MAX_STARTS = 50
"""The number of opening braces that are tried before an answer counts as unreadable."""
_MAX_MENDED = 3
"""The number of objects whose repair is tried, which is slower."""


@cache
def wire_schema(answer: type[Answer]) -> dict[str, Any]:
    """The JSON schema of an answer for a request.

    Strict mode requires every property, forbids others, and supports few keywords. References
    are resolved because some servers do not follow them. No answer type is recursive.
    """
    schema = answer.model_json_schema()
    definitions = schema.get("$defs", {})

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        if "$ref" in node:
            return plain(definitions[node["$ref"].rsplit("/", 1)[-1]])
        kept = {key: value for key, value in node.items() if key in _KEPT}
        if "properties" in kept:
            properties = {name: plain(kept["properties"][name]) for name in _order(kept)}
            return {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
        return {key: plain(value) for key, value in kept.items()}

    result: dict[str, Any] = plain(schema)
    return result


def _order(schema: Mapping[str, Any]) -> list[str]:
    """Put evidence before the verdict: a model judges better after it has quoted the text."""
    names = [name for name in schema["properties"] if name != "evidence"]
    if "evidence" in schema["properties"]:
        place = next((i for i, name in enumerate(names) if name in _VERDICTS), len(names))
        names.insert(place, "evidence")
    return names


@cache
def response_format(answer: type[Answer]) -> dict[str, Any]:
    """The answer type as the `response_format` of a request."""
    return {
        "type": "json_schema",
        "json_schema": {"name": answer.__name__, "strict": True, "schema": wire_schema(answer)},
    }


@cache
def tool(answer: type[Answer]) -> dict[str, Any]:
    """The answer type as a tool whose arguments are the answer.

    It is not `strict`: servers with strict tools also support `response_format`.
    """
    return {
        "type": "function",
        "function": {
            "name": answer.__name__,
            "description": "Give the answer.",
            "parameters": wire_schema(answer),
        },
    }


@dataclass(frozen=True)
class Parsed:
    """The JSON object of an answer, and what had to be done to read it."""

    output: dict[str, Any]
    notes: tuple[str, ...] = ()
    cut: str | None = None
    """The text at the end that was left out because the answer breaks off."""


def parse(text: str, answer: type[Answer]) -> Parsed:
    """The JSON object in a model's answer, extracted from fences, thoughts and prose.

    Of several objects it takes the first with one of the expected lists of records, because a
    single record can share a key with the answer. Raises `AnswerError` with a reason that the
    model can act on.
    """
    text = _without_thoughts(text)
    if not text:
        raise AnswerError("the answer is empty")
    expected = {*_records(answer), *answer.forbidden} or answer.model_fields.keys()
    candidates = [_rename_keys(parsed, answer) for parsed in _objects(text)]
    if not candidates:
        raise AnswerError(f"the answer is not valid JSON: {_why(text)}")
    best = next((one for one in candidates if expected & one.output.keys()), candidates[0])
    if best.cut is not None and (lost := _lists(answer) - best.output.keys()):
        # A missing item is noted. A missing list would change the meaning of the answer.
        raise AnswerError(f"the answer breaks off before {', '.join(sorted(lost))}")
    if not expected & best.output.keys():
        raise AnswerError(f"none of the expected keys {sorted(expected)} is in the answer")
    return replace(best, output=encodable(best.output))


def _without_thoughts(text: str) -> str:
    """The answer after the thoughts. Some servers omit their start tag, or they never end.

    A draft among the thoughts is not the answer. Tags inside the answer's own strings stay.
    """
    if not text.lstrip().startswith("{"):
        *_, text = _THOUGHTS_END.split(text)
        text = _THOUGHTS_BEGIN.split(text)[0]
    return text.strip()


@cache
def _lists(answer: type[Answer]) -> frozenset[str]:
    properties = wire_schema(answer)["properties"]
    lists = {name for name, node in properties.items() if node.get("type") == "array"}
    return frozenset(lists.difference(answer.optional))


@cache
def _records(answer: type[Answer]) -> frozenset[str]:
    properties = wire_schema(answer)["properties"]
    return frozenset(name for name in _lists(answer) if "properties" in properties[name]["items"])


def left_out(output: Mapping[str, Any], answer: type[Answer]) -> list[str]:
    """The invalid items of a parsed answer; raises `AnswerError` if nothing is valid.

    Lists that a reviewer must not fill are not counted here: they are read as a violation. An
    empty list is a valid answer. A list without any valid item is not.
    """
    read_answer(answer, output)
    asked_for = {key: value for key, value in output.items() if key in answer.model_fields}
    if not asked_for:
        return []
    kept, notes = read_answer(answer, asked_for)
    lists = [name for name in _records(answer) if asked_for.get(name) is not None]
    if lists and not any(getattr(kept, name) or asked_for[name] == [] for name in lists):
        raise AnswerError("; ".join(notes))
    return notes


def _number(text: str) -> float | None:
    """Parse a finite number: `1e999` would become infinity, which JSON cannot hold."""
    value = float(text)
    return value if math.isfinite(value) else None


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=lambda _: None)


def _objects(text: str) -> Iterator[Parsed]:
    """The JSON objects in a text, as they are or, for the first few, repaired.

    An object that is cut off comes before those inside it, which are only its parts.
    """
    position = mended = 0
    for _ in range(_MAX_STARTS):
        start = text.find("{", position)
        if start < 0:
            return
        try:
            value, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
            mended += 1
            if mended <= _MAX_MENDED and (repaired := _mended(text, start)):
                yield repaired
            continue
        if isinstance(value, dict):
            yield Parsed(value)


def _mended(text: str, start: int) -> Parsed | None:
    mended = repair_json(text, start)
    if mended is None:
        return None
    try:
        value = _DECODER.decode(mended.text)
    except (ValueError, RecursionError):
        return None
    if mended.left_out is None:
        return Parsed(value, ("read without its comments and surplus commas",))
    return Parsed(value, cut=mended.left_out)


def _rename_keys(parsed: Parsed, answer: type[Answer]) -> Parsed:
    """Rename keys that are nearly right, or in the language of the text, to the expected keys."""
    renamed: dict[str, str] = {}
    output = _renamed(parsed.output, wire_schema(answer), renamed)
    if not renamed:
        return parsed
    renamings = ", ".join(f"{theirs} as {ours}" for theirs, ours in renamed.items())
    return replace(parsed, output=output, notes=(*parsed.notes, f"keys read: {renamings}"))


def _renamed(value: Any, schema: Mapping[str, Any], renamed: dict[str, str]) -> Any:
    if isinstance(value, list) and "items" in schema:
        return [_renamed(item, schema["items"], renamed) for item in value]
    if not isinstance(value, dict):
        return value
    for option in schema.get("anyOf", ()):
        if "properties" in option:
            return _renamed(value, option, renamed)
    properties: Mapping[str, Any] = schema.get("properties", {})
    by_our_name: dict[str, Any] = {}
    for key, part in value.items():
        name = key if key in properties else _our_key(key, part, properties, value.keys())
        if name != key:
            renamed[key] = name
        # If a key occurs twice, the first value is kept.
        by_our_name.setdefault(name, _renamed(part, properties.get(name, {}), renamed))
    return by_our_name


def _our_key(key: str, value: Any, properties: Mapping[str, Any], given: Set[str]) -> str:
    """The expected name for a key that is still missing; a list matches only a list."""
    plain = "_".join(key.casefold().split())
    candidates = (plain, *read_json("answer_keys.json").get(plain, ()))
    return next(
        (
            name
            for name in candidates
            if name in properties.keys() - given
            and (
                name == plain or isinstance(value, list) or properties[name].get("type") != "array"
            )
        ),
        key,
    )


def _why(text: str) -> str:
    start = max(text.find("{"), 0)
    try:
        _DECODER.raw_decode(text, start)
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        return str(error)
    return "no JSON object in it"
