"""Traces through LangSmith's OpenTelemetry exporter, collected in the traced process itself."""

import json
import os
import subprocess
import sys
from typing import Any

import openai_server
import pytest
from openai_server import says

SECRET = "xyzzyphone"
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


def _spans(**environment: str) -> list[dict[str, Any]]:
    tracing = {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_OTEL_ENABLED": "true",
        "LANGSMITH_OTEL_ONLY": "true",
        "OPENAI_API_KEY": "k",
        **environment,
    }
    with openai_server.serve() as server:
        server.rule = lambda _: says(ANSWER, tokens=(11, 7))
        changes = {
            "backend.kind": "openai",
            "backend.model": "served-name",
            "backend.base_url": server.url,
            "pipeline.protocol": "single",
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(changes), f"The {SECRET} is great."],
            env={**os.environ, **tracing},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


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
