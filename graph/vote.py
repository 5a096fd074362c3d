"""The baselines: one joint call (`single`), or a majority over several calls (`vote`)."""

from __future__ import annotations

from langgraph.graph import END, START

from absa.graph import routing
from absa.graph.table import Choice, Table, table_nodes
from absa.nodes.extract import extract
from absa.nodes.finalize import finalize
from absa.nodes.human_review import human_review
from absa.nodes.intake import intake
from absa.nodes.vote import vote as count_tuples
from absa.schemas.settings import PipelineSettings


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
