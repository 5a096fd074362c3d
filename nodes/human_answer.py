"""Human review: checks a person's decisions, applies them to the result, and logs them.

The rules are the same for an answer to the graph's interrupt and a review of a finished run.

| decision | about                          | effect                                           |
|----------|--------------------------------|--------------------------------------------------|
| `keep`   | a tuple of the result          | none; the confirmation is counted                |
| `flip`   | a tuple of the result          | it gets the new polarity, confidence 1           |
| `drop`   | a tuple of the result          | it is removed                                    |
| `add`    | an aspect, evidence in the text| a new tuple, confidence 1                        |
| `label`  | the text                       | the new label, confidence 1                      |

Tuples without a decision do not change. The label is the person's. If the person sets none and a
tuple changed, the label is the aggregate of the final tuples, because the rules used other tuples.
Decisions refer to the result as it was shown, in any order. Each tuple is decided once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from absa.nodes.board import snapshot_of
from absa.nodes.language import Language, language
from absa.nodes.polarity import aggregate, exact
from absa.nodes.text import grounded, locate
from absa.schemas.answers import LABELS, POLARITIES
from absa.schemas.human import Add, Decision, Drop, Flip, HumanAnswer, HumanCounts, Keep, SetLabel
from absa.schemas.output import AspectTuple, FinalAspect, FinalOutput, HumanReview, Shown
from absa.schemas.records import Correction

SOURCE = "human"
# The confidence of a person's decision; the agents' confidence was about another tuple.
CERTAIN = 1.0
_COUNTED = {
    "keep": "kept",
    "flip": "flipped",
    "drop": "dropped",
    "add": "added",
    "label": "labelled",
}
_OF_THE_RESULT = Keep | Flip | Drop


def read_answer(raw: object, output: FinalOutput) -> tuple[HumanAnswer | None, list[str]]:
    """The parsed answer, or a list of its errors for the person."""
    try:
        if isinstance(raw, str):
            answer = HumanAnswer.model_validate_json(raw)
        else:
            answer = HumanAnswer.model_validate(raw)
    except ValidationError as error:
        errors = ((".".join(map(str, e["loc"])), e["msg"]) for e in error.errors(include_url=False))
        return None, [f"{where}: {message}" if where else message for where, message in errors]
    problems = check(answer.decisions, output)
    return (None, problems) if problems else (answer, [])


def check(decisions: Sequence[Decision], output: FinalOutput) -> list[str]:
    """The errors of decisions about this result; empty if they can be applied."""
    problems: list[str] = []
    decided: dict[int, int] = {}
    rows = _Rows(output)
    for number, decision in enumerate(decisions, 1):
        where = f"decision {number} ({decision.action})"
        if isinstance(decision, _OF_THE_RESULT):
            mistakes = list(_about_result(decision, rows))
            for row in rows.named(decision):
                if row in decided:
                    mistakes.append(f"decision {decided[row]} is about the same tuple")
                decided[row] = number
        elif isinstance(decision, Add):
            mistakes = list(_about_addition(decision, rows))
        else:
            labels = f"write one of {', '.join(LABELS)}"
            mistake = f"label: {decision.label!r} is not a valid label; {labels}"
            mistakes = [mistake] if _label(decision.label) is None else []
        problems += [f"{where}: {what}" for what in mistakes]
    problems += _about_all(decisions, rows.lang)
    if not problems and output.meta.given_aspects is not None:
        before = rows.keys
        carry_out(decisions, rows)
        if rows.keys != before:
            problems.append("with given aspects you cannot add or remove aspects")
    return problems


def _about_result(decision: Keep | Flip | Drop, rows: _Rows) -> Iterator[str]:
    own = rows.of(decision.aspect)
    if not own:
        names = ", ".join(dict.fromkeys(a.name for a in rows.aspects.values())) or "none"
        yield f"{decision.aspect!r} is not an aspect of the result; its aspects are: {names}"
    named = rows.named(decision)
    if decision.of is not None and exact(decision.of) is None:
        yield f"of: {_no_polarity(decision.of)}"
    elif own and not named:
        has = ", ".join(dict.fromkeys(rows.aspects[row].polarity for row in own))
        yield f"{decision.aspect!r} is not {decision.of} in the result, but {has}"
    if isinstance(decision, Flip):
        new = exact(decision.polarity)
        if new is None:
            yield f"polarity: {_no_polarity(decision.polarity)}"
        elif named and all(rows.aspects[row].polarity == new for row in named):
            yield f"{decision.aspect!r} is already {new}; use keep"


def _about_addition(decision: Add, rows: _Rows) -> Iterator[str]:
    new = exact(decision.polarity)
    if not rows.lang.key(decision.aspect):
        yield f"aspect: {decision.aspect!r} names nothing"
    if new is None:
        yield f"polarity: {_no_polarity(decision.polarity)}"
    elif any(rows.aspects[row].polarity == new for row in rows.of(decision.aspect)):
        yield f"{decision.aspect!r} is already in the result as {new}; use keep"
    if not grounded(rows.text, decision.evidence):
        yield f"evidence: {decision.evidence!r} is not in the text; copy it from the text"


def _about_all(decisions: Sequence[Decision], lang: Language) -> Iterator[str]:
    if sum(isinstance(d, SetLabel) for d in decisions) > 1:
        yield "the label is set twice"
    added = Counter(
        (lang.key(d.aspect), exact(d.polarity)) for d in decisions if isinstance(d, Add)
    )
    yield from (f"{key!r} is added twice" for (key, _), times in added.items() if times > 1)


def _no_polarity(word: str) -> str:
    return f"{word!r} is not a valid polarity; write one of {', '.join(POLARITIES)}"


def _label(word: str) -> str | None:
    return exact(word) or (word.lower() if word.lower() in LABELS else None)


class _Rows:
    """The aspects of a result while a person's decisions are applied."""

    def __init__(self, output: FinalOutput) -> None:
        self.text = output.text
        self.lang: Language = language(output.lang)
        self.aspects: dict[int, FinalAspect] = dict(enumerate(output.final_result.final_aspects))

    @property
    def keys(self) -> set[str]:
        return {self.lang.key(a.name) for a in self.aspects.values()}

    def of(self, aspect: str) -> list[int]:
        key = self.lang.key(aspect)
        return [n for n, a in self.aspects.items() if key and self.lang.key(a.name) == key]

    def named(self, decision: Keep | Flip | Drop) -> list[int]:
        wanted = exact(decision.of) if decision.of is not None else None
        return [
            row
            for row in self.of(decision.aspect)
            if decision.of is None or self.aspects[row].polarity == wanted
        ]

    def snapshot(self, aspect: str) -> dict[str, Any] | None:
        own = [self.aspects[row] for row in self.of(aspect)]
        if not own:
            return None
        # The category of a named aspect is that of each of its sentiments.
        first = own[0]
        category = None if first.aspect_term else first.category
        return snapshot_of(first.aspect_term, category, first.span, own)

    def change(self, decision: Flip | Drop | Add, targets: Sequence[int]) -> None:
        """Apply one decision to its rows in the shown result."""
        if isinstance(decision, Drop):
            for row in targets:
                del self.aspects[row]
        elif isinstance(decision, Flip):
            new = {"polarity": exact(decision.polarity), "confidence": CERTAIN}
            for row in targets:
                if self.aspects[row].polarity != new["polarity"]:
                    self.aspects[row] = self.aspects[row].model_copy(update=new)
        else:
            self.aspects[max(self.aspects, default=-1) + 1] = self._added(decision)

    def _added(self, decision: Add) -> FinalAspect:
        existing_row = next((self.aspects[row] for row in self.of(decision.aspect)), None)
        term = existing_row.aspect_term if existing_row else decision.aspect.strip()
        span = existing_row.span if existing_row else locate(self.text, str(term))
        return FinalAspect(
            aspect_term=term,
            polarity=str(exact(decision.polarity)),
            evidence=decision.evidence,
            is_grounded=True,
            span=span,
            confidence=CERTAIN,
            is_implicit=span is None,
        )


