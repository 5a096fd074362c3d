"""What goes over the wire to a chat model and what comes back: schemas out, JSON in.

Pure functions; nothing here knows a server.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from absa.backends.lenient import mend
from absa.nodes.agent import encodable
from absa.nodes.assets import read_json
from absa.schemas.answers import Answer, read_answer
from absa.schemas.errors import AnswerError

_KEPT = frozenset({"type", "enum", "const", "anyOf", "items", "properties"})
"""Keywords every strict-mode server knows. Bounds and defaults are not among them."""

_VERDICTS = ("polarity", "action", "value")

_THOUGHTS_BEGIN = re.compile(r"<think(?:ing)?>")
_THOUGHTS_END = re.compile(r"</think(?:ing)?>")

_MAX_STARTS = 50
"""How many opening braces of a prose answer are tried before it counts as unreadable."""
_MAX_MENDED = 3
"""Of how many it is tried whether they can be mended, which is slower."""


@cache
def wire_schema(answer: type[Answer]) -> dict[str, Any]:
    """The JSON schema a server is asked to keep to.

    Strict mode wants every property required and no others allowed, and knows few keywords;
    references are resolved because not every server follows them. No answer is recursive.
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
    """Evidence before the verdict: a model judges better what it has just quoted."""
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
        "json_schema": {
            "name": answer.__name__,
            "strict": True,
            "schema": wire_schema(answer),
        },
    }


@cache
def tool(answer: type[Answer]) -> dict[str, Any]:
    """The answer type as a tool whose arguments are the answer.

    Not `strict`: servers that know strict tools know `response_format` too.
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
    """The words at the end that were left out because the answer breaks off."""


def parse(text: str, answer: type[Answer]) -> Parsed:
    """The JSON object in a model's answer, out of fences, thoughts and prose if need be.

    Of several objects the first that has a list of records of those asked for is taken: a record
    may share a key with the answer, and is not it. Raises `AnswerError`, with a reason the model
    can act on, where there is none.
    """
    text = _without_thoughts(text)
    if not text:
        raise AnswerError("the answer is empty")
    expected = {*_records(answer), *answer.forbidden} or answer.model_fields.keys()
    candidates = [_in_our_words(parsed, answer) for parsed in _objects(text)]
    if not candidates:
        raise AnswerError(f"the answer is not valid JSON: {_why(text)}")
    found = next((one for one in candidates if expected & one.output.keys()), candidates[0])
    if found.cut is not None and (lost := _lists(answer) - found.output.keys()):
        # Items may be lost and said to be; an answer without a whole list is another answer.
        raise AnswerError(f"the answer breaks off before {', '.join(sorted(lost))}")
    if not expected & found.output.keys():
        raise AnswerError(f"none of the expected keys {sorted(expected)} is in the answer")
    return replace(found, output=encodable(found.output))


def _without_thoughts(text: str) -> str:
    """The answer after the thoughts; some servers leave out where they begin, or they never end.

    A draft among the thoughts is not the answer. Tags inside the answer's own strings stay.
    """
    if not text.lstrip().startswith("{"):
        *_, text = _THOUGHTS_END.split(text)
        text = _THOUGHTS_BEGIN.split(text)[0]
    return text.strip()


@cache
def _lists(answer: type[Answer]) -> frozenset[str]:
    """What an answer cannot do without."""
    properties = wire_schema(answer)["properties"]
    lists = {name for name, node in properties.items() if node.get("type") == "array"}
    return frozenset(lists.difference(answer.optional))


@cache
def _records(answer: type[Answer]) -> frozenset[str]:
    """Those of its lists whose items have keys of their own."""
    properties = wire_schema(answer)["properties"]
    return frozenset(name for name in _lists(answer) if "properties" in properties[name]["items"])


def left_out(output: Mapping[str, Any], answer: type[Answer]) -> list[str]:
    """What of a parsed answer the reader would have to leave out; raises `AnswerError` if all.

    Full lists that a reviewer must not give do not count: they are read as a violation. A list
    that was given empty is an answer, one of which nothing can be read is none.
    """
    read_answer(answer, output)
    asked_for = {key: value for key, value in output.items() if key in answer.model_fields}
    if not asked_for:
        return []
    kept, notes = read_answer(answer, asked_for)
    told = [name for name in _records(answer) if asked_for.get(name) is not None]
    if told and not any(getattr(kept, name) or asked_for[name] == [] for name in told):
        raise AnswerError("; ".join(notes))
    return notes


def _number(text: str) -> float | None:
    """A finite number: `1e999` would otherwise become an infinity no JSON file can hold."""
    value = float(text)
    return value if math.isfinite(value) else None


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=lambda _: None)


def _objects(text: str) -> Iterator[Parsed]:
    """The JSON objects in a text, each as it stands or, for the first few, mended.

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
            if mended <= _MAX_MENDED and (found := _mended(text, start)):
                yield found
            continue
        if isinstance(value, dict):
            yield Parsed(value)


def _mended(text: str, start: int) -> Parsed | None:
    mended = mend(text, start)
    if mended is None:
        return None
    try:
        value = _DECODER.decode(mended.text)
    except (ValueError, RecursionError):
        return None
    if mended.left_out is None:
        return Parsed(value, ("read without its comments and surplus commas",))
    return Parsed(value, cut=mended.left_out)


def _in_our_words(parsed: Parsed, answer: type[Answer]) -> Parsed:
    """Keys in the review's language, or nearly right ones, renamed to those asked for."""
    renamed: dict[str, str] = {}
    output = _renamed(parsed.output, wire_schema(answer), renamed)
    if not renamed:
        return parsed
    said = ", ".join(f"{theirs} as {ours}" for theirs, ours in renamed.items())
    return replace(parsed, output=output, notes=(*parsed.notes, f"keys read: {said}"))


def _renamed(value: Any, schema: Mapping[str, Any], renamed: dict[str, str]) -> Any:
    if isinstance(value, list) and "items" in schema:
        return [_renamed(item, schema["items"], renamed) for item in value]
    if not isinstance(value, dict):
        return value
    for option in schema.get("anyOf", ()):
        if "properties" in option:
            return _renamed(value, option, renamed)
    properties: Mapping[str, Any] = schema.get("properties", {})
    given: dict[str, Any] = {}
    for key, part in value.items():
        name = key if key in properties else _our_key(key, part, properties, value.keys())
        if name != key:
            renamed[key] = name
        # A key that is said twice keeps what was said first.
        given.setdefault(name, _renamed(part, properties.get(name, {}), renamed))
    return given


def _our_key(key: str, value: Any, properties: Mapping[str, Any], given: Set[str]) -> str:
    """The name we have for a key, among those not given; only a list is another name's list."""
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
