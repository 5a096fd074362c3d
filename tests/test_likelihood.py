"""How likely a model held the names that it wrote: read from its tokens, used by a rule."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from openai_server import Body, Response, calls_tool, fails, says, serve
from scripted import ate, atsa, decide, pairs, pipeline, said

from absa.backends.likelihood import named, with_probabilities
from absa.backends.openai import OpenAIBackend
from absa.nodes.language import language
from absa.nodes.polarity import PolarityCounter
from absa.nodes.stage1 import found_aspects
from absa.nodes.vote import read_extraction
from absa.schemas.answers import (
    Answer,
    AteAnswer,
    AtsaAnswer,
    ExtractAnswer,
    JudgeAnswer,
    TurnAnswer,
)
from absa.schemas.backend import Ask
from absa.schemas.settings import BackendSettings

KO, EN = language("ko"), language("en")


def tokens(*pieces: tuple[str | bytes, float]) -> list[dict[str, Any]]:
    """Tokens as servers tell them: half a letter has bytes and no text of its own."""
    return [
        {
            "token": piece if isinstance(piece, str) else piece.decode("utf-8", "replace"),
            "bytes": list(piece.encode() if isinstance(piece, str) else piece),
            "logprob": math.log(probability),
        }
        for piece, probability in pieces
    ]


def weighed(*pieces: tuple[str | bytes, float]) -> list[float | None]:
    """The probabilities that ATE's aspects get from an answer in these tokens."""
    written = b"".join(p.encode() if isinstance(p, str) else p for p, _ in pieces)
    output = with_probabilities(json.loads(written), AteAnswer, tokens(*pieces))
    return [item.get("name_probability") for item in output["aspects"]]


def test_a_name_is_as_likely_as_its_tokens_together():
    assert weighed(
        ('{"aspects":[{"', 0.1),
        ('term":"', 0.1),
        ("battery", 0.5),
        (" life", 0.5),
        ('"},{"term": "', 0.1),
        ("price", 0.9),
        ('"}]}', 0.1),
    ) == [0.25, 0.9]


def test_a_token_that_reaches_into_the_name_counts():
    assert weighed(('{"aspects":[{"term":', 1.0), ('"price"', 0.3), ("}]}", 1.0)) == [0.3]


def test_tokens_may_hold_half_a_letter():
    whole = "맛".encode()
    assert weighed(
        ('{"aspects":[{"term":"', 1.0), (whole[:2], 0.5), (whole[2:], 0.8), ('"}]}', 1.0)
    ) == [0.4]


def test_escaped_names_are_the_names_that_were_read():
    assert weighed(
        ('{"aspects":[{"term":"', 1.0), ('5\\" screen', 0.6), ('"},{"term":"', 1.0), ('x"}]}', 0.2)
    ) == [0.6, 0.2]


def test_a_name_that_was_not_written_so_has_no_probability():
    told = tokens(('{"aspects":[{"term":"', 1.0), ("price", 0.5), ('"}]}', 1.0))
    read = {"aspects": [{"term": "cost"}, "not an object"]}
    assert with_probabilities(read, AteAnswer, told) == read


def test_tokens_without_bytes_are_taken_by_their_text():
    told = [{**t, "bytes": None} for t in tokens(('{"aspects":[{"term":"맛', 0.5), ('"}]}', 1.0))]
    output = with_probabilities({"aspects": [{"term": "맛"}]}, AteAnswer, told)
    assert output["aspects"][0]["name_probability"] == 0.5


def test_a_name_that_was_read_otherwise_does_not_cost_the_next_its_probability():
    told = tokens(('{"aspects":[{"term":"', 1.0), ("price", 0.5), ('"}]}', 1.0))
    output = with_probabilities({"aspects": [{"term": "cost"}, {"term": "price"}]}, AteAnswer, told)
    assert output["aspects"] == [{"term": "cost"}, {"term": "price", "name_probability": 0.5}]


def test_a_draft_among_the_thoughts_is_not_the_answer():
    told = tokens(
        ('<think>{"term":"', 1.0),
        ("price", 0.1),
        ('"} or "term":"\\d"</think>{"aspects":[{"term":"', 1.0),
        ("price", 0.9),
        ('"}]}', 1.0),
    )
    output = with_probabilities({"aspects": [{"term": "price"}]}, AteAnswer, told)
    assert output["aspects"][0]["name_probability"] == 0.9


