"""Dead gates: verdicts and rules that were reached but never fired.

*Reached* means that the condition was evaluated, as the records show:

| gate              | reached by                                                                  |
|-------------------|-----------------------------------------------------------------------------|
| override gate     | an aspect whose verdict stands at or after the condition in the gate's table |
| adoption, refusal | a Stage 2 that reached the check: it had changes; it was a candidate         |
| adoption, reason  | an adopted Stage 2 whose reason stands at or after it in the table           |
| Moderator's rules | a sample: RuleZ always, the others unless RuleZ stopped                      |
| drop guard        | a sample on which RuleB acted                                               |
| corrections       | a requested correction of that kind; fired if it was applied                 |
| arbiter           | a flagged tuple whose case stands at or after it in the arbiter's table      |

A condition that the settings switch off is not reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from absa.metrics.process import Card
from absa.nodes import override_gate
from absa.schemas.settings import PipelineSettings

_ORDER = ("correction", "override_gate", "adopt", "moderator", "arbiter")
ADOPTED_FOR = ("risk_resolved", "debate_action", "grounding_improved", "review_applied")


@dataclass
class GateTally:
    """Counts how often each gate was reached, and how often it fired."""

    pipeline: PipelineSettings
    reached: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)

    def add(self, card: Card) -> None:
        """Count one scorecard."""
        for verdict in card["override"]["verdicts"]:
            self._add_verdict(verdict)
        review = card.get("conflict_review")
        if review is not None:
            for decided in review["arbiter"]:
                self._add_arbiter(decided)
        elif card["adoption"]["stage2_executed"]:
            self._add_adoption(card)
        if card["moderator"]["ran"]:
            self._add_moderator(card)
        for correction in card["corrections"]:
            if correction["source"] != "debate_override":
                name = f"{correction['source']}.{correction['proposal_type']}"
                self._count(f"correction.{name}", fired=correction["applied"])

    def summary(self) -> list[dict[str, Any]]:
        """All gates that were reached."""
        return [
            {"gate": gate, "reached": reached, "fired": self.fired[gate]}
            for gate, reached in sorted(self.reached.items(), key=lambda g: _place(g[0]))
        ]

    def dead(self) -> list[dict[str, Any]]:
        """The gates that never fired."""
        return [gate for gate in self.summary() if not gate["fired"]]

    def _count(self, gate: str, *, fired: bool) -> None:
        self.reached[gate] += 1
        self.fired[gate] += fired

    def _add_verdict(self, verdict: str) -> None:
        order = conditions(self.pipeline)
        for name in dict.fromkeys(order[: order.index(verdict) + 1] if verdict in order else ()):
            self._count(f"override_gate.{name}", fired=name == verdict)

    def _add_adoption(self, card: Card) -> None:
        adoption, guarded = card["adoption"], card["moderator"]["drop_guard"]
        reason = adoption["reason"]
        candidate = adoption["ev_score"] is not None
        blocked = reason == "conflict_blocked"
        if candidate or blocked:
            self._count("adopt.conflict_blocked", fired=blocked)
        if candidate:
            self._count("adopt.ev_below_threshold", fired=reason == "ev_below_threshold")
        # The drop guard reverts an adoption and replaces its reason.
        if adoption["decision"] == "adopted" and not guarded and reason in ADOPTED_FOR:
            for name in ADOPTED_FOR[: ADOPTED_FOR.index(reason) + 1]:
                self._count(f"adopt.{name}", fired=name == reason)

    def _add_arbiter(self, decided: Mapping[str, Any]) -> None:
        case = decided["case"]
        agreed = case in ("majority", "merge_refused")
        self._count("arbiter.majority", fired=agreed)
        if case == "merge_refused" or (agreed and decided["action_type"] == "MERGE"):
            self._count("arbiter.merge_refused", fired=case == "merge_refused")
        if not agreed:
            self._count("arbiter.flip_drop_keep", fired=case == "flip_drop_keep")
        if case in ("no_majority", "asked"):
            self._count("arbiter.no_majority", fired=True)

    def _add_moderator(self, card: Card) -> None:
        moderator = card["moderator"]
        applied = moderator["applied_rules"]
        stopped = "RuleZ" in applied
        for letter in self.pipeline.moderator.rules:
            rule = f"Rule{letter}"
            if rule == "RuleE" and not card["debate"]["held"]:
                continue
            if rule == "RuleZ" or not stopped:
                self._count(f"moderator.{rule}", fired=rule in applied)
        if "RuleB" in applied:
            self._count("moderator.drop_guard", fired=moderator["drop_guard"])


def conditions(pipeline: PipelineSettings) -> Sequence[str]:
    """The gate's active conditions in their order.

    With `allow_drop`, `l3_conservative` is checked at two places. The record does not show which
    one matched, so the first is assumed. No condition is then wrongly counted as reached.
    """
    settings = pipeline.debate_override
    off = {"contradictory_memory"} if pipeline.memory.condition != "on" else set()
    if not settings.l3_conservative:
        off.add("l3_conservative")
    return [name for name in override_gate.conditions(settings.allow_drop) if name not in off]


def _place(gate: str) -> int:
    """The position of a gate in the graph. Gates of one node keep their order."""
    return _ORDER.index(gate.partition(".")[0])
