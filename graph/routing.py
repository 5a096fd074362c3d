"""Which node comes next. Routers are pure: of the settings, or of a field of the state.

The toggles are read here and nowhere else. A graph that is built for fixed settings calls these
functions once, and its drawing has only the edges they name; the switchable graph calls them in
every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from nodes.arbiter import undecided
from nodes.human_review import doubts_of_state
from schemas.records import Verdict
from schemas.settings import PipelineSettings
from schemas.state import State

REVIEWERS = ("ate_review", "atsa_review")
CONFLICT_REVIEWERS = ("review_a", "review_b", "review_c")
OVERRIDES: tuple[Verdict, ...] = ("add", "flip", "drop")
SKIPS: tuple[Verdict, ...] = tuple(v for v in get_args(Verdict) if v not in OVERRIDES)
HUMAN_REVIEW = "human_review"
LAST = ("moderator", "finalize")
# The debate spoke of no aspect at all.
NO_VERDICT = "none"

Next = Sequence[str]


def after_intake(p: PipelineSettings) -> Next:
    """Stage 1 in parallel, with ATE where aspects have to be found."""
    return ("atsa", "validator") if p.enable_validator else ("atsa",)


def finding_aspects(state: State) -> list[str]:
    """To ATE, or past it where the user gave the aspects."""
    return ["ate"] if state.get("given_aspects") is None else []


def has_memory(p: PipelineSettings) -> bool:
    """Whether past cases are looked up, and this one is remembered."""
    return p.memory.condition != "off"


def verdicts(p: PipelineSettings, *, switchable: bool) -> list[Verdict]:
    """What the gate can come to: a verdict that can never be given is not in the graph."""
    absent: set[Verdict] = set()
    if p.memory.condition != "on":
        absent.add("contradictory_memory")
    if not (switchable or p.debate_override.allow_drop):
        absent.add("drop")
    return [v for v in (*SKIPS, *OVERRIDES) if v not in absent]


def after_stage1(p: PipelineSettings) -> Next:
    """Into the debate, if there is one."""
    return (p.debate.order[0],) if p.enable_debate else after_debate(p)


def after_debate(p: PipelineSettings) -> Next:
    """To the reviewers, in parallel."""
    return REVIEWERS if p.enable_stage2 else before_output(p)


def after_reviewers(p: PipelineSettings) -> Next:
    """The Validator looks again, if it looked at all."""
    return ("validator_review",) if p.enable_validator else ("apply_reviews",)


def after_apply(p: PipelineSettings) -> Next:
    """Through the gate, if there was a debate that may override."""
    gated = p.enable_debate and p.enable_debate_override
    return ("override_gate",) if gated else ("adopt",)


def before_output(p: PipelineSettings) -> Next:
    """The Moderator has the last word, or nobody; only a debate has one."""
    return ("moderator",) if p.protocol == "debate" and p.enable_moderator else ("finalize",)


def may_ask(p: PipelineSettings) -> bool:
    """Whether a person can be asked at all: one call, or a vote, leaves nobody in conflict."""
    if p.human_review == "on_conflict":
        debated = p.protocol == "debate" and (p.enable_debate or p.enable_stage2)
        return debated or p.protocol == "conflict_review"
    return p.human_review == "always"


def past_person(state: State, p: PipelineSettings, follow: Next) -> list[str]:
    """To the nodes that follow; to a person first, if the last one is next and there is a doubt."""
    is_last = any(node in LAST for node in follow)
    return [HUMAN_REVIEW] if is_last and doubts_of_state(state, p) else list(follow)


def next_round(state: State, p: PipelineSettings) -> str:
    """After the last speaker of a round: another round, or the judge."""
    held = len(state["turns"]) // len(p.debate.order)
    return p.debate.order[0] if held < p.debate.rounds else "judge"


def after_gate(state: State) -> list[str]:
    """To the nodes of the verdicts that were given; each verdict has an edge of its own."""
    return list(dict.fromkeys(r.verdict for r in state["gate_verdicts"])) or [NO_VERDICT]


def after_merge(state: State) -> list[str]:
    """To the reviewers, in parallel, if anything is in doubt."""
    return list(CONFLICT_REVIEWERS) if _in_doubt(state) else ["finalize"]


def after_merge_with_memory(state: State) -> str:
    """The same past memory, which advises the reviewers."""
    return "recall" if _in_doubt(state) else "finalize"


def _in_doubt(state: State) -> bool:
    return bool(state["conflict_flags"] or state["validator_risks"])


def after_votes(state: State) -> str:
    """To the model, if the votes leave a tuple open."""
    return "arbiter" if undecided(state) else "finalize"


def verdict_node(verdict: str) -> str:
    """The node that a verdict leads to."""
    return f"apply_{verdict}" if verdict in OVERRIDES else f"skip_{verdict}"
