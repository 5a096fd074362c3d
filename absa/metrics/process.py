"""Process metrics of debate, gate and rules, from the scorecards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from absa.metrics.conflict import ConflictTally
from absa.schemas.human import DoubtCode
from absa.schemas.output import OverrideStats
from absa.schemas.records import ContestReason
from absa.scorecard import rate

Card = Mapping[str, Any]
WHY_IGNORED = (
    "target_not_found",
    "neutral_flip",
    "blocked_at_adoption",
    "no_proposal",
    "no_change",
)
MAPPINGS = ("direct", "fallback", "none")
FAILS = ("no_aspects", "no_match", "neutral_stance", "fallback_used")
RULE_E_BLOCKS = ("inferred_empty", "label_unchanged", "confidence_too_high")
DOUBTS = tuple(code for code in get_args(DoubtCode) if code != "low_confidence")
DECIDED = ("kept", "flipped", "dropped", "added", "labelled")
NAME_COUNTS = ("name_cut_count", "name_refused_count", "name_unlikely_count")
RULES = tuple(f"Rule{name}" for name in "ZBMCADE")


@dataclass
class ProcessTally:
    """Sums over scorecards."""

    count: Counter[str] = field(default_factory=Counter)
    override: Counter[str] = field(default_factory=Counter)
    adoption: Counter[tuple[str, str]] = field(default_factory=Counter)
    conflict: ConflictTally = field(default_factory=ConflictTally)

    def add(self, card: Card) -> None:
        """Count one scorecard."""
        count = self.count
        count["samples"] += 1
        delta = card["stage_delta"]
        count["changed"] += delta["changed"]
        count[f"change_{delta['change_type']}"] += 1
        self._add_fraction("risks", card["risks"]["risk_resolution_rate"])
        ignored = card["ignored_proposal"]
        count["flagged"] += ignored["flagged"]
        count["ignored"] += ignored["ignored"]
        if ignored["ignored"]:
            count[f"ignored_{ignored['why']}"] += 1
        self._add_debate(card["debate"])
        self.override.update(card["override"]["stats"])
        self.override.update(
            {f"skip_reason_{k}": n for k, n in card["override"]["skip_reasons"].items()}
        )
        if card["adoption"]["stage2_executed"]:
            self.adoption[card["adoption"]["decision"], card["adoption"]["reason"]] += 1
        self._add_moderator(card)
        self.conflict.add(card)
        self._add_fraction("evidence", card["hallucination"]["evidence"])
        self._add_fraction("aspects", card["hallucination"]["aspects"])
        for name in ("unanchored_count", "polarity_repair_count", "polarity_invalid_count"):
            count[name] += card[name]
        for name in NAME_COUNTS:  # runs of earlier versions do not have them
            count[name] += card.get(name, 0)
        count["category_invalid_count"] += card.get("category_invalid_count", 0)
        count["stage2_review_violation"] += len(card["stage2_review_violation"])
        self._add_second_opinion(card.get("selective"))
        self._add_person(card)
        self._add_hf(card)

    def _add_second_opinion(self, opinion: Card | None) -> None:
        """Count the effect of the second reader."""
        if opinion is None:
            return
        self.count["second_opinions"] += 1
        self.count[f"second_{opinion['outcome']}"] += 1
        self.count["second_unread"] += not opinion["reads_language"]
        for witness, right in opinion["right"].items():
            self._add_fraction(f"second_{witness}", right)

    def _second_opinion(self) -> dict[str, Any]:
        """How often the two readers agreed, and which one was right; empty without one."""
        n = self.count
        asked = n["second_opinions"]
        if not asked:
            return {}
        return {
            **{
                f"second_opinion_{outcome}_rate": rate(n[f"second_{outcome}"], asked)
                for outcome in ("agreed", "contested", "reader_alone")
            },
            "second_opinion_unread_language_rate": rate(n["second_unread"], asked),
            "second_opinion_right": {
                witness: rate(n[f"second_{witness}_numerator"], n[f"second_{witness}_denominator"])
                for witness in ("both", "calls", "reader")
            },
        }

    def _add_person(self, card: Card) -> None:
        """Count the reasons for human review and the decisions."""
        review = card.get("human_review")
        if review is None:
            return
        self.count["person_wanted"] += 1
        self.count[f"person_{review['status']}"] += 1
        self.count.update(f"person_{code}" for code in review["reasons"])
        self.count.update({f"person_{name}": n for name, n in review["counts"].items()})

    def _add_hf(self, card: Card) -> None:
        """Count disagreements of the auxiliary classifier, with and without reported risks."""
        disagrees = card["aux_signals"].get("hf", {}).get("disagrees_with_final")
        if disagrees is None:
            return
        self.count["hf_known"] += 1
        self.count["hf_disagrees"] += disagrees
        self.count["hf_risky"] += card["risks"]["stage1"] > 0
        self.count["hf_risky_disagrees"] += disagrees and card["risks"]["stage1"] > 0

    def _add_fraction(self, name: str, fraction: Mapping[str, Any]) -> None:
        self.count[f"{name}_numerator"] += fraction["numerator"]
        self.count[f"{name}_denominator"] += fraction["denominator"]

    def _add_debate(self, debate: Mapping[str, Any]) -> None:
        reasons = debate.get("contest")  # runs of earlier versions have none
        if reasons is not None:
            self.count["compared"] += 1
            self.count["debate_skipped"] += debate["skipped"] is not None
            self.count.update(f"contested_for_{reason}" for reason in reasons)
        for name in MAPPINGS:
            self.count[f"turns_{name}"] += debate["mapping_stats"][name]
            self.count["turns"] += debate["mapping_stats"][name]
        for name in FAILS:
            self.count[f"fail_{name}"] += debate["mapping_fail_reasons"][name]

    def _add_moderator(self, card: Card) -> None:
        moderator = card["moderator"]
        if not moderator["ran"]:
            return
        self.count["moderated"] += 1
        self.count.update(moderator["applied_rules"])
        if moderator["rule_e_fired"] or moderator["rule_e_block_reason"]:
            self.count["rule_e_reached"] += 1
            self.count[f"rule_e_{moderator['rule_e_block_reason'] or 'fired'}"] += 1

    def summary(self) -> dict[str, Any]:
        """All rates with their counts."""
        n = self.count
        samples, turns, flagged = n["samples"], n["turns"], n["flagged"]
        return {
            "samples": samples,
            "risk_resolution_rate": rate(n["risks_numerator"], n["risks_denominator"]),
            "change_rate": rate(n["changed"], samples),
            "guided_change_rate": rate(n["change_guided"], samples),
            "unguided_change_rate": rate(n["change_unguided"], samples),
            "ignored_proposal_rate": rate(n["ignored"], flagged),
            "ignored_proposal_rate_by_why": {
                why: rate(n[f"ignored_{why}"], flagged) for why in WHY_IGNORED
            },
            "debate_mapping_coverage": rate(n["turns_direct"] + n["turns_fallback"], turns),
            **{f"debate_mapping_{name}_rate": rate(n[f"turns_{name}"], turns) for name in MAPPINGS},
            **self._contest(),
            **{f"debate_fail_{name}_rate": rate(n[f"fail_{name}"], turns) for name in FAILS},
            **dict(self._override()),
            **self._adoption(),
            "moderator_rules": {rule: rate(n[rule], n["moderated"]) for rule in RULES},
            "rule_e_fired_rate": rate(n["rule_e_fired"], n["rule_e_reached"]),
            "rule_e_blocked_rate": {
                why: rate(n[f"rule_e_{why}"], n["rule_e_reached"]) for why in RULE_E_BLOCKS
            },
            **self.conflict.summary(),
            **self._second_opinion(),
            **self._person(),
            "hallucinated_evidence_rate": rate(n["evidence_numerator"], n["evidence_denominator"]),
            "ungrounded_aspect_rate": rate(n["aspects_numerator"], n["aspects_denominator"]),
            "unanchored_per_sample": rate(n["unanchored_count"], samples),
            "polarity_repairs_per_sample": rate(n["polarity_repair_count"], samples),
            "polarity_invalids_per_sample": rate(n["polarity_invalid_count"], samples),
            **{f"{name}_per_sample": rate(n[name], samples) for name in NAME_COUNTS},
            "category_invalids_per_sample": rate(n["category_invalid_count"], samples),
            "stage2_review_violations_per_sample": rate(n["stage2_review_violation"], samples),
            "hf_polarity_disagreement_rate": rate(n["hf_disagrees"], n["hf_known"]),
            "hf_disagreement_coverage_of_structural_risks": rate(
                n["hf_risky_disagrees"], n["hf_risky"]
            ),
        }

    def _contest(self) -> dict[str, Any]:
        """How often the debate was skipped, and the reasons for debates; empty if always held."""
        n = self.count
        if not n["compared"]:
            return {}
        return {
            "debate_skipped_rate": rate(n["debate_skipped"], n["compared"]),
            "contested_for": {
                reason: rate(n[f"contested_for_{reason}"], n["compared"])
                for reason in get_args(ContestReason)
            },
        }

    def _person(self) -> dict[str, Any]:
        """How often a person was asked and why; empty without human review."""
        n = self.count
        if not n["person_wanted"]:
            return {}
        return {
            "human_review_rate": rate(n["person_wanted"], n["samples"]),
            "human_review_pending_rate": rate(n["person_pending"], n["person_wanted"]),
            "human_review_reasons": {
                code: rate(n[f"person_{code}"], n["person_wanted"]) for code in DOUBTS
            },
            "human_review_decisions": {did: n[f"person_{did}"] for did in DECIDED},
        }

    def _override(self) -> Iterator[tuple[str, Any]]:
        """Counts, and rates over the aspects that the gate judged."""
        # `skipped_neutral_only` is counted in `skipped_low_signal` as well.
        outcomes = OverrideStats.model_fields
        judged = sum(self.override[name] for name in outcomes if name != "skipped_neutral_only")
        yield "debate_override_judged_aspects", judged
        for name in outcomes:
            yield f"debate_override_{name}", self.override[name]
            yield f"debate_override_{name}_rate", rate(self.override[name], judged)
        reasons = {
            name.removeprefix("skip_reason_"): rate(number, judged)
            for name, number in sorted(self.override.items())
            if name.startswith("skip_reason_")
        }
        yield "debate_override_skip_reasons", reasons

    def _adoption(self) -> dict[str, Any]:
        reached = self.adoption.total()
        reasons: dict[str, dict[str, Any]] = {"adopted": {}, "not_adopted": {}}
        for (decision, reason), number in sorted(self.adoption.items()):
            reasons[decision][reason] = rate(number, reached)
        adopted = sum(n for (decision, _), n in self.adoption.items() if decision == "adopted")
        return {"adoption_rate": rate(adopted, reached), "adoption_by_reason": reasons}
