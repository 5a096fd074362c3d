"""The conflict review against a second, literal reading of its rules, on random and nasty cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from conflict_cases import case
from reference_conflict import review
from scripted import ScriptedBackend, pipeline

from absa.graph import build
from absa.nodes.arbiter import asking_arbiter
from absa.nodes.language import language
from absa.runs.verify.conflict_review import actions_visible, review_follows
from absa.schemas.answers import Span
from absa.schemas.output import FinalOutput
from absa.schemas.records import ReviewAction
from absa.scorecard import stage_delta

Json = dict[str, Any]
PERSPECTIVES = ("p_neg", "p_imp", "p_lit")
REVIEWERS = ("review_a", "review_b", "review_c")


def answers_of(triplets: Sequence[Any], said: Sequence[Any]) -> Json:
    return {
        **{node: {"triplets": items} for node, items in zip(PERSPECTIVES, triplets, strict=True)},
        **{node: {"review_actions": items} for node, items in zip(REVIEWERS, said, strict=True)},
    }


def held(text: str, lang: str, answers: Json, arbiter: str = "rules") -> tuple[FinalOutput, bool]:
    """The output, and whether the reviewers were asked."""
    settings = pipeline(protocol="conflict_review", conflict_review={"arbiter": arbiter})
    backend = ScriptedBackend(answers)
    output: FinalOutput = build(settings, backend).invoke({"text": text, "lang": lang})["output"]
    return output, bool(backend.turns_of("review_a"))


def plain(output: FinalOutput, reviewed: bool) -> Json:
    """What the graph decided, in the reference's words."""
    meta, result, key = output.meta, output.final_result, language(output.lang).key
    return {
        "candidates": [
            (c.tuple_id, c.origin_agent, c.aspect_term, c.polarity) for c in meta.candidates
        ],
        "conflict_flags": [
            {**flag.model_dump(), "tuple_ids": list(flag.tuple_ids)} for flag in meta.conflict_flags
        ],
        "validator_risks": [(risk.tuple_id, risk.type) for risk in meta.validator_risks],
        "review_actions": [
            {
                "actor": a.actor,
                "action": a.action_type,
                "targets": list(a.target_tuple_ids),
                "value": value_of(a),
                "reason": a.reason_code,
            }
            for a in meta.review_actions
        ],
        "discarded": [d.actor for d in meta.discarded_actions],
        "arbiter_actions": [
            {
                "id": "+".join(a.target_tuple_ids),
                "action": a.action_type,
                "value": value_of(a),
                "reason": a.reason_code,
                "flag": a.flag,
                "applied": a.applied,
            }
            for a in meta.arbiter_actions
        ],
        "flagged": list(meta.flagged_tuple_ids),
        "stage1_tuples": {(key(t.name), t.polarity) for t in result.stage1_tuples},
        "final": [
            (a.aspect_term, a.polarity, a.evidence, offsets(a.span), a.confidence)
            for a in result.final_aspects
        ],
        "label": result.label,
        "confidence": pytest.approx(result.confidence),
        "change_type": stage_delta(output)["change_type"],
        "counts": (meta.polarity_repair_count, meta.polarity_invalid_count),
        "reviewed": reviewed,
    }


def value_of(action: ReviewAction) -> str | None:
    return next(iter(action.new_value.values())) if action.new_value else None


def offsets(span: Span | None) -> tuple[int, int] | None:
    return (span.start, span.end) if span else None


@pytest.mark.parametrize("block", range(10))
def test_the_graph_decides_as_the_rules_read(block):
    for seed in range(block * 30, block * 30 + 30):
        lang, text, triplets, said = case(seed)
        answers = answers_of(triplets, said)
        output, reviewed = held(text, lang, answers)
        assert plain(output, reviewed) == review(text, language(lang), triplets, said), seed
        assert [*review_follows(output, answers), *actions_visible(output)] == [], seed


def test_the_cases_reach_every_rule():
    seen: Counter[str] = Counter()
    for seed in range(300):
        lang, text, triplets, said = case(seed)
        found = review(text, language(lang), triplets, said)
        seen.update(f["conflict_type"] for f in found["conflict_flags"])
        seen.update(risk for _, risk in found["validator_risks"])
        seen.update(a["action"] for a in found["arbiter_actions"])
        seen[found["change_type"]] += 1
        seen["flagged"] += len(found["flagged"])
        seen["discarded"] += len(found["discarded"])
        seen["past the reviewers"] += not found["reviewed"]
        seen["more than ten"] += len(found["candidates"]) > 10
    rules = {
        *("polarity_mismatch", "aspect_overlap"),
        *("EVIDENCE_GAP", "SPAN_MISMATCH", "NEGATION_SCOPE"),
        *("KEEP", "FLIP", "DROP", "MERGE", "guided", "unguided", "none"),
        *("flagged", "discarded", "past the reviewers", "more than ten"),
    }
    assert {rule for rule in rules if seen[rule] < 3} == set()


def test_of_evidence_said_twice_the_place_beside_the_aspect_counts():
    text = "The service was good but the food was not good."
    triplets = [
        [
            {"aspect_term": "service", "polarity": "positive", "evidence": "good"},
            {"aspect_term": "food", "polarity": "positive", "evidence": "good"},
        ],
        [],
        [],
    ]
    output, _ = held(text, "en", answers_of(triplets, [[], [], []]))
    assert [(r.tuple_id, r.type) for r in output.meta.validator_risks] == [("t1", "NEGATION_SCOPE")]


@pytest.mark.parametrize("who", ["a reviewer", "the model"])
def test_a_flag_marks_its_tuple_also_where_the_model_decides(who):
    def act(kind: str, **value: str) -> Json:
        reason = "POLARITY_UNCERTAIN"
        return {
            "action_type": kind,
            "target_tuple_ids": ["t1"],
            "new_value": value,
            "reason_code": reason,
        }

    flag = [act("FLAG")]
    triplets = [
        [{"aspect_term": "가격", "polarity": "negative", "evidence": "비싸요"}],
        [{"aspect_term": "가격", "polarity": "positive", "evidence": "비싸요"}],
        [],
    ]
    said = [
        [act("FLIP", polarity="negative"), *(flag if who == "a reviewer" else [])],
        [act("FLIP", polarity="neutral")],
        [],
    ]
    decision = [act("FLIP", polarity="negative"), *(flag if who == "the model" else [])]
    answers = {
        **answers_of(triplets, said),
        asking_arbiter.name: {"review_actions": decision},
    }
    output, _ = held("가격이 비싸요.", "ko", answers, arbiter="llm")
    decided = output.meta.arbiter_actions[-1]
    assert (decided.case, decided.action_type, decided.flag) == ("asked", "FLIP", True)
    assert output.meta.flagged_tuple_ids == ("t1",)