def carry_out(
    decisions: Sequence[Decision], rows: _Rows, reviewer: str | None = None
) -> list[Correction]:
    """Apply valid decisions to the rows; return one correction per decision."""
    # Every decision refers to the shown result, not to the result after earlier decisions.
    named = {
        n: rows.named(decision)
        for n, decision in enumerate(decisions)
        if isinstance(decision, _OF_THE_RESULT)
    }
    log: list[Correction] = []
    for number, decision in enumerate(decisions):
        if isinstance(decision, Keep | SetLabel):
            continue
        before = rows.snapshot(decision.aspect)
        rows.change(decision, named.get(number, ()))
        after = rows.snapshot(decision.aspect)
        log.append(_correction(decision.action, decision.aspect, before, after, reviewer))
    return log


def _correction(
    action: str,
    aspect: str | None,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    reviewer: str | None,
) -> Correction:
    return Correction(
        source=SOURCE,
        proposal_type=action,
        target_aspect=aspect,
        applied=True,
        before=before,
        after=after,
        provenance=f"source:{SOURCE}/{reviewer}" if reviewer else f"source:{SOURCE}",
    )


def apply_human_review(output: FinalOutput, review: HumanReview | None) -> FinalOutput:
    """Apply a person's decisions to the agents' output, or mark it as pending."""
    if review is None:
        return output
    if review.status == "pending":
        return _with_meta(output, human_review=review)
    rows = _Rows(output)
    result = output.final_result
    log = carry_out(review.decisions, rows, review.reviewer)
    aspects = tuple(rows.aspects.values())
    label, confidence = result.label, result.confidence
    if log:
        label, confidence = aggregate(aspects)
    new_label = next((_label(d.label) for d in review.decisions if isinstance(d, SetLabel)), None)
    if new_label is not None:
        label, confidence = new_label, CERTAIN
        if label != result.label:
            before = {"label": result.label, "confidence": result.confidence}
            after = {"label": label, "confidence": confidence}
            log.append(_correction("label", None, before, after, review.reviewer))
    shown = Shown(
        label=result.label,
        confidence=result.confidence,
        rationale=result.rationale,
        final_aspects=result.final_aspects,
    )
    changed = {"label": label, "confidence": confidence, "final_aspects": aspects}
    if log:
        did = ", ".join(dict.fromkeys(c.proposal_type for c in log))
        changed["rationale"] = f"{result.rationale} Human: {did}.".strip()
    output = _with_result(output, changed, rows.lang)
    return _with_meta(
        output,
        human_review=review.model_copy(update={"counts": counts(review.decisions), "shown": shown}),
        correction_applied_log=(*output.meta.correction_applied_log, *log),
    )


