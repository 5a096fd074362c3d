"""S4: every correction that is marked as applied is visible in the result."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from absa.runs.directory import first_problem
from absa.runs.verify.conflict_review import actions_visible
from absa.runs.verify.records import Findings, SampleRecords
from absa.runs.verify.words import judgement, named
from absa.schemas.answers import Span, name_of
from absa.schemas.records import Correction

OVERRIDE = "debate_override"
Detail = tuple[str | None, Span | None, str, float, str | None]
"""Term, span, judgement, confidence and evidence."""


class _Sentiment(BaseModel):
    polarity: str
    confidence: float
    evidence: str | None = None
    category: str | None = None

    @property
    def judgement(self) -> str:
        return judgement(self.category, self.polarity)


class _Snapshot(BaseModel):
    """An aspect as a log entry shows it."""

    aspect_term: str | None
    category: str | None = None
    span: Span | None = None
    sentiments: list[_Sentiment]

    @property
    def name(self) -> str:
        return name_of(self.aspect_term, self.category)

    @property
    def face(self) -> tuple[str | None, Span | None, list[tuple[str, float]]]:
        """The compared values: term, span, and polarities with their confidence."""
        return (
            self.aspect_term,
            self.span,
            sorted((s.judgement, s.confidence) for s in self.sentiments),
        )

    @property
    def details(self) -> list[Detail]:
        """One entry per sentiment, in the form of the final aspects."""
        return [
            (self.aspect_term, self.span, s.judgement, s.confidence, s.evidence)
            for s in self.sentiments
        ]

    @property
    def polarities(self) -> frozenset[str]:
        return frozenset(s.judgement for s in self.sentiments)


def corrections_visible(e: SampleRecords) -> Findings:
    """S4: applying the corrections one by one to Stage 1 gives the patched tuples."""
    result, log = e.output.final_result, e.output.meta.correction_applied_log
    if e.is_conflict_review:
        yield from actions_visible(e.output)
    if not e.is_debate:
        return
    if not e.output.analysis_flags.stage2_executed:
        if any(c.applied for c in log):
            yield "S4", "corrections are marked applied, but there was no Stage 2"
        return
    state: dict[str, frozenset[str]] = {}
    for key, polarity in e.keyed(result.stage1_tuples):
        state[key] = state.get(key, frozenset()) | {polarity}
    last: dict[str, tuple[Correction, _Snapshot | None]] = {}
    for c in log:
        try:
            before, after = (
                _Snapshot.model_validate(s) if s is not None else None for s in (c.before, c.after)
            )
        except ValidationError as error:
            yield "S4", f"{named(c)}: before or after cannot be read: {first_problem(error)}"
            return
        changed = (before.face if before else None) != (after.face if after else None)
        if not c.applied:
            if changed:
                yield "S4", f"{named(c)} is marked not applied, but before and after differ"
            continue
        if not changed:
            yield "S4", f"{named(c)} is marked applied, but before and after are the same"
        old = e.lang.key(before.name) if before else None
        if before and old is not None:
            if state.get(old, frozenset()) != before.polarities:
                had = ", ".join(sorted(state.get(old, ()))) or "nothing"
                yield "S4", f"{named(c)}: its `before` is wrong, the aspect had {had}"
            state.pop(old, None)
            last[old] = (c, None)
        if after:
            new = e.lang.key(after.name)
            state[new] = after.polarities
            last[new] = (c, after)
    yield from _ends_as(e, state, last)


def _ends_as(
    e: SampleRecords,
    state: Mapping[str, frozenset[str]],
    last: Mapping[str, tuple[Correction, _Snapshot | None]],
) -> Findings:
    """The state after the log equals the record: the tuples and, if adopted, every detail."""
    expected = {(key, p) for key, polarities in state.items() for p in polarities}
    recorded = e.keyed(e.output.final_result.stage2_tuples)
    for key in sorted({key for key, _ in expected ^ recorded}):
        has = ", ".join(sorted(p for k, p in recorded if k == key)) or "no tuple"
        if key in last:
            what = f"{named(last[key][0])} is marked applied, but in stage2_tuples it has {has}"
            yield "S4", what
        else:
            what = f"{key} has {has} in stage2_tuples: not Stage 1, and no correction made it so"
            yield "S1", what
    if not e.adopted:
        return
    shown: dict[str, list[Detail]] = {}
    for a in e.output.final_result.final_aspects:
        judged = judgement(a.category, a.polarity)
        detail = (a.aspect_term, a.span, judged, a.confidence, a.evidence)
        shown.setdefault(e.lang.key(a.name), []).append(detail)
    for key, (c, after) in last.items():
        made = after.details if after else []
        if shown.get(key, []) != made:
            yield "S4", f"{named(c)} is marked applied, but final_aspects do not show its result"
