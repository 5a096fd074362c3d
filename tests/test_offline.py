"""The embedded analyzer: plain cases in both languages, hostile strings, odd inputs."""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from absa import build_graph, load_settings
from absa.offline import Analysis, OfflineAnalyst
from absa.offline.analysis import Analyser, AnalysisCache
from absa.offline.roles.stage1 import sentence_label
from absa.offline.text.annotations import Aspect, Finding, Opinion, Reading

ROLES = (
    "ate",
    "atsa",
    "validator",
    "extract",
    "epm",
    "tan",
    "cj",
    "judge",
    "ate_review",
    "atsa_review",
    "validator_review",
    "p_neg",
    "p_imp",
    "p_lit",
    "review_a",
    "review_b",
    "review_c",
    "arbiter",
)
L3 = {"NEGATION_SCOPE", "CONTRAST_SCOPE", "POLARITY_MISMATCH", "NEGATION", "CONTRAST", "IRONY"}


@pytest.fixture(scope="module")
def analyst() -> OfflineAnalyst:
    return OfflineAnalyst()


def tuples(analyst: OfflineAnalyst, text: str, lang: str) -> dict[str, str]:
    """Aspects that ATE found with the polarity ATSA gives them."""
    inputs = {"text": text, "lang": lang, "domain": None, "demos": []}
    terms = {item["term"] for item in analyst.answer("ate", inputs)["aspects"]}
    return {
        item["aspect_ref"]: item["polarity"]
        for item in analyst.answer("atsa", inputs)["aspect_sentiments"]
        if item["aspect_ref"] in terms and not item["is_implicit"]
    }


def stage1_of(analyst: OfflineAnalyst, text: str, lang: str) -> dict[str, Any]:
    inputs = {"text": text, "lang": lang}
    sentiments = analyst.answer("atsa", inputs)["aspect_sentiments"]
    return {
        "aspects": analyst.answer("ate", inputs)["aspects"],
        "sentiments": [
            {**item, "aspect_term": item["aspect_ref"], "is_backfilled": False}
            for item in sentiments
        ],
        "unanchored": [],
        **analyst.answer("validator", inputs),
    }


P, N = "positive", "negative"
KOREAN = [
    ("사용감은 좋지만 가격은 비싸요.", {"사용감": P, "가격": N}),
    ("배터리가 오래 가지 않아요.", {"배터리": N}),
    ("배터리가 오래 가요.", {"배터리": P}),
    ("음식이 맛있어요.", {"음식": P}),
    ("음식이 안 맛있어요.", {"음식": N}),
    ("직원이 친절하지 않았어요.", {"직원": N}),
    ("직원들이 정말 친절했습니다!", {"직원들": P}),
    ("화면이 깨끗하지 못하다", {"화면": N}),
    ("서비스가 별로였음ㅋㅋ", {"서비스": N}),
    ("배송이 느리고 포장도 엉망이에요", {"배송": N, "포장": N}),
    ("음식은 맛있고 서비스도 좋은데 주차장이 좁아요.", {"음식": P, "서비스": P, "주차장": N}),
    ("맛은 훌륭하나 분위기는 시끄럽다.", {"맛": P, "분위기": N}),
    ("디자인은 예쁘다. 하지만 소음이 심각하다.", {"디자인": P, "소음": N}),
    ("친절한 직원과 깨끗한 객실", {"직원": P, "객실": P}),
    ("품질에 문제가 없어요", {"품질": P}),
    ("가격이 높아요", {"가격": N}),
    ("품질이 높아요", {"품질": P}),
    ("연기가 최고예요 👍", {"연기": P}),
    ("스토리가 지루하다 ㅠㅠ", {"스토리": N}),
    ("이 제품은 배터리가 훌륭해요", {"배터리": P}),
]
ENGLISH = [
    ("The food was great but the service was slow.", {"food": P, "service": N}),
    ("The food was not good.", {"food": N}),
    ("The food wasn't good.", {"food": N}),
    ("The service was never slow.", {"service": P}),
    ("The screen is not bad.", {"screen": P}),
    ("Great food and terrible service", {"food": P, "service": N}),
    ("Although the food was delicious, the staff was rude.", {"food": P, "staff": N}),
    ("The staff is friendly; the rooms are dirty.", {"staff": P, "rooms": N}),
    ("I love the keyboard.", {"keyboard": P}),
    ("The battery life is terrible.", {"battery life": N}),
    ("The pizza and the pasta were delicious.", {"pizza": P, "pasta": P}),
    ("The prices are high", {"prices": N}),
    ("The waiter wasn't friendly, but the wine was excellent.", {"waiter": N, "wine": P}),
    ("The coffee is cold :(", {"coffee": N}),
    ("The hotel is clean and quiet.", {"hotel": P}),
    ("The decor is beautiful, however the music is too loud.", {"decor": P, "music": N}),
    ("I don ' t like the screen .", {"screen": N}),
]