def without_human_review(output: FinalOutput) -> FinalOutput:
    """The agents' output before the human review."""
    review = output.meta.human_review
    if review is None or review.shown is None:
        return output
    output = _with_result(output, dict(review.shown), language(output.lang))
    log = tuple(c for c in output.meta.correction_applied_log if c.source != SOURCE)
    pending = HumanReview(status="pending", reasons=review.reasons)
    return _with_meta(output, human_review=pending, correction_applied_log=log)


def _with_result(output: FinalOutput, changed: dict[str, Any], lang: Language) -> FinalOutput:
    """Replace label and aspects, and everything that follows from them.

    `conflict_resolved` stays, because it is about the agents' result.
    """
    aspects: tuple[FinalAspect, ...] = changed["final_aspects"]
    tuples = {
        (lang.key(a.name), a.category, a.polarity): AspectTuple(
            aspect_term=a.aspect_term,
            polarity=a.polarity,
            category=a.category,
            opinion_term=a.opinion_term,
        )
        for a in aspects
    }
    before = {(lang.key(t.name), t.category, t.polarity) for t in output.final_result.stage1_tuples}
    result = output.final_result.model_copy(
        update={**changed, "final_tuples": tuple(tuples.values())}
    )
    flags = output.analysis_flags.model_copy(
        update={
            "correction_occurred": tuples.keys() != before,
            "final_confidence_score": changed["confidence"],
        }
    )
    ungrounded = sum(bool(a.evidence) and not a.is_grounded for a in aspects)
    output = output.model_copy(update={"final_result": result, "analysis_flags": flags})
    return _with_meta(output, ungrounded_count=ungrounded)


def _with_meta(output: FinalOutput, **changed: Any) -> FinalOutput:
    return output.model_copy(update={"meta": output.meta.model_copy(update=changed)})


def counts(decisions: Sequence[Decision]) -> HumanCounts:
    """Count decisions by kind."""
    return HumanCounts(**Counter(_COUNTED[d.action] for d in decisions))
