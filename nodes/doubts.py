"""The reasons to show a text to a person, the strongest first.

| reason                 | condition                                                              |
|------------------------|------------------------------------------------------------------------|
| `dissent`              | a speaker asked for a polarity that the final tuples do not have       |
| `label_contradicts`    | the label contradicts every positive or negative aspect                |
| `unresolved_conflicts` | the debate's judge left them (in the persona debate: its disagreements)|
| `arbiter_flagged`      | the arbiter, or a reviewer, marked a tuple as uncertain                |
| `adoption_blocked`     | Stage 2 was not adopted because of a conflict (`conflict_blocked`)     |

All reasons are computed from the output, so a graph and the review of a finished run agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from absa.nodes.board import snapshot_name
from absa.nodes.language import Language, language
from absa.nodes.polarity import read
from absa.schemas.answers import DebateSummary, PersonaJudgeAnswer
from absa.schemas.human import Doubt, DoubtCode
from absa.schemas.output import FinalOutput
from absa.schemas.records import Correction

_BLOCKED = "conflict_blocked"
_ORDER: tuple[DoubtCode, ...] = get_args(DoubtCode)


def doubts(output: FinalOutput) -> tuple[Doubt, ...]:
    """The reasons to show this output to a person, independent of the run's settings."""
    return tuple(_doubts(output))


def urgency(reasons: Iterable[Doubt]) -> tuple[int, int]:
    """A sort key: the strongest reason first, then the number of reasons."""
    ranks = [_ORDER.index(reason.code) for reason in reasons]
    return min(ranks, default=len(_ORDER)), -len(ranks)


def _doubts(output: FinalOutput) -> Iterator[Doubt]:
    meta, result = output.meta, output.final_result
    if overruled := list(dict.fromkeys(_overruled(output))):
        yield Doubt(code="dissent", detail="; ".join(overruled))
    polarities = {t.polarity for t in result.final_tuples} - {"neutral"}
    if polarities and result.label not in {*polarities, "mixed"}:
        every = " and ".join(sorted(polarities))
        detail = f"the label is {result.label}, every aspect with a polarity is {every}"
        yield Doubt(code="label_contradicts", detail=detail)
    if open_points := _left_open(output.debate.summary if output.debate else None):
        detail = f"the debate left open: {'; '.join(open_points)}"
        yield Doubt(code="unresolved_conflicts", detail=detail)
    marked = (c.name for c in meta.candidates if c.tuple_id in meta.flagged_tuple_ids)
    if names := list(dict.fromkeys(marked)):
        yield Doubt(code="arbiter_flagged", detail=f"marked as uncertain: {', '.join(names)}")
    if meta.adopt_reason == _BLOCKED:
        detail = "Stage 2 was blocked: its tuples contradict the debate's, or each other"
        yield Doubt(code="adoption_blocked", detail=detail)


def _overruled(output: FinalOutput) -> Iterator[str]:
    """The polarity edits without effect; only a speaker's last edit of an aspect counts."""
    context = output.debate.review_context if output.debate else None
    if context is None:
        return
    lang = language(output.lang)
    names = renames(output.meta.correction_applied_log, lang)
    final: dict[str, set[str]] = {}
    for t in output.final_result.final_tuples:
        final.setdefault(lang.key(t.name), set()).add(t.polarity)
    for term, hints in context.aspect_hints.items():
        key = lang.key(term)
        there = final.get(key) or final.get(present_name(key, names), set())
        last = {h.speaker: h for h in hints if h.op in ("set_polarity", "confirm_tuple")}
        for speaker, hint in last.items():
            polarity = read(hint.polarity_hint).value if hint.op == "set_polarity" else None
            if polarity is not None and polarity not in there:
                instead = f"is {' and '.join(sorted(there))}" if there else "is not in the result"
                yield f"{speaker} called {term} {polarity}, it {instead}"


def _left_open(summary: DebateSummary | None) -> list[str]:
    if summary is None:
        return []
    points = (
        summary.key_disagreements
        if isinstance(summary, PersonaJudgeAnswer)
        else summary.unresolved_conflicts
    )
    return [p if isinstance(p, str) else json.dumps(p, ensure_ascii=False) for p in points]


def renames(log: Iterable[Correction], lang: Language) -> dict[str, str]:
    """A map from aspect keys before a revised span to the keys after it."""
    renamed: dict[str, str] = {}
    for c in log:
        before, after = c.before or {}, c.after or {}
        if not c.applied or "aspect_term" not in after:
            continue
        new = lang.key(snapshot_name(after))
        old = lang.key(snapshot_name(before)) if before else ""
        if old != new:
            renamed.pop(new, None)
        if old not in ("", new):
            renamed[old] = new
    return renamed


def present_name(key: str, renamed: Mapping[str, str]) -> str:
    """The key of an aspect after all renames."""
    seen = {key}
    while (key := renamed.get(key, key)) not in seen:
        seen.add(key)
    return key
