"""The baselines: one joint call, and a majority over several."""

from __future__ import annotations

import pytest

from absa import load_settings
from absa.api import build_graph
from absa.graph import build
from absa.nodes.language import language
from absa.nodes.names import cleaned_name
from absa.nodes.polarity import PolarityCounter
from absa.nodes.vote import majority, read_extraction
from absa.schemas.answers import ExtractAnswer, ExtractedTuple
from absa.schemas.backend import Ask, Reply
from absa.schemas.settings import PipelineSettings, VoteSettings

TEXT = "사용감은 좋지만 가격은 비싸요."
KO, EN = language("ko"), language("en")


def found(*tuples: tuple[str, str, float]) -> dict:
    evidence = {"positive": "좋지만", "negative": "비싸요", "neutral": ""}
    return {
        "tuples": [
            {
                "aspect_term": term,
                "polarity": polarity,
                "evidence": evidence[polarity],
                "confidence": c,
            }
            for term, polarity, c in tuples
        ]
    }


class Several:
    """Answers the nth joint call with the nth answer, and remembers how it was asked."""

    def __init__(self, *answers: dict) -> None:
        self.answers = answers
        self.asked: list[Ask] = []

    def ask(self, question: Ask) -> Reply:
        self.asked.append(question)
        return Reply(self.answers[question.turn], backend="scripted")

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


def result(answer: dict):
    return read_extraction(ExtractAnswer.model_validate(answer), TEXT, KO, PolarityCounter())


def pairs(output) -> set[tuple[str, str]]:
    return {(t.aspect_term, t.polarity) for t in output.final_result.final_tuples}


@pytest.mark.parametrize(
    ("name", "evidence", "thing"),
    [
        ("service", "great", "service"),
        ("great service", "great", "service"),
        ("Great service", "great", "service"),
        ("great service", "really great", "service"),
        # Evidence that only shares a word with the name, or quotes it, leaves it as it is.
        ("service", "great service", "service"),
        ("customer service", "customer service", "customer service"),
        ("battery life", "battery dies quickly", "battery life"),
        ("ice cream", "ice cold", "ice cream"),
        ("배송 기사", "배송 빨라요", "배송 기사"),
        ("hot dogs", "these hot dogs are bad", "hot dogs"),
        ("hot dogs", "bad", "hot dogs"),
        ("hot dogs", None, "hot dogs"),
        # Its own judgement names nothing.
        ("dinner", "dinner", None),
        # An adjective names nothing, whatever it is judged by.
        ("tasty", "very tasty", None),
        ("Tasty", None, None),
        ("부드러움", "부드러웠고", None),
        ("비싼", None, None),
        ("면", "쫄깃해요", "면"),
        ("맛있는 음식", "맛있는", "음식"),
        ("배송 기사", "친절한 배송", "배송 기사"),
        ("굽기", "완벽했어요", "굽기"),
        ("흔들림", "심해요", "흔들림"),
        ("battery life", "love the battery", "battery life"),
        ("pistachio", "amazing", "pistachio"),
        ("great  ice  cream", "great", "ice  cream"),
        ("hot & spicy", "hot", None),
        (None, "tasty", None),
    ],
)
def test_a_judgement_is_not_part_of_the_name(name, evidence, thing):
    item = {"aspect_term": name, "evidence": evidence, "polarity": "positive"}
    lang = language("ko" if name and "가" <= name[0] <= "힣" else "en")
    assert cleaned_name(ExtractedTuple.model_validate(item), lang) == thing


@pytest.mark.parametrize("neutral", ["neutral", "Neutral", "neu"])
def test_what_is_only_mentioned_may_be_its_own_evidence(neutral):
    item = {"aspect_term": "menu", "evidence": "menu", "polarity": neutral}
    assert cleaned_name(ExtractedTuple.model_validate(item), EN) == "menu"


def test_a_sentiment_follows_the_name_and_one_about_nothing_is_kept_apart():
    said = [
        {"aspect_term": "좋은 사용감", "evidence": "좋은", "polarity": "positive"},
        {"aspect_term": "비싸요", "evidence": "비싸요", "polarity": "negative"},
    ]
    read = result({"tuples": said})
    assert [(a.term, a.sentiments[0].polarity) for a in read.aspects][:1] == [
        ("사용감", "positive")
    ]
    assert [u.evidence for u in read.unanchored] == ["비싸요"]


