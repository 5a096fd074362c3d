"""The baselines: one joint call (`single`), or a majority over several calls (`vote`)."""

from __future__ import annotations

from langgraph.graph import END, START

from graph import routing
from graph.table import Choice, Table, table_nodes
from nodes.extract import extract
from nodes.finalize import finalize
from nodes.human_review import human_review
from nodes.intake import intake
from nodes.vote import vote as count_tuples
from schemas.settings import PipelineSettings


def vote(p: PipelineSettings) -> Table:
    """The table of `single` and `vote`."""
    return Table(
        nodes=table_nodes(intake, extract, count_tuples, human_review, finalize),
        edges={
            START: ("intake",),
            "intake": Choice.of(routing.all_calls, "extract"),
            "extract": ("vote",),
            "vote": ("human_review",),
            "human_review": ("finalize",),
            "finalize": (END,),
        },
        switches={"human_review": routing.may_ask},
    )
