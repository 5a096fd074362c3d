"""Routers and conditions: pure functions that choose the next node.

A switch reads only the settings. A condition or a router also reads the state of one text. They
read fields, never prose.
"""

from __future__ import annotations

from collections.abc import Callable

from langgraph.types import Send

from absa.nodes.arbiter import undecided
from absa.nodes.human_review import doubts_of_state
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import State

Switch = Callable[[PipelineSettings], bool]

# The debate mentioned no aspect.
NO_VERDICT = "none"


def has_memory(p: PipelineSettings) -> bool:
    """Whether past cases are recalled, and this one is stored."""
    return p.memory.condition != "off"


def has_gate(p: PipelineSettings) -> bool:
    """Whether the debate may override the reviewed result."""
    return p.enable_stage2 and p.enable_debate and p.enable_debate_override


def asks_arbiter(p: PipelineSettings) -> bool:
    """Whether a model decides about tuples without a majority."""
    return p.conflict_review.arbiter == "llm"


def may_ask(p: PipelineSettings) -> bool:
    """Whether a person can be asked at all. One call or a vote cannot leave a conflict.

    Stage 1 alone can, because the Validator's label can contradict every aspect.
    """
    if p.human_review == "on_conflict":
        decided = p.enable_debate or p.enable_stage2 or p.enable_moderator
        return p.protocol == "conflict_review" or (p.protocol == "debate" and decided)
    return p.human_review == "always"


def is_doubtful(state: State, p: PipelineSettings) -> bool:
    """Whether a person is to be asked about this text."""
    return bool(doubts_of_state(state, p))


def searches_aspects(state: State, p: PipelineSettings) -> bool:
    """Whether ATE extracts the aspects. If the user gave them, it does not."""
    return state.get("given_aspects") is None


def next_round(state: State, p: PipelineSettings) -> list[str]:
    """After the last speaker of a round: the next round or the judge."""
    held = len(state["turns"]) // len(p.debate.order)
    return [p.debate.order[0] if held < p.debate.rounds else "judge"]


def after_gate(state: State, p: PipelineSettings) -> list[str]:
    """The given verdicts. Each verdict has its own edge."""
    return list(dict.fromkeys(r.verdict for r in state["gate_verdicts"])) or [NO_VERDICT]


def after_merge(state: State, p: PipelineSettings) -> list[str]:
    """To memory or the reviewers if a tuple is flagged."""
    flagged = state["conflict_flags"] or state["validator_risks"]
    return ["recall" if flagged else "agreed"]


def after_votes(state: State, p: PipelineSettings) -> list[str]:
    """To the arbiter model if the votes do not decide every tuple."""
    return ["arbiter" if undecided(state) else "human_review"]


def all_calls(state: State, p: PipelineSettings) -> list[Send]:
    """To `extract`, in parallel for every call of a vote."""
    return [Send("extract", {**state, "call_number": n}) for n in range(p.vote_calls)]


def after_stage1(state: State, p: PipelineSettings) -> list[str]:
    """Skip the debate and Stage 2 if no tuple is contested."""
    return ["contested" if state["contest"].reasons else "skip_agreed"]


def after_compare(state: State, p: PipelineSettings) -> list[str | Send]:
    """Skip the further calls if the readers agree; else `extract` in parallel for each call."""
    opinion = state["second_opinion"]
    assert opinion is not None, "`compare` writes it"
    if opinion.outcome != "contested":
        return [opinion.outcome]
    turns = range(1, 1 + p.selective.extra_calls)
    return [Send("extract_again", {**state, "call_number": n}) for n in turns]
