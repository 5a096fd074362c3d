"""Short names for the pipeline's codes, for bars, filters and headings.

The sentences about one sample come from `absa.show`. A code without a name here is shown as it is.
"""

from __future__ import annotations

from absa.nodes.override_gate import APPLIED, CONDITIONS

GATE = {
    "add": "Override: tuple added",
    "flip": "Override: polarity or confidence set",
    "drop": "Override: tuple dropped",
    "max_one_override_per_sample": "Overrides of this text used up",
    "neutral_only": "Nothing positive or negative said",
    "no_evidence_span": "No evidence given",
    "evidence_span_not_in_text": "Evidence not in the text",
    "evidence_span_missing_trigger": "Evidence too short",
    "low_signal": "Signal too weak",
    "action_ambiguity": "Debate divided, or a review removed it",
    "l3_conservative": "Structural risk, gate is conservative",
    "implicit_soft_only": "Aspect is implicit",
    "contradictory_memory": "Memory warns",
    "already_confident": "Agreed already",
}
ADOPTED = {
    "risk_resolved": "Risks resolved",
    "debate_action": "The debate asked for it",
    "grounding_improved": "Better grounded",
    "review_applied": "Reviews changed it",
}
NOT_ADOPTED = {
    "low_signal": "Nothing to adopt",
    "ev_below_threshold": "Evidence value too low",
    "conflict_blocked": "Blocked by a conflict",
}
ARBITER = {
    "majority": "Two or more reviewers agreed",
    "merge_refused": "A merge of different polarities, refused",
    "flip_drop_keep": "One flip, one drop, one keep",
    "no_majority": "No two agreed: kept and marked",
    "asked": "No two agreed: the model decided",
}
OUTCOMES = {
    "fix": "Fixed",
    "break": "Broke",
    "keep": "Kept right",
    "still_wrong": "Still wrong",
}
RULES = {
    "RuleZ": "Without any signal the label is neutral",
    "RuleB": "Stage 2 goes first, unless it is much less sure",
    "RuleM": "Stages that disagree make it mixed",
    "RuleC": "The Validator may veto the label",
    "RuleA": "Aligned spans average the confidence",
    "RuleD": "Sentence and aspects disagree: the surer one wins",
    "RuleE": "An unsure label follows the debate",
}
RULE_E_BLOCKS = {
    "inferred_empty": "the debate implies no label",
    "label_unchanged": "the debate implies the same label",
    "confidence_too_high": "the confidence is too high for another label",
}
# What it means that a condition of the gate was passed; {} are numbers of the record.
PASSED = {
    "max_one_override_per_sample": "an override is still allowed for this text",
    "drop": "the debate does not ask for a drop loudly enough ({drop})",
    "neutral_only": "somebody said positive or negative",
    "no_evidence_span": "there is evidence",
    "evidence_span_not_in_text": "the evidence is in the text",
    "evidence_span_missing_trigger": "the evidence has at least 2 characters",
    "low_signal": "total {total} ≥ {min_total}",
    "action_ambiguity": "margin {margin} ≥ {min_margin}, and no review removed it",
    "l3_conservative": "no structural risk stands in the way",
    "implicit_soft_only": "the text names the aspect",
    "contradictory_memory": "memory does not warn",
    "add": "it has a sentiment that can be changed",
    "already_confident": "it is not settled yet (confidence {min_target_conf} asked for)",
}


def adoption_name(decision: str, reason: str) -> str:
    """The name of an adoption decision with its reason."""
    if decision == "adopted":
        return f"Adopted: {_lower(ADOPTED.get(reason, reason))}"
    return NOT_ADOPTED.get(reason) or f"Gate: {_lower(GATE.get(reason, reason))}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def gate_steps(allow_drop: bool) -> list[tuple[str, str]]:
    """The gate's conditions in their order: code, and what passing it means."""
    steps = [(str(code), PASSED.get(code, "")) for code, _ in CONDITIONS]
    # The two steps about drops stand before the others and are there only with `allow_drop`.
    return steps if allow_drop else [s for n, s in enumerate(steps) if n not in _DROP_STEPS]


def gate_order(code: str) -> tuple[int, str]:
    """A key that sorts verdicts: overrides first, then in the order of the conditions."""
    codes = [*APPLIED, *(name for name, _ in CONDITIONS)]
    return (codes.index(code) if code in codes else len(codes)), code


_DROP_STEPS = (
    next(n for n, (code, _) in enumerate(CONDITIONS) if code == "l3_conservative"),
    next(n for n, (code, _) in enumerate(CONDITIONS) if code == "drop"),
)
