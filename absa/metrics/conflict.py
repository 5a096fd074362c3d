"""Metrics of the conflict review: flags, requested actions and applied actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from absa.scorecard import rate

CASES = ("majority", "merge_refused", "flip_drop_keep", "no_majority", "asked")


@dataclass
class ConflictTally:
    """Sums over the scorecards of a conflict review."""

    count: Counter[str] = field(default_factory=Counter)
    votes: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, card: Mapping[str, Any]) -> None:
        """Count a scorecard; nothing for another protocol."""
        review = card.get("conflict_review")
        if review is None:
            return
        count = self.count
        count["samples"] += 1
        count["reviewed"] += review["reviewed"]
        count["with_conflict"] += bool(sum(review["conflicts"].values()))
        count["contested"] += bool(review["conflicts"].get("polarity_mismatch"))
        count["resolved"] += review["resolved"]
        count["candidates"] += review["candidates"]
        count["accepted"] += sum(review["actions"].values())
        count["discarded"] += sum(review["discarded"].values())
        for decided in review["arbiter"]:
            count["flagged"] += 1
            count[decided["case"]] += 1
            count["applied"] += decided["applied"]
            count["marked"] += decided["flag"]
            # Only the kind of action: FLIP:negative is a FLIP.
            actions = tuple(vote.partition(":")[0] for vote in decided["votes"].values())
            count["votes"] += len(actions)
            count["non_keep_votes"] += sum(action != "KEEP" for action in actions)
            self.votes.append(actions)

    def summary(self) -> dict[str, Any]:
        """All rates with their counts; empty for a run of another protocol."""
        n = self.count
        if not n["samples"]:
            return {}
        return {
            "conflict_detection_rate": rate(n["with_conflict"], n["samples"]),
            "conflict_resolved_rate": rate(n["resolved"], n["contested"]),
            "review_rate": rate(n["reviewed"], n["samples"]),
            "flagged_tuple_rate": rate(n["flagged"], n["candidates"]),
            "review_action_rate": rate(n["non_keep_votes"], n["votes"]),
            "discarded_action_rate": rate(n["discarded"], n["discarded"] + n["accepted"]),
            "arbiter_intervention_rate": rate(n["flagged"] - n["majority"], n["flagged"]),
            "arbiter_cases": {case: rate(n[case], n["flagged"]) for case in CASES},
            "reviewed_tuple_change_rate": rate(n["applied"], n["flagged"]),
            "marked_tuple_rate": rate(n["marked"], n["flagged"]),
            "reviewer_agreement": {
                "fleiss_kappa": fleiss_kappa(self.votes),
                "tuples": len(self.votes),
            },
        }


def fleiss_kappa(votes: Sequence[Sequence[str]]) -> float | None:
    """Agreement of the reviewers beyond chance.

    None without votes or if all votes are equal, because chance could explain that.
    """
    words = sorted({vote for cast in votes for vote in cast})
    if len(words) < 2:
        return None
    from statsmodels.stats.inter_rater import (  # type: ignore[import-untyped]
        fleiss_kappa as kappa,
    )

    table = [[list(cast).count(word) for word in words] for cast in votes]
    return float(kappa(table))
