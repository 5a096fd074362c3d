"""The verdicts of the override gate, in one table.

The gate, the statistics, the screens, the report and the table in
`docs/explanation/agents.md` all read it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Verdict = Literal[
    "max_one_override_per_sample",
    "neutral_only",
    "no_evidence_span",
    "evidence_span_not_in_text",
    "evidence_span_missing_trigger",
    "low_signal",
    "action_ambiguity",
    "l3_conservative",
    "implicit_soft_only",
    "contradictory_memory",
    "add",
    "already_confident",
    "confirm",
    "flip",
    "drop",
]


class VerdictFacts(NamedTuple):
    """The texts about one verdict. Braces are fields of the gate's record."""

    # Its row in the table of `docs/explanation/agents.md`: the order of the gate's checks.
    row: str
    # The condition of the verdict.
    condition: str
    # For bars, filters and headings.
    name: str
    # The reason for one aspect.
    reason: str
    # What is true if the gate passed this check.
    passed: str
    # The field of `debate_override_stats` that counts it.
    counted_in: tuple[str, ...]
    # Integrity check S3: an allowed reason why the debate's tuples are not the final ones.
    ev_reason: str | None = None


_APPLIED = ("applied",)
_CONFIRMED = ("confirmed",)
_CONFLICT = ("skipped_conflict",)

VERDICTS: dict[Verdict, VerdictFacts] = {
    "max_one_override_per_sample": VerdictFacts(
        "1",
        "the sample already had its override(s); a confirm is not an override",
        "Overrides of this text used up",
        "the overrides allowed for one text ({overrides}) are used up",
        "an override is still allowed for this text",
        ("skipped_max_one_override_per_sample",),
        "low_ev",
    ),
    "neutral_only": VerdictFacts(
        "2",
        "no positive or negative hint",
        "Nothing positive or negative said",
        "the debate said nothing positive or negative about it",
        "there is a positive or negative hint",
        ("skipped_neutral_only", "skipped_low_signal"),
    ),
    "no_evidence_span": VerdictFacts(
        "3",
        "no evidence",
        "No evidence given",
        "the debate gave no evidence",
        "there is evidence",
        ("skipped_no_evidence_span",),
        "no_evidence",
    ),
    "evidence_span_not_in_text": VerdictFacts(
        "4",
        "evidence that is not in the text",
        "Evidence not in the text",
        "the debate's evidence {evidence} is not in the text",
        "the evidence is in the text",
        ("skipped_evidence_span_not_in_text",),
        "no_evidence",
    ),
    "evidence_span_missing_trigger": VerdictFacts(
        "5",
        "evidence shorter than two characters",
        "Evidence too short",
        "the debate's evidence {evidence} is too short",
        "the evidence has at least 2 characters",
        ("skipped_evidence_span_missing_trigger",),
        "no_evidence",
    ),
    "low_signal": VerdictFacts(
        "6",
        "total hint weight < `min_total`",
        "Signal too weak",
        "the debate's signal was too weak (total {total} < {min_total})",
        "total {total} ≥ {min_total}",
        ("skipped_low_signal",),
        "low_ev",
    ),
    "action_ambiguity": VerdictFacts(
        "7",
        "difference < `min_margin`, or a review removed the aspect",
        "Debate divided, or a review removed it",
        "the debate was divided (margin {margin} < {min_margin})",
        "margin {margin} ≥ {min_margin}, and no review removed it",
        _CONFLICT,
        "conflict",
    ),
    "l3_conservative": VerdictFacts(
        "8",
        "a negation, contrast, mismatch or irony risk",
        "Structural risk, gate is conservative",
        "the Validator saw a risk ({risks}), and with such a risk the gate changes nothing "
        "(l3_conservative)",
        "no structural risk stands in the way",
        _CONFLICT,
        "conflict",
    ),
    "implicit_soft_only": VerdictFacts(
        "9",
        "the aspect is implicit",
        "Aspect is implicit",
        "the aspect is implicit: the text does not name it",
        "the text names the aspect",
        _CONFLICT,
        "conflict",
    ),
    "contradictory_memory": VerdictFacts(
        "10",
        "memory warns of overrides in such cases ([memory](memory.md))",
        "Memory warns",
        "an override in a case like this went wrong before",
        "memory does not warn",
        _CONFLICT,
        "memory_contradiction",
    ),
    "add": VerdictFacts(
        "11",
        "no sentiment yet",
        "Override: tuple added",
        "every condition holds (total {total}, margin {margin}): added as {target}",
        "it has a sentiment that can be changed",
        _APPLIED,
    ),
    "already_confident": VerdictFacts(
        "12",
        "already the target polarity, confident enough",
        "Agreed already",
        "{target} already, with a confidence of at least {min_target_conf}",
        "it is not settled yet (confidence {min_target_conf} asked for)",
        ("skipped_already_confident",),
    ),
    "confirm": VerdictFacts(
        "13",
        "already the target polarity, not confident enough",
        "Confirmed: confidence raised",
        "every condition holds (total {total}, margin {margin}), and it is {target} already: its "
        "confidence becomes {min_target_conf}",
        "a sentiment has another polarity",
        _CONFIRMED,
    ),
    "flip": VerdictFacts(
        "14",
        "otherwise",
        "Override: polarity changed",
        "every condition holds (total {total}, margin {margin}): it becomes {target}",
        "",
        _APPLIED,
    ),
    "drop": VerdictFacts(
        "1a",
        "`allow_drop`, and the weight of the drops reaches `min_total` and exceeds the total by "
        "`min_margin`",
        "Override: tuple dropped",
        "the debate asked for a drop (weight {drop})",
        "the weight of the drops is too low ({drop})",
        _APPLIED,
    ),
}
# The type of its correction in the log.
CONFIRM = "debate_override_confirm"
# The reason of `action_ambiguity` if the debate was not divided.
REMOVED_BY_REVIEW = "a review removed it or its sentiment, so the agents disagree about what to do"

# Verdicts that change a tuple, that only raise a confidence, and that change nothing.
OVERRIDES = tuple(code for code, facts in VERDICTS.items() if facts.counted_in == _APPLIED)
CONFIRMS = tuple(code for code, facts in VERDICTS.items() if facts.counted_in == _CONFIRMED)
SKIPS = tuple(code for code in VERDICTS if code not in (*OVERRIDES, *CONFIRMS))