def test_single_is_one_call_under_the_merging_rules_of_stage_1():
    backend = Several(found(("사용감은", "positive", 0.9), ("가격", "negative", 0.8)))
    graph = build(PipelineSettings(protocol="single"), backend)
    output = graph.invoke({"text": TEXT, "lang": "ko"})["output"]
    assert pairs(output) == {("사용감", "positive"), ("가격", "negative")}
    assert (output.final_result.label, output.meta.protocol) == ("mixed", "single")
    assert output.meta.usage.calls == 1
    assert output.moderator is None and output.debate is None
    assert backend.asked[0].temperature is None


def test_single_misses_one_side_of_a_contrast_and_the_contrast_rule_says_so():
    graph = build(PipelineSettings(protocol="single"), Several(found(("사용감", "positive", 0.9))))
    output = graph.invoke({"text": TEXT, "lang": "ko"})["output"]
    assert pairs(output) == {("사용감", "positive"), ("가격", "neutral")}


def test_a_vote_asks_as_often_as_the_debate_with_other_seeds_and_warmer():
    p = PipelineSettings(protocol="vote")
    assert p.vote_calls == p.debate_calls == 10
    backend = Several(*[found(("가격", "negative", 0.8), ("사용감", "positive", 0.8))] * 10)
    output = build(p, backend).invoke({"text": TEXT, "lang": "ko"})["output"]
    assert sorted(q.seed_offset for q in backend.asked) == list(range(10))
    assert {q.temperature for q in backend.asked} == {0.7}
    assert output.meta.usage.calls == 10
    assert [c.turn for c in output.process_trace] == list(range(10))


@pytest.mark.parametrize(
    ("votes", "threshold", "kept"),
    [(2, 0.5, True), (1, 0.5, False), (1, 0.25, True), (3, 1.0, False), (4, 1.0, True)],
    ids=["half is enough", "a quarter is not", "unless asked for", "all means all", "all"],
)
def test_a_tuple_stays_if_enough_calls_found_it(votes, threshold, kept):
    other = ("사용감", "positive", 0.9)
    answers = [found(other, ("가격", "negative", 0.8))] * votes
    answers += [found(other, ("가격", "positive", 0.8))] * (4 - votes)
    p = PipelineSettings(protocol="vote", vote=VoteSettings(n=4, threshold=threshold))
    output = build(p, Several(*answers)).invoke({"text": TEXT, "lang": "ko"})["output"]
    assert (("가격", "negative") in pairs(output)) == kept


def test_the_best_supported_form_gives_span_and_evidence():
    weak = {
        "tuples": [
            {"aspect_term": "가격", "polarity": "negative", "evidence": "끔찍", "confidence": 1}
        ]
    }
    strong = found(("가격", "negative", 0.4))
    merged = majority([result(weak), result(strong)], 0.5, TEXT, KO)
    price = next(a for a in merged.aspects if a.term == "가격")
    assert [(s.evidence, s.confidence) for s in price.sentiments] == [("비싸요", 0.4)]


def test_an_invalid_polarity_costs_its_tuple_only():
    answer = {
        "tuples": [
            {"aspect_term": "가격", "polarity": "awful"},
            *found(("사용감", "positive", 0.9))["tuples"],
        ]
    }
    counter = PolarityCounter()
    read = read_extraction(ExtractAnswer.model_validate(answer), TEXT, KO, counter)
    assert counter.invalid == 1
    assert [(a.term, a.sentiments[0].is_backfilled) for a in read.aspects] == [
        ("가격", True),
        ("사용감", False),
    ]


@pytest.mark.parametrize("name", ["baseline_single", "baseline_vote"])
def test_shipped_baselines_run_offline(name):
    output = build_graph(load_settings(name)).invoke({"text": TEXT})["output"]
    assert pairs(output) == {("사용감", "positive"), ("가격", "negative")}
