"""The persona debate against its table, read literally, and under wild answers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from scripted import (
    ScriptedBackend,
    ate,
    ate_review,
    atsa,
    atsa_review,
    pipeline,
    validator,
)

from absa.graph import build
from absa.schemas.output import FinalOutput

TEXT = "화면은 선명한데 소리가 별로 크지 않네요."
STAGE1 = {
    "화면": ("positive", "선명한데"),
    "소리": ("negative", "크지 않네요"),
    "앱": ("neutral", ""),
}
PROSE = {"화면": "화면이 좋네요", "소리": "소리는 작아요", "앱": "앱도 있어요"}
ORDER = {"analyst": "neutral", "critic": "con", "empath": "pro"}
TABLE = {"neutral": (0.6, "neutral"), "pro": (1.0, "positive"), "con": (1.0, "negative")}
KEYWORDS = {
    "mixed": ("혼합", "mixed", "엇갈", "양면"),
    "positive": ("긍정", "호의", "좋다", "positive"),
    "negative": ("부정", "비판", "나쁘", "negative"),
    "neutral": ("중립", "neutral", "모호"),
}


def held(said: dict[Any, Any], rounds: int = 2, confidence: float = 0.5) -> FinalOutput:
    stage1 = [(a, p, e, confidence) for a, (p, e) in STAGE1.items()]
    answers = {
        "ate": ate(*STAGE1),
        "atsa": atsa(*stage1),
        "validator": validator(),
        "judge": {"winner": None, "consensus": ""},
        "ate_review": ate_review(),
        "atsa_review": atsa_review(),
        "validator_review": validator(),
        **said,
    }
    settings = pipeline(debate={"protocol": "persona", "rounds": rounds})
    graph = build(settings, ScriptedBackend(answers))
    output: FinalOutput = graph.invoke({"text": TEXT, "lang": "ko"})["output"]
    return output


@pytest.mark.parametrize("seed", range(40))
def test_hints_and_evidence_are_those_of_the_table(seed):
    rng = Random(seed)
    said: dict[Any, Any] = {}
    expected: dict[str, list[tuple[str, float, str, str]]] = {}
    mapped = {"direct": 0, "fallback": 0, "none": 0}
    for turn in range(2):
        for speaker, own in ORDER.items():
            stance = rng.choice(("pro", "con", "neutral", "PRO", "unsure", None))
            named = [a for a in STAGE1 if rng.random() < 0.3]
            prose = " ".join(PROSE[a] for a in named)
            place = rng.choice(({"message": prose}, {"message": None, "key_points": [prose]}))
            said[speaker, turn] = {"speaker": "x", "stance": stance, **place}
            weight, polarity = TABLE.get((stance or own).lower(), (0.8, "neutral"))
            alike = [a for a, (p, _) in STAGE1.items() if p == polarity]
            mapped["direct" if named else "fallback" if alike else "none"] += 1
            source = f"source:{speaker}/{stance or own}"
            for aspect in named or alike:
                expected.setdefault(aspect, []).append((speaker, weight, polarity, source))
    output = held(said)
    records = output.meta.override_gate
    assert {
        r.aspect: [(h.speaker, h.weight, h.polarity_hint, h.provenance_hint) for h in r.hints]
        for r in records
    } == expected
    assert [r.aspect for r in records] == list(expected)
    assert output.meta.mapping_stats.model_dump() == mapped
    for r in records:
        if r.verdict not in ("max_one_override_per_sample", "neutral_only"):
            assert (r.evidence or "") == STAGE1[r.aspect][1]


@pytest.mark.parametrize("field", ["consensus", "rationale", "key_agreements", "key_disagreements"])
@pytest.mark.parametrize("seed", range(5))
def test_rule_e_tries_its_keywords_in_order(field, seed):
    rng = Random(seed)
    labels = rng.sample(list(KEYWORDS), k=2)
    words = " / ".join(rng.choice(KEYWORDS[label]).upper() for label in labels)
    prose: Any = [words] if field.startswith("key") else words
    turns = {speaker: {"speaker": "x", "stance": "neutral", "message": ""} for speaker in ORDER}
    output = held({**turns, "judge": {"winner": None, field: prose}})
    inferred = next(label for label in KEYWORDS if label in labels)
    # Stage 1 is mixed, so that RuleE may act whatever the confidence.
    assert output.final_result.label == inferred
    assert output.moderator is not None
    blocked = "label_unchanged" if inferred == "mixed" else None
    assert output.moderator.arbiter_flags.rule_e_block_reason == blocked


WILD: list[dict[str, Any]] = [
    {"message": None, "stance": None, "speaker": "x"},
    {"stance": "con"},
    {"stance": ["pro", "con"], "message": ["화면", 1]},
    {"stance": {"is": "pro"}, "message": "화면"},
    {"key_points": [1, 2.5, None, "소리", {"point": "화면"}, ["앱"]]},
    {"key_points": 7, "message": "소리"},
    {"key_points": "화면", "stance": 3},
    {"message": "화면" * 20_000, "stance": "  "},
    {"message": "\u0000\u200b{}%s{text}", "planning": {"a": 1}, "reflection": []},
]


@pytest.mark.parametrize("seed", range(20))
def test_wild_turns_cost_no_sample(seed):
    rng = Random(seed)
    said = {(speaker, turn): rng.choice(WILD) for speaker in ORDER for turn in range(2)}
    said["judge"] = rng.choice(
        (
            {"winner": ["x"], "key_agreements": [1, None], "rationale": 5},
            {"key_disagreements": {"a": "b"}, "consensus": ["긍정"]},
            {"winner": "critic"},
        )
    )
    output = held(said)
    mapping = output.meta.mapping_stats
    assert mapping.direct + mapping.fallback + mapping.none == 6
    assert output.debate is not None
    assert [len(r.turns) for r in output.debate.rounds] == [3, 3]


def test_a_long_debate_comes_to_its_end():
    turns = {speaker: {"stance": own, "message": "소리"} for speaker, own in ORDER.items()}
    output = held(turns, rounds=17)
    (record,) = output.meta.override_gate
    assert (record.pos_score, record.neg_score) == (pytest.approx(17), pytest.approx(17))
    assert record.verdict == "action_ambiguity"