def test_a_number_that_the_model_made_up_is_none():
    read = {"aspects": [{"term": "price", "name_probability": 0.01}]}
    assert with_probabilities(read, AteAnswer, None) == {"aspects": [{"term": "price"}]}


@pytest.mark.parametrize("items", [5, True, "none", None, {"term": "price"}])
def test_what_is_no_list_stays_as_it_was_said(items: Any):
    told = tokens(('{"aspects":[{"term":"price"}]}', 0.5))
    assert with_probabilities({"aspects": items}, AteAnswer, told) == {"aspects": items}


PRICE = {"token": '{"aspects":[{"term":"price"}]}', "bytes": None}


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        {},
        "no list",
        ["price"],
        [PRICE],
        [{**PRICE, "logprob": None}],
        [{**PRICE, "logprob": "high"}],
        [{**PRICE, "logprob": math.nan}],
        [{**PRICE, "bytes": [999], "logprob": -0.1}],
        [{"bytes": 10**12, "logprob": -0.1}],
        [{"token": '{"aspects":[{"term":"pr\\ice"}]}', "logprob": -0.1}],
        [{"logprob": -0.1}],
    ],
)
def test_what_a_server_tells_otherwise_costs_nothing(told: Any):
    read = {"aspects": [{"term": "price"}]}
    assert with_probabilities(read, AteAnswer, told) == read


def test_an_impossible_token_is_a_probability_of_zero():
    told = [{**PRICE, "logprob": -math.inf}]
    output = with_probabilities({"aspects": [{"term": "price"}]}, AteAnswer, told)
    assert output["aspects"][0]["name_probability"] == 0.0


def test_names_are_weighed_where_aspects_are_found_and_nowhere_else():
    assert named(AteAnswer) == ("aspects", "term")
    assert named(ExtractAnswer) == ("tuples", "aspect_term")
    assert [named(answer) for answer in (AtsaAnswer, TurnAnswer, JudgeAnswer)] == [None] * 3


# The backend asks for it ------------------------------------------------------------------------


def asked(answer: type[Answer] = AteAnswer) -> Ask:
    return Ask("ate", 0, "u1", "prompt", "{}", "0" * 64, {}, answer)


def backend_at(url: str) -> OpenAIBackend:
    settings = BackendSettings(kind="openai", model="m", base_url=url, timeout_s=5.0)
    return OpenAIBackend(settings, backoff_s=0)


def telling(*pieces: tuple[str | bytes, float]) -> Response:
    """A completion in these tokens, with what they were worth."""
    response = says("".join(str(piece) for piece, _ in pieces))
    assert isinstance(response.body, dict)
    response.body["choices"][0]["logprobs"] = {"content": tokens(*pieces)}
    return response


SAID = (('{"aspects":[{"term":"', 1.0), ("price", 0.35), ('","confidence":0.9}]}', 1.0))


def test_what_the_server_tells_is_in_the_answer():
    with serve() as server:
        server.rule = lambda _: telling(*SAID)
        reply = backend_at(server.url).ask(asked())
        assert server.requests[0]["logprobs"] is True
    assert reply.output["aspects"] == [
        {"term": "price", "confidence": 0.9, "name_probability": 0.35}
    ]


def test_a_repaired_answer_has_the_probabilities_of_its_own_tokens():
    with serve() as server:
        server.script = [says("price, I think"), telling(*SAID)]
        reply = backend_at(server.url).ask(asked())
    assert reply.output["aspects"][0]["name_probability"] == 0.35


def test_they_are_not_asked_for_where_nothing_is_named():
    with serve() as server:
        server.rule = lambda _: says({"proposed_edits": []})
        backend_at(server.url).ask(asked(TurnAnswer))
        assert "logprobs" not in server.requests[0]


