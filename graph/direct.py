"""Runs a table without LangGraph, with the same nodes, edges and reducers, for replays.

LangGraph costs several milliseconds per text, for streaming, checkpoints and retries. A replay of
recorded answers needs none of them. `tests/test_direct.py` checks that the graph and the direct run
give the same output.

A sweep replays one text under many settings. `Decisions` caches the update of each node for each
state, together with the settings that the node read. A node runs again only if its state or one of
these settings differs. Sweeps over the gate's settings share everything before the gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, get_type_hints

from langgraph.graph import END, START
from langgraph.types import Overwrite

from absa.graph.compile import without_person
from absa.graph.table import Choice, Node, Rule, Table
from absa.nodes.assets import OwnFiles, using
from absa.schemas.backend import Backend
from absa.schemas.output import FinalOutput
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import InputState, OutputState, State, blank_state, merge

Values = dict[str, Any]

_HINTS = get_type_hints(State, include_extras=True)
_INPUTS = (*InputState.__annotations__, "reader_trust")
_MERGED = frozenset(k for k, hint in _HINTS.items() if merge in getattr(hint, "__metadata__", ()))


@dataclass(eq=False)
class DirectGraph:
    """The nodes and edges of fixed settings; `Wiring.direct` makes one."""

    table: Table
    pipeline: PipelineSettings
    backend: Backend
    own_files: OwnFiles | None = None

    def __post_init__(self) -> None:
        """Prepare everything that is equal for all texts."""
        self.nodes: dict[str, Node] = {
            name: without_person(node) if isinstance(node, Rule) else node
            for name, node in self.table.nodes.items()
        }
        blank = blank_state(self.table.state_schema().__annotations__)
        self.blank = {k: v.value if isinstance(v, Overwrite) else v for k, v in blank.items()}
        # Most edges depend neither on the text nor on the settings.
        self._fixed = {
            source: [Task(name, {}) for name in sorted(route) if name != END]
            for source, route in self.table.edges.items()
            if not isinstance(route, Choice) and self.table.conditions.keys().isdisjoint(route)
        }

    def invoke(self, given: Mapping[str, Any]) -> OutputState:
        """The output for one text, in the same form as from a compiled graph."""
        return {"output": Decisions(given).under(self)}

    def next(self, source: str, state: Values) -> list[Task]:
        """The tasks after `source`."""
        if source in self._fixed:
            return self._fixed[source]
        targets = self.table.next(source, cast(State, state), self.pipeline)
        return [
            Task(target, {})
            if isinstance(target, str)
            else Task(target.node, {k: v for k, v in target.arg.items() if state.get(k) is not v})
            for target in targets
            if target != END
        ]


class Task(NamedTuple):
    """A node to run next, with the state changes of a router's `Send`."""

    name: str
    sent: Values


class Decisions:
    """Caches the updates of nodes for one text under several settings of one protocol.

    Nodes of the same name must be the same in all graphs. That holds if no setting that changes an
    agent's prompt differs.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = {key: given[key] for key in _INPUTS if key in given}
        self._starts: dict[frozenset[str], _CachedState] = {}

    def under(self, graph: DirectGraph) -> FinalOutput:
        """The output under the settings of `graph`."""
        with using(graph.own_files) if graph.own_files else nullcontext():
            return cast(FinalOutput, self._last_state(graph)["output"])

    def _last_state(self, graph: DirectGraph) -> Values:
        keys = frozenset(graph.blank)
        if keys not in self._starts:
            self._starts[keys] = _CachedState({**graph.blank, **self._given})
        current = self._starts[keys]
        tasks = _in_order(graph.next(START, current.state))
        while tasks:
            updates = [current.update(task, graph) for task in tasks]
            following = current.after(updates)
            if len(tasks) == 1:
                tasks = _in_order(graph.next(tasks[0].name, following.state))
            else:
                # A router sees the update of its own node, not those of parallel nodes.
                tasks = _in_order(
                    next_task
                    for task, update in zip(tasks, updates, strict=True)
                    for next_task in graph.next(task.name, _applied(current.state, [update]))
                )
            current = following
        return current.state


class _CachedUpdate(NamedTuple):
    """The update of a node, and the settings that it read."""

    task: Task
    read: Mapping[str, Any]
    update: Values

    def holds(self, task: Task, pipeline: PipelineSettings) -> bool:
        return self.task == task and all(
            (now := getattr(pipeline, name)) is value or now == value
            for name, value in self.read.items()
        )


class _CachedState:
    """A state of the text, and the cached updates of nodes."""

    def __init__(self, state: Values) -> None:
        self.state = state
        self._runs: dict[str, list[_CachedUpdate]] = {}
        self._after: dict[tuple[int, ...], _CachedState] = {}

    def update(self, task: Task, graph: DirectGraph) -> Values:
        """The node's update. The node runs only if no run under the same settings is cached."""
        runs = self._runs.setdefault(task.name, [])
        for run in runs:
            if run.holds(task, graph.pipeline):
                return run.update
        settings = _WatchedSettings(graph.pipeline)
        state = cast(State, {**self.state, **task.sent} if task.sent else self.state)
        made = _run_node(
            graph.nodes[task.name], state, cast(PipelineSettings, settings), graph.backend
        )
        # Equal updates become one object, so that the following nodes are shared, too.
        update = next((r.update for r in runs if r.task == task and r.update == made), made)
        runs.append(_CachedUpdate(task, settings.read, update))
        return update

    def after(self, updates: Sequence[Values]) -> _CachedState:
        """The state after these updates. Equal updates lead to the same state object."""
        key = tuple(map(id, updates))
        if key not in self._after:
            self._after[key] = _CachedState(_applied(self.state, updates))
        return self._after[key]


class _WatchedSettings:
    """Settings that record which of their fields are read."""

    def __init__(self, pipeline: PipelineSettings) -> None:
        self._pipeline = pipeline
        self.read: Values = {}

    def __getattr__(self, name: str) -> Any:
        value = self.read[name] = getattr(self._pipeline, name)
        return value


def _run_node(node: Node, state: State, pipeline: PipelineSettings, backend: Backend) -> Values:
    if isinstance(node, Rule):
        return dict(node(state, pipeline))
    agent = node.under(pipeline)
    question = agent.question(state, pipeline)
    return agent.take(state, question, backend.ask(question), elapsed_ms=0.0)


def _applied(state: Values, updates: Iterable[Values]) -> Values:
    after = dict(state)
    for update in updates:
        for key, value in update.items():
            after[key] = merge(after[key], value) if key in _MERGED else value
    return after


def _in_order(tasks: Iterable[Task]) -> list[Task]:
    """Each task once, in the order in which LangGraph applies the updates: nodes by their names."""
    once: list[Task] = []
    for task in tasks:
        if task not in once:
            once.append(task)
    return sorted(once, key=lambda task: task.name) if len(once) > 1 else once
