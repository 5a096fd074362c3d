"""Parser for the JSON that models write: with comments, trailing commas, or cut off.

It invents nothing. Of an answer that was cut off, it keeps everything up to the last complete item
or value, because half a word can be another word (`pos`), and half a number is another number.
"""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST = 100_000
_CLOSES = {"{": "}", "[": "]"}
# The depths at which an answer may be cut: between its values, and between items of its lists.
_SEAMS = {("{",): "}", ("{", "["): "]}"}


@dataclass(frozen=True)
class RepairedJson:
    """JSON that a strict parser accepts, and the text that was left out."""

    text: str
    left_out: str | None = None


def repair_json(text: str, start: int) -> RepairedJson | None:
    """The object at `start` without comments and surplus commas; None if it is not an object."""
    text = text[: start + _LONGEST]
    out: list[str] = []
    open_: list[str] = []
    # Length of the complete output, the brackets that close it, and where the rest starts.
    whole: tuple[int, str, int] | None = None
    at = start
    while at < len(text):
        char = text[at]
        if char == '"':
            end = _end_of_string(text, at)
            out.append(text[at:end])
            at = end
            continue
        if (after := _end_of_comment(text, at)) is not None:
            at = after
            continue
        if char == "," and (closing := _SEAMS.get(tuple(open_))):
            whole = len(out), closing, at
        if char in _CLOSES:
            open_.append(char)
        elif char in "}]":
            if _CLOSES[open_.pop()] != char:
                return None
            _drop_last_comma(out)
        out.append(char)
        at += 1
        if not open_:
            return RepairedJson("".join(out))
        if char in "}]" and (closing := _SEAMS.get(tuple(open_))):
            whole = len(out), closing, at
    if whole is None:
        return None
    length, closing, rest = whole
    return RepairedJson("".join(out[:length]) + closing, left_out=text[rest:])


def _end_of_string(text: str, start: int) -> int:
    at = start + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _end_of_comment(text: str, at: int) -> int | None:
    if text.startswith("/*", at):
        end = text.find("*/", at)
        return len(text) if end < 0 else end + 2
    if text.startswith(("//", "#"), at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    return None


def _drop_last_comma(out: list[str]) -> None:
    for place in range(len(out) - 1, -1, -1):
        if out[place] == ",":
            del out[place]
            return
        if not out[place].isspace():
            return
