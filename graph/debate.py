"""The debate: Stage 1, a debate, Stage 2 reviews, the override gate, adoption, the Moderator."""

from __future__ import annotations

from itertools import combinations

from langgraph.graph import END, START

from absa.graph import routing
from absa.graph.table import Choice, Rule, Table, table_nodes
from absa.nodes.adopt import adopt
from absa.nodes.apply_reviews import apply_reviews
from absa.nodes.ate import ate
from absa.nodes.ate_review import ate_review
from absa.nodes.atsa import atsa
from absa.nodes.atsa_review import atsa_review
from absa.nodes.contested import compare_stage1, contested, skip_agreed
from absa.nodes.extract import extract
from absa.nodes.finalize import finalize
from absa.nodes.human_review import human_review
from absa.nodes.intake import intake
from absa.nodes.judge import judge
from absa.nodes.moderator import moderator
from absa.nodes.override_gate import carry_out, override_gate, record_verdict
from absa.nodes.recall import recall
from absa.nodes.remember import remember
from absa.nodes.review_context import review_context
from absa.nodes.second_reader import second_reader
from absa.nodes.speaker import speaker
from absa.nodes.stage1 import stage1
from absa.nodes.validator import validator
from absa.nodes.validator_review import validator_review
from absa.schemas.settings import DEFAULT_PERSONAS, DebateProtocol, PipelineSettings
from absa.schemas.verdicts import SKIPS, VERDICTS

SKIPPED = {verdict: f"skip_{verdict}" for verdict in SKIPS}
APPLIED = {verdict: f"apply_{verdict}" for verdict in VERDICTS if verdict not in SKIPS}
# Only with `debate.when: contested`.
_OF_CONTEST = ("second_reader", "compare_stage1", "skip_agreed", "contested")


def debate(p: PipelineSettings, *, switchable: bool = False) -> Table:
    """The table of the debate; a switchable graph has the speakers of both debate protocols."""
    orders: dict[DebateProtocol, tuple[str, ...]] = {p.debate.protocol: p.debate.order}
    if switchable:
        orders = {
            "patch": tuple(DEFAULT_PERSONAS["patch"]),
            "persona": tuple(DEFAULT_PERSONAS["persona"]),
            **orders,
        }
    contests = p.debate.when == "contested"
    openers = tuple(order[0] for order in orders.values())
    speakers = [
        speaker(name, protocol, p.debate.when)
        for protocol, order in orders.items()
        for name in order
    ]
    after_round = {
        # Rounds are a loop in the graph, not copies of its nodes.
        order[-1]: Choice.of(routing.next_round, order[0], "judge")
        if (switchable and not contests) or p.debate.rounds > 1
        else ("judge",)
        for order in orders.values()
    }
    first = (extract,) if p.stage1 == "joint" else (ate, atsa)
    # With `always`, every text is shown to a person, so the edge is not conditional.
    always = p.human_review == "always" and not switchable
    table = Table(
        nodes=table_nodes(
            *(second_reader, compare_stage1, skip_agreed, contested),
            *(intake, *first, validator, stage1, Rule("recall", recall, blocking=True)),
            *speakers,
            *(judge, review_context),
            *(ate_review, atsa_review, validator_review, apply_reviews, override_gate),
            *(Rule(node, record_verdict(verdict)) for verdict, node in SKIPPED.items()),
            *(Rule(node, carry_out(verdict)) for verdict, node in APPLIED.items()),
            *(adopt, moderator, human_review, finalize),
            Rule("remember", remember, blocking=True),
        ),
        edges={
            START: ("intake",),
            "intake": (*(agent.name for agent in first), "validator", "second_reader"),
            **{agent.name: ("stage1",) for agent in first},
            "validator": ("stage1",),
            "second_reader": ("stage1",),
            "stage1": ("recall",),
            "recall": ("compare_stage1",),
            "compare_stage1": Choice(
                routing.after_stage1,
                {"skip_agreed": ("skip_agreed",), "contested": ("contested",)},
                labelled=True,
            ),
            "skip_agreed": ("moderator",),
            "contested": openers,
            **{
                name: (following,)
                for order in orders.values()
                for name, following in zip(order, order[1:], strict=False)
            },
            **after_round,
            "judge": ("review_context",),
            "review_context": ("ate_review", "atsa_review"),
            "ate_review": ("validator_review",),
            "atsa_review": ("validator_review",),
            "validator_review": ("apply_reviews",),
            "apply_reviews": ("override_gate",),
            # One node per verdict, because a drawing merges two edges to the same node.
            "override_gate": Choice(
                routing.after_gate,
                {v: (node,) for v, node in {**SKIPPED, **APPLIED}.items()}
                | {routing.NO_VERDICT: ("adopt",)},
                labelled=True,
            ),
            **dict.fromkeys((*SKIPPED.values(), *APPLIED.values()), ("adopt",)),
            "adopt": ("moderator",),
            "moderator": ("human_review",),
            "human_review": ("finalize",),
            "finalize": ("remember",),
            "remember": (END,),
        },
        switches={
            "validator": lambda p: p.enable_validator,
            "recall": routing.has_memory,
            **dict.fromkeys(_OF_CONTEST, lambda p: p.debates_contested),
            **{name: _speaks_in(protocol) for protocol, order in orders.items() for name in order},
            **dict.fromkeys(("judge", "review_context"), lambda p: p.enable_debate),
            **dict.fromkeys(
                ("ate_review", "atsa_review", "apply_reviews", "adopt"), lambda p: p.enable_stage2
            ),
            "validator_review": lambda p: p.enable_stage2 and p.enable_validator,
            "override_gate": routing.has_gate,
            SKIPPED["contradictory_memory"]: lambda p: p.memory.condition == "on",
            APPLIED["drop"]: lambda p: p.debate_override.allow_drop,
            "moderator": lambda p: p.enable_moderator,
            "human_review": routing.may_ask,
            "remember": routing.has_memory,
        },
        conditions=({} if p.stage1 == "joint" else {"ate": routing.searches_aspects})
        | ({} if always else {"human_review": routing.is_doubtful}),
    )
    return table if contests else table.only(lambda name: name not in _OF_CONTEST).reachable()


def _speaks_in(protocol: DebateProtocol) -> routing.Switch:
    return lambda p: p.enable_debate and p.debate.protocol == protocol


def variants(p: PipelineSettings) -> list[PipelineSettings]:
    """The settings that a run's context can select, as far as they change the edges."""
    toggles = ("validator", "stage2", "debate", "debate_override", "moderator")
    protocols: tuple[DebateProtocol, ...] = ("patch", "persona")
    return [
        p.model_copy(
            update={
                **{f"enable_{name}": name in on for name in toggles},
                "human_review": human_review,
                "memory": p.memory.model_copy(update={"condition": memory}),
                "debate": p.debate.model_copy(update={"protocol": protocol}),
                "debate_override": p.debate_override.model_copy(update={"allow_drop": True}),
            }
        )
        for size in range(len(toggles) + 1)
        for on in combinations(toggles, size)
        for human_review in ("off", "on_conflict")
        for memory in ("off", "on")
        for protocol in protocols
    ]
