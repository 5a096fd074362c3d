"""The conflict review, rule by rule: numbering, flags, checked actions, arbiter, collapse."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedBackend, pairs

from absa.graph import build
from absa.nodes.conflict_result import carry_out, collapse, conflicts_resolved
from absa.nodes.conflict_reviewers import checked
from absa.nodes.count_votes import STRUCTURAL, arbitrate
from absa.nodes.language import language
from absa.nodes.merge_candidates import find_conflicts, find_risks, flagged_ids, number
from absa.nodes.perspectives import ORIGINS
from absa.nodes.polarity import PolarityCounter
from absa.runs.verify.conflict_review import actions_visible, review_follows
from absa.schemas.answers import (
    REASON_CODES,
    ReviewActionItem,
    ReviewActionsAnswer,
    TripletsAnswer,
    read_answer,
)
from absa.schemas.output import FinalOutput
from absa.schemas.records import ArbiterAction, Candidate, ReviewAction
from absa.schemas.sample import Sample
from absa.schemas.settings import PipelineSettings
from absa.scorecard import scorecard

KO = language("ko")
EN = language("en")
TEXT = "사용감은 좋지만 가격은 비싸요."


def triplet(term: str | None, polarity: Any = "positive", **more: Any) -> dict[str, Any]:
    return {"aspect_term": term, "polarity": polarity, **more}


def numbered(
    a: list[dict[str, Any]],
    b: list[dict[str, Any]] | None = None,
    c: list[dict[str, Any]] | None = None,
    text: str = TEXT,
    counter: PolarityCounter | None = None,
) -> list[Candidate]:
    answers = {
        name: read_answer(TripletsAnswer, {"triplets": items})[0]
        for name, items in zip(ORIGINS, (a, b or [], c or []), strict=True)
    }
    return number(answers, text, counter or PolarityCounter())


def candidates(*polarities: str, term: str = "가격") -> dict[str, Candidate]:
    candidates = numbered([triplet(term, p) for p in polarities])
    return {c.tuple_id: c for c in candidates}


def action(
    kind: str,
    actor: str,
    *targets: str,
    value: str | None = None,
    reason: str = "KEEP_BEST_SUPPORTED",
) -> ReviewAction:
    name = {"FLIP": "polarity", "MERGE": "normalized_ref"}.get(kind)
    return ReviewAction(
        action_type=kind,  # type: ignore[arg-type]
        target_tuple_ids=targets or ("t0",),
        new_value={name: value} if name and value else None,
        reason_code=reason,
        actor=actor,
    )


# Answers -----------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_left_out_and_the_rest_stays():
    raw = {"triplets": [triplet("가격"), "가격", {"aspect_term": {"a": 1}}, {}]}
    answer, notes = read_answer(TripletsAnswer, raw)
    assert [t.aspect_term for t in answer.triplets] == ["가격", None]
    assert len(notes) == 2


def test_a_reviewer_that_gives_tuples_is_noted():
    answer, notes = read_answer(ReviewActionsAnswer, {"triplets": [triplet("가격")]})
    assert answer.review_actions == []
    assert notes == ["triplets discarded: reviews only"]


@pytest.mark.parametrize(
    ("said", "polarity", "ref"),
    [
        ({"polarity": "negative"}, "negative", None),
        ("negative", "negative", "negative"),
        ({"normalized_ref": "가격"}, None, "가격"),
    ],
)
def test_a_new_value_may_be_an_object_or_a_word(said, polarity, ref):
    item = ReviewActionItem.model_validate({"action_type": "FLIP", "new_value": said})
    assert item.new_value is not None
    assert (item.new_value.polarity, item.new_value.normalized_ref) == (polarity, ref)


@pytest.mark.parametrize("junk", [None, 3, [], ["negative"], True])
def test_a_new_value_that_is_neither_is_none(junk):
    assert ReviewActionItem.model_validate({"new_value": junk}).new_value is None


# Numbering ---------------------------------------------------------------------------------------


def test_triplets_are_numbered_in_the_order_of_the_perspectives_and_none_is_merged():
    candidates = numbered([triplet("가격"), triplet("맛")], [triplet("가격")], [triplet("가격")])
    assert [(c.tuple_id, c.origin_agent, c.aspect_term) for c in candidates] == [
        ("t0", "A", "가격"),
        ("t1", "A", "맛"),
        ("t2", "B", "가격"),
        ("t3", "C", "가격"),
    ]


def test_an_invalid_polarity_is_left_out_before_numbering_and_a_misspelt_one_repaired():
    counter = PolarityCounter()
    candidates = numbered(
        [triplet("가격", "mixed"), triplet("맛", "negatve"), triplet("향", None), triplet("양")],
        counter=counter,
    )
    assert [(c.tuple_id, c.aspect_term, c.polarity) for c in candidates] == [
        ("t0", "맛", "negative"),
        ("t1", "양", "positive"),
    ]
    assert (counter.repaired, counter.invalid) == (1, 2)


def test_a_candidate_has_its_place_a_confidence_and_a_name():
    (one, other) = numbered(
        [triplet("가격", span=[0, 2]), triplet(None, aspect_ref="배송", confidence=0.4)]
    )
    assert one.span is not None and TEXT[one.span.start : one.span.end] == "가격"
    assert one.confidence == 0.5
    assert (other.aspect_term, other.span, other.confidence) == ("배송", None, 0.4)


# Conflicts ---------------------------------------------------------------------------------------


def flags(found: list[Candidate], lang: Any = KO) -> list[tuple[str, tuple[str, ...], str]]:
    return [(f.aspect_term, f.tuple_ids, f.conflict_type) for f in find_conflicts(found, lang)]


def test_two_polarities_of_one_aspect_are_a_conflict_and_agreement_is_none():
    candidates = numbered(
        [triplet("가격", "negative"), triplet("사용감")],
        [triplet("가격은", "positive"), triplet("사용감")],
        [triplet("가격", "negative")],
    )
    assert flags(candidates) == [("가격", ("t0", "t2", "t4"), "polarity_mismatch")]


def test_the_reference_tells_the_aspect_before_the_term_does():
    same = [triplet("제품", aspect_ref="가격"), triplet("가격", "negative")]
    other = [triplet("가격", aspect_ref="사용감"), triplet("가격", "negative", aspect_ref="가격대")]
    assert flags(numbered(same)) == [("제품", ("t0", "t1"), "polarity_mismatch")]
    assert flags(numbered(other)) == [("가격", ("t0", "t1"), "aspect_overlap")]


def test_terms_that_share_words_of_the_text_overlap():
    text = "The battery life is great, the battery itself is light."
    candidates = numbered(
        [triplet("battery life"), triplet("screen")],
        [triplet("battery"), triplet("battery", span=[31, 38])],
        text=text,
    )
    assert flags(candidates, EN) == [("battery life", ("t0", "t2"), "aspect_overlap")]


# Risks -------------------------------------------------------------------------------------------


def risks(text: str, *items: dict[str, Any], lang: Any = KO) -> list[tuple[str, str]]:
    candidates = numbered(list(items), text=text)
    return [(r.tuple_id, r.type) for r in find_risks(candidates, text, lang)]


@pytest.mark.parametrize("evidence", [None, "", "  ", "저렴해요"])
def test_evidence_that_is_missing_or_made_up_is_a_risk(evidence):
    item = triplet("가격", "negative", evidence=evidence)
    assert risks(TEXT, item) == [("t0", "EVIDENCE_GAP")]


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ([9, 11], []),
        (None, []),
        ([9, 12], [("t0", "SPAN_MISMATCH")]),
        ([90, 95], [("t0", "SPAN_MISMATCH")]),
    ],
)
def test_a_span_that_does_not_cover_its_term_is_a_risk(span, found):
    assert risks(TEXT, triplet("가격", "negative", evidence="비싸요", span=span)) == found


@pytest.mark.parametrize(
    ("text", "evidence", "polarity", "risky"),
    [
        ("배터리가 오래 가지 않아요.", "오래 가지", "positive", True),
        ("배터리가 오래 가지 않아요.", "오래 가지", "negative", False),
        ("배터리가 오래 가지 않아요.", "오래 가지", "neutral", False),
        ("배터리가 정말 오래 가고 가게 안이 넓어요.", "오래 가고", "positive", False),
        ("배터리는 오래 가지만 화면은 안 좋아요.", "오래 가지만", "positive", False),
        ("배터리가 오래 가요. 화면은 안 좋아요.", "오래 가요", "positive", False),
        ("배터리가 별로예요. 저는 못 써요.", "없는 말", "positive", True),
    ],
)
def test_a_positive_in_a_negated_clause_is_a_risk(text, evidence, polarity, risky):
    risk_list = risks(text, triplet("배터리", polarity, evidence=evidence))
    assert (("t0", "NEGATION_SCOPE") in risk_list) is risky


@pytest.mark.parametrize(
    ("text", "risky"),
    [
        ("The battery does not last.", True),
        ("The battery doesn't last.", True),
        ("The battery doesn’t last.", True),
        ("The battery lasts but the screen never does.", False),
        ("The battery lasts. No joke.", False),
        ("The notable battery lasts for a nothingburger.", False),
    ],
)
def test_english_negations_are_whole_words(text, risky):
    risk_list = risks(text, triplet("battery", evidence="last"), lang=EN)
    assert (risk_list == [("t0", "NEGATION_SCOPE")]) is risky


def test_a_language_without_patterns_has_no_negations():
    candidates = numbered([triplet("Akku", evidence="nicht")], text="Der Akku hält nicht.")
    assert find_risks(candidates, "Der Akku hält nicht.", language("de")) == []


def test_conflicts_and_risks_both_flag_their_tuples():
    candidates = numbered(
        [triplet("가격", "negative", evidence="비싸요"), triplet("사용감", evidence="좋지만")],
        [triplet("가격", "positive", evidence="비싸요"), triplet("배송", evidence="빨라요")],
    )
    flagged = flagged_ids(find_conflicts(candidates, KO), find_risks(candidates, TEXT, KO))
    assert flagged == {"t0", "t2", "t3"}


# Actions -----------------------------------------------------------------------------------------


def check(**fields: Any) -> tuple[list[ReviewAction], str | None, PolarityCounter]:
    """An action on t0 and t1 (flagged) and t2 (not): what became of it."""
    action = {
        "action_type": "KEEP",
        "target_tuple_ids": ["t0"],
        "reason_code": "KEEP_BEST_SUPPORTED",
        **fields,
    }
    answer, _ = read_answer(ReviewActionsAnswer, {"review_actions": [action]})
    counter = PolarityCounter()
    tuple_ids, flagged = {"t0", "t1", "t2"}, {"t0", "t1"}
    accepted, discarded = checked(answer.review_actions, "A", tuple_ids, flagged, counter)
    assert len(accepted) + len(discarded) == 1
    return accepted, discarded[0].why if discarded else None, counter


FLIP = {"action_type": "FLIP", "reason_code": "NEGATION_SCOPE"}
MERGE = {
    "action_type": "MERGE",
    "target_tuple_ids": ["t1", "t0"],
    "new_value": {"normalized_ref": "가격"},
    "reason_code": "DUPLICATE_TUPLE",
}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"action_type": "ADD"}, "unknown_action"),
        ({"action_type": "keep"}, "unknown_action"),
        ({"action_type": None}, "unknown_action"),
        ({"reason_code": "BECAUSE"}, "unknown_reason_code"),
        ({"reason_code": None}, "unknown_reason_code"),
        ({"target_tuple_ids": []}, "no_target"),
        ({"target_tuple_ids": None}, "no_target"),
        ({"target_tuple_ids": ["t9"]}, "unknown_tuple"),
        ({"target_tuple_ids": ["t0", {"id": "t1"}]}, "unknown_tuple"),
        ({"target_tuple_ids": ["t2"]}, "not_under_review"),
        ({"target_tuple_ids": ["t0", "t2"], "action_type": "DROP"}, "not_under_review"),
        ({**MERGE, "target_tuple_ids": ["t0"]}, "merge_needs_two"),
        ({**MERGE, "target_tuple_ids": ["t0", "t0"]}, "merge_needs_two"),
        ({**MERGE, "new_value": None}, "merge_needs_ref"),
        ({**MERGE, "new_value": {"normalized_ref": "  "}}, "merge_needs_ref"),
        ({**MERGE, "new_value": {"polarity": "negative"}}, "merge_needs_ref"),
        (FLIP, "flip_needs_polarity"),
        ({**FLIP, "new_value": {"polarity": "mixed"}}, "flip_needs_polarity"),
        ({**FLIP, "new_value": {"normalized_ref": "가격"}}, "flip_needs_polarity"),
    ],
)
def test_an_action_that_may_not_be_is_discarded_and_recorded(fields, why):
    accepted, reason, _ = check(**fields)
    assert (accepted, reason) == ([], why)


def test_the_record_of_a_discarded_action_says_what_was_said_and_by_whom():
    items = [ReviewActionItem(action_type="ADD", target_tuple_ids=["t0"], reason_code="X")]
    _, (record,) = checked(items, "B", {"t0"}, {"t0"}, PolarityCounter())
    assert (record.actor, record.why) == ("B", "unknown_action")
    assert record.action["action_type"] == "ADD" and record.action["reason_code"] == "X"


@pytest.mark.parametrize("kind", ["KEEP", "DROP", "FLAG"])
@pytest.mark.parametrize("reason", REASON_CODES)
def test_every_reason_code_of_the_list_is_known(kind, reason):
    (accepted,), why, _ = check(action_type=kind, reason_code=reason, new_value={"polarity": "x"})
    assert (accepted.action_type, accepted.reason_code, accepted.new_value) == (kind, reason, None)
    assert why is None


@pytest.mark.parametrize(("word", "repaired"), [("NEG", 0), ("negatve", 1)])
def test_a_flip_carries_the_canonical_polarity(word, repaired):
    (accepted,), _, counter = check(**FLIP, new_value={"polarity": word})
    assert accepted.new_value == {"polarity": "negative"}
    assert (counter.repaired, counter.invalid) == (repaired, 0)


def test_an_invalid_flip_counts_as_an_invalid_polarity():
    assert check(**FLIP, new_value={"polarity": "bad"})[2].invalid == 1


def test_a_merge_keeps_its_targets_and_the_actor_is_who_spoke():
    (accepted,), _, _ = check(**MERGE, actor="C")
    assert accepted.target_tuple_ids == ("t1", "t0")
    assert accepted.new_value == {"normalized_ref": "가격"}
    assert accepted.actor == "A"


# Arbiter -----------------------------------------------------------------------------------------

POS = candidates("positive", "positive", "negative")


def decided(*actions: ReviewAction, tuple_id: str = "t0") -> ArbiterAction:
    return arbitrate(tuple_id, actions, POS)


def short(made: ArbiterAction) -> tuple[str, str, bool, bool]:
    return made.case, made.action_type, made.flag, made.applied


def flip(actor: str, to: str = "negative", reason: str = "WEAK_EVIDENCE") -> ReviewAction:
    return action("FLIP", actor, value=to, reason=reason)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([], ("majority", "KEEP", False, False)),
        ([flip("A")], ("majority", "KEEP", False, False)),
        ([flip("A"), flip("C")], ("majority", "FLIP", False, True)),
        ([flip("A"), flip("B"), action("DROP", "C")], ("majority", "FLIP", False, True)),
        ([flip("A", "positive"), flip("B", "positive")], ("majority", "FLIP", False, False)),
        ([action("DROP", "B"), action("DROP", "C")], ("majority", "DROP", False, True)),
        ([action("KEEP", "A"), flip("B"), action("KEEP", "C")], ("majority", "KEEP", False, False)),
        ([flip("A"), flip("B", "neutral")], ("no_majority", "KEEP", True, False)),
        (
            [flip("A"), flip("B", "neutral"), action("DROP", "C")],
            ("no_majority", "KEEP", True, False),
        ),
    ],
)
def test_two_equal_votes_win_and_silence_is_a_keep(actions, expected):
    assert short(decided(*actions)) == expected


@pytest.mark.parametrize("reason", REASON_CODES)
@pytest.mark.parametrize("keep", [[action("KEEP", "C")], [], [action("FLAG", "C")]])
def test_flip_drop_keep_flips_for_a_structural_reason_only(reason, keep):
    made = decided(flip("A", reason=reason), action("DROP", "B"), *keep)
    flags_it = any(a.action_type == "FLAG" for a in keep)
    if reason in STRUCTURAL:
        assert short(made) == ("flip_drop_keep", "FLIP", flags_it, True)
        assert (made.new_value, made.reason_code) == ({"polarity": "negative"}, reason)
    else:
        assert short(made) == ("flip_drop_keep", "KEEP", True, False)
        assert made.reason_code == "POLARITY_UNCERTAIN"


def merge(actor: str, *targets: str, ref: str = "가격대") -> ReviewAction:
    return action("MERGE", actor, *targets, value=ref, reason="DUPLICATE_TUPLE")


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([merge("A", "t0", "t1"), merge("B", "t1", "t0")], ("majority", "MERGE", False, True)),
        (
            [merge("A", "t0", "t1"), merge("B", "t0", "t1", ref="값")],
            ("no_majority", "KEEP", True, False),
        ),
        (
            [merge("A", "t0", "t1"), merge("B", "t0", "t1", "t2")],
            ("no_majority", "KEEP", True, False),
        ),
        (
            [merge("A", "t0", "t2"), merge("B", "t0", "t2"), action("DROP", "C")],
            ("merge_refused", "KEEP", True, False),
        ),
        (
            [merge("A", "t0", "t1"), action("DROP", "B"), action("KEEP", "C")],
            ("no_majority", "KEEP", True, False),
        ),
    ],
)
def test_a_merge_needs_the_same_targets_and_name_and_one_polarity(actions, expected):
    made = decided(*actions)
    assert short(made) == expected
    if made.flag:
        assert (made.reason_code, made.new_value) == ("POLARITY_UNCERTAIN", None)


def test_a_vote_is_the_first_action_on_that_tuple_other_than_flag():
    items = [
        action("FLAG", "A"),
        flip("A"),
        action("DROP", "A"),
        action("DROP", "B", "t1"),
        flip("B"),
    ]
    made = decided(*items)
    assert made.votes == {"A": "FLIP:negative", "B": "FLIP:negative", "C": "KEEP"}
    assert short(made) == ("majority", "FLIP", True, True)


def test_a_flag_marks_the_tuple_whatever_wins_and_alone_is_a_keep():
    made = decided(action("DROP", "A"), action("DROP", "B"), action("FLAG", "C"))
    assert short(made) == ("majority", "DROP", True, True)
    alone = decided(action("FLAG", "A"), action("FLAG", "B"), action("DROP", "C"))
    assert short(alone) == ("majority", "KEEP", True, False)
    assert alone.votes == {"A": "KEEP", "B": "KEEP", "C": "DROP"}


def test_the_reason_is_that_of_the_first_who_wanted_it():
    made = decided(flip("B", reason="CONTRAST_CLAUSE"), flip("C", reason="WEAK_EVIDENCE"))
    assert made.reason_code == "CONTRAST_CLAUSE"
    assert decided().reason_code is None


# Finalize ----------------------------------------------------------------------------------------


def carried_out(found: list[Candidate], *actions: ArbiterAction) -> list[tuple[str, str, Any]]:
    return [(c.tuple_id, c.polarity, c.aspect_ref) for c in carry_out(found, actions)]


def made(kind: str, tuple_id: str, value: str | None = None) -> ArbiterAction:
    plain = action(kind, "arbiter", tuple_id, value=value)
    return ArbiterAction(**plain.model_dump(), case="majority")


def test_actions_are_carried_out_on_their_tuples_and_nothing_else_changes():
    candidates = numbered(
        [triplet("가격", aspect_ref="값"), triplet("맛"), triplet("향"), triplet("양")]
    )
    assert carried_out(
        candidates, made("FLIP", "t0", "negative"), made("DROP", "t1"), made("MERGE", "t2", "냄새")
    ) == [("t0", "negative", "값"), ("t2", "positive", "냄새"), ("t3", "positive", None)]
    assert carried_out(candidates, made("KEEP", "t0")) == carried_out(candidates)


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (triplet("배송", aspect_ref="가격", evidence="비싸요", confidence=1.0), triplet("가격")),
        (triplet("가격", evidence="없어요", confidence=1.0), triplet("가격", evidence="비싸요")),
        (triplet("가격", confidence=0.5), triplet("가격", confidence=0.6)),
    ],
)
def test_the_best_supported_of_equal_tuples_stays(worse, better):
    for order in ([worse, better], [better, worse]):
        candidates = numbered(order)
        (left,) = collapse(candidates, TEXT, KO)
        assert left.tuple_id == f"t{order.index(better)}"


def test_of_equally_supported_tuples_the_lower_number_stays():
    (left,) = collapse(numbered([triplet("가격")], [triplet("가격은")]), TEXT, KO)
    assert left.tuple_id == "t0"


def test_tuples_of_two_polarities_or_two_aspects_do_not_collapse():
    candidates = numbered([triplet("가격"), triplet("가격", "negative"), triplet("사용감")])
    assert collapse(candidates, TEXT, KO) == candidates


def test_merged_tuples_collapse_under_their_new_name():
    candidates = numbered([triplet("가격"), triplet("사용감", confidence=0.9)])
    merged = carry_out(candidates, [made("MERGE", "t0", "제품"), made("MERGE", "t1", "제품")])
    (left,) = collapse(merged, TEXT, KO)
    assert (left.tuple_id, left.aspect_term, left.aspect_ref) == ("t1", "사용감", "제품")


@pytest.mark.parametrize(
    ("actions", "resolved"),
    [
        ([], False),
        ([made("FLIP", "t1", "positive")], True),
        ([made("DROP", "t0")], True),
        ([made("DROP", "t0"), made("DROP", "t1")], False),
    ],
)
def test_a_conflict_is_resolved_if_one_polarity_is_left(actions, resolved):
    candidates = numbered([triplet("가격"), triplet("가격", "negative")])
    conflicts = find_conflicts(candidates, KO)
    assert conflicts_resolved(conflicts, carry_out(candidates, actions)) is resolved


def test_where_there_was_no_conflict_none_is_resolved():
    assert conflicts_resolved([], numbered([triplet("가격")])) is False


# The whole graph ---------------------------------------------------------------------------------

PRICE = triplet("가격", "negative", evidence="비싸요", confidence=0.8)
FEEL = triplet("사용감", "positive", evidence="좋지만", confidence=0.9)
WRONG_PRICE = {**PRICE, "polarity": "positive", "confidence": 0.6}
# t0 and t1 of A, t2 of C: two polarities of 가격.
CONTESTED = {
    "p_neg": {"triplets": [FEEL, PRICE]},
    "p_imp": {"triplets": []},
    "p_lit": {"triplets": [WRONG_PRICE]},
}


def act(kind: str, *targets: str, reason: str = "KEEP_BEST_SUPPORTED", **value: str) -> Any:
    return {
        "action_type": kind,
        "target_tuple_ids": list(targets),
        "new_value": value or None,
        "reason_code": reason,
    }


def reviews(a: list[Any], b: list[Any] | None = None, c: list[Any] | None = None) -> dict[str, Any]:
    said_by = zip(("review_a", "review_b", "review_c"), (a, b or [], c or []), strict=True)
    return {name: {"review_actions": actions} for name, actions in said_by}


def held(
    answers: dict[str, Any],
    arbiter: str = "rules",
    text: str = TEXT,
    given: list[str] | None = None,
    **more: Any,
) -> tuple[FinalOutput, ScriptedBackend]:
    backend = ScriptedBackend(answers)
    settings = PipelineSettings.model_validate(
        {"protocol": "conflict_review", "conflict_review": {"arbiter": arbiter, **more}}
    )
    asks = {"text": text, "lang": "ko", "given_aspects": given}
    output: FinalOutput = build(settings, backend).invoke(asks)["output"]
    assert list(review_follows(output, answers)) == []
    assert list(actions_visible(output)) == []
    return output, backend


def asked(backend: ScriptedBackend) -> set[str]:
    return {question.node for question in backend.asked}


def test_without_a_doubt_the_reviewers_are_not_asked():
    agreed = {name: {"triplets": [FEEL, PRICE]} for name in ORIGINS}
    output, backend = held(agreed)
    assert asked(backend) == set(ORIGINS)
    assert pairs(output.final_result.final_tuples) == {("사용감", "positive"), ("가격", "negative")}
    assert (output.final_result.label, output.final_result.confidence) == (
        "mixed",
        pytest.approx(0.85),
    )
    assert len(output.meta.candidates) == 6 and len(output.final_result.final_aspects) == 2
    assert not output.analysis_flags.stage2_executed
    assert output.final_result.stage2_tuples == ()
    assert (output.stage2_ate, output.meta.adopt_decision) == (None, "not_adopted")
    assert scorecard(output, Sample(uid="1", text=TEXT), 0)["stage_delta"] == {
        "changed": False,
        "change_type": "none",
    }


def test_reviewers_drop_an_aspect_that_only_one_perspective_found():
    answers = {
        "p_neg": {"triplets": [FEEL, PRICE]},
        "p_imp": {"triplets": [FEEL, PRICE]},
        "p_lit": {"triplets": [FEEL, PRICE, triplet("맛", evidence="좋지만")]},
    }
    dropped = act("DROP", "t6", reason="WEAK_EVIDENCE")
    review = reviews([dropped], [dropped], [act("DROP", "t0")])
    both = {("사용감", "positive"), ("가격", "negative")}
    # By default agreement is assumed where nothing contradicts it.
    output, backend = held({**answers, **review})
    assert asked(backend) == set(ORIGINS)
    assert pairs(output.final_result.final_tuples) == both | {("맛", "positive")}
    output, backend = held({**answers, **review}, flag_single_support=True)
    assert [(f.tuple_ids, f.conflict_type) for f in output.meta.conflict_flags] == [
        (("t6",), "single_support")
    ]
    assert pairs(output.final_result.final_tuples) == both
    # An aspect that others found is not flagged, and nobody may act on it.
    assert [d.actor for d in output.meta.discarded_actions] == ["C"]
    # One reviewer against two keeps it.
    output, _ = held({**answers, **reviews([dropped])}, flag_single_support=True)
    assert pairs(output.final_result.final_tuples) == both | {("맛", "positive")}


def test_single_support_counts_perspectives_and_not_polarities():
    candidates = numbered(
        [triplet("가격", "negative")], [triplet("가격은", "positive"), triplet("맛"), triplet("맛")]
    )
    single = find_conflicts(candidates, KO, single_support=True)
    assert [(f.aspect_term, f.tuple_ids, f.conflict_type) for f in single] == [
        ("가격", ("t0", "t1"), "polarity_mismatch"),
        ("맛", ("t2", "t3"), "single_support"),
    ]


def test_the_perspectives_see_the_text_only_and_the_reviewers_what_is_in_doubt():
    _, backend = held({**CONTESTED, **reviews([])})
    shown = {name for name, value in backend.inputs_of("p_lit").items() if value}
    assert shown == {"text", "lang"}
    seen = backend.inputs_of("review_b")
    assert [c["tuple_id"] for c in seen["candidates"]] == ["t0", "t1", "t2"]
    assert [c["origin_agent"] for c in seen["candidates"]] == ["A", "A", "C"]
    assert seen["conflict_flags"] == [
        {"aspect_term": "가격", "tuple_ids": ["t1", "t2"], "conflict_type": "polarity_mismatch"}
    ]
    assert seen["validator_risks"] == []


FLIP_T2 = act("FLIP", "t2", reason="NEGATION_SCOPE", polarity="negative")


def test_two_reviewers_flip_a_tuple_and_it_becomes_one_with_its_twin():
    output, backend = held({**CONTESTED, **reviews([FLIP_T2], [act("DROP", "t2")], [FLIP_T2])})
    assert len(backend.asked) == 6
    result, meta = output.final_result, output.meta
    assert pairs(result.stage1_tuples) == {
        ("사용감", "positive"),
        ("가격", "negative"),
        ("가격", "positive"),
    }
    assert pairs(result.final_tuples) == {("사용감", "positive"), ("가격", "negative")}
    assert result.stage2_tuples == result.final_tuples
    sentiments = output.patched_stage2_atsa.aspect_sentiments
    assert [(s.aspect_ref, s.polarity) for s in sentiments] == [
        (t.aspect_term, t.polarity) for t in result.final_tuples
    ]
    assert [a.confidence for a in result.final_aspects] == [0.9, 0.8]
    assert [short(a) for a in meta.arbiter_actions] == [
        ("majority", "KEEP", False, False),
        ("majority", "FLIP", False, True),
    ]
    assert [a.actor for a in meta.review_actions] == ["A", "B", "C"]
    assert meta.flagged_tuple_ids == ()
    assert (meta.adopt_decision, meta.adopt_reason) == ("adopted", "review_applied")
    assert output.analysis_flags.conflict_resolved and output.analysis_flags.correction_occurred
    card = scorecard(output, Sample(uid="1", text=TEXT), 0)
    assert card["stage_delta"] == {"changed": True, "change_type": "guided"}


@pytest.mark.parametrize(
    ("said", "case", "left", "marked"),
    [
        ([[], [], []], "majority", {"positive", "negative"}, ()),
        ([[act("FLAG", "t2")], [], []], "majority", {"positive", "negative"}, ("t2",)),
        ([[act("DROP", "t2")], [act("DROP", "t2")], []], "majority", {"negative"}, ()),
        ([[FLIP_T2], [act("DROP", "t2")], []], "flip_drop_keep", {"negative"}, ()),
        (
            [[{**FLIP_T2, "reason_code": "WEAK_INFERENCE"}], [act("DROP", "t2")], []],
            "flip_drop_keep",
            {"positive", "negative"},
            ("t2",),
        ),
        (
            [[FLIP_T2], [act("FLIP", "t2", polarity="neutral")], []],
            "no_majority",
            {"positive", "negative"},
            ("t2",),
        ),
        (
            [[act("MERGE", "t1", "t2", normalized_ref="값")]] * 2 + [[]],
            "merge_refused",
            {"positive", "negative"},
            ("t1", "t2"),
        ),
    ],
)
def test_every_case_of_the_arbiter_is_reached(said, case, left, marked):
    output, _ = held({**CONTESTED, **reviews(*said)})
    assert output.meta.arbiter_actions[-1].case == case
    assert {
        a.polarity for a in output.final_result.final_aspects if a.aspect_term == "가격"
    } == left
    assert output.meta.flagged_tuple_ids == marked


def test_overlapping_aspects_are_merged_and_named_by_the_best_term():
    text = "배터리 수명이 길어요."
    longer = triplet("배터리 수명", evidence="길어요", confidence=0.7)
    shorter = triplet("배터리", evidence="길어요", confidence=0.9)
    merge_ = act("MERGE", "t0", "t1", reason="SPAN_OVERLAP_MERGE", normalized_ref="배터리 수명")
    output, _ = held(
        {
            "p_neg": {"triplets": [longer]},
            "p_imp": {"triplets": [shorter]},
            "p_lit": {"triplets": []},
            **reviews([merge_], [merge_]),
        },
        text=text,
    )
    assert output.meta.conflict_flags[0].conflict_type == "aspect_overlap"
    assert [a.aspect_term for a in output.final_result.final_aspects] == ["배터리"]
    # t0 had no reference; t1 had none either: both were given one.
    assert [a.applied for a in output.meta.arbiter_actions] == [True, True]


def test_what_is_discarded_changes_nothing_and_stands_on_record():
    bad = [
        act("DROP", "t0"),
        act("FLIP", "t2", polarity="bad"),
        act("DROP", "t2", reason="BECAUSE"),
    ]
    output, _ = held({**CONTESTED, **reviews(bad, bad, bad)})
    assert output.meta.review_actions == ()
    whys = ["not_under_review", "flip_needs_polarity", "unknown_reason_code"]
    assert [d.why for d in output.meta.discarded_actions] == whys * 3
    assert output.meta.polarity_invalid_count == 3
    assert not output.analysis_flags.correction_occurred


def test_a_reviewer_that_gives_tuples_breaks_a_rule():
    extra = {"review_b": {"review_actions": [], "triplets": [FEEL]}}
    output, _ = held({**CONTESTED, **reviews([]), **extra})
    assert output.meta.stage2_review_violation == ("review_b: triplets discarded: reviews only",)


def test_tuples_of_one_reference_collapse_without_a_review():
    output, backend = held(
        {
            "p_neg": {"triplets": [FEEL]},
            "p_imp": {"triplets": [{**FEEL, "aspect_term": "제품", "aspect_ref": "사용감"}]},
            "p_lit": {"triplets": []},
        }
    )
    assert asked(backend) == set(ORIGINS)
    assert pairs(output.final_result.final_tuples) == {("사용감", "positive")}
    card = scorecard(output, Sample(uid="1", text=TEXT), 0)
    assert card["stage_delta"] == {"changed": True, "change_type": "unguided"}


def test_nothing_found_is_a_neutral_text():
    output, _ = held({name: {"triplets": []} for name in ORIGINS})
    assert (output.final_result.label, output.final_result.confidence) == ("neutral", 0.0)


def test_a_thread_starts_afresh_with_every_text():
    backend = ScriptedBackend({**CONTESTED, **reviews([FLIP_T2], [FLIP_T2])})
    graph = build(PipelineSettings(protocol="conflict_review"), backend)
    graph.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": "1"}}
    first = graph.invoke({"text": TEXT, "lang": "ko"}, config)["output"]
    backend.answers = {name: {"triplets": [FEEL]} for name in ORIGINS}
    second = graph.invoke({"text": TEXT, "lang": "ko"}, config)["output"]
    assert first.meta.arbiter_actions and first.analysis_flags.stage2_executed
    assert not second.meta.arbiter_actions and not second.analysis_flags.stage2_executed
    assert len(second.process_trace) == 3


# Given aspects -----------------------------------------------------------------------------------


def test_given_aspects_are_judged_in_the_users_words_and_no_others():
    answers = {
        "p_neg": {"triplets": [FEEL, {**PRICE, "aspect_term": "가격은"}]},
        "p_imp": {"triplets": [{**PRICE, "aspect_term": "제품", "aspect_ref": "가격"}]},
        "p_lit": {"triplets": [PRICE]},
    }
    output, _ = held(answers, given=["배송", "가격"])
    assert [(c.tuple_id, c.aspect_term) for c in output.meta.candidates] == [
        ("t0", "가격"),
        ("t1", "가격"),
        ("t2", "가격"),
    ]
    final = [(a.aspect_term, a.polarity, a.confidence) for a in output.final_result.final_aspects]
    assert final == [("가격", "negative", 0.8), ("배송", "neutral", 0.3)]
    assert output.meta.given_aspects == ["배송", "가격"]


def test_given_aspects_may_overlap_and_are_not_merged():
    text = "배터리 수명이 길어요."
    both = [triplet(term, evidence="길어요") for term in ("배터리 수명", "배터리")]
    answers = {"p_neg": {"triplets": both}, "p_imp": {"triplets": []}, "p_lit": {"triplets": []}}
    output, backend = held(answers, text=text, given=["배터리", "배터리 수명"])
    assert asked(backend) == set(ORIGINS)
    assert len(output.final_result.final_aspects) == 2


def test_a_given_aspect_that_is_dropped_is_backfilled_and_a_merge_discarded():
    drops = reviews([act("DROP", "t0"), act("DROP", "t1")], [act("DROP", "t0", "t1")])
    drops["review_c"]["review_actions"] = [act("MERGE", "t0", "t1", normalized_ref="값")]
    output, _ = held({**CONTESTED, **drops}, given=["가격"])
    assert [(a.aspect_term, a.polarity) for a in output.final_result.final_aspects] == [
        ("가격", "neutral")
    ]
    assert [d.why for d in output.meta.discarded_actions] == ["aspect_given"]


# With a model as arbiter -------------------------------------------------------------------------

OPEN = reviews([FLIP_T2], [act("FLIP", "t2", polarity="neutral")], [])


@pytest.mark.parametrize(
    ("said", "expected", "marked"),
    [
        ([FLIP_T2], ("asked", "FLIP", False, True), ()),
        ([act("DROP", "t2")], ("asked", "DROP", False, True), ()),
        ([act("KEEP", "t2")], ("asked", "KEEP", False, False), ()),
        ([act("FLAG", "t2")], ("no_majority", "KEEP", True, False), ("t2",)),
        ([], ("no_majority", "KEEP", True, False), ("t2",)),
        ([act("FLIP", "t2", polarity="bad")], ("no_majority", "KEEP", True, False), ("t2",)),
        ([act("DROP", "t1")], ("no_majority", "KEEP", True, False), ("t2",)),
    ],
)
def test_the_model_decides_about_the_tuples_that_the_votes_leave_open(said, expected, marked):
    answers = {**CONTESTED, **OPEN, "arbiter": {"review_actions": said}}
    output, backend = held(answers, arbiter="llm")
    assert short(output.meta.arbiter_actions[-1]) == expected
    assert short(output.meta.arbiter_actions[0]) == ("majority", "KEEP", False, False)
    assert output.meta.flagged_tuple_ids == marked
    seen = backend.inputs_of("arbiter")
    assert seen["undecided"] == ["t2"]
    assert [(a["actor"], a["action_type"]) for a in seen["review_actions"]] == [
        ("A", "FLIP"),
        ("B", "FLIP"),
    ]


def test_what_the_model_may_not_do_is_discarded_and_recorded():
    answers = {**CONTESTED, **OPEN, "arbiter": {"review_actions": [act("DROP", "t1")]}}
    output, _ = held(answers, arbiter="llm")
    (record,) = output.meta.discarded_actions
    assert (record.actor, record.why) == ("arbiter", "not_under_review")


def test_the_model_is_not_asked_where_the_votes_decide():
    answers = reviews([FLIP_T2], [act("DROP", "t2")], [])
    output, backend = held({**CONTESTED, **answers}, arbiter="llm")
    assert "arbiter" not in asked(backend)
    assert output.meta.arbiter_actions[-1].case == "flip_drop_keep"
