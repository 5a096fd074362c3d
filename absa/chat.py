"""The graph behind messages, for chat pages and agents that send and expect those.

LangGraph's A2A endpoint, agent chat pages and Studio's chat view need a state with `messages`.
"""

from __future__ import annotations

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph

from absa import outcome, show
from absa.graph import Graph
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import OverrideSettings

ChatGraph = CompiledStateGraph[MessagesState, None, MessagesState, MessagesState]


def chat(graph: Graph, overrides: OverrideSettings, name: str = "absa_chat") -> ChatGraph:
    """A graph whose answer to the last message is its analysis, in words."""

    async def analyze(state: MessagesState, config: RunnableConfig) -> MessagesState:
        try:
            result = await graph.ainvoke({"text": _text(state["messages"])}, config)
        except InputError as error:
            return {"messages": [AIMessage(str(error))]}
        return {"messages": [AIMessage(in_words(result["output"], overrides))]}

    builder = StateGraph(MessagesState)
    builder.add_node("analyze", analyze)
    builder.add_edge(START, "analyze")
    builder.add_edge("analyze", END)
    compiled: ChatGraph = builder.compile(name=name)
    return compiled


def _text(messages: list[AnyMessage]) -> str:
    return str(messages[-1].text) if messages else ""


def in_words(output: FinalOutput, overrides: OverrideSettings) -> str:
    """The label with its reason, a line for each aspect, and what the debate did."""
    result = output.final_result
    lines = [f"{result.label}: {outcome.label_reason(output)}", ""]
    for aspect in result.final_aspects:
        evidence = f" ({show.quoted(aspect.evidence)})" if aspect.evidence else ""
        lines.append(f"- {show.printable(aspect.name)}: {aspect.polarity}{evidence}")
    lines += ["", *(f"debate: {line}" for line in outcome.debate(output, overrides))]
    return "\n".join(lines).strip()
