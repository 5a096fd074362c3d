"""Prompts: what every model is told, and what a question costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from absa.backends import wire
from absa.backends.openai import OpenAIBackend
from absa.graph import build
from absa.nodes import assets
from absa.nodes.agent import Agent, render
from absa.nodes.arbiter import asking_arbiter
from absa.nodes.ate import ate
from absa.nodes.ate_review import ate_review
from absa.nodes.atsa import atsa
from absa.nodes.atsa_review import atsa_review
from absa.nodes.conflict_reviewers import REVIEWERS
from absa.nodes.extract import extract
from absa.nodes.judge import CONTESTED_JUDGES, JUDGES
from absa.nodes.perspectives import PERSPECTIVES
from absa.nodes.speaker import speaker
from absa.nodes.validator import validator
from absa.nodes.validator_review import validator_review
from absa.schemas.answers import read_answer
from absa.schemas.settings import BackendSettings, PipelineSettings
from tests import openai_server, scripted
from tests.scripted import ScriptedBackend, said

AGENTS: tuple[Agent[Any], ...] = (
    *(extract, ate, atsa, validator, ate_review, atsa_review, validator_review),
    *(speaker(name) for name in ("epm", "tan", "cj", "somebody else")),
    *(speaker("critic", "persona"), *JUDGES.values()),
    *(*PERSPECTIVES, *REVIEWERS, asking_arbiter),
)
CONTESTED = (
    speaker("epm", when="contested"),
    speaker("critic", "persona", "contested"),
    CONTESTED_JUDGES["patch"],
)
BY_PROMPT = {
    **{agent.prompt or agent.name: agent for agent in AGENTS},
    **{str(agent.note): agent for agent in CONTESTED},
}
TEXT = "방은 깨끗했는데 조식이 별로예요."


def ordered(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """Where an answer is not what the schema makes a model write: its keys, all, in this order."""
    if "anyOf" in schema:
        kind = "null" if value is None else "object" if isinstance(value, dict) else "string"
        options = [s for s in schema["anyOf"] if s.get("type") == kind]
        yield from ordered(value, options[0]) if options else [f"{value!r} is no option"]
    elif schema.get("type") == "object":
        if list(value) != list(schema["properties"]):
            yield f"{list(value)} instead of {list(schema['properties'])}"
        for key in value.keys() & schema["properties"].keys():
            yield from ordered(value[key], schema["properties"][key])
    elif schema.get("type") == "array":
        for item in value:
            yield from ordered(item, schema["items"])
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{value!r} is not one of {schema['enum']}"


def test_every_prompt_has_an_agent_and_every_agent_a_prompt() -> None:
    assert BY_PROMPT.keys() == assets.prompt_names()


@pytest.mark.parametrize("name", sorted(BY_PROMPT))
def test_examples_answer_as_the_schema_makes_a_model_answer(name: str) -> None:
    answer = BY_PROMPT[name].answer
    assert assets.examples(name)
    for asked, told in assets.examples(name):
        assert json.loads(asked)["review"]
        given = json.loads(told)
        assert read_answer(answer, given)[1] == []
        assert list(ordered(given, wire.wire_schema(answer))) == []


@pytest.mark.parametrize("name", sorted(BY_PROMPT))
def test_a_question_and_its_examples_are_written_alike(name: str) -> None:
    for line in (line for pair in assets.examples(name) for line in pair):
        compact = json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":"))
        assert line == compact


@pytest.mark.parametrize("name", sorted(BY_PROMPT))
def test_evidence_in_examples_stands_in_their_reviews(name: str) -> None:
    def evidence(value: Any) -> Iterator[str]:
        for key, part in value.items() if isinstance(value, dict) else ():
            if key == "evidence" and part:
                yield part
            yield from evidence(part)
        for part in value if isinstance(value, list) else ():
            yield from evidence(part)

    for asked, told in assets.examples(name):
        for quoted in evidence(json.loads(told)):
            assert quoted in json.loads(asked)["review"]


@pytest.mark.parametrize("name", ("epm", "tan", "cj", "judge", "speaker"))
def test_an_edit_in_an_example_changes_something_it_names(name: str) -> None:
    for asked, told in assets.examples(name):
        found = json.loads(asked).get("stage1", {}).get("sentiments", [])  # left out where empty
        now = {s["aspect_term"]: s["polarity"] for s in found}
        given = json.loads(told)
        for edit in given.get("proposed_edits", given.get("final_patch")):
            aspect, value = edit["target"]["aspect_ref"], edit["value"]
            assert aspect in now
            assert (value is None) == (edit["op"] in ("confirm_tuple", "drop_tuple"))
            assert value not in (aspect, now[aspect])


def asked(text: str, **answers: Any) -> list[Any]:
    backend = ScriptedBackend(said(**answers))
    build(PipelineSettings(), backend).invoke({"text": text, "lang": "ko"})
    return backend.asked


def test_what_comes_before_the_text_is_the_same_for_every_text() -> None:
    one, other = asked(TEXT), asked("가격이 비싸요.")
    assert {q.node: (q.system, q.examples) for q in one} == {
        q.node: (q.system, q.examples) for q in other
    }
    assert {q.user for q in one}.isdisjoint(q.user for q in other)


def test_examples_belong_to_what_a_question_is_known_by(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {q.node: q.prompt_sha256 for q in asked(TEXT)}
    real = assets.examples
    monkeypatch.setattr(assets, "examples", lambda name: real(name)[: 0 if name == "ate" else None])
    after = {q.node: q.prompt_sha256 for q in asked(TEXT)}
    assert {node for node in before if before[node] != after[node]} == {"ate"}


def test_examples_are_a_conversation_that_went_before() -> None:
    (question,) = [q for q in asked(TEXT) if q.node == "ate"]
    with openai_server.serve() as server:
        server.rule = lambda _: openai_server.says({"aspects": []})
        settings = BackendSettings(kind="openai", model="m", base_url=server.url)
        OpenAIBackend(settings).ask(question)
        (request,) = server.requests
    first, *turns, last = request["messages"]
    assert first == {"role": "system", "content": question.system}
    assert last == {"role": "user", "content": question.user}
    assert [m["role"] for m in turns] == ["user", "assistant"] * len(question.examples)
    assert [m["content"] for m in turns] == [words for pair in question.examples for words in pair]


# What a question holds ---------------------------------------------------------------------------


def test_a_question_says_nothing_that_is_empty_or_not_for_models() -> None:
    shown = render(
        {
            "text": "좋아요",
            "domain": None,
            "stage1": {
                "sentiments": [{"aspect_term": "맛", "confidence": 0.9, "is_backfilled": False}],
                "unanchored": [],
            },
        }
    )
    assert shown == '{"review":"좋아요","stage1":{"sentiments":[{"aspect_term":"맛"}]}}'


def test_an_aspect_may_be_called_like_a_field() -> None:
    hints = {"weight": [{"speaker": "epm", "weight": 0.5}]}
    shown = json.loads(render({"text": "t", "review_context": {"aspect_hints": hints}}))
    assert shown["review_context"] == {"aspect_hints": {"weight": [{"speaker": "epm"}]}}


def test_an_example_of_the_user_may_have_no_aspects() -> None:
    demos = [{"review": "그냥 그래요", "aspects": []}]
    assert json.loads(render({"text": "t", "demos": demos}))["demos"] == demos


def test_a_debate_repeats_nothing() -> None:
    stage1 = {
        "ate": scripted.ate("방", "조식"),
        "atsa": scripted.atsa(("방", "positive", "깨끗했는데", 0.9)),
    }
    shown = {q.node: json.loads(q.user) for q in asked(TEXT, **stage1)}
    assert shown["epm"].keys() == {"review", "stage1"}  # its prompt says who it is
    assert shown["epm"]["stage1"].keys() == {"sentiments"}
    assert [s["aspect_term"] for s in shown["epm"]["stage1"]["sentiments"]] == ["방", "조식"]
    assert shown["atsa_review"].get("review_context", {}).keys() <= {"summary", "aspect_hints"}
