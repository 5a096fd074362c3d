"""A graph as data: nodes, edges, and the conditions under which a node is used.

The table of a protocol has all nodes that the protocol can use. Two kinds of conditions leave out
some of them:

- `switches` read only the settings: `validator` is used if `enable_validator` is set.
- `conditions` also read the state of one text: `human_review` is used if a doubt is left.

An edge to a node that is left out leads to the nodes after it. If an edge leads to several parallel
nodes, one that is left out is dropped as long as another one remains.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_type_hints

from langgraph.graph import END, START
from langgraph.types import Send

from absa.nodes.agent import Agent, Variants
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import State, state_schema

Router = Callable[[State, PipelineSettings], Sequence[str | Send]]


@dataclass(frozen=True)
class Rule:
    """A node that computes a state update by `function(state)` or `function(state, pipeline)`."""

    name: str
    function: Callable[..., Any]
    # It can block, for example on a store. Async runs call it in a thread.
    blocking: bool = False
    # A user wrote it, so its update is checked for unknown keys.
    own: bool = False

    @cached_property
    def takes_settings(self) -> bool:
        """Whether the function has a second parameter."""
        return len(inspect.signature(self.function).parameters) > 1

    def __call__(self, state: State, pipeline: PipelineSettings) -> Any:
        """Compute the update for this state."""
        if self.takes_settings:
            return self.function(state, pipeline)
        return self.function(state)

    @property
    def writes(self) -> frozenset[str]:
        """The state keys of the update, from the function's type hints."""
        update = get_type_hints(self.function).get("return")
        return frozenset(getattr(update, "__annotations__", {}))


Node = Agent[Any] | Variants | Rule


@dataclass(frozen=True)
class Choice:
    """Edges from which a router selects for every text.

    The router returns words, and `ways` maps each word to its target. If the node itself is left
    out, edges to it lead to the target of the last way. With `labelled`, the drawing shows an edge
    for every word, and a word whose node is left out is left out, too.
    """

    router: Router
    ways: Mapping[str, tuple[str, ...]]
    labelled: bool = False

    @classmethod
    def of(cls, router: Router, *targets: str) -> Choice:
        """A choice whose router returns names of nodes."""
        return cls(router, {target: (target,) for target in targets})

    def picked(self, state: State, pipeline: PipelineSettings) -> list[str | Send]:
        """The nodes that the router selects for this text."""
        picked: list[str | Send] = []
        for word in self.router(state, pipeline):
            picked += [word] if isinstance(word, Send) else self.ways[word]
        return picked


Route = tuple[str, ...] | Choice


@dataclass(frozen=True)
class Table:
    """The nodes of a graph and the edges between them."""

    nodes: Mapping[str, Node]
    edges: Mapping[str, Route]
    switches: Mapping[str, Callable[[PipelineSettings], bool]] = field(default_factory=dict)
    conditions: Mapping[str, Callable[[State, PipelineSettings], bool]] = field(
        default_factory=dict
    )

    def is_used(self, name: str, state: State, pipeline: PipelineSettings) -> bool:
        """Whether the node is used for this text under these settings."""
        if name in self.switches and not self.switches[name](pipeline):
            return False
        return name not in self.conditions or self.conditions[name](state, pipeline)

    def next(self, source: str, state: State, pipeline: PipelineSettings) -> list[str | Send]:
        """The nodes that run after `source` for this text, without nodes that are left out."""
        route = self.edges[source]
        picked = route.picked(state, pipeline) if isinstance(route, Choice) else route
        sends = [target for target in picked if isinstance(target, Send)]
        names = tuple(target for target in picked if isinstance(target, str))
        used = self.follow(names, lambda name: self.is_used(name, state, pipeline))
        return [*sends, *used]

    def targets(self, source: str) -> tuple[str, ...]:
        """All nodes that the edges of `source` name."""
        route = self.edges.get(source, ())
        if isinstance(route, Choice):
            return _once(target for way in route.ways.values() for target in way)
        return route

    def after(self, name: str) -> tuple[str, ...]:
        """The target of an edge to `name` if the node is left out."""
        route = self.edges.get(name, ())
        return list(route.ways.values())[-1] if isinstance(route, Choice) else route

    def follow(self, names: Sequence[str], is_used: Callable[[str], bool]) -> tuple[str, ...]:
        """The nodes that an edge to `names` reaches, without nodes that are left out."""
        used = tuple(name for name in names if name == END or is_used(name))
        if used or not names:
            return used
        return self.follow(_once(n for name in names for n in self.after(name)), is_used)

    def possible(self, names: Sequence[str]) -> tuple[str, ...]:
        """All nodes that an edge to `names` can reach, for all outcomes of the conditions."""
        if not all(name in self.conditions for name in names):
            return tuple(names)
        further = _once(n for name in names for n in self.after(name))
        return _once((*names, *(self.possible(further) if further else ())))

    def may_follow(self, source: str) -> tuple[str, ...]:
        """All nodes that can follow `source`, for all outcomes of the conditions."""
        route = self.edges[source]
        ways = route.ways.values() if isinstance(route, Choice) else [route]
        return _once(name for way in ways for name in self.possible(way))

    def state_schema(self, own_keys: Mapping[str, Any] | None = None) -> type[Any]:
        """The state schema for these nodes, with the keys that a user's nodes declare."""
        with_answers = any(getattr(node, "writes", "") is None for node in self.nodes.values())
        return state_schema(self.nodes, own_keys or {}, with_answers=with_answers)

    def only(self, is_used: Callable[[str], bool]) -> Table:
        """The table without nodes that are left out; edges lead past them."""

        def past(route: Route) -> Route:
            if not isinstance(route, Choice):
                return self.follow(route, is_used)
            kept = {
                word: self.follow(way, is_used)
                for word, way in route.ways.items()
                if not route.labelled or all(map(is_used, way))
            }
            return replace(route, ways=kept)

        edges = {source: past(route) for source, route in self.edges.items()}
        return replace(self, edges=edges)

    def under(self, pipeline: PipelineSettings) -> Table:
        """The table for fixed settings: only reachable nodes, without switches."""
        fixed = self.only(lambda name: name not in self.switches or self.switches[name](pipeline))
        return replace(fixed, switches={}).reachable()

    def reachable(self) -> Table:
        """The table without unreachable nodes."""
        seen, todo = {START}, [START]
        while todo:
            new = [name for name in self.targets(todo.pop()) if name not in seen]
            seen.update(new)
            todo += new
        return replace(
            self,
            nodes={name: node for name, node in self.nodes.items() if name in seen},
            edges={source: route for source, route in self.edges.items() if source in seen},
            conditions={name: test for name, test in self.conditions.items() if name in seen},
        )


def table_nodes(*nodes: Node | Callable[..., Any]) -> dict[str, Node]:
    """Nodes by name. A rule's function becomes a node with the function's name."""
    named: list[Node] = [
        n if isinstance(n, Agent | Variants | Rule) else Rule(n.__name__, n) for n in nodes
    ]
    return {node.name: node for node in named}


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
