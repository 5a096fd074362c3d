"""Short names for the codes of the pipeline, for bars, filters and headings.

The sentences about one sample are in `absa.show`. A code without a name is shown unchanged.
"""

from __future__ import annotations

from typing import Any

from absa.nodes.override_gate import conditions
from absa.schemas.verdicts import CONFIRMS, OVERRIDES, SKIPS, VERDICTS

GATE: dict[str, str] = {code: facts.name for code, facts in VERDICTS.items()}
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
MAPPED = {
    "direct": "Named an aspect of Stage 1",
    "fallback": "Meant one by its polarity",
    "none": "Could not be mapped",
}
UNMAPPED = {
    "no_aspects": "Stage 1 has no aspect",
    "no_match": "Speaks of another aspect",
    "neutral_stance": "Takes no side",
}
MOVES = {
    "guided": "Changed by a correction",
    "unguided": "Changed without a correction",
    "none": "As Stage 1 left it",
}
IGNORED = {
    "target_not_found": "Its aspect is not there",
    "neutral_flip": "A neutral cannot be flipped",
    "blocked_at_adoption": "Stage 2 was not adopted",
    "no_proposal": "Nothing was proposed",
    "no_change": "The proposal changed nothing",
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
    "RuleC": "The Validator's label, if it is surer or the risk critical",
    "RuleA": "Aligned spans average the confidence",
    "RuleD": "Sentence and aspects disagree: the surer one wins",
    "RuleE": "An unsure label follows the debate",
}
RULE_E_BLOCKS = {
    "inferred_empty": "the debate implies no label",
    "label_unchanged": "the debate implies the same label",
    "confidence_too_high": "the confidence is too high for another label",
}


def adoption_name(decision: str, reason: str) -> str:
    """The name of an adoption decision with its reason."""
    if decision == "adopted":
        return f"Adopted: {_lower(ADOPTED.get(reason, reason))}"
    return NOT_ADOPTED.get(reason) or f"Gate: {_lower(GATE.get(reason, reason))}"


def names() -> dict[str, Any]:
    """The names that the script of the page looks up."""
    refused = [*NOT_ADOPTED, *GATE]
    codes = [("adopted", r) for r in ADOPTED] + [("not_adopted", r) for r in refused]
    return {
        "gate": GATE,
        "gate_order": [*OVERRIDES, *CONFIRMS, *SKIPS],
        "adopt": {f"{d}:{r}": adoption_name(d, r) for d, r in codes},
        "outcomes": OUTCOMES,
    }


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def gate_steps(allow_drop: bool) -> list[tuple[str, str]]:
    """The conditions of the gate in their order, each with the meaning of passing it."""
    return [(code, VERDICTS[code].passed) for code in conditions(allow_drop)]


CONTEST = {
    "agreed": "Both agree: debate skipped",
    "tuples": "Their tuples differ",
    "risks": "The Validator saw a risk",
    "proposals": "The Validator proposed a correction",
    "backfilled": "An aspect without a sentiment",
    "unanchored": "A sentiment without an aspect",
    "language": "The analyzer has no model of the language",
}
"""The reasons for a debate if `debate.when` is `contested`."""
