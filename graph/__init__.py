"""The graphs: one module per protocol with its table of nodes and edges."""

from typing import Any

from absa.graph.compile import Graph, compile_table
from absa.graph.debate import debate, variants
from absa.graph.direct import Decisions, DirectGraph
from absa.graph.wiring import Wiring, wiring
from absa.nodes.assets import OwnFiles
from absa.schemas.backend import Backend
from absa.schemas.settings import PipelineSettings

__all__ = ["Decisions", "DirectGraph", "Graph", "Wiring", "build", "build_switchable", "wiring"]


def build(pipeline: PipelineSettings, backend: Backend, **options: Any) -> Graph:
    """Build the graph of these settings; `Wiring.compile` explains the options."""
    return wiring(pipeline).compile(backend=backend, **options)


def build_switchable(
    pipeline: PipelineSettings, backend: Backend, *, own_files: OwnFiles | None = None
) -> Graph:
    """Build a graph with all parts of the debate behind conditional edges that read the context.

    This is the graph that Studio offers.
    """
    return compile_table(
        debate(pipeline, switchable=True),
        pipeline,
        backend,
        interactive=True,
        switchable_to=variants(pipeline),
        own_files=own_files,
    )
