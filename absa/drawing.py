"""Draws the graph as ASCII or SVG, without a network and without a layout library.

The layer of a node is its longest path from the start. An edge over several layers has a bend in
each layer that it passes. A loop, which leads back to an earlier node, is drawn beside the layers.
Many nodes between the same two nodes, such as the verdicts of the gate, are drawn as one list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from html import escape
from itertools import chain, pairwise
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree

from langchain_core.runnables.graph import Edge
from langchain_core.runnables.graph import Graph as Drawable
from langgraph.graph import END, START

from absa.graph.steps import AgentStep

Kind = Literal["terminal", "agent", "rule", "skip", "apply", "list"]

# The number of nodes between the same two nodes from which they are drawn as a list.
LISTED = 5


class Link(NamedTuple):
    """An edge. The label of a conditional edge names its case."""

    source: str
    target: str
    label: str = ""
    conditional: bool = False


class Segment(NamedTuple):
    """The part of an edge between two neighbouring layers."""

    source: str
    target: str
    link: Link


@dataclass
class Plan:
    """The nodes in layers with their edges; positions are not computed yet."""

    names: dict[str, str]
    kinds: dict[str, Kind]
    layers: list[list[str]]
    segments: list[list[Segment]]
    loops: list[Link]
    lists: dict[str, list[str]]
    # Places where an edge passes a layer; they stand in the layers like nodes.
    bends: dict[str, Link]

    def is_bend(self, item: str) -> bool:
        """Whether an item of a layer is a bend of an edge."""
        return item in self.bends

    def letters(self) -> dict[str, int]:
        """The width of each node in letters: the same for all nodes of a layer, except lists."""
        widths = {key: max(len(self.names[k]) for k in keys) for key, keys in self.lists.items()}
        for layer in self.layers:
            nodes = [key for key in layer if not self.is_bend(key) and key not in self.lists]
            widths |= dict.fromkeys(nodes, max((len(self.names[key]) for key in nodes), default=0))
        return widths

    def labels(self, depth: int) -> dict[str, str]:
        """The labels of the edges that leave a layer, by the item beside which they are drawn."""
        labels: dict[str, list[str]] = {}
        for segment in self.segments[depth]:
            if segment.link.label and not self.is_bend(segment.source):
                labels.setdefault(segment.target, []).append(segment.link.label)
        return {target: " / ".join(dict.fromkeys(texts)) for target, texts in labels.items()}


def draw_ascii(drawable: Drawable) -> str:
    """The drawing in ASCII characters."""
    return _Ascii(make_plan(drawable)).text()


def draw_svg(drawable: Drawable) -> str:
    """The drawing as an SVG document, for light and dark pages."""
    return _Svg(make_plan(drawable)).text()


def draw_elements(drawable: Drawable) -> list[Any]:
    """The drawing for a page with its own style sheet, with less distance between the layers.

    Every element is a list: its name, its attributes, then its children. A page whose policy
    forbids parsing markup can build it.
    """
    svg = _Svg(make_plan(drawable), band=_CLOSE_BAND, has_legend=False).text()
    return _as_lists(ElementTree.fromstring(svg))


def _as_lists(element: ElementTree.Element) -> list[Any]:
    children = [_as_lists(child) for child in element if not child.tag.endswith("}style")]
    text = (element.text or "").strip()
    return [
        element.tag.partition("}")[2],
        dict(element.attrib),
        *([text] if text else []),
        *children,
    ]


def closed(drawable: Drawable) -> Drawable:
    """The graph without the nodes of the lists, so that the gate is one box."""
    links = [Link(edge.source, edge.target) for edge in drawable.edges]
    lists = _lists(drawable.nodes, links)
    hidden = {key for keys in lists.values() for key in keys}
    edges = [
        edge
        for edge in drawable.edges
        if not {edge.source, edge.target} & hidden and (edge.source, edge.target) not in lists
    ]
    return Drawable(
        nodes={key: node for key, node in drawable.nodes.items() if key not in hidden},
        edges=[*edges, *(Edge(source, target) for source, target in lists)],
    )


# Layers -----------------------------------------------------------------------------------------


def make_plan(drawable: Drawable) -> Plan:
    """Put the nodes of a drawable graph into layers."""
    ends = {START: "start", END: "end"}
    names = {key: ends.get(node.name, node.name) for key, node in drawable.nodes.items()}
    edges = [Link(e.source, e.target, str(e.data or ""), e.conditional) for e in drawable.edges]
    links = list(dict.fromkeys(edges))
    kinds = {key: _kind(node.name, node.data) for key, node in drawable.nodes.items()}
    lists: dict[str, list[str]] = {}
    for (source, target), keys in _lists(names, links).items():
        listed = f"{source}*{target}"
        lists[listed] = keys
        kinds |= {key: "apply" if names[key].startswith("apply_") else "skip" for key in keys}
        kinds[listed] = "list"
        links = [link for link in links if link.source not in keys and link.target not in keys]
        links += [Link(source, listed, "", True), Link(listed, target)]
    hidden = {key for keys in lists.values() for key in keys}
    inner = [key for key in (*names, *lists) if key not in hidden]
    forward, loops = _split_loops(inner, links)
    layer_of = _longest_paths(inner, forward)
    layers: list[list[str]] = [[] for _ in range(max(layer_of.values(), default=0) + 1)]
    for key in inner:
        layers[layer_of[key]].append(key)
    bends: dict[str, Link] = {}
    segments = _segments(layers, layer_of, forward, bends)
    _untangle(layers, segments)
    return Plan(names, kinds, layers, segments, loops, lists, bends)


def _kind(name: str, data: Any) -> Kind:
    if name in (START, END):
        return "terminal"
    return "agent" if isinstance(data, AgentStep) else "rule"


def _lists(names: Iterable[str], links: Sequence[Link]) -> dict[tuple[str, str], list[str]]:
    """Groups of nodes with the same single source and the same single target."""
    lists: dict[tuple[str, str], list[str]] = {}
    for key in names:
        into = {link.source for link in links if link.target == key}
        out = {link.target for link in links if link.source == key}
        if len(into) == len(out) == 1 and into != out:
            lists.setdefault((into.pop(), out.pop()), []).append(key)
    return {ends: keys for ends, keys in lists.items() if len(keys) >= LISTED}


def _split_loops(nodes: Sequence[str], links: Sequence[Link]) -> tuple[list[Link], list[Link]]:
    """Forward edges, and edges that lead back to a node of their own path."""
    out: dict[str, list[Link]] = {key: [] for key in nodes}
    for link in links:
        out[link.source].append(link)
    forward: list[Link] = []
    loops: list[Link] = []
    done: set[str] = set()

    def visit(key: str, path: set[str]) -> None:
        done.add(key)
        for link in out[key]:
            if link.target in path or link.target == key:
                loops.append(link)
                continue
            forward.append(link)
            if link.target not in done:
                visit(link.target, path | {link.target})

    for key in nodes:
        if key not in done:
            visit(key, {key})
    return forward, loops


def _longest_paths(nodes: Sequence[str], forward: Sequence[Link]) -> dict[str, int]:
    sources: dict[str, list[str]] = {key: [] for key in nodes}
    for link in forward:
        sources[link.target].append(link.source)
    depth: dict[str, int] = {}
    for key in TopologicalSorter(sources).static_order():
        depth[key] = max((depth[source] + 1 for source in sources[key]), default=0)
    return depth


def _segments(
    layers: list[list[str]],
    layer_of: Mapping[str, int],
    forward: Sequence[Link],
    bends: dict[str, Link],
) -> list[list[Segment]]:
    """The edges in pieces from layer to layer; adds their bends to the layers."""
    segments: list[list[Segment]] = [[] for _ in layers]
    for link in forward:
        first, last = layer_of[link.source], layer_of[link.target]
        stops = [link.source]
        for layer in range(first + 1, last):
            bend = f"{link.source}>{link.target}@{layer}"
            layers[layer].append(bend)
            bends[bend] = link
            stops.append(bend)
        stops.append(link.target)
        for layer, (one, other) in enumerate(pairwise(stops), start=first):
            segments[layer].append(Segment(one, other, link))
    return segments


def _untangle(layers: list[list[str]], segments: Sequence[Sequence[Segment]]) -> None:
    """Order each layer by the positions of its neighbours, a few times down and up."""
    near = _neighbours(segments)
    for sweep in range(4):
        side = sweep % 2
        for layer in reversed(layers) if side else layers:
            place = {key: at / max(1, len(row) - 1) for row in layers for at, key in enumerate(row)}
            layer.sort(key=lambda key: _mean([place[k] for k in near[key][side]], place[key]))


def _neighbours(segments: Iterable[Iterable[Segment]]) -> Mapping[str, tuple[list[str], list[str]]]:
    """The neighbours of each item in the layer above and in the layer below."""
    near: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for segment in chain.from_iterable(segments):
        near[segment.target][0].append(segment.source)
        near[segment.source][1].append(segment.target)
    return near


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


_NODE_WEIGHT = 10_000.0

# Columns ----------------------------------------------------------------------------------------


class Reach(NamedTuple):
    """How far an item reaches to the left and right of its middle."""

    left: float
    right: float


def columns(plan: Plan, reach: Mapping[str, Reach], gap: float) -> dict[str, float]:
    """The middle of each item: near its neighbours, in order, and without overlaps."""
    x: dict[str, float] = {}
    for layer in plan.layers:
        x.update(_spread(plan, layer, dict.fromkeys(layer, 0.0), reach, gap))
    near = _neighbours(plan.segments)
    for sweep in range(12):
        side = sweep % 2
        for layer in reversed(plan.layers) if side else plan.layers:
            wanted = {key: _wanted(plan, x, near[key][side], x[key]) for key in layer}
            x.update(_spread(plan, layer, wanted, reach, gap))
    return x


def _wanted(plan: Plan, x: Mapping[str, float], near: Sequence[str], own: float) -> float:
    """The mean position of the neighbouring nodes, or of the bends if there are only bends."""
    nodes = [key for key in near if not plan.is_bend(key)]
    return _mean([x[key] for key in nodes or near], own)


def _spread(
    plan: Plan,
    layer: Sequence[str],
    wanted: Mapping[str, float],
    reach: Mapping[str, Reach],
    gap: float,
) -> dict[str, float]:
    """The positions nearest to the wanted ones that order and distances allow.

    A node counts for more than a bend: edges make way for the nodes.
    """
    offsets = [0.0]
    for one, other in pairwise(layer):
        offsets.append(offsets[-1] + reach[one].right + gap + reach[other].left)
    # Pools of neighbours that would overlap otherwise: position, weight and number of items.
    pools: list[tuple[float, float, int]] = []
    for key, offset in zip(layer, offsets, strict=False):
        place, weight, size = wanted[key] - offset, 1.0 if plan.is_bend(key) else _NODE_WEIGHT, 1
        while pools and pools[-1][0] > place:
            previous, previous_weight, previous_size = pools.pop()
            total = previous_weight + weight
            place = (previous * previous_weight + place * weight) / total
            weight, size = total, previous_size + size
        pools.append((place, weight, size))
    starts = [place for place, _, size in pools for _ in range(size)]
    return {k: start + off for k, start, off in zip(layer, starts, offsets, strict=False)}


def _buses(part: Sequence[Segment]) -> list[list[Segment]]:
    """Groups of segments that share a horizontal line: one source, or one target."""
    near = _neighbours([part])
    groups: dict[tuple[str, str], list[Segment]] = {}
    for segment in part:
        fans_in = len(set(near[segment.target][0])) > 1 and len(set(near[segment.source][1])) == 1
        key = ("to", segment.target) if fans_in else ("from", segment.source)
        groups.setdefault(key, []).append(segment)
    return list(groups.values())


def _stacked(
    buses: Iterable[list[Segment]], x: Mapping[str, float], near: float
) -> list[list[Segment]]:
    """The buses with a turn, from top to bottom, so that no line crosses a lower one's column."""
    left = [bus for bus in buses if any(abs(x[s.source] - x[s.target]) > near for s in bus)]

    def is_below(other: list[Segment], bus: list[Segment]) -> bool:
        return any(abs(x[s.target] - x[o.source]) <= near for s in bus for o in other)

    stacked: list[list[Segment]] = []
    while left:
        free = (bus for bus in left if not any(is_below(o, bus) for o in left if o is not bus))
        stacked.append(next(free, left[0]))
        left.remove(stacked[-1])
    return stacked