@pytest.mark.parametrize(("text", "expected"), KOREAN)
def test_plain_korean_cases(analyst: OfflineAnalyst, text: str, expected: dict[str, str]) -> None:
    pairs = tuples(analyst, text, "ko")
    assert {term: pairs.get(term) for term in expected} == expected


@pytest.mark.parametrize(("text", "expected"), ENGLISH)
def test_plain_english_cases(analyst: OfflineAnalyst, text: str, expected: dict[str, str]) -> None:
    assert tuples(analyst, text, "en") == expected


def test_an_opinion_may_reach_far_into_an_aspect(analyst: OfflineAnalyst) -> None:
    """A phrase of the lexicon ended six words behind the aspect's first, and 1 - 6 / 6 is 0."""
    pairs = tuples(analyst, "재밌어요ㅎㅎ 김민수님 박지훈님 연기도 잘하구요ㅎ", "ko")
    assert set(pairs.values()) == {P}


@pytest.mark.parametrize("text", ["", " ", "\n\t", "...", "ㅋㅋㅋㅋ", "\x00\x00", "12345", "?!"])
@pytest.mark.parametrize("lang", ["ko", "en", "fr"])
def test_text_that_says_nothing_has_no_aspect(
    analyst: OfflineAnalyst, text: str, lang: str
) -> None:
    inputs = {"text": text, "lang": lang}
    assert analyst.answer("ate", inputs) == {"aspects": []}
    assert analyst.answer("atsa", inputs) == {"aspect_sentiments": []}


@pytest.mark.parametrize(
    ("text", "lang", "polarity"),
    [
        ("정말 최고예요!", "ko", P),
        ("완전 실망했어요", "ko", N),
        ("Loved it!", "en", P),
        ("😡", "en", N),
    ],
)
def test_an_opinion_without_a_name_is_an_implicit_aspect(
    analyst: OfflineAnalyst, text: str, lang: str, polarity: str
) -> None:
    aspects = analyst.answer("ate", {"text": text, "lang": lang})["aspects"]
    sentiments = analyst.answer("atsa", {"text": text, "lang": lang})["aspect_sentiments"]
    assert [(item["term"], item["span"]) for item in aspects] == [(None, None)]
    judged = [(item["aspect_ref"], item["polarity"], item["is_implicit"]) for item in sentiments]
    assert judged == [(None, polarity, True)]


def test_mixed_scripts_are_read_by_what_is_written(analyst: OfflineAnalyst) -> None:
    pairs = tuples(analyst, "Chromebook 화면이 good이에요", "ko")
    assert set(pairs.values()) == {P}
    assert tuples(analyst, "The food was great", "ko") == {"food": P}
    assert tuples(analyst, "음식이 맛있어요", "en") == {"음식": P}


def test_separable_contrast_is_no_risk(analyst: OfflineAnalyst) -> None:
    for text, lang in [
        ("사용감은 좋지만 가격은 비싸요.", "ko"),
        ("The food was great but the service was slow.", "en"),
    ]:
        answer = analyst.answer("validator", {"text": text, "lang": lang})
        assert not {risk["type"] for risk in answer["structural_risks"]} & L3
        assert answer["suggested_label"] == "mixed"


