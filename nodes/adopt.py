"""`adopt`: applies the gate's overrides and decides whether Stage 2 replaces Stage 1.

It first applies the overrides and confirms of the gate to the patched result. Then the first row
that applies decides:

| # | condition                                                         | reason               |
|---|-------------------------------------------------------------------|----------------------|
| 1 | the patched result has no tuple                                   | `low_signal`         |
| 2 | the patched result equals Stage 1, and the gate's first skip is   | that skip            |
|   | one of `EV_REASONS`                                               |                      |
|   | the patched result equals Stage 1, otherwise                      | `low_signal`         |
| 3 | the judge's tuples differ from those of the patched result, or an | `conflict_blocked`   |
|   | aspect gained a second polarity                                   |                      |
| 4 | the Validator saw risks and fewer remain                          | `risk_resolved`      |
| 5 | the judge's patch edits something, or an override changed a tuple | `debate_action`      |
| 6 | Stage 1 had no grounded explicit sentiment, now there is one      | `grounding_improved` |
| 7 | otherwise                                                         | `review_applied`     |

With 1 to 3 the patched result is not adopted. With 4 to 7 the patched result is adopted if its
evidence value reaches `pipeline.debate_override.ev_threshold`; otherwise the reason becomes
`ev_below_threshold`. The value is the weighted mean of the components that apply to this text in
this graph. With fixed weights an ablation without debate could never reach the threshold, and the
ablation would measure the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from absa.nodes.board import Board, Tuples, tuples
from absa.nodes.categories import CategorySet, categories_of
from absa.nodes.language import Language, language
from absa.nodes.override_gate import apply_overrides, gate_log, hinted_aspects
from absa.nodes.polarity import read
from absa.nodes.review_context import known_edits
from absa.nodes.text import grounded
from absa.nodes.thresholds import reaches
from absa.schemas.answers import DebateSummary, name_of
from absa.schemas.records import (
    Adoption,
    AspectRecord,
    GateRecord,
    Hint,
    ReviewContext,
    StageResult,
)
from absa.schemas.settings import OverrideSettings, PipelineSettings
from absa.schemas.state import AdoptUpdate, State
from absa.schemas.verdicts import SKIPS, VERDICTS

# Allowed reasons if the debate's tuples are not the final ones (integrity check S3).
EV_REASONS: dict[str, str] = {
    "ev_below_threshold": "low_ev",
    "conflict_blocked": "conflict",
    **{code: facts.ev_reason for code, facts in VERDICTS.items() if facts.ev_reason},
}


@dataclass(frozen=True)
class AdoptionInputs:
    """The inputs of the decision."""

    text: str
    lang: Language
    stage1: StageResult
    patched: StageResult
    summary: DebateSummary | None
    context: ReviewContext | None
    gate_log: Sequence[GateRecord]
    risks_before: int
    risks_after: int
    categories: CategorySet | None = None

    @cached_property
    def board(self) -> Board:
        """The patched result by the keys that its aspects have now."""
        return Board(self.patched, self.text, self.lang)


@dataclass(frozen=True)
class Change:
    """An aspect that differs between the stages; `before` has its forms in Stage 1."""

    key: str
    before: tuple[AspectRecord, ...]
    after: AspectRecord | None

    @property
    def polarities(self) -> frozenset[str]:
        """Its polarities after the change."""
        return self.after.polarities if self.after else frozenset()

    @property
    def polarity_changed(self) -> bool:
        """Whether its set of polarities differs."""
        if not self.before:
            return bool(self.polarities)
        return any(old.polarities != self.polarities for old in self.before)

    @property
    def category_changed(self) -> bool:
        """Whether its set of (category, polarity) differs."""
        now = _judgements(self.after) if self.after else frozenset()
        return any(_judgements(old) != now for old in self.before)

    @property
    def span_changed(self) -> bool:
        """Whether its span differs, if it has a tuple in both stages."""
        return any(
            old.sentiments and self.polarities and self.after and old.span != self.after.span
            for old in self.before
        )

    @property
    def gained_second_polarity(self) -> bool:
        """Whether it now has two polarities, and had at most one in Stage 1."""
        return len(self.polarities) > 1 and all(len(a.polarities) <= 1 for a in self.before)


def _judgements(aspect: AspectRecord) -> frozenset[tuple[str | None, str]]:
    return frozenset((s.category, s.polarity) for s in aspect.sentiments)


def adopt(state: State, pipeline: PipelineSettings) -> AdoptUpdate:
    """Apply the overrides to the patched result, and decide whether it replaces Stage 1."""
    assert state["patched_result"] is not None, "adoption comes after the reviews"
    lang = language(state["lang"])
    board = Board(state["patched_result"], state["text"], lang)
    overrides = apply_overrides(board, state["gate_outcomes"])
    patched = board.result()
    after = state["stage2_validation"]
    inputs = AdoptionInputs(
        text=state["text"],
        lang=lang,
        stage1=state["stage1_result"],
        patched=patched,
        summary=state["judge_answer"],
        context=state["debate_hints"],
        gate_log=gate_log(state["gate_outcomes"]),
        risks_before=len(state["stage1_validation"].structural_risks),
        risks_after=len(after.structural_risks) if after else 0,
        categories=categories_of(pipeline),
    )
    return {
        "patched_result": patched,
        "corrections": [*state["corrections"], *overrides],
        "adoption": decide(inputs, pipeline.debate_override),
    }


def decide(e: AdoptionInputs, settings: OverrideSettings) -> Adoption:
    """Decide by the table above."""
    changed = changes(e)
    if not tuples(e.patched, e.lang):
        return Adoption(decision="not_adopted", reason="low_signal")
    if not changed:
        skipped = first_skip(e.gate_log)
        reason = skipped if skipped in EV_REASONS else "low_signal"
        return Adoption(decision="not_adopted", reason=str(reason))
    debated = debate_tuples(e)
    debate_differs = bool(debated) and debated != tuples(e.patched, e.lang)
    if debate_differs or any(c.gained_second_polarity for c in changed):
        return Adoption(decision="not_adopted", reason="conflict_blocked")
    reason = candidate_reason(e)
    components = ev_components(e, changed)
    score = weighted_mean(components, dict(settings.ev_weights))
    adopted = reaches(score, settings.ev_threshold)
    return Adoption(
        decision="adopted" if adopted else "not_adopted",
        reason=reason if adopted else "ev_below_threshold",
        ev_score=score,
        ev_components=components,
    )


def first_skip(gate_log: Sequence[GateRecord]) -> str | None:
    """The first skip reason of the gate, apart from used-up overrides."""
    skips = (r.verdict for r in gate_log if r.verdict in SKIPS)
    return next((skip for skip in skips if skip != "max_one_override_per_sample"), None)


def changes(e: AdoptionInputs) -> list[Change]:
    """The aspects that differ: in polarities, categories or, with a tuple in both, in their span.

    An aspect with a revised span counts as the same aspect.
    """
    board = e.board
    before: dict[str, list[AspectRecord]] = {}
    for aspect in e.stage1.aspects:
        before.setdefault(board.resolve(aspect.name), []).append(aspect)
    keys = dict.fromkeys([*before, *board.aspects])
    all_of_them = [Change(k, tuple(before.get(k, ())), board.aspects.get(k)) for k in keys]
    return [c for c in all_of_them if c.polarity_changed or c.category_changed or c.span_changed]


def debate_tuples(e: AdoptionInputs) -> Tuples:
    """The judge's valid tuples under the current names of the aspects."""
    if e.summary is None:
        return frozenset()
    pairs = [
        (e.board.resolve(name_of(t.aspect_term, category)), category, read(t.polarity).value)
        for t in e.summary.final_tuples
        for category in (e.categories.find(t.category) if e.categories else None,)
    ]
    return frozenset((key, category, p) for key, category, p in pairs if key and p)


