"""Compiles a table to a LangGraph graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import RetryPolicy

from absa.graph.steps import AgentStep, RouteStep, RuleStep, SettingsInForce, WithOwnFiles, typed
from absa.graph.table import Choice, Rule, Table
from absa.nodes.assets import OwnFiles
from absa.nodes.human_review import human_review, pending_review
from absa.schemas.backend import Backend
from absa.schemas.context import context_for
from absa.schemas.errors import BackendError
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import (
    InputState,
    MemoryInputState,
    OutputState,
    ReaderInputState,
    State,
    blank_state,
)

# Routers bound the loops (rounds, aspects at the gate). LangGraph's default recursion limit would
# end a long debate with a misleading error.
RECURSION_LIMIT = 1_000_000

Router = Callable[[State, PipelineSettings], list[Any]]


class Graph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that a notebook draws without a network."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        # LangGraph's own bundle sends the graph to a web service that draws it.
        bundle: dict[str, Any] = import_module(_NOTEBOOK).graph_bundle(self)
        return bundle


# Imported by name when a notebook asks: the wiring does not depend on the rooms above it.
_NOTEBOOK = "absa.notebook"


def compile_table(
    table: Table,
    pipeline: PipelineSettings,
    backend: Backend,
    *,
    name: str = "absa",
    store: BaseStore | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    interactive: bool = False,
    switchable_to: Sequence[PipelineSettings] = (),
    own_keys: Mapping[str, Any] | None = None,
    own_files: OwnFiles | None = None,
) -> Graph:
    """Compile the table. `Wiring.compile` explains the arguments.

    A table of fixed settings (`Table.under`) has no switches. If the edges of a graph read the
    context of each run, `switchable_to` lists the settings that a context can select.
    """
    switchable = bool(switchable_to)
    has_memory = "recall" in table.nodes
    schema = table.state_schema(own_keys)
    keys = schema.__annotations__
    can_wait = interactive or checkpointer is not None
    settings = SettingsInForce(pipeline, switchable=switchable, editable=can_wait)
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(
        schema,
        context_schema=context_for(pipeline) if switchable else None,
        input_schema=_input_of(table),
        output_schema=OutputState,
    )
    retry = RetryPolicy(retry_on=lambda e: isinstance(e, BackendError) and e.retryable)
    for node in table.nodes.values():
        if not isinstance(node, Rule):
            step: Any = _with(own_files, AgentStep(node, backend, settings))
            graph.add_node(node.name, step, retry_policy=retry)
            continue
        if node.name == "intake":
            node = _with_blank_state(node, settings, keys)
        elif not can_wait:
            node = without_person(node)
        graph.add_node(node.name, _with(own_files, RuleStep(node, settings, keys)))
    variants = [table.under(other) for other in switchable_to] or [table]
    for source in (START, *table.nodes):
        _add_edges(
            graph, table, source, variants, lambda r: _with(own_files, RouteStep(r, settings))
        )
    if has_memory and store is None and not interactive:
        store = InMemoryStore()
    compiled = graph.compile(name=name, store=store, checkpointer=checkpointer)
    parts = {key: part for key, part in vars(compiled).items() if key != "__orig_class__"}
    return Graph(**parts).with_config(recursion_limit=RECURSION_LIMIT)


def _input_of(table: Table) -> type[Any]:
    if "recall" in table.nodes:
        return MemoryInputState
    return ReaderInputState if "compare" in table.nodes else InputState


def _with(own_files: OwnFiles | None, step: Runnable[Any, Any]) -> Runnable[Any, Any]:
    return WithOwnFiles(step, own_files) if own_files else step


def _with_blank_state(intake: Rule, settings: SettingsInForce, keys: Mapping[str, Any]) -> Rule:
    """The first node, which also resets the state and rejects an unsupported context."""

    def checked(state: State, pipeline: PipelineSettings) -> dict[str, Any]:
        settings.check_context()
        return {
            **blank_state(keys),
            # What comes in from outside may be plain JSON.
            **{k: v for k, v in intake(typed(state), pipeline).items() if k in keys},
        }

    return replace(intake, function=checked)


def without_person(rule: Rule) -> Rule:
    """The rule for a graph that cannot wait: the question is only recorded."""
    return replace(rule, function=pending_review) if rule.function is human_review else rule


def _add_edges(
    graph: StateGraph[Any, Any, Any, Any],
    table: Table,
    source: str,
    variants: Sequence[Table],
    step: Callable[[Router], Runnable[Any, Any]],
) -> None:
    """Add plain edges to nodes that always follow, and a router with a path map for the others."""
    route = table.edges[source]
    if isinstance(route, Choice) and route.labelled:
        words = step(lambda state, p: list(route.router(state, p)))
        graph.add_conditional_edges(source, words, {w: way[0] for w, way in route.ways.items()})
        return
    fixed = [variant for variant in variants if source in variant.edges]
    possible = list(dict.fromkeys(name for v in fixed for name in v.may_follow(source)))
    plain = () if isinstance(route, Choice) else possible
    # A list, because `Send` objects of a router are not hashable.
    certain = [
        name
        for name in plain
        if all(name in v.targets(source) and name not in v.conditions for v in fixed)
    ]
    for name in certain:
        graph.add_edge(source, name)
    if chosen := [name for name in possible if name not in certain]:
        router = step(
            lambda state, p: [t for t in table.next(source, state, p) if t not in certain]
        )
        graph.add_conditional_edges(source, router, chosen)
