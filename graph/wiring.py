"""The nodes and edges of a graph as data, which a user can change before compiling."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START
from langgraph.store.base import BaseStore

from absa.graph.compile import Graph, compile_table
from absa.graph.conflict_review import conflict_review
from absa.graph.debate import debate
from absa.graph.direct import DirectGraph
from absa.graph.selective import selective
from absa.graph.steps import nearest
from absa.graph.table import Choice, Node, Route, Rule, Table
from absa.graph.vote import vote
from absa.nodes import assets
from absa.nodes.agent import Agent, Variants
from absa.nodes.assets import OwnFiles
from absa.schemas.answers import as_answer
from absa.schemas.backend import Backend
from absa.schemas.errors import WiringError
from absa.schemas.settings import SECOND_READER, PipelineSettings
from absa.schemas.state import STATE_KEYS, MemoryInputState, State

TABLES: Mapping[str, Callable[[PipelineSettings], Table]] = {
    "debate": debate,
    "conflict_review": conflict_review,
    "selective": selective,
    "single": vote,
    "vote": vote,
}
# State keys that every graph has.
_ALWAYS_WRITTEN = {*MemoryInputState.__annotations__, "reader_trust", "calls", "counts", "adoption"}

OwnNode = Agent[Any] | Callable[..., Any]


@dataclass(frozen=True)
class Wiring:
    """The nodes and edges of a graph. The methods for changes return a new `Wiring`.

    Mistakes are collected, and `compile` raises them together as one `WiringError`.
    """

    pipeline: PipelineSettings
    table: Table
    # Make the backend and open the store if `compile` gets none.
    default_backend: Callable[[], Backend] | None = None
    open_store: Callable[[], AbstractContextManager[BaseStore | None]] = nullcontext
    # Whether a node or an edge was changed.
    is_changed: bool = False
    # Adds the embedded analyzer for `second_reader` to any backend.
    with_reader: Callable[[Backend], Backend] = lambda backend: backend
    own_nodes: frozenset[str] = frozenset()
    own_files: OwnFiles | None = None
    own_keys: Mapping[str, Any] = field(default_factory=dict)
    mistakes: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(self.table.nodes)

    @property
    def edges(self) -> dict[str, tuple[str, ...]]:
        """The nodes that can follow each node. START and END are LangGraph's names."""
        return {source: self.table.may_follow(source) for source in self.table.edges}

    def replace(
        self, name: str, node: OwnNode, *, writes: Mapping[str, Any] | None = None
    ) -> Wiring:
        """Replace the node `name`; its edges stay.

        `node` is a function from the state to an update (plain or async; a second parameter gets
        the pipeline settings) or an `Agent`. `writes` declares your state keys with their types.
        """
        if name not in self.table.nodes:
            return self._mistaken(self._unknown(name))
        return self._with_node(name, node, writes or {}, self.table.edges)

    def insert(
        self,
        name: str,
        node: OwnNode,
        *,
        after: str,
        before: str | None = None,
        writes: Mapping[str, Any] | None = None,
    ) -> Wiring:
        """Insert a new node into the edge from `after` to `before`.

        Without `before`, the new node takes over all edges of `after`.
        """
        edges = self.table.edges
        unknown = [n for n in (after, before) if n is not None and not self._has(n)]
        if unknown:
            return self._mistaken(*map(self._unknown, unknown))
        if before is not None and before not in self.table.targets(after):
            leads = ", ".join(map(repr, self.table.targets(after)))
            return self._mistaken(
                f"no edge leads from {after!r} to {before!r}: it leads to {leads}"
            )
        if name in self.table.nodes:
            return self._mistaken(
                f"a node {name!r} exists already: choose another name, or use replace()"
            )
        if before is None:
            changed = {**edges, after: (name,), name: edges[after]}
        else:
            changed = {**edges, after: _renamed(edges[after], before, name), name: (before,)}
        return self._with_node(name, node, writes or {}, changed)

    def remove(self, name: str) -> Wiring:
        """Remove a node. Edges to it lead to the nodes after it."""
        if name not in self.table.nodes:
            return self._mistaken(self._unknown(name))
        left = self.table.only(lambda other: other != name)
        left = replace(
            left,
            nodes={other: node for other, node in left.nodes.items() if other != name},
            edges={source: route for source, route in left.edges.items() if source != name},
        )
        return replace(self, table=left, is_changed=True, own_nodes=self.own_nodes - {name})

    def rewire(
        self, source: str, *targets: str, by: Callable[[State], Any] | None = None
    ) -> Wiring:
        """Replace the edges of `source` by edges to `targets`, which run in parallel.

        With the router `by`, a function from the state to the name (or names) of the next nodes,
        only those run.
        """
        unknown = [n for n in (source, *targets) if not self._has(n)]
        if unknown or not targets:
            mistakes = list(map(self._unknown, unknown))
            mistakes += [] if targets else [f"rewire({source!r}) needs at least one target"]
            return self._mistaken(*mistakes)
        route: Route = targets if by is None else Choice.of(_listed(by), *targets)
        table = replace(self.table, edges={**self.table.edges, source: route})
        return replace(self, table=table, is_changed=True)

    def compile(
        self,
        *,
        backend: Backend | None = None,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        store: BaseStore | None = None,
        name: str = "absa",
        interactive: bool = False,
    ) -> Graph:
        """Compile the graph.

        Args:
            backend: Answers for the agents; default: the backend of the settings.
            checkpointer: Lets the graph wait for a person (`pipeline.human_review`).
            store: Keeps the episodes of memory; default: the store of the settings.
            name: The name of the graph.
            interactive: Set this for LangGraph's server. It has its own checkpointer and store and
                rejects a graph with others; with this flag the graph still waits for a person.

        Raises:
            WiringError: The graph is invalid; the message lists all reasons.
        """
        if mistakes := (*self.mistakes, *self._mistakes_of_the_whole()):
            raise WiringError("; ".join(mistakes))
        if backend is None:
            if self.default_backend is None:
                raise WiringError("compile needs a backend: pass `backend=`")
            backend = self.default_backend()
        table = self.table.reachable()
        _check_playable(backend, table, self.pipeline)
        opened = ExitStack()
        if store is None and not interactive and "recall" in table.nodes:
            store = opened.enter_context(self.open_store())
        graph = compile_table(
            table,
            self.pipeline,
            self._answering(table, backend),
            name=name,
            store=store,
            checkpointer=checkpointer,
            interactive=interactive,
            own_keys=self.own_keys,
            own_files=self.own_files,
        )
        # The store is closed when the graph is garbage collected.
        weakref.finalize(graph, opened.close)
        return graph

    def direct(self, backend: Backend) -> DirectGraph:
        """The same nodes and edges without LangGraph, for a backend of recorded answers.

        Raises:
            WiringError: The wiring has memory, or a user's nodes or edges.
        """
        if why := self.only_as_graph:
            raise WiringError(f"this wiring runs only as a compiled graph: {why}")
        table = self.table.reachable()
        return DirectGraph(table, self.pipeline, self._answering(table, backend), self.own_files)

    def _answering(self, table: Table, backend: Backend) -> Backend:
        return self.with_reader(backend) if SECOND_READER in table.nodes else backend

    @property
    def only_as_graph(self) -> str | None:
        """The reason why this wiring needs LangGraph; None if it can run directly."""
        if "recall" in self.table.nodes:
            return "memory is on"
        if self.is_changed:
            return "its nodes or edges are not the shipped ones"
        return None

    def _has(self, name: str) -> bool:
        return name in (START, END) or name in self.table.nodes

    def _unknown(self, name: str) -> str:
        return f"the graph has no node {name!r}{nearest(name, self.table.nodes)}"

    def _mistaken(self, *mistakes: str) -> Wiring:
        return replace(self, mistakes=(*self.mistakes, *mistakes))

    def _with_node(
        self, name: str, node: OwnNode, writes: Mapping[str, Any], edges: Mapping[str, Route]
    ) -> Wiring:
        mistakes = []
        if name in STATE_KEYS or name in self.own_keys:
            mistakes.append(f"{name!r} is already a state key: choose another name for the node")
        if taken := [key for key in writes if key in STATE_KEYS]:
            keys = ", ".join(map(repr, taken))
            mistakes.append(f"the state already has {keys}: remove it from writes")
        made: Node
        if isinstance(node, Agent):
            if node.name != name:
                mistakes.append(
                    f"the agent's name {node.name!r} differs from its node's name {name!r}"
                )
            mistakes += _prompt_mistakes(node)
            made = node
        else:
            is_async = asyncio.iscoroutinefunction(node)
            made = Rule(name, node, blocking=not is_async, own=True)
        table = replace(self.table, nodes={**self.table.nodes, name: made}, edges=edges)
        return replace(
            self,
            table=table,
            is_changed=True,
            own_nodes=self.own_nodes | {name},
            own_keys={**self.own_keys, **writes},
            mistakes=(*self.mistakes, *mistakes),
        )

    def _mistakes_of_the_whole(self) -> Iterator[str]:
        reachable = self.table.reachable()
        for name in sorted(self.own_nodes - reachable.nodes.keys()):
            yield f"no edge leads to your node {name!r}: insert it, or rewire an edge to it"
        if END not in {t for source in reachable.edges for t in reachable.targets(source)}:
            yield "no path leads to the end of the graph"
        for source in reachable.nodes:
            if not reachable.targets(source):
                yield f"no edge leaves {source!r}: rewire it to the next node"
        if cycle := _plain_cycle(reachable):
            yield f"{' -> '.join(cycle)} is a cycle without a router, so it would never end"
        written = _written(reachable.nodes.values()) | self.own_keys.keys() | _ALWAYS_WRITTEN
        for node in reachable.nodes.values():
            if isinstance(node, Agent) and not callable(node.sees):
                for key in node.sees:
                    if key not in written:
                        yield (
                            f"the agent {node.name!r} sees {key!r}, which no node of this graph "
                            f"writes{nearest(key, written)}"
                        )