def candidate_reason(e: AdoptionInputs) -> str:
    """Rows 4 to 7 of the table above."""
    if e.risks_after < e.risks_before:
        return "risk_resolved"
    patch = known_edits(e.summary.final_patch, e.categories) if e.summary else []
    if any(edit.op != "confirm_tuple" for edit in patch) or any(r.applied for r in e.gate_log):
        return "debate_action"
    if has_grounded_explicit(e.patched, e.text) and not has_grounded_explicit(e.stage1, e.text):
        return "grounding_improved"
    return "review_applied"


def has_grounded_explicit(result: StageResult, text: str) -> bool:
    """Whether any sentiment is explicit with evidence in the text."""
    return any(
        grounded(text, s.evidence) and not a.is_implicit(s)
        for a in result.aspects
        for s in a.sentiments
    )


def ev_components(e: AdoptionInputs, changed: Sequence[Change]) -> dict[str, float]:
    """The components of the evidence value that are available here."""
    components: dict[str, float] = {}
    moved = [c for c in changed if c.polarity_changed]
    if e.context is not None and moved:
        hints_of = {a.key: a.hints for a in hinted_aspects(e.context, e.board)}
        components["debate_support"] = _mean([support(c, hints_of.get(c.key, ())) for c in moved])
    if e.risks_before:
        resolved = (e.risks_before - e.risks_after) / e.risks_before
        components["validator_resolved"] = max(0.0, resolved)
    components["grounding_improvement"] = _mean([float(is_grounded(c, e.text)) for c in changed])
    anchored = sum(len(a.sentiments) for a in e.patched.aspects)
    everything = anchored + len(e.patched.unanchored)
    if everything:
        components["alignment_improvement"] = anchored / everything
    return components


def support(change: Change, hints: Sequence[Hint]) -> float:
    """The share of the hint weight that agrees with a change; 0 without hints."""
    agreeing = disagreeing = 0.0
    for hint in hints:
        polarity = read(hint.polarity_hint).value if hint.polarity_hint else None
        if not change.polarities and hint.op == "drop_tuple":
            agreeing += hint.weight
        elif polarity is not None and polarity in change.polarities:
            agreeing += hint.weight
        elif polarity is not None:
            disagreeing += hint.weight
    spoken = agreeing + disagreeing
    return agreeing / spoken if spoken else 0.0


def is_grounded(change: Change, text: str) -> bool:
    """Whether a change has evidence in the text, or a removed tuple had none."""
    if change.after is not None and change.after.sentiments:
        return any(grounded(text, s.evidence) for s in change.after.sentiments)
    return any(
        (old.term is not None and old.term not in text)
        or any(s.evidence and not grounded(text, s.evidence) for s in old.sentiments)
        for old in change.before
    )


def weighted_mean(values: dict[str, float], weights: dict[str, float]) -> float:
    """The weighted mean of the available values; 0 if no weight is left."""
    weight = sum(weights[name] for name in values)
    return sum(weights[name] * value for name, value in values.items()) / weight if weight else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
