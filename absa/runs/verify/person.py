"""S4: a person's decisions are visible, and nothing else was changed by them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from absa.nodes.human_answer import SOURCE, apply_human_review, check, without_human_review
from absa.runs.indexed_file import Line
from absa.runs.verify.records import Findings, SampleRecords
from absa.runs.verify.words import compared, judgement, named, some_of
from absa.schemas.human import SetLabel
from absa.schemas.output import FinalAspect
from absa.schemas.records import Correction


def before_person(e: SampleRecords) -> SampleRecords:
    """The evidence before the person's decisions. It must pass the checks, too."""
    output = without_human_review(e.output)
    if output is e.output:
        return e
    record = {**e.raw, **output.model_dump(mode="json", exclude={"process_trace"})}
    return replace(e, output=output, line=Line(e.line.raw, record))


def person_follows(e: SampleRecords) -> Findings:
    """Applying the recorded decisions to the shown result gives the recorded result."""
    review = e.output.meta.human_review
    log = [c for c in e.output.meta.correction_applied_log if c.source == SOURCE]
    if review is None or review.status == "pending":
        if log:
            yield "S4", f"{named(log[0])} is in the log, but no person was asked"
        return
    if review.shown is None:
        yield "S4", "a person decided, but the shown result is not recorded"
        return
    agents = without_human_review(e.output)
    problems = check(review.decisions, agents)
    if problems:
        yield "S4", f"the person's decisions cannot be applied: {some_of(problems, '; ')}"
        return
    made = apply_human_review(agents, review).model_dump(mode="json", exclude={"process_trace"})
    recorded = {k: v for k, v in e.raw.items() if k in made}
    if whats := compared(recorded, made, "the person's decisions give"):
        yield "S4", some_of(whats, "; ")
    yield from _visible(e, log, review.shown.final_aspects)


def _visible(e: SampleRecords, log: list[Correction], aspects: tuple[FinalAspect, ...]) -> Findings:
    """The same check without the rules: apply the log to the shown tuples, entry by entry."""
    review = e.output.meta.human_review
    assert review is not None
    asked = Counter(d.action for d in review.decisions if d.action not in ("keep", "label"))
    logged = Counter(c.proposal_type for c in log if c.proposal_type != "label")
    if asked != logged:
        yield "S4", f"the person decided {dict(asked)}, in the log are {dict(logged)}"
    state: dict[str, list[Any]] = {}
    for a in aspects:
        state.setdefault(e.lang.key(a.name), []).append(
            (judgement(a.category, a.polarity), a.evidence)
        )
    for c in log:
        if not c.applied:
            yield "S4", f"{named(c)}: a person's decision must be applied"
        if c.proposal_type == "label":
            continue
        key = e.lang.key(c.target_aspect or "")
        if state.get(key, []) != _judgements(c.before):
            yield "S4", f"{named(c)}: its `before` differs from the shown result"
        state[key] = _judgements(c.after)
    left = {(key, polarity) for key, judged in state.items() for polarity, _ in judged}
    if left != e.keyed(e.output.final_result.final_tuples):
        yield "S4", "the shown result with the changes in the log gives other final tuples"
    label = e.output.final_result.label
    for d in review.decisions:
        # The first letters distinguish the labels in every accepted spelling.
        if isinstance(d, SetLabel) and label.lower()[:3] != d.label.lower()[:3]:
            yield "S4", f"the person's label is {d.label!r}, the result's {label!r}"


def _judgements(shot: dict[str, Any] | None) -> list[Any]:
    sentiments = (shot or {}).get("sentiments", ())
    return [
        (judgement(s.get("category"), str(s.get("polarity"))), s.get("evidence"))
        for s in sentiments
    ]
