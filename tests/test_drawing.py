"""Drawings of graphs: everything is in them, nothing overlaps, nothing is fetched."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables.graph import Graph as Drawable
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from absa import build_graph, load_settings
from absa.backends import make_backend
from absa.drawing import closed, draw_ascii, draw_svg, make_plan
from absa.graph import build_switchable

ROOT = Path(__file__).resolve().parent.parent
SVG = "{http://www.w3.org/2000/svg}"


class Nothing(TypedDict):
    """A state."""

    a: int


def same(state: Nothing) -> Nothing:
    return state


def toy() -> Drawable:
    """Long edges, loops, a self-loop and names that need escaping."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Nothing)
    reviews = ["review_a", "review_b", "review_c"]
    for name in ("intake", "flags", *reviews, "arbiter", "first", "aside", "second", "<final>"):
        graph.add_node(name, same)
    graph.add_edge(START, "intake")
    graph.add_edge("intake", "flags")
    graph.add_conditional_edges(
        "flags", lambda _: "none", {**{r: r for r in reviews}, "nothing flagged": "<final>"}
    )
    for review in reviews:
        graph.add_edge(review, "arbiter")
    graph.add_edge("arbiter", "first")
    graph.add_conditional_edges(
        "first", lambda _: "go", {"go": "second", "stop": "<final>", "back": "aside"}
    )
    graph.add_edge("aside", "first")
    graph.add_edge("second", "<final>")
    graph.add_conditional_edges(
        "<final>", lambda _: "done", {"done": END, "redo": "intake", "once more": "<final>"}
    )
    return graph.compile().get_graph()


def drawable(**overrides: object) -> Drawable:
    keys = {f"pipeline.{key.replace('__', '.')}": value for key, value in overrides.items()}
    return build_graph(load_settings(None, keys)).get_graph()


def switchable() -> Drawable:
    settings = load_settings()
    return build_switchable(settings.pipeline, make_backend(settings.backend)).get_graph()


GRAPHS = {
    "default": drawable,
    "closed": lambda: closed(drawable()),
    "rounds": lambda: drawable(debate__rounds=3),
    "drop": lambda: drawable(debate_override__allow_drop=True),
    "no_debate": lambda: drawable(enable_debate=False),
    "nothing": lambda: drawable(enable_debate=False, enable_stage2=False, enable_validator=False),
    "switchable": switchable,
    "toy": toy,
}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> Drawable:
    found: Drawable = GRAPHS[request.param]()
    return found


def names(graph: Drawable) -> set[str]:
    return {node.name for node in graph.nodes.values()} - {START, END}


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    found = []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        if group.find(f"{SVG}text") is None:
            continue  # the legend
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = (float(rect.get(k, "")) for k in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found


def test_every_node_is_drawn(graph: Drawable) -> None:
    text, svg = draw_ascii(graph), draw_svg(graph)
    words = {element.text for element in ET.fromstring(svg).iter(f"{SVG}text")}
    for name in names(graph):
        assert name in text
        assert name in words


def test_every_label_of_a_conditional_edge_is_drawn() -> None:
    text, svg = draw_ascii(toy()), draw_svg(toy())
    for label in ("nothing flagged", "go", "stop", "redo", "done", "once more"):
        assert re.search(rf"\b{label}", text), label
        assert f">{label}<" in svg


def test_svg_boxes_do_not_overlap_and_lie_on_the_page(graph: Drawable) -> None:
    svg = draw_svg(graph)
    view = [float(part) for part in ET.fromstring(svg).get("viewBox", "").split()]
    left, top, width, height = view
    found = boxes(svg)
    for number, (x1, y1, x2, y2) in enumerate(found):
        assert left <= x1 < x2 <= left + width
        assert top <= y1 < y2 <= top + height
        for x3, y3, x4, y4 in found[:number]:
            assert x2 <= x3 or x4 <= x1 or y2 <= y3 or y4 <= y1


def test_layers_follow_the_edges(graph: Drawable) -> None:
    plan = make_plan(graph)
    layer = {key: depth for depth, keys in enumerate(plan.layers) for key in keys}
    for depth, part in enumerate(plan.segments):
        for segment in part:
            assert (layer[segment.source], layer[segment.target]) == (depth, depth + 1)
    for link in plan.loops:
        assert layer[link.target] <= layer[link.source]


def test_no_edge_is_lost(graph: Drawable) -> None:
    plan = make_plan(graph)
    links = {segment.link for part in plan.segments for segment in part}
    drawn = {(link.source, link.target) for link in [*links, *plan.loops]}
    for name, listed in plan.lists.items():
        source, target = name.split("*")
        assert {(source, name), (name, target)} <= drawn
        drawn |= {(source, key) for key in listed} | {(key, target) for key in listed}
    for edge in graph.edges:
        assert (edge.source, edge.target) in drawn


def test_ascii_is_ascii_and_fits_eighty_columns() -> None:
    text = draw_ascii(drawable(debate__rounds=2, debate_override__allow_drop=True))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_a_debate_of_several_rounds_is_a_loop() -> None:
    assert "again" not in draw_ascii(drawable())
    plan = make_plan(drawable(debate__rounds=2))
    assert [(loop.source, loop.target) for loop in plan.loops] == [("cj", "epm")]
    assert "| epm |<..+" in draw_ascii(drawable(debate__rounds=2))


def test_the_verdicts_of_the_gate_are_one_list_in_their_order() -> None:
    ((name, listed),) = make_plan(drawable()).lists.items()
    assert name == "override_gate*adopt"
    assert (listed[0], listed[-1]) == ("skip_max_one_override_per_sample", "apply_flip")
    assert make_plan(closed(drawable())).lists == {}


def test_agents_rules_and_verdicts_look_different() -> None:
    kinds = make_plan(drawable()).kinds
    assert {kinds["ate"], kinds["judge"], kinds["validator_review"]} == {"agent"}
    assert {kinds["intake"], kinds["adopt"], kinds["override_gate"]} == {"rule"}
    assert (kinds["skip_low_signal"], kinds["apply_flip"]) == ("skip", "apply")
    svg = draw_svg(drawable())
    for kind in ("agent", "rule", "skip", "apply"):
        assert f".{kind} rect {{" in svg
        assert f'class="box {kind}' in svg


def test_svg_follows_the_readers_colours_and_fetches_nothing() -> None:
    svg = draw_svg(drawable())
    assert "prefers-color-scheme: dark" in svg
    urls = set(re.findall(r"https?://[^\"' ]+", svg))
    assert urls == {"http://www.w3.org/2000/svg"}
    assert "<script" not in svg


def test_names_are_escaped() -> None:
    svg = draw_svg(toy())
    assert "&lt;final&gt;" in svg
    ET.fromstring(svg)


def test_the_drawing_is_the_same_every_time() -> None:
    assert draw_svg(drawable()) == draw_svg(drawable())
    assert draw_ascii(switchable()) == draw_ascii(switchable())


def test_the_drawing_in_the_docs_is_that_of_the_default_settings() -> None:
    """Made anew with: absa graph --format svg > docs/graph.svg."""
    stored = (ROOT / "docs" / "graph.svg").read_text(encoding="utf-8")
    assert stored == draw_svg(drawable()) + "\n"