# ASCII ------------------------------------------------------------------------------------------

AGAIN = "again"  # the default label of a loop
_LEGEND = "=== agent (asks the backend)   --- rule"


def _upright(link: Link) -> str:
    return ":" if link.conditional else "|"


def _level(link: Link) -> str:
    return "." if link.conditional else "-"


class _Ascii:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.grid: dict[tuple[int, int], str] = {}
        self.rows: dict[str, tuple[int, int]] = {}
        labels = [plan.labels(depth) for depth in range(len(plan.layers))]
        incoming = {key: len(text) for by_key in labels for key, text in by_key.items()}
        self.letters = plan.letters()
        reach: dict[str, Reach] = {}
        for layer in plan.layers:
            for key in layer:
                half = 1 if plan.is_bend(key) else self.letters[key] // 2 + 3
                reach[key] = Reach(half, max(half, incoming.get(key, 0) + 2))
        self.x = {k: round(v) for k, v in columns(plan, reach, gap=3).items()}

    def text(self) -> str:
        row = 0
        for depth, layer in enumerate(self.plan.layers):
            height = max(self._height(key) for key in layer)
            for key in layer:
                if self.plan.is_bend(key):
                    self._bend(key, row, height)
                else:
                    self._box(key, row, height)
            row = self._edges(depth, row + height)
        for number, link in enumerate(self.plan.loops):
            self._loop(link, number)
        return self._lines()

    def _height(self, key: str) -> int:
        return 1 if self.plan.is_bend(key) else 2 + len(self.plan.lists.get(key, " "))

    def _bend(self, key: str, top: int, room: int) -> None:
        for row in range(top, top + room):
            self._put(row, self.x[key], _upright(self.plan.bends[key]))

    def _box(self, key: str, top: int, room: int) -> None:
        middle, width = self.x[key], self.letters[key]
        left = middle - (width + 4) // 2
        if key in self.plan.lists:
            names = [self.plan.names[k].ljust(width) for k in self.plan.lists[key]]
            corner, line, side = ".", ".", ":"
        else:
            names = [self.plan.names[key].center(width)]
            line = "=" if self.plan.kinds[key] == "agent" else "-"
            corner, side = "+", "|"
        border = f"{corner}{line * (width + 2)}{corner}"
        rows = [border, *(f"{side} {name} {side}" for name in names), border]
        for offset, text in enumerate(rows):
            self._write(top + offset, left, text)
        self.rows[key] = top, top + len(rows)
        for row in range(top + len(rows), top + room):
            self._put(row, middle, "|")

    def _edges(self, depth: int, top: int) -> int:
        """Draw the edges to the next layer; return its first row."""
        part = self.plan.segments[depth]
        if not part:
            return top
        buses = _buses(part)
        turning = _stacked(buses, self.x, near=0)
        arrow = top + max(1, len(turning))
        for bus in buses:
            row = top + turning.index(bus) if bus in turning else top
            for s in bus:
                self._segment(s, top, row, arrow)
        for s in part:
            tip = _upright(s.link) if self.plan.is_bend(s.target) else "v"
            self._put(arrow, self.x[s.target], tip)
        for target, label in self.plan.labels(depth).items():
            self._write(arrow, self.x[target] + 2, label)
        return arrow + 1

    def _segment(self, s: Segment, top: int, bus: int, arrow: int) -> None:
        one, other = self.x[s.source], self.x[s.target]
        upright, level = _upright(s.link), _level(s.link)
        for row in range(top, bus):
            self._put(row, one, upright)
        for row in range(bus, arrow):
            self._put(row, other, upright)
        if one != other:
            for column in range(min(one, other), max(one, other) + 1):
                if self.grid.get((bus, column)) not in ("+", "|", ":"):
                    self._put(bus, column, level)
            self._put(bus, one, "+")
            self._put(bus, other, "+")

    def _loop(self, link: Link, number: int) -> None:
        """Draw a loop from the right side of the source up to the right side of the target."""
        low, high = sum(self.rows[link.source]) // 2, sum(self.rows[link.target]) // 2
        if low == high:
            low += 1
        upright, level = _upright(link), _level(link)
        between = [c for (r, c) in self.grid if high <= r <= low]
        lane = max(between) + 4
        for row, key in ((low, link.source), (high, link.target)):
            edge = max(c for (r, c) in self.grid if r == row and c <= self._right(key))
            for column in range(edge + 1, lane):
                self.grid.setdefault((row, column), level)
            self._put(row, lane, "+")
            if key == link.target and row == high:
                self._put(row, edge + 1, "<")
        for row in range(high + 1, low):
            self._put(row, lane, upright)
        self._write((high + low) // 2, lane + 2, link.label or AGAIN)

    def _right(self, key: str) -> int:
        width = self.letters[key] + 4
        return self.x[key] - width // 2 + width - 1

    def _put(self, row: int, column: int, char: str) -> None:
        self.grid[row, column] = char

    def _write(self, row: int, column: int, text: str) -> None:
        for offset, char in enumerate(text):
            self._put(row, column + offset, char)

    def _lines(self) -> str:
        left = min(c for _, c in self.grid)
        last = max(r for r, _ in self.grid)
        rows: list[dict[int, str]] = [{} for _ in range(last + 1)]
        for (row, column), char in self.grid.items():
            rows[row][column - left] = char
        lines = ["".join(r.get(c, " ") for c in range(max(r, default=-1) + 1)) for r in rows]
        return "\n".join([*(line.rstrip() for line in lines), "", _LEGEND])


# SVG --------------------------------------------------------------------------------------------

_CHAR, _SMALL_CHAR = 7.9, 6.7
_HEIGHT, _PILL = 34.0, 22.0
_GAP, _PILL_GAP, _COLUMN = 26.0, 6.0, 14.0
_BAND, _CLOSE_BAND, _MARGIN, _ROUND = 36.0, 24.0, 24.0, 7.0

_STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  text-anchor: middle; fill: #1f2328 }
.small text { font-size: 11px }
text.note { font-size: 11px; fill: #59636e; text-anchor: start }
.page { fill: #ffffff }
.box rect { stroke-width: 1.5 }
.agent rect { fill: #ddf4ff; stroke: #0969da }
.rule rect { fill: #f6f8fa; stroke: #818b98 }
.terminal rect { fill: #ffffff; stroke: #818b98 }
.skip rect { fill: #fff8c5; stroke: #bf8700 }
.apply rect { fill: #dafbe1; stroke: #1a7f37 }
.frame { fill: #818b98; fill-opacity: 0.06; stroke: #818b98; stroke-dasharray: 2 4 }
.edge { fill: none; stroke: #59636e; stroke-width: 1.3 }
.maybe { stroke-dasharray: 5 4 }
.tip { fill: #59636e }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  text.note { fill: #9198a1 }
  .page { fill: #0d1117 }
  .agent rect { fill: #0c2d6b; stroke: #58a6ff }
  .rule rect { fill: #212830; stroke: #656c76 }
  .terminal rect { fill: #0d1117; stroke: #656c76 }
  .skip rect { fill: #2e2a1f; stroke: #9e6a03 }
  .apply rect { fill: #033a16; stroke: #2ea043 }
  .frame { fill: #9198a1; stroke: #656c76 }
  .edge { stroke: #9198a1 }
  .tip { fill: #9198a1 }
}
"""
_LEGEND_NAMES: dict[Kind, str] = {
    "agent": "agent",
    "rule": "rule",
    "skip": "gate skips",
    "apply": "gate overrides",
}


@dataclass
class _Box:
    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass
class _Svg:
    plan: Plan
    # The distance between two layers.
    band: float = _BAND
    has_legend: bool = True
    boxes: dict[str, _Box] = field(default_factory=dict)
    back: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    front: list[str] = field(default_factory=list)
    extent: list[float] = field(default_factory=list)
    bands: list[float] = field(default_factory=list)

    def text(self) -> str:
        self._place()
        for depth in range(len(self.plan.layers) - 1):
            self._band(depth)
        for number, link in enumerate(self.plan.loops):
            self._loop(link, number)
        for key in self.plan.names:
            self._draw_box(key)
        bottom = max(box.bottom for box in self.boxes.values())
        left, right = min(self.extent), max(self.extent)
        height = _MARGIN + (self._legend(left, right, bottom + 34) if self.has_legend else bottom)
        left, right = left - _MARGIN, max(*self.extent, right) + _MARGIN
        view = f"{left:.0f} {-_MARGIN:.0f} {right - left:.0f} {height + _MARGIN:.0f}"
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" '
                f'width="{right - left:.0f}" height="{height + _MARGIN:.0f}" role="img" '
                'aria-labelledby="absa-graph-title">',
                '<title id="absa-graph-title">The graph: agents, rules and the gate</title>',
                f"<style>{_STYLE}</style>",
                '<defs><marker id="absa-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
                'markerHeight="8" orient="auto">'
                '<path class="tip" d="M0 0.8 L7.5 4 L0 7.2 Z"/></marker></defs>',
                f'<rect class="page" x="{left:.0f}" y="{-_MARGIN:.0f}" '
                f'width="{right - left:.0f}" height="{height + _MARGIN:.0f}" rx="12"/>',
                *self.back,
                *self.edges,
                *self.front,
                "</svg>",
            ]
        )

    def _columns(self, key: str) -> list[list[str]]:
        """The columns of a list: verdicts that skip, and verdicts that apply a change."""
        keys = self.plan.lists[key]
        columns = [[k for k in keys if self.plan.kinds[k] == kind] for kind in ("skip", "apply")]
        return [column for column in columns if column]

    def _pill_width(self, keys: Sequence[str]) -> float:
        return max(len(self.plan.names[key]) for key in keys) * _SMALL_CHAR + 20

    def _place(self) -> None:
        reach, size, letters = {}, {}, self.plan.letters()
        for layer in self.plan.layers:
            for key in layer:
                if self.plan.is_bend(key):
                    reach[key], size[key] = Reach(6, 6), (0.0, 0.0)
                    continue
                width, height = letters[key] * _CHAR + 28, _HEIGHT
                if key in self.plan.lists:
                    parts = self._columns(key)
                    width = sum(self._pill_width(part) + _COLUMN for part in parts) + _COLUMN
                    height = max(map(len, parts)) * (_PILL + _PILL_GAP) + 2 * _COLUMN - _PILL_GAP
                reach[key] = Reach(width / 2, width / 2)
                size[key] = width, height
        x = columns(self.plan, reach, _GAP)
        y = 0.0
        for layer in self.plan.layers:
            height = max(size[key][1] for key in layer)
            for key in layer:
                width, own = size[key]
                if self.plan.is_bend(key):
                    own = height
                self.boxes[key] = _Box(x[key], y + (height - own) / 2, width, own)
                self.extent += [x[key] - reach[key].left, x[key] + reach[key].right]
                if key in self.plan.lists:
                    self._place_list(key)
            self.bands.append(y + height + self.band / 2)
            y += height + self.band

    def _place_list(self, key: str) -> None:
        frame = self.boxes[key]
        left = frame.left + _COLUMN
        for part in self._columns(key):
            width = self._pill_width(part)
            for row, listed in enumerate(part):
                top = frame.y + _COLUMN + row * (_PILL + _PILL_GAP)
                self.boxes[listed] = _Box(left + width / 2, top, width, _PILL)
            left += width + _COLUMN
        self.back.append(
            f'<rect class="frame" x="{frame.left:.1f}" y="{frame.y:.1f}" '
            f'width="{frame.width:.1f}" height="{frame.height:.1f}" rx="10"/>'
        )

    def _draw_box(self, key: str) -> None:
        box, kind = self.boxes[key], self.plan.kinds[key]
        small = kind in ("skip", "apply")
        radius = box.height / 2 if small or kind == "terminal" else 7
        name = escape(self.plan.names[key])
        self.front.append(
            f'<g class="box {kind}{" small" if small else ""}" data-node="{escape(key)}">'
            f'<rect x="{box.left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" rx="{radius:.1f}"/>'
            f'<text x="{box.x:.1f}" y="{box.middle:.1f}" dy="0.34em">{name}</text></g>'
        )

    def _band(self, depth: int) -> None:
        """The edges from one layer to the next."""
        buses = _buses(self.plan.segments[depth])
        turning = _stacked(buses, {key: box.x for key, box in self.boxes.items()}, near=1)
        for bus in buses:
            level = self.bands[depth]
            if bus in turning:
                level += (turning.index(bus) - (len(turning) - 1) / 2) * 7
            for segment in bus:
                self._segment(segment, level)
        for target, label in self.plan.labels(depth).items():
            self._note(label, self.boxes[target].x + 8, self.bands[depth] + self.band / 2 - 12)

    def _segment(self, s: Segment, level: float) -> None:
        one, other = self.boxes[s.source], self.boxes[s.target]
        path = f"M{one.x:.1f} {one.bottom:.1f} "
        if abs(one.x - other.x) >= 1:
            step = min(_ROUND, abs(other.x - one.x) / 2)
            step = step if other.x > one.x else -step
            path += (
                f"V{level - _ROUND:.1f} Q{one.x:.1f} {level:.1f} {one.x + step:.1f} {level:.1f} "
                f"H{other.x - step:.1f} "
                f"Q{other.x:.1f} {level:.1f} {other.x:.1f} {level + _ROUND:.1f} "
            )
        is_last = not self.plan.is_bend(s.target)
        # A bend is as high as its layer, and the edge goes straight through it.
        path += f"V{other.y if is_last else other.bottom:.1f}"
        self._edge(path, s.link, tip=is_last)

    def _loop(self, link: Link, number: int) -> None:
        """Draw a loop from the right side of the source up to the right side of the target."""
        one, other = self.boxes[link.source], self.boxes[link.target]
        low, high = one.middle, other.middle
        if link.source == link.target:
            low, high = low + 8, high - 8
        beside = [b.right for b in self.boxes.values() if b.bottom >= high and b.y <= low]
        lane = max(beside) + 30 + 14 * number
        path = (
            f"M{one.right:.1f} {low:.1f} H{lane - _ROUND:.1f} "
            f"Q{lane:.1f} {low:.1f} {lane:.1f} {low - _ROUND:.1f} V{high + _ROUND:.1f} "
            f"Q{lane:.1f} {high:.1f} {lane - _ROUND:.1f} {high:.1f} H{other.right:.1f}"
        )
        self._edge(path, link)
        self._note(link.label or AGAIN, lane + 8, (low + high) / 2)

    def _edge(self, path: str, link: Link, *, tip: bool = True) -> None:
        kind = "edge maybe" if link.conditional else "edge"
        ends = ' marker-end="url(#absa-tip)"' if tip else ""
        name = escape(f"{link.source} {link.target}")
        self.edges.append(f'<path class="{kind}" data-edge="{name}" d="{path}"{ends}/>')

    def _note(self, text: str, x: float, y: float) -> None:
        self.front.append(
            f'<text class="note" x="{x:.1f}" y="{y:.1f}" dy="0.34em">{escape(text)}</text>'
        )
        self.extent.append(x + len(text) * _SMALL_CHAR)

    def _legend(self, left: float, right: float, top: float) -> float:
        """Draw the legend; return its lower end."""
        x, y = left, top
        for kind, name in _LEGEND_NAMES.items():
            if kind not in self.plan.kinds.values():
                continue
            width = 26 + len(name) * _SMALL_CHAR + 18
            if x > left and x + width > right:
                x, y = left, y + 22
            self.front.append(
                f'<g class="box {kind}"><rect x="{x:.1f}" y="{y:.1f}" width="18" height="12" '
                'rx="3"/></g>'
            )
            self._note(name, x + 26, y + 6)
            x += width
        return y + 12