@pytest.mark.parametrize(
    "refusal",
    [
        fails(400, "logprobs are not supported with this model"),
        fails(403, "You are not allowed to request logprobs from this model"),
    ],
)
def test_a_server_that_refuses_to_tell_is_asked_without_and_the_record_says_so(refusal: Response):
    def rule(request: Body) -> Response:
        if "logprobs" in request:
            return refusal
        return says({"aspects": [{"term": "price", "confidence": 0.9}]})

    with serve() as server:
        server.rule = rule
        backend = backend_at(server.url)
        first, second = backend.ask(asked()), backend.ask(asked())
        assert "response_format" in server.requests[-1]
    assert (first.attempts, second.attempts) == (2, 1)
    assert second.output["aspects"] == [{"term": "price", "confidence": 0.9}]
    assert "logprobs not sent: m does not take it" in second.notes


def test_a_server_that_does_not_say_what_it_refuses_is_asked_by_tool():
    answer = {"aspects": [{"term": "price", "confidence": 0.9}]}
    with serve() as server:
        server.rule = lambda request: (
            fails(422, "no") if "logprobs" in request else calls_tool(answer)
        )
        assert backend_at(server.url).ask(asked()).output == answer
        assert "tools" in server.requests[-1]


def test_agents_that_name_nothing_do_not_miss_it():
    with serve() as server:
        server.script = [fails(400, "no logprobs here"), says({"aspects": []})]
        server.rule = lambda _: says({"proposed_edits": []})
        backend = backend_at(server.url)
        backend.ask(asked())
        assert backend.ask(asked(TurnAnswer)).notes == ()


# The rule that uses it --------------------------------------------------------------------------


def found(*names: tuple[str, float | None], text: str, least: float = 0.4) -> list[str]:
    items = [{"term": term, "name_probability": p} for term, p in names]
    aspects, _ = found_aspects(AteAnswer.model_validate({"aspects": items}), text, EN, least)
    return [aspect.term for aspect in aspects]


TEXT = "The soup and the wine were good."


def test_an_unlikely_name_is_left_out():
    assert found(("soup", 0.4), ("wine", 0.39), text=TEXT) == ["soup"]


def test_a_name_of_unknown_probability_stays():
    assert found(("soup", None), ("wine", 0.1), text=TEXT) == ["soup"]


def test_a_name_is_as_likely_as_where_it_was_likeliest():
    assert found(("Soup", 0.2), ("soup", 0.8), text=TEXT) == ["Soup"]


def test_an_unlikely_side_of_a_contrast_is_not_put_back_as_a_missing_one():
    text = "The soup was good, but the wine was bad."
    assert found(("soup", 0.9), text=text) == ["soup", "wine"]
    assert found(("soup", 0.9), ("wine", 0.1), text=text) == ["soup"]


def test_an_unlikely_aspect_takes_what_the_contrast_would_have_added_with_it():
    assert found(("soup", 0.1), text="Loved the soup but the wine was bad.") == []


def test_of_a_part_of_a_name_no_probability_is_known():
    tuples = [{"aspect_term": "great soup", "evidence": "great", "name_probability": 0.2}]
    answer = ExtractAnswer.model_validate({"tuples": [{**tuples[0], "polarity": "positive"}]})
    result = read_extraction(answer, TEXT, EN, PolarityCounter(), least=0.4)
    assert [aspect.term for aspect in result.aspects] == ["soup"]


def test_what_was_said_of_an_unlikely_aspect_is_kept_apart():
    tuples = [
        {"aspect_term": "soup", "polarity": "positive", "name_probability": 0.9},
        {"aspect_term": "wine", "polarity": "positive", "name_probability": 0.2},
    ]
    answer = ExtractAnswer.model_validate({"tuples": tuples})
    result = read_extraction(answer, TEXT, EN, PolarityCounter(), least=0.4)
    assert [aspect.term for aspect in result.aspects] == ["soup"]
    assert [sentiment.aspect_term for sentiment in result.unanchored] == ["wine"]


@pytest.mark.parametrize(("least", "terms"), [(0.4, {"soup"}), (0.0, {"soup", "wine"})])
def test_the_debate_keeps_to_the_setting(least: float, terms: set[str]):
    answers = said(
        ate=ate("soup", {"term": "wine", "name_probability": 0.2}),
        atsa=atsa(("soup", "positive", "good", 0.9), ("wine", "positive", "good", 0.9)),
    )
    output = decide(TEXT, answers, pipeline(min_name_probability=least), lang="en")
    assert {term for term, _ in pairs(output.final_result.stage1_tuples)} == terms
