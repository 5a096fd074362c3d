"""Conflict review: three perspectives, and three reviewers and an arbiter if they disagree."""

from __future__ import annotations

from langgraph.graph import END, START

from absa.graph import routing
from absa.graph.table import Choice, Node, Rule, Table, table_nodes
from absa.nodes.arbiter import arbiter, asking_arbiter
from absa.nodes.conflict_reviewers import REVIEWERS
from absa.nodes.count_votes import count_votes
from absa.nodes.finalize import finalize
from absa.nodes.human_review import human_review
from absa.nodes.intake import intake
from absa.nodes.merge_candidates import merge_candidates
from absa.nodes.perspectives import PERSPECTIVES
from absa.nodes.recall import recall
from absa.nodes.remember import remember
from absa.schemas.settings import PipelineSettings


def conflict_review(p: PipelineSettings) -> Table:
    """The table of the conflict review."""
    perspectives = tuple(agent.name for agent in PERSPECTIVES)
    reviewers = tuple(agent.name for agent in REVIEWERS)
    always = p.human_review == "always"
    decides: Node = asking_arbiter if routing.asks_arbiter(p) else Rule("arbiter", arbiter)
    return Table(
        nodes=table_nodes(
            *PERSPECTIVES,
            *REVIEWERS,
            *(intake, merge_candidates, Rule("recall", recall, blocking=True)),
            *(count_votes, decides, human_review, finalize),
            Rule("remember", remember, blocking=True),
        ),
        edges={
            START: ("intake",),
            "intake": perspectives,
            **dict.fromkeys(perspectives, ("merge_candidates",)),
            # Without a flagged tuple there is nothing to decide.
            "merge_candidates": Choice(
                routing.after_merge,
                {"recall": ("recall",), "agreed": ("human_review" if always else "finalize",)},
            ),
            "recall": reviewers,
            **dict.fromkeys(reviewers, ("count_votes",)),
            "count_votes": Choice.of(routing.after_votes, "human_review", "arbiter"),
            "arbiter": ("human_review",),
            "human_review": ("finalize",),
            "finalize": ("remember",),
            "remember": (END,),
        },
        switches={
            "recall": routing.has_memory,
            "count_votes": routing.asks_arbiter,
            "human_review": routing.may_ask,
            "remember": routing.has_memory,
        },
        conditions={} if always else {"human_review": routing.is_doubtful},
    )
