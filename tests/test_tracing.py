"""Traces: LangSmith's exporter collected in the process, Langfuse and MLflow on loopback."""

import json
import os
import subprocess
import sys
from typing import Any

import openai_server
import otlp_server
import pytest
from openai_server import says

SECRET = "xyzzyphone"
REVIEW = f"The {SECRET} is great."
ANSWER = {"tuples": []}

# Of its own process: tracing reads the environment once, and there is one tracer provider.
PROGRAM = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

collector = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(collector))
trace.set_tracer_provider(provider)

import absa
from langchain_core.tracers.langchain import wait_for_all_tracers
from langsmith.run_trees import get_cached_client

changes = json.loads(sys.argv[1])
absa.analyze(sys.argv[2], absa.load_settings(None, changes))
wait_for_all_tracers()
get_cached_client().flush()
print(json.dumps([
    {
        "name": span.name,
        "id": span.context.span_id,
        "parent": span.parent and span.parent.span_id,
        "attributes": dict(span.attributes),
    }
    for span in collector.get_finished_spans()
], default=str))
"""


def _traced(program: str, *arguments: str, **environment: str) -> str:
    """What a program prints that analyzes a text with a model on loopback."""
    tracing = {"OPENAI_API_KEY": "k", **environment}
    with openai_server.serve() as server:
        server.rule = lambda _: says(ANSWER, tokens=(11, 7))
        changes = {
            "backend.kind": "openai",
            "backend.model": "served-name",
            "backend.base_url": server.url,
            "pipeline.protocol": "single",
        }
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(changes), REVIEW, *arguments],
            env={**os.environ, **tracing},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _spans(**environment: str) -> list[dict[str, Any]]:
    tracing = {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_OTEL_ENABLED": "true",
        "LANGSMITH_OTEL_ONLY": "true",
    }
    printed = _traced(PROGRAM, **tracing, **environment)
    spans: list[dict[str, Any]] = json.loads(printed.splitlines()[-1])
    return spans


@pytest.fixture(scope="module")
def hidden() -> list[dict[str, Any]]:
    return _spans(LANGSMITH_HIDE_INPUTS="true", LANGSMITH_HIDE_OUTPUTS="true")


@pytest.fixture(scope="module")
def open_() -> list[dict[str, Any]]:
    return _spans()


def test_each_node_is_a_span_of_the_graph(hidden: list[dict[str, Any]]) -> None:
    [graph] = [span for span in hidden if span["parent"] is None]
    nodes = {span["name"] for span in hidden if span["parent"] == graph["id"]}
    assert {"intake", "extract", "finalize"} <= nodes


def _calls(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [s for s in spans if s["attributes"].get("gen_ai.operation.name") == "chat"]


def test_each_model_call_is_a_span_of_its_node_with_its_tokens(
    hidden: list[dict[str, Any]], open_: list[dict[str, Any]]
) -> None:
    for spans in (hidden, open_):
        by_id = {span["id"]: span for span in spans}
        assert [by_id[call["parent"]]["name"] for call in _calls(spans)] == ["extract"]
    [call] = _calls(open_)
    assert call["attributes"]["gen_ai.usage.input_tokens"] == 11
    assert call["attributes"]["gen_ai.usage.output_tokens"] == 7
    assert call["attributes"]["gen_ai.request.model"] == "served-name"
    # LangSmith takes the attributes above from the answer. The metadata have them in any case.
    [call] = _calls(hidden)
    usage = json.loads(call["attributes"]["langsmith.metadata.usage_metadata"])
    assert (usage["input_tokens"], usage["output_tokens"]) == (11, 7)


def test_text_and_answers_are_in_the_trace_only_if_they_are_not_hidden(
    hidden: list[dict[str, Any]], open_: list[dict[str, Any]]
) -> None:
    assert SECRET in json.dumps(open_)
    for word in (SECRET, "tuples"):
        assert word not in json.dumps(hidden)


# Langfuse and MLflow ----------------------------------------------------------------------------

# Each as the docs have it; the last argument says whether texts are hidden.
TOOLS = {
    "langfuse": """
import json, sys
from langfuse import Langfuse
from langfuse.langchain import CallbackHandler

is_hidden = sys.argv[3] == "hidden"
client = Langfuse(mask=lambda *, data, **_: None) if is_hidden else Langfuse()

import absa

graph = absa.build_graph(absa.load_settings(None, json.loads(sys.argv[1])))
graph.invoke({"text": sys.argv[2]}, {"callbacks": [CallbackHandler()]})
client.flush()
""",
    "mlflow": """
import json, sys
import mlflow

def without_texts(span):
    span.set_inputs(None)
    span.set_outputs(None)

mlflow.langchain.autolog()
if sys.argv[3] == "hidden":
    mlflow.tracing.configure(span_processors=[without_texts])

import absa

absa.analyze(sys.argv[2], absa.load_settings(None, json.loads(sys.argv[1])))
mlflow.flush_trace_async_logging()
""",
}
# Attributes of the span of a model call: its model, and its tokens as JSON.
MODEL = {"langfuse": "langfuse.observation.model.name", "mlflow": "mlflow.llm.model"}
TOKENS = {"langfuse": "langfuse.observation.usage_details", "mlflow": "mlflow.chat.tokenUsage"}


def _collected(tool: str, texts: str) -> otlp_server.Collector:
    with otlp_server.serve() as collector:
        _traced(
            TOOLS[tool],
            texts,
            LANGFUSE_PUBLIC_KEY="public",
            LANGFUSE_SECRET_KEY="secret",
            LANGFUSE_BASE_URL=collector.url,
            MLFLOW_TRACKING_URI=collector.url,
            MLFLOW_DISABLE_TELEMETRY="true",
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/v1/traces",
            OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf",
        )
    return collector


@pytest.mark.parametrize("texts", ["open", "hidden"])
@pytest.mark.parametrize("tool", TOOLS)
def test_tools_on_callbacks_get_nodes_calls_and_tokens_and_texts_only_if_open(
    tool: str, texts: str
) -> None:
    collector = _collected(tool, texts)
    [graph] = [span for span in collector.spans if span["parent"] is None]
    nodes = {span["name"]: span["id"] for span in collector.spans if span["parent"] == graph["id"]}
    assert {"intake", "extract", "finalize"} <= set(nodes)
    [call] = [span for span in collector.spans if MODEL[tool] in span["attributes"]]
    assert call["parent"] == nodes["extract"]
    assert call["attributes"][MODEL[tool]].strip('"') == "served-name"
    tokens = json.loads(call["attributes"][TOKENS[tool]])
    assert sorted(tokens.values()) == [7, 11, 18]
    sent = b"".join(collector.bodies).decode(errors="replace")
    for words in (SECRET, '{\\"tuples\\"'):
        assert (words in sent) == (texts == "open"), words