def test_one_doubtful_aspect_does_not_make_a_clear_text_mixed() -> None:
    sure = Reading("positive", 0.9, 0.9, 0, 1, Opinion("x", 0, 1, 0, 1, 0, 0.9))
    aspect = Aspect("a", 0, 1, 0, 1, 0, 0.9)

    def label(mood: tuple[float, float, float], blame: float) -> str:
        other = replace(sure, polarity="negative", confidence=blame)
        likely = {"positive": (0.9, 0.0, 0.0), "negative": (0.0, blame, 0.0)}
        findings = tuple(
            Finding(aspect, r.confidence, r, r, (), r, likely[r.polarity], r.polarity)
            for r in (sure, other)
        )
        decided = sentence_label(Analysis("x", "en", findings=findings, mood=mood))
        assert decided is not None
        return decided[0]

    assert label((0.95, 0.04, 0.01), 0.3) == "positive"
    assert label((0.95, 0.04, 0.01), 0.6) == "mixed"
    assert label((0.7, 0.2, 0.1), 0.3) == "mixed"


def test_what_only_the_contrast_rule_named_is_judged_by_its_words_or_dropped_again() -> None:
    graph = build_graph(load_settings("configs/default.yaml"))

    def tuples_of(text: str, domain: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        output = graph.invoke({"text": text, "lang": "ko", "domain": domain})["output"]
        stages = output.final_result.stage1_tuples, output.final_result.final_tuples
        first, last = ({(t.aspect_term, t.polarity) for t in tuples} for tuples in stages)
        return first, last

    text = "이 커피는 평소보다 맛이 좀 더 부드럽지만, 맛은 정말 훌륭했습니다!"
    first, last = tuples_of(text, "food")
    assert ("맛", "neutral") in first
    assert ("커피", "positive") in last and ("맛", "neutral") not in last
    text = "스피커는 아주 선명하고 소리도 충분히 크지만, 저음이 확실히 부족합니다."
    _, last = tuples_of(text, "laptop")
    assert {("스피커", "positive"), ("저음", "negative")} <= last


def test_a_name_is_never_its_own_evidence(analyst: OfflineAnalyst) -> None:
    text = "최고의 호텔. 위치!"
    for role, found in (("atsa", "aspect_sentiments"), ("extract", "tuples")):
        answer = analyst.answer(role, {"text": text, "lang": "ko", "domain": "hotel"})
        for item in answer[found]:
            assert item["evidence"] not in ("호텔", "위치")
            assert item["evidence"] in text
    single = build_graph(load_settings("configs/baseline_single.yaml"))
    output = single.invoke({"text": text, "lang": "ko", "domain": "hotel"})["output"]
    assert {t.aspect_term for t in output.final_result.final_tuples} == {"호텔", "위치"}


def test_contrast_with_both_polarities_on_one_side_is_a_risk(analyst: OfflineAnalyst) -> None:
    text = "The food was delicious but the staff was friendly and rude"
    answer = analyst.answer("validator", {"text": text, "lang": "en"})
    assert "CONTRAST_SCOPE" in {risk["type"] for risk in answer["structural_risks"]}


def test_speakers_contradict_a_wrong_stage1_and_the_judge_follows(
    analyst: OfflineAnalyst,
) -> None:
    text = "The food was great but the service was slow."
    stage1 = stage1_of(analyst, text, "en")
    stage1["sentiments"][1]["polarity"] = P
    inputs: dict[str, Any] = {"text": text, "lang": "en", "stage1": stage1, "history": []}
    for role in ("epm", "tan", "cj"):
        inputs["history"] = [
            *inputs["history"],
            analyst.answer(role, {**inputs, "persona": {"name": role}}),
        ]
    ops = {
        (turn["agent"], edit["op"], edit["target"]["aspect_ref"])
        for turn in inputs["history"]
        for edit in turn["proposed_edits"]
    }
    assert ("epm", "set_polarity", "service") in ops
    assert ("cj", "set_polarity", "service") in ops
    verdict = analyst.answer("judge", inputs)
    assert verdict["final_tuples"] == [
        {"aspect_term": "food", "polarity": P},
        {"aspect_term": "service", "polarity": N},
    ]
    assert {item["aspect_ref"]: item["evidence"] for item in verdict["aspect_evidence"]} == {
        "food": "great",
        "service": "slow",
    }
    context = {
        "aspect_hints": {"service": [{"op": "set_polarity", "weight": 0.8, "polarity_hint": N}]},
        "summary": verdict,
    }
    review = analyst.answer(
        "atsa_review", {"text": text, "stage1_atsa": stage1, "review_context": context}
    )
    assert [item["action"] for item in review["sentiment_review"]] == ["maintain", "flip_polarity"]


def test_an_aspect_missed_by_stage1_comes_back_through_the_debate(
    analyst: OfflineAnalyst,
) -> None:
    text = "The food was great but the service was slow."
    stage1 = stage1_of(analyst, text, "en")
    stage1 = {**stage1, "aspects": stage1["aspects"][:1], "sentiments": stage1["sentiments"][:1]}
    inputs: dict[str, Any] = {"text": text, "lang": "en", "stage1": stage1, "history": []}
    turn = analyst.answer("tan", {**inputs, "persona": {}})
    assert {edit["target"]["aspect_ref"] for edit in turn["proposed_edits"]} == {"food", "service"}
    verdict = analyst.answer("judge", {**inputs, "history": [turn]})
    assert {"aspect_term": "service", "polarity": N} in verdict["final_tuples"]


def test_an_aspect_that_is_not_in_the_text_is_dropped(analyst: OfflineAnalyst) -> None:
    stage1 = {
        "aspects": [{"term": "parking", "span": None, "confidence": 0.9}],
        "sentiments": [
            {"aspect_term": "parking", "polarity": P, "evidence": "easy", "confidence": 0.9}
        ],
    }
    inputs = {"text": "The food was great.", "lang": "en", "stage1": stage1, "history": []}
    edits = analyst.answer("epm", {**inputs, "persona": {}})["proposed_edits"]
    assert [edit["op"] for edit in edits] == ["drop_tuple"]


def test_any_speaker_with_a_persona_may_speak_and_no_other(analyst: OfflineAnalyst) -> None:
    inputs = {"text": "음식이 맛있어요", "lang": "ko", "stage1": {}, "history": []}
    assert analyst.answer("referee", {**inputs, "persona": {}})["agent"] == "referee"
    with pytest.raises(ValueError, match="referee"):
        analyst.answer("referee", inputs)


def _strings(value: Any, name: str) -> list[str]:
    if isinstance(value, dict):
        return [
            found
            for key, item in value.items()
            for found in ([item] if key == name and isinstance(item, str) else _strings(item, name))
        ]
    if isinstance(value, list):
        return [found for item in value for found in _strings(item, name)]
    return []


def check_grounding(analyst: OfflineAnalyst, text: str, lang: str) -> None:
    """Every role answers in JSON, with exact spans and quoted evidence."""
    stage1 = stage1_of(analyst, text, lang)
    inputs: dict[str, Any] = {
        "text": text,
        "lang": lang,
        "persona": {"name": "x"},
        "stage1": stage1,
        "history": [],
        "stage1_ate": stage1,
        "stage1_atsa": stage1,
        "stage1_validator": stage1,
        "review_context": None,
    }
    for role in ROLES:
        answer = analyst.answer(role, inputs)
        json.dumps(answer, ensure_ascii=True, allow_nan=False)
        assert all(quoted in text for quoted in _strings(answer, "evidence")), role
        if role in ("epm", "tan", "cj"):
            inputs["history"] = [*inputs["history"], answer]
        if role == "judge":
            assert all(piece in text for piece in answer["sentence_evidence_spans"])
            inputs["review_context"] = {"summary": answer, "aspect_hints": {}}
        if role in ("ate_review", "atsa_review"):
            inputs[role] = answer
    for item in stage1["aspects"]:
        if item["span"] is not None:
            assert text[item["span"]["start"] : item["span"]["end"]] == item["term"]


def test_random_unicode_never_breaks_a_role(analyst: OfflineAnalyst) -> None:
    rng = random.Random(20)
    words = "음식이 맛있어요 안 좋지 않 지만 ㅋㅋ 👍 ㅠㅠ 서비스는".split()
    words += "the food was great not but n't , .".split()
    ranges = [(0x20, 0x7F), (0xAC00, 0xD7A4), (0x1100, 0x11FF), (0x3130, 0x318F), (0, 0x11000)]
    ranges += [(0x1F300, 0x1FAFF), (0xD800, 0xE000), (0x300, 0x370), (0x200B, 0x2070)]
    for number in range(2000):
        pieces = []
        for _ in range(rng.randrange(12)):
            if rng.random() < 0.4:
                pieces.append(rng.choice(words) + " ")
            else:
                low, high = rng.choice(ranges)
                pieces.extend(chr(rng.randrange(low, high)) for _ in range(rng.randrange(6)))
        check_grounding(analyst, "".join(pieces), ("ko", "en", "xx")[number % 3])


def _junk(rng: random.Random, depth: int = 0) -> Any:
    names = (
        "aspects sentiments term aspect_term polarity evidence span start end history target op "
        "value proposed_edits aspect_ref confidence structural_risks type aspect_hints summary "
        "final_tuples aspect_evidence weight polarity_hint tuple_id tuple_ids aspect_review "
        "sentiment_review action term is_backfilled"
    ).split()
    leaves = [None, 1, -3.5, float("nan"), True, "", "food", "positive", "set_polarity", "\ud800"]
    kind = rng.random()
    if depth > 4 or kind < 0.3:
        return rng.choice(leaves)
    if kind < 0.6:
        return [_junk(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(names): _junk(rng, depth + 1) for _ in range(rng.randrange(5))}


def test_odd_inputs_never_break_a_role(analyst: OfflineAnalyst) -> None:
    rng = random.Random(21)
    slots = (
        "stage1 history persona stage1_ate stage1_atsa stage1_validator review_context ate_review "
        "atsa_review candidates conflict_flags validator_risks undecided"
    ).split()
    for number in range(400):
        inputs: dict[str, Any] = {name: _junk(rng) for name in slots}
        inputs |= {"text": rng.choice(["The food was great.", "음식이 맛있다", None, 3])}
        inputs["lang"] = rng.choice(["ko", "en", None, 7])
        assert isinstance(analyst.answer(ROLES[number % len(ROLES)], inputs), dict)


@pytest.mark.parametrize(
    ("piece", "lang"),
    [
        ("음식은 맛있지만 서비스는 느려요. ", "ko"),
        ("음식은맛있고서비스는느리고", "ko"),
        ("가", "ko"),
        ("ㅋ", "ko"),
        ("the food was great but the service was slow ", "en"),
        ("a", "en"),
        ("not ", "en"),
        ("good food ", "en"),
        ("don ' ", "en"),
        ("\x00", "en"),
        ("맛", "ko"),
    ],
)
def test_a_hundred_thousand_characters_take_seconds(piece: str, lang: str) -> None:
    analyst = OfflineAnalyst()
    text = (piece * (100_000 // len(piece) + 1))[:100_000]
    analyst.answer("ate", {"text": "가", "lang": "ko"})
    start = time.thread_time()
    for role in ("ate", "atsa", "validator"):
        analyst.answer(role, {"text": text, "lang": lang})
    assert time.thread_time() - start < 15


def test_one_analysis_serves_all_roles_and_the_store_stays_bounded() -> None:
    seen: list[str] = []
    analyser = Analyser()

    def read(text: str, lang: str | None, domain: str | None, given: Any = None) -> Analysis:
        seen.append(text)
        return analyser(text, lang, domain)

    analyst = OfflineAnalyst(read)
    for role in ROLES:
        analyst.answer(role, {"text": "음식이 맛있어요", "lang": "ko", "persona": {}})
    assert len(seen) == 1
    cache = AnalysisCache(read, max_texts=2, max_chars=10)
    for text in ("a", "b", "c", "d" * 11, "e"):
        cache(text, "en")
    assert len(cache._known) <= 2
    assert cache._chars <= 10


def test_threads_get_the_answers_of_a_single_thread() -> None:
    texts = [(text, "ko") for text, _ in KOREAN] + [(text, "en") for text, _ in ENGLISH]
    alone = [tuples(OfflineAnalyst(), *item) for item in texts]
    shared = OfflineAnalyst()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda item: tuples(shared, *item), texts * 8))
    assert together == alone * 8


TRIPLETS = ("p_neg", "p_imp", "p_lit")
CONFLICT_TEXT = "The battery life is great but the screen is not good."


def doubted(**candidates: tuple[str, str, str]) -> dict[str, Any]:
    """Candidates, all of them in doubt: tuple_id -> term, polarity, evidence."""
    return {
        "text": CONFLICT_TEXT,
        "lang": "en",
        "candidates": [
            {"tuple_id": name, "aspect_term": term, "polarity": polarity, "evidence": evidence}
            for name, (term, polarity, evidence) in candidates.items()
        ],
        "conflict_flags": [
            {
                "aspect_term": "x",
                "tuple_ids": list(candidates),
                "conflict_type": "aspect_overlap",
            }
        ],
        "validator_risks": [],
    }


@pytest.mark.parametrize("role", TRIPLETS)
def test_perspectives_find_aspects_with_evidence(analyst: OfflineAnalyst, role: str) -> None:
    triplets = analyst.answer(role, {"text": CONFLICT_TEXT, "lang": "en"})["triplets"]
    polarities = {item["aspect_term"]: item["polarity"] for item in triplets}
    assert polarities == {"battery life": "positive", "screen": "negative"}
    assert all(item["evidence"] in CONFLICT_TEXT for item in triplets)


def test_only_the_implicit_perspective_names_what_is_not_named(analyst: OfflineAnalyst) -> None:
    inputs = {"text": "Absolutely wonderful!", "lang": "en"}
    answers = {role: analyst.answer(role, inputs)["triplets"] for role in TRIPLETS}
    assert answers["p_neg"] == answers["p_lit"] == []
    (implied,) = answers["p_imp"]
    assert (implied["aspect_term"], implied["aspect_ref"]) == (None, None)
    assert (implied["polarity"], implied["span"]) == ("positive", None)


@pytest.mark.parametrize("role", ["review_a", "review_b", "review_c", "arbiter"])
def test_reviewers_flip_drop_and_keep_what_is_in_doubt(analyst: OfflineAnalyst, role: str) -> None:
    inputs = doubted(
        t0=("screen", "positive", "good"),
        t1=("screen", "negative", "not good"),
        t2=("warranty", "positive", "long warranty"),
    )
    actions = analyst.answer(role, inputs)["review_actions"]
    assert [(a["action_type"], a["target_tuple_ids"]) for a in actions] == [
        ("FLIP", ["t0"]),
        ("KEEP", ["t1"]),
        ("DROP", ["t2"]),
    ]
    assert actions[0]["new_value"] == {"polarity": "negative"}


def test_two_reviewers_merge_overlapping_terms_of_one_polarity(analyst: OfflineAnalyst) -> None:
    inputs = doubted(t0=("battery life", "positive", "great"), t1=("battery", "positive", "great"))
    merges = [
        role
        for role in ("review_a", "review_b", "review_c")
        if analyst.answer(role, inputs)["review_actions"][0]["action_type"] == "MERGE"
    ]
    assert merges == ["review_b", "review_c"]


def test_the_arbiter_speaks_of_the_undecided_only(analyst: OfflineAnalyst) -> None:
    inputs = doubted(t0=("screen", "positive", "good"), t1=("screen", "negative", "not good"))
    actions = analyst.answer("arbiter", {**inputs, "undecided": ["t1"]})["review_actions"]
    assert [a["target_tuple_ids"] for a in actions] == [["t1"]]
