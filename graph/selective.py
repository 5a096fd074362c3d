"""`selective`: one call and the embedded analyzer; more calls only if the two differ."""

from __future__ import annotations

from langgraph.graph import END, START

from absa.graph import routing
from absa.graph.table import Choice, Table, table_nodes
from absa.nodes.extract import extract, extract_again
from absa.nodes.finalize import finalize
from absa.nodes.human_review import human_review
from absa.nodes.intake import intake
from absa.nodes.second_opinion import compare, fuse
from absa.nodes.second_reader import second_reader
from absa.schemas.settings import PipelineSettings


def selective(p: PipelineSettings) -> Table:
    """The table of `selective`."""
    always = p.human_review == "always"
    return Table(
        nodes=table_nodes(
            *(intake, extract, second_reader, compare, extract_again, fuse),
            *(human_review, finalize),
        ),
        edges={
            START: ("intake",),
            "intake": ("extract", "second_reader"),
            "extract": ("compare",),
            "second_reader": ("compare",),
            "compare": Choice(
                routing.after_compare,
                {
                    "contested": ("extract_again",),
                    "reader_alone": ("fuse",),
                    "agreed": ("human_review" if always else "finalize",),
                },
                labelled=True,
            ),
            "extract_again": ("fuse",),
            "fuse": ("human_review",),
            "human_review": ("finalize",),
            "finalize": (END,),
        },
        switches={"human_review": routing.may_ask},
    )
