"""The override gate as a subgraph: a loop over the debate's aspects, one edge per verdict."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from graph.routing import GATE_DONE, OVERRIDES, SKIPS, after_verdict, verdict_node
from graph.steps import RouteStep, RuleStep, SettingsInForce
from nodes.override_gate import carry_out, record_verdict, weigh_aspect
from schemas.records import Correction, GateRecord, StageResult
from schemas.state import State


class GateOutput(TypedDict):
    """What the gate may change."""

    gate_pending: GateRecord | None
    gate_log: list[GateRecord]
    patched_result: StageResult
    corrections: list[Correction]


def build_gate(settings: SettingsInForce, *, with_drop: bool) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The gate; the edge for dropping an aspect is there only where dropping is allowed."""
    gate = StateGraph(State, output_schema=GateOutput)
    gate.add_node("weigh_aspect", RuleStep(weigh_aspect, settings))
    gate.add_edge(START, "weigh_aspect")
    overrides = [v for v in OVERRIDES if with_drop or v != "drop"]
    edges: dict[Any, str] = {GATE_DONE: END}
    for verdict in (*SKIPS, *overrides):
        node = verdict_node(verdict)
        step = RuleStep(carry_out, settings) if verdict in OVERRIDES else RuleStep(record_verdict)
        gate.add_node(node, step)
        gate.add_edge(node, "weigh_aspect")
        edges[verdict] = node
    gate.add_conditional_edges("weigh_aspect", RouteStep(after_verdict), edges)
    return gate.compile(name="override_gate")