def wiring(pipeline: PipelineSettings) -> Wiring:
    """The nodes and edges of these settings, without parts that are switched off."""
    return Wiring(pipeline, TABLES[pipeline.protocol](pipeline).under(pipeline))


def _renamed(route: Route, old: str, new: str) -> Route:
    def way(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(new if name == old else name for name in names)

    if isinstance(route, Choice):
        return replace(route, ways={word: way(names) for word, names in route.ways.items()})
    return way(route)


def _listed(by: Callable[[State], Any]) -> Callable[[State, PipelineSettings], list[str]]:
    def router(state: State, pipeline: PipelineSettings) -> list[str]:
        chosen = by(state)
        return [chosen] if isinstance(chosen, str) else list(chosen)

    return router


def _written(nodes: Iterable[Node]) -> frozenset[str]:
    keys: set[str] = set()
    for node in nodes:
        if isinstance(node, Rule):
            keys |= node.writes
        elif node.writes is not None:
            keys.add(node.writes)
        else:
            is_shared = isinstance(node, Agent) and node.shared
            keys |= {"answers", "shared_answers"} if is_shared else {"answers"}
    return frozenset(keys)


def _prompt_mistakes(agent: Agent[Any]) -> Iterator[str]:
    source = agent.prompt or agent.name
    if isinstance(source, str) and len(source.split()) == 1 and source not in assets.prompt_names():
        yield (
            f"the agent {agent.name!r} has no prompt: {source!r} is not a shipped one"
            f"{nearest(source, assets.prompt_names())}; pass the text, or the Path of a file"
        )
    elif not isinstance(source, str) and not source.is_file():
        yield f"the prompt of the agent {agent.name!r} is not a file: {source}"


def _plain_cycle(table: Table) -> list[str]:
    """The names on a cycle of edges without a router; empty if there is none."""
    done: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        route = table.edges.get(name, ())
        if name in done or isinstance(route, Choice):
            return []
        for target in route:
            if cycle := search(target, [*path, name]):
                return cycle
        done.add(name)
        return []

    return search(START, [])


def _check_playable(backend: Backend, table: Table, pipeline: PipelineSettings) -> None:
    """Raise an error for agents that the backend cannot answer for, before the first text."""
    can_play = getattr(backend, "can_play", None)
    if can_play is None:
        return
    nodes = table.nodes.values()
    agents = [node.under(pipeline) for node in nodes if isinstance(node, Agent | Variants)]
    if missing := [a.name for a in agents if not can_play(a.role, as_answer(cast(Any, a.answer)))]:
        raise WiringError(
            f"the offline analyzer cannot answer for {', '.join(map(repr, missing))}: it supports "
            "only the shipped agents; use backend.kind openai, or remove the agent"
        )
