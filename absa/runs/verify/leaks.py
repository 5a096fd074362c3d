"""S6: no gold, key or secret."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from absa.runs.directory import GATE, OUTPUTS, TRACES
from absa.runs.indexed_file import Line
from absa.runs.verify.evidence import Evidence, Findings
from absa.runs.verify.words import call_key, call_name
from absa.schemas.secrets import LOOKS_LIKE_KEY

_SECRETS = re.compile(
    LOOKS_LIKE_KEY.pattern
    + r"|(?<!\\)\"(?:api_?key|authorization|password|secret)\"\s*:\s*\"[^\"]",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_SHORTEST_KEY = 12
_GOLD_KEY = re.compile(r"(?<!\\)\"(gold(?:_\w+)?)\"\s*:", re.IGNORECASE)
_GOLD_FIELDS = frozenset({"term", "from", "to", "polarity"})


def nothing_leaked(e: Evidence) -> Findings:
    """S6: answers and results contain neither gold nor secrets."""
    own_keys = _own_keys()
    for name, lines in ((TRACES, e.calls), (OUTPUTS, [e.line]), (GATE, e.gate)):
        for line in lines:
            where = call_name(call_key(line.record)) if name == TRACES else ""
            for what in leaks(line.raw, e.output.text, own_keys):
                yield "S6", f"{name}{', ' if where else ''}{where}: {what}"
            for what in gold_in(line, e.output.text):
                yield "S6", f"{name}{', ' if where else ''}{where}: {what}"


def _own_keys() -> dict[str, str]:
    """The user's own keys, by the name of their environment variable."""
    return {
        name: value
        for name, value in os.environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_KEY
    }


def leaks(raw: str, text: str, own_keys: Mapping[str, str] | None = None) -> Iterator[str]:
    """Keys and secrets in a line, apart from those that the analysed text itself contains.

    The value is not shown, because the message goes to terminals and logs.
    """
    quoted = json.dumps(text, ensure_ascii=False)
    for match in _SECRETS.finditer(raw):
        if match.group() not in quoted:
            yield f"something like a key or secret ({match.group()[:4]}…)"
    for name, value in (_own_keys() if own_keys is None else own_keys).items():
        if value in raw:
            yield f"the value of this environment's {name}"


def gold_in(line: Line, text: str) -> Iterator[str]:
    """Fields that only annotated data has. A text or an answer may contain the word gold."""
    for match in _GOLD_KEY.finditer(line.raw):
        if match.group(1).lower() not in text.lower():
            yield f"a field {match.group(1)!r}"
    if '"from"' in line.raw and any(d.keys() >= _GOLD_FIELDS for d in _objects(line.record)):
        yield "an aspect as annotations have it (term, from, to, polarity)"


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            yield here
            waiting.extend(here.values())
        elif isinstance(here, list):
            waiting.extend(here)
