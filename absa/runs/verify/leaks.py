"""S6: no gold, key or secret, and fairly recalled cases.

What must hold for memory:

| must hold                                                                                   |
|---------------------------------------------------------------------------------------------|
| the cases were recalled for this text                                                       |
| no recalled case is the sample itself                                                       |
| none is from the evaluated split, except the training split or if the settings allow it     |
| a case has no words: aspects are numbered, polarities canonical, corrections are names      |
| the advice follows from the recalled cases                                                  |
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from absa.nodes.memory import TRAIN, advice_of, sample_id
from absa.runs.directory import GATE, OUTPUTS, TRACES
from absa.runs.indexed_file import Line
from absa.runs.verify.records import Findings, SampleRecords
from absa.runs.verify.words import call_key, call_name
from absa.schemas.answers import POLARITIES
from absa.schemas.memory import Episode
from absa.schemas.output import FinalOutput
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
_NUMBERED = re.compile(r"A[1-9][0-9]*")
_NAME = re.compile(r"[a-z0-9_]+/[A-Za-z_]+", re.ASCII)


def nothing_leaked(e: SampleRecords) -> Findings:
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
    """Keys and secrets in a line, apart from those that the analyzed text itself contains.

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


def recalled_fairly(output: FinalOutput, split: str | None, *, any_split: bool) -> Findings:
    """S6. A message never repeats the wrong value, because it can be a secret."""
    if output.meta.memory is None:
        return
    recall, own = output.meta.memory.recall, sample_id(output.text)
    hidden = None if any_split or split == TRAIN else split
    if recall.sample != own:
        yield "S6", "memory: the cases were recalled for another text"
    for number, episode in enumerate(recall.episodes, 1):
        name = f"memory: recalled case {number}"
        if episode.sample == own:
            yield "S6", f"{name} is the sample itself"
        if hidden is not None and episode.split == hidden:
            yield "S6", f"{name} is from the evaluated split, {hidden}"
        if not _is_shape(episode):
            yield "S6", f"{name} contains more than its shape"
    if recall.advice != tuple(advice_of(episode) for episode in recall.episodes):
        yield "S6", "memory: the advice does not follow from the recalled cases"


def _is_shape(episode: Episode) -> bool:
    tuples = [*episode.stage1, *episode.final]
    return all(_NUMBERED.fullmatch(t.aspect) and t.polarity in POLARITIES for t in tuples) and all(
        map(_NAME.fullmatch, episode.corrections)
    )
