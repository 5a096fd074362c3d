"""Episodic memory: when it speaks, to whom, what it says, and what it must never know."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore, Item
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from scripted import (
    Answers,
    Json,
    ScriptedBackend,
    all_say,
    ate,
    atsa,
    atsa_review,
    confirm,
    drop,
    judge,
    pairs,
    pipeline,
    said,
    set_polarity,
    turn,
    validator,
    without_latency,
)
from test_persona_debate import answers as persona_answers
from test_persona_debate import turn as persona_turn

from absa import build_graph, checkpoint_serde, load_settings
from absa.cli import run as absa
from absa.graph import Graph, build
from absa.memory import episodes, open_folder, open_memory
from absa.metrics.gates import conditions
from absa.nodes.injection import observations
from absa.nodes.memory import (
    HEADING,
    INDEX,
    Pointer,
    advice_of,
    best,
    episodes_in,
    index_of,
    index_reads,
    learn,
    reads,
    sample_id,
    writes,
)
from absa.review import Queue
from absa.review.file import Review
from absa.runs import RunPlan, run
from absa.runs.replay import Recorded, replay, replay_settings
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.memory import Episode, Signature
from absa.schemas.output import FinalOutput
from absa.schemas.settings import MemorySettings, PipelineSettings, Settings

TEXT = "화면이 선명하고 가격이 좋고 소리가 커요."
ON: Json = {"memory": {"condition": "on"}}
SILENT: Json = {"memory": {"condition": "silent"}}
SIGNS = ("polarity_disagreement", "confirmed_and_dropped", "contested_without_evidence", "l3_risk")
POLARITY_WORDS = re.compile(r"\b(positive|negative|neutral|mixed|pos|neg|neu)\b|긍정|부정|중립")


def episode(
    sample: str = "somebody",
    *structures: str,
    lang: str = "ko",
    aspects: int = 1,
    length: str = "short",
    at: int = 1,
    **more: Any,
) -> Episode:
    signature = {"lang": lang, "structures": structures or ("plain",), "aspects": aspects}
    about = {"sample": sample, "split": "train", "outcome": "neutral", "at": at, **more}
    return Episode.model_validate({"signature": {**signature, "length": length}, **about})


ANCHOR = episode("anchor")
WARNING = episode("warning", override="applied", outcome="harm")
SUCCESS = episode("success", override="applied", outcome="success")


def remember(store: BaseStore, *past: Episode) -> BaseStore:
    for one in past:
        items, indexed = read(store, reads(one))
        store.batch(writes(one, items, indexed))
    return store


def read(store: BaseStore, ops: Any) -> list[Item | None]:
    results: Any = store.batch(ops)
    return list(results)


def stored(store: BaseStore) -> list[Episode]:
    return list(episodes(store))


def held(
    answers: Answers,
    *past: Episode,
    text: str = TEXT,
    split: str | None = "test",
    store: BaseStore | None = None,
    **changes: Any,
) -> tuple[FinalOutput, ScriptedBackend]:
    """The whole graph with these cases in memory: what came out, and who was asked what."""
    backend = ScriptedBackend(answers)
    store = remember(store or InMemoryStore(), *past)
    graph = build(pipeline(**{**ON, **changes}), backend, store=store)
    inputs = {"text": text, "lang": "ko", "split": split}
    return graph.invoke(inputs)["output"], backend


def shown(backend: ScriptedBackend) -> list[tuple[str, int]]:
    """The calls that were shown the slot `memory`."""
    return [(q.node, q.turn) for q in backend.asked if "memory" in q.inputs]


# Deadlock ----------------------------------------------------------------------------------------


def stuck(*signs: str, **more: Any) -> Answers:
    """A debate that gives exactly these signs: 화면 and 가격 have evidence, 소리 has none."""
    epm, tan = [], []
    if "polarity_disagreement" in signs:
        epm.append(set_polarity("화면", "pos"))
        tan.append(set_polarity("화면", "negative"))
    if "confirmed_and_dropped" in signs:
        epm.append(confirm("가격"))
        tan.append(drop("값"))  # a synonym
    if "contested_without_evidence" in signs:
        tan.append(set_polarity("소리", "negative", evidence="소리가 작다"))
    return said(
        ate=ate("화면", "가격", "소리"),
        atsa=atsa(
            ("화면", "positive", "선명하고", 0.9),
            ("가격", "positive", "좋고", 0.9),
            ("소리", "positive", None, 0.9),
        ),
        # A risk that does not make another case of it.
        validator=validator("POLARITY_MISMATCH" if "l3_risk" in signs else "OTHER"),
        **{"epm": turn(*epm), "tan": turn(*tan), **more},
    )


def state_before(graph: Graph, node: str, config: Any) -> Any:
    return next(s for s in graph.get_state_history(config) if s.next == (node,)).values


@pytest.mark.parametrize(
    "signs",
    list(chain.from_iterable(combinations(SIGNS, size) for size in range(5))),
    ids=lambda signs: "+".join(signs) or "none",
)
def test_two_of_the_four_signs_are_a_deadlock_and_one_is_not(signs: tuple[str, ...]) -> None:
    backend = ScriptedBackend(stuck(*signs))
    settings = pipeline(**ON)
    graph = build(settings, backend, store=remember(InMemoryStore(), ANCHOR))
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    output = graph.invoke({"text": TEXT, "split": "test"}, config)["output"]
    assert observations(state_before(graph, "cj", config), settings) == signs
    assert shown(backend) == ([("cj", 0)] if len(signs) >= 2 else [])
    assert output.meta.memory.injections == (("cj#0",) if len(signs) >= 2 else ())


@pytest.mark.parametrize(
    ("epm", "tan"),
    [
        # One spelling or another is no disagreement, and an unreadable word says nothing.
        ([set_polarity("화면", "pos")], [set_polarity("화면", "Positive")]),
        ([set_polarity("화면", "positive")], [set_polarity("화면", "whatever")]),
        # One speaker who changes his mind contradicts nobody.
        ([set_polarity("화면", "positive"), set_polarity("화면", "negative")], []),
        # Evidence that is in the text settles who is right, whoever gave it.
        ([set_polarity("소리", "negative", evidence="소리가 커요")], []),
    ],
    ids=["spelling", "invalid word", "one speaker", "evidence"],
)
def test_what_looks_like_a_sign_and_is_none(epm: list[Json], tan: list[Json]) -> None:
    """With an L3 risk any second sign would make a deadlock."""
    answers = stuck("l3_risk", epm=turn(*epm), tan=turn(*tan))
    assert shown(held(answers, ANCHOR)[1]) == []


def test_a_tuple_of_another_polarity_may_be_dropped_beside_a_confirmed_one() -> None:
    other = {"op": "drop_tuple", "target": {"aspect_ref": "가격", "polarity": "neg"}}
    one = {"op": "drop_tuple", "target": {"aspect_ref": "가격", "polarity": "Pos"}}
    for dropped, is_stuck in ((other, False), (one, True)):
        answers = stuck("l3_risk", epm=turn(confirm("가격", "positive")), tan=turn(dropped))
        assert bool(shown(held(answers, ANCHOR)[1])) is is_stuck


def test_an_edit_about_an_aspect_that_was_not_asked_for_is_no_sign() -> None:
    answers = stuck("l3_risk", epm=turn(confirm("포장")), tan=turn(drop("포장")))
    assert shown(held(answers, ANCHOR)[1]) == [("cj", 0)]
    backend = ScriptedBackend(answers)
    graph = build(pipeline(**ON), backend, store=remember(InMemoryStore(), ANCHOR))
    graph.invoke({"text": TEXT, "given_aspects": ["화면", "가격", "소리"]})
    assert shown(backend) == []


# Who is shown what -------------------------------------------------------------------------------


def test_where_cj_was_told_the_judge_is_not() -> None:
    output, backend = held(stuck(*SIGNS), ANCHOR)
    assert shown(backend) == [("cj", 0)]
    slot = backend.inputs_of("cj")["memory"]
    assert slot == f"{HEADING}\n- {advice_of(ANCHOR).message}"
    assert output.meta.memory is not None and output.meta.memory.recall.episodes == (ANCHOR,)
    asked = next(q for q in backend.asked if q.node == "cj")
    assert slot in json.loads(asked.user)["memory"]


def test_the_judge_is_told_where_cj_made_the_deadlock() -> None:
    answers = stuck(
        "l3_risk",
        epm=turn(set_polarity("화면", "positive")),
        cj=turn(set_polarity("화면", "negative")),
    )
    output, backend = held(answers, ANCHOR)
    assert shown(backend) == [("judge", 0)]
    assert output.meta.memory is not None and output.meta.memory.injections == ("judge#0",)


def test_once_over_all_rounds_unless_the_settings_allow_more() -> None:
    once = {"rounds": 3}
    _, backend = held(stuck(*SIGNS), ANCHOR, debate=once)
    assert shown(backend) == [("cj", 0)]
    often = {**once, "injection": {"allow_multiple_injections": True}}
    output, backend = held(stuck(*SIGNS), ANCHOR, debate=often)
    assert shown(backend) == [("cj", 0), ("cj", 1), ("cj", 2), ("judge", 0)]
    assert output.meta.memory is not None
    assert output.meta.memory.injections == ("cj#0", "cj#1", "cj#2", "judge#0")


def test_nobody_else_is_ever_told() -> None:
    often = {"rounds": 2, "injection": {"allow_multiple_injections": True}}
    _, backend = held(stuck(*SIGNS), ANCHOR, WARNING, SUCCESS, debate=often)
    others = [q for q in backend.asked if q.node not in ("cj", "judge")]
    assert {"epm", "tan", "ate_review", "atsa_review", "validator_review"} <= {
        q.node for q in others
    }
    for question in others:
        assert not {"memory", "memory_context"} & question.inputs.keys()
        assert HEADING not in question.user


def test_an_empty_memory_says_nothing() -> None:
    output, backend = held(stuck(*SIGNS))
    assert shown(backend) == []
    assert output.meta.memory is not None and output.meta.memory.recall.advice == ()


def test_the_judge_of_a_persona_debate_is_told() -> None:
    text = "화면은 선명한데 소리가 별로 크지 않네요."
    answers = persona_answers(
        validator=validator("NEGATION"),
        critic=persona_turn("con", "소리가 작다"),
        empath=persona_turn("pro", "소리가 좋다"),
    )
    past = episode("past", "contrast", "negation")
    _, backend = held(answers, past, text=text, debate={"protocol": "persona"})
    assert shown(backend) == [("judge", 0)]
    calm = persona_answers(
        analyst=persona_turn("con", "소리"),
        critic=persona_turn("con", "소리"),
        empath=persona_turn("con", "소리"),
        validator=validator("NEGATION"),
    )
    assert shown(held(calm, past, text=text, debate={"protocol": "persona"})[1]) == []


def test_silent_recalls_shows_nobody_and_changes_nothing() -> None:
    answers = override(judge_says="positive")
    plain, without = held(answers, WARNING, memory={"condition": "off"}, text=BATTERY)
    silent, control = held(answers, WARNING, **SILENT, text=BATTERY)
    assert plain.meta.memory is None
    assert silent.meta.memory is not None
    assert silent.meta.memory.recall.episodes == (WARNING,)
    assert silent.meta.memory.recall.advice == (advice_of(WARNING),)
    assert silent.meta.memory.injections == ()
    one, other = without_latency(plain), without_latency(silent)
    one["meta"].pop("memory"), other["meta"].pop("memory")
    assert one == other
    # Reviewers that run in parallel are asked in any order.
    assert {(q.node, q.user) for q in without.asked} == {(q.node, q.user) for q in control.asked}
    _, control = held(stuck(*SIGNS), ANCHOR, **SILENT)
    assert shown(control) == []


# The gate ----------------------------------------------------------------------------------------

BATTERY = "배터리가 오래가요."


def override(*, judge_says: str, **more: Any) -> Answers:
    """A debate that overrides Stage 1; it is adopted if the judge's tuples agree."""
    return said(
        ate=ate("배터리"),
        atsa=atsa(("배터리", "negative", "오래가요", 0.5)),
        **all_say("배터리", "positive"),
        judge=judge(
            set_polarity("배터리", "positive"),
            tuples=[("배터리", judge_says)],
            evidence={"배터리": "오래가요"},
            rationale="because-of-what-the-judge-thinks",
        ),
        **more,
    )


def test_a_failed_override_in_a_case_like_this_stops_the_override() -> None:
    output, _ = held(override(judge_says="positive"), WARNING, SUCCESS, text=BATTERY)
    assert [r.verdict for r in output.meta.override_gate] == ["contradictory_memory"]
    assert (output.meta.gate_decision, output.meta.adopt_reason) == ("SKIP", "contradictory_memory")
    assert output.meta.debate_override_skip_reasons.contradictory_memory == 1
    assert output.meta.debate_override_stats.skipped_conflict == 1
    assert pairs(output.final_result.final_tuples) == {("배터리", "negative")}


@pytest.mark.parametrize(
    ("past", "changes"),
    [
        ([WARNING], SILENT),
        ([SUCCESS, ANCHOR], ON),
        ([episode("other", "irony", override="applied", outcome="harm")], ON),
        ([episode("other", lang="en", override="applied", outcome="harm")], ON),
    ],
    ids=["silent", "no warning", "not alike", "another language"],
)
def test_otherwise_the_override_goes_through(past: list[Episode], changes: Json) -> None:
    output, _ = held(override(judge_says="positive"), *past, text=BATTERY, **changes)
    assert [r.verdict for r in output.meta.override_gate] == ["flip"]
    assert pairs(output.final_result.final_tuples) == {("배터리", "positive")}


def test_the_verdict_is_in_the_graph_only_where_it_can_be_given() -> None:
    for condition, there in (("off", False), ("silent", False), ("on", True)):
        settings = pipeline(memory={"condition": condition})
        graph = build(settings, ScriptedBackend({}))
        assert ("skip_contradictory_memory" in graph.get_graph().nodes) is there
        assert ("recall" in graph.get_graph().nodes) is (condition != "off")
        assert ("contradictory_memory" in conditions(settings)) is there


def test_the_drawing_is_the_one_on_record(same_as_snapshot: Callable[[str, str], None]) -> None:
    graph = build(load_settings("configs/memory_on.yaml").pipeline, ScriptedBackend({}))
    same_as_snapshot("memory_on.mmd", graph.get_graph(xray=True).draw_mermaid(with_styles=False))


# Conflict review ---------------------------------------------------------------------------------

REVIEWED = "사용감은 좋고 가격은 비싸요."
CONFLICT: Json = {"protocol": "conflict_review"}


def perspectives(doubt: bool = True) -> Answers:
    price = {"aspect_term": "가격", "polarity": "negative", "evidence": "비싸요", "confidence": 0.8}
    other = {**price, "polarity": "positive"} if doubt else price
    flip = {
        "action_type": "FLIP",
        "target_tuple_ids": ["t1"],
        "new_value": {"polarity": "negative"},
        "reason_code": "NEGATION_SCOPE",
    }
    keep = {"action_type": "DROP", "target_tuple_ids": ["t1"], "reason_code": "WEAK_EVIDENCE"}
    return {
        "p_neg": {"triplets": [price]},
        "p_imp": {"triplets": [other]},
        "p_lit": {"triplets": []},
        "review_a": {"review_actions": [flip]},
        "review_b": {"review_actions": [flip]},
        "review_c": {"review_actions": [keep]},
        "arbiter": {"review_actions": []},
    }


def test_reviewers_of_a_conflict_are_advised() -> None:
    store = InMemoryStore()
    output, backend = held(perspectives(), ANCHOR, WARNING, text=REVIEWED, store=store, **CONFLICT)
    for name in ("review_a", "review_b", "review_c"):
        context = backend.inputs_of(name)["memory_context"]
        assert context.splitlines() == [
            "Memory advisory (from similar past cases):",
            f"- {advice_of(WARNING).message}",
            f"- {advice_of(ANCHOR).message}",
        ]
    assert HEADING not in "".join(q.user for q in backend.asked if q.node.startswith("p_"))
    assert output.meta.memory is not None
    assert output.meta.memory.injections == ("review_a#0", "review_b#0", "review_c#0")


@pytest.mark.parametrize("condition", ["silent", "on"])
def test_a_conflict_review_is_remembered_with_the_arbiters_corrections(condition: str) -> None:
    store = InMemoryStore()
    memory = {"condition": condition}
    output, backend = held(
        perspectives(), text=REVIEWED, split=None, store=store, memory=memory, **CONFLICT
    )
    assert backend.inputs_of("review_a")["memory_context"] is None
    assert output.meta.memory is not None and output.meta.memory.injections == ()
    (one,) = stored(store)
    assert (one.outcome, one.override, one.corrections) == ("neutral", "none", ("arbiter/FLIP",))
    assert [(t.aspect, t.polarity) for t in one.stage1] == [("A1", "negative"), ("A1", "positive")]
    assert [(t.aspect, t.polarity) for t in one.final] == [("A1", "negative")]
    assert advice_of(one).type == "consistency_anchor"
    assert "corrections were taken over" in advice_of(one).message


def test_the_arbiter_and_an_undisputed_case_have_no_use_for_memory() -> None:
    store = InMemoryStore()
    other = json.loads(json.dumps(perspectives()["review_a"]))
    other["review_actions"][0]["new_value"] = {"polarity": "neutral"}
    torn = {**perspectives(), "review_b": other, "review_c": {"review_actions": []}}
    asking = {**CONFLICT, "conflict_review": {"arbiter": "llm"}}
    _, backend = held(torn, ANCHOR, text=REVIEWED, store=store, **asking)
    assert "memory_context" not in backend.inputs_of("arbiter")
    output, _ = held(perspectives(doubt=False), text=REVIEWED, split=None, store=store, **CONFLICT)
    assert output.meta.memory is None
    assert stored(store) == [ANCHOR]


# What is remembered ------------------------------------------------------------------------------


def remembered(answers: Answers, text: str = BATTERY, **changes: Any) -> Episode:
    store = InMemoryStore()
    held(answers, text=text, split="train", store=store, **changes)
    (one,) = stored(store)
    return one


@pytest.mark.parametrize(
    ("answers", "text", "override_", "outcome", "advice"),
    [
        # adopted, and the Validator's risk is gone
        (
            override(judge_says="positive", validator=validator("OTHER")),
            BATTERY,
            "applied",
            "success",
            "successful_override",
        ),
        # adopted, and nothing shows whether it was right
        (override(judge_says="positive"), BATTERY, "applied", "neutral", "consistency_anchor"),
        # conflict_blocked: the judge's own tuples are others
        (override(judge_says="negative"), BATTERY, "applied", "neutral", "consistency_anchor"),
        (
            override(judge_says="positive", validator_review=validator("OTHER")),
            BATTERY,
            "applied",
            "harm",
            "failed_override_warning",
        ),
        (said(ate=ate("배터리")), BATTERY, "none", "neutral", "consistency_anchor"),
        (
            said(ate=ate("배터리"), epm=turn(set_polarity("배터리", "positive"))),
            BATTERY,
            "skipped",
            "neutral",
            "consistency_anchor",
        ),
        # a review alone, adopted
        (
            said(
                ate=ate("배터리"),
                atsa=atsa(("배터리", "negative", "오래가요", 0.5)),
                epm=turn(set_polarity("배터리", "positive")),
                atsa_review=atsa_review(("배터리", "flip_polarity", "positive", 0.9, "오래가요")),
            ),
            BATTERY,
            "skipped",
            "neutral",
            "consistency_anchor",
        ),
        # a review alone, adopted and taken back by the Moderator's drop guard
        (
            said(
                ate=ate("배터리"),
                atsa=atsa(("배터리", "negative", "오래가요", 0.9)),
                epm=turn(set_polarity("배터리", "positive")),
                atsa_review=atsa_review(("배터리", "flip_polarity", "positive", 0.1, "오래가요")),
            ),
            BATTERY,
            "skipped",
            "neutral",
            "consistency_anchor",
        ),
        (
            said(ate=ate("배터리"), validator_review=validator("OTHER")),
            BATTERY,
            "none",
            "neutral",
            "consistency_anchor",
        ),
    ],
    ids=[
        "override with fewer risks",
        "override adopted",
        "override refused",
        "override with more risks",
        "nothing happened",
        "override skipped",
        "review adopted",
        "drop guard",
        "more risks",
    ],
)
def test_how_a_case_went(
    answers: Answers, text: str, override_: str, outcome: str, advice: str
) -> None:
    one = remembered(answers, text)
    assert (one.override, one.outcome) == (override_, outcome)
    assert advice_of(one).type == advice


def test_an_episode_is_the_shape_of_a_case() -> None:
    one = remembered(override(judge_says="positive"))
    assert one.model_dump(exclude={"at"}) == {
        "sample": sample_id(BATTERY),
        "split": "train",
        "signature": {"lang": "ko", "structures": ("plain",), "aspects": 1, "length": "short"},
        "stage1": ({"aspect": "A1", "polarity": "negative"},),
        "final": ({"aspect": "A1", "polarity": "positive"},),
        "risks_before": 0,
        "risks_after": 0,
        "corrections": ("debate_override/debate_override_flip",),
        "override": "applied",
        "outcome": "neutral",
    }


@pytest.mark.parametrize(
    ("text", "risks", "structures", "length"),
    [
        ("배송이 빨라요.", (), ("plain",), "short"),
        ("배송이 빠르지 않아요.", (), ("negation",), "short"),
        ("사용감은 좋지만 가격은 비싸요.", (), ("contrast",), "short"),
        ("배송이 참 빠르기도 하네요.", ("IRONY", "OTHER"), ("irony",), "short"),
        ("배송이 빨라요. " * 5, ("NEGATION_SCOPE",), ("negation",), "mid"),
        ("배송이 빨라요. " * 20, ("CONTRAST_SCOPE",), ("contrast",), "long"),
    ],
)
def test_the_shape_of_a_text(
    text: str, risks: tuple[str, ...], structures: tuple[str, ...], length: str
) -> None:
    there = [term for term in ("배송", "사용감", "가격") if term in text]
    signature = remembered(said(ate=ate(*there), validator=validator(*risks)), text).signature
    assert (signature.structures, signature.length) == (structures, length)
    assert (signature.lang, signature.aspects) == ("ko", len(there))
    implied = said(ate=ate(*there, "품질"), validator=validator(*risks))
    more = {*structures, "implicit"} - {"plain"}
    assert set(remembered(implied, text).signature.structures) == more


@given(
    override_=st.sampled_from(["applied", "skipped", "none"]),
    outcome=st.sampled_from(["success", "harm", "neutral"]),
    structures=st.sets(
        st.sampled_from(["negation", "contrast", "irony", "implicit"]), min_size=1
    ).map(sorted),
    final=st.sampled_from(["positive", "negative", "neutral"]),
)
def test_advice_names_no_label(
    override_: str, outcome: str, structures: list[str], final: str
) -> None:
    one = episode(
        "x",
        *structures,
        override=override_,
        outcome=outcome,
        stage1=[{"aspect": "A1", "polarity": "neutral"}],
        final=[{"aspect": "A1", "polarity": final}],
    )
    advice = advice_of(one)
    assert not POLARITY_WORDS.search(advice.message.lower())
    assert "A1" not in advice.message
    expected = {
        ("applied", "success"): "successful_override",
        ("applied", "harm"): "failed_override_warning",
    }
    assert advice.type == expected.get((override_, outcome), "consistency_anchor")


def everything_in(store: BaseStore) -> str:
    """All that a store holds, names included."""
    lines = []
    for namespace in store.list_namespaces(limit=1000):
        for item in store.search(namespace, limit=1000):
            lines.append(json.dumps([namespace, item.key, item.value], ensure_ascii=False))
    return "\n".join(lines)


def test_no_word_of_a_text_and_no_thought_is_stored(tmp_path: Path) -> None:
    """A batch with gold; every kind of answer has a word of its own that is searched for."""
    text = "화면은 선명한데 소리가 별로 크지 않네요."
    rows = [
        {"uid": "uid-with-a-name", "text": text, "split": "train", "domain": "shop-domain"},
        {"uid": "uid-two", "text": BATTERY, "split": "train"},
    ]
    rows[0]["aspects"] = [{"term": "소리", "from": 9, "to": 11, "polarity": "negative"}]  # type: ignore[assignment]
    spoken = {**persona_turn("con", "message-word 소리", "point-word"), "planning": "plan-word"}
    spoken["reflection"] = "reflection-word"
    answers = persona_answers(critic=spoken, validator=validator("NEGATION"))
    answers["judge"]["rationale"] = "rationale-word"
    answers["judge"]["consensus"] = "consensus-word"
    settings = memory_settings(tmp_path / "memory", debate={"protocol": "persona"})
    run_over(rows, tmp_path, "run", settings, {row["uid"]: answers for row in rows})
    with open_folder(tmp_path / "memory") as store:
        assert len(stored(store)) == 2
        kept = everything_in(store)
    raw = b"".join(p.read_bytes() for p in (tmp_path / "memory").iterdir())
    assert b"A1" in raw
    words = [text, BATTERY, "화면", "소리", "배터리", "선명한데", "크지", "uid-", "shop-domain"]
    words += ["plan-word", "reflection-word", "message-word", "point-word", "rationale-word"]
    for word in [*words, "consensus-word", "gold", '"from"']:
        assert word not in kept
        assert word.encode() not in raw
        assert json.dumps(word)[1:-1].encode() not in raw


# Leakage -----------------------------------------------------------------------------------------

PLAIN = said(ate=ate("배터리"), atsa=atsa(("배터리", "positive", "오래가요", 0.9)))


def recalled(output: FinalOutput) -> list[str]:
    assert output.meta.memory is not None
    return [e.sample for e in output.meta.memory.recall.episodes]


def test_a_text_is_never_recalled_for_itself_whatever_it_is_called() -> None:
    store = InMemoryStore()
    graph = build(pipeline(**ON), ScriptedBackend(PLAIN), store=store)
    for uid in ("one", "two"):
        for text in (BATTERY, f" {BATTERY}\n"):
            output = graph.invoke({"text": text, "uid": uid, "split": "train"})["output"]
            assert recalled(output) == []
    assert len(stored(store)) == 1


@pytest.mark.parametrize(
    ("past", "now", "allowed", "is_recalled"),
    [
        ("train", "test", False, True),
        ("train", "train", False, True),
        ("test", "test", False, False),
        ("dev", "test", False, True),
        (None, "test", False, True),
        (None, None, False, True),
        ("test", None, False, True),
        ("test", "test", True, True),
    ],
)
def test_cases_of_the_evaluated_split_are_not_recalled(
    past: str | None, now: str | None, allowed: bool, is_recalled: bool
) -> None:
    memory = {"condition": "on", "allow_eval_writes": allowed}
    output, _ = held(PLAIN, episode("x", split=past), text=BATTERY, split=now, memory=memory)
    assert recalled(output) == (["x"] if is_recalled else [])


@pytest.mark.parametrize(
    ("split", "allowed", "is_written"),
    [
        ("train", False, True),
        (None, False, True),
        ("test", False, False),
        ("dev", False, False),
        ("evaluated", False, False),
        ("test", True, True),
    ],
)
def test_cases_of_an_evaluated_split_are_not_remembered(
    split: str | None, allowed: bool, is_written: bool
) -> None:
    store = InMemoryStore()
    memory = {"condition": "silent", "allow_eval_writes": allowed}
    held(PLAIN, text=BATTERY, split=split, store=store, memory=memory)
    assert [e.split for e in stored(store)] == ([split] if is_written else [])


def test_annotated_data_that_names_no_split_is_evaluated(tmp_path: Path) -> None:
    gold = [{"term": "배터리", "from": 0, "to": 3, "polarity": "positive"}]
    rows: list[Json] = [
        {"uid": "gold", "text": BATTERY, "aspects": gold},
        {"uid": "plain", "text": f"{BATTERY}!"},
    ]
    settings = memory_settings(tmp_path / "memory")
    run_over(rows, tmp_path, "run", settings, {"gold": PLAIN, "plain": PLAIN})
    with open_folder(tmp_path / "memory") as store:
        assert [e.sample for e in stored(store)] == [sample_id(f"{BATTERY}!")]


def test_a_thread_keeps_nothing_of_the_text_before_even_if_that_failed() -> None:
    backend = ScriptedBackend(PLAIN)
    store = remember(InMemoryStore(), episode("for contrast", "contrast"), ANCHOR)
    graph = build(pipeline(**ON), backend, store=store)
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    first = graph.invoke({"text": "사용감은 좋지만 가격은 비싸요.", "split": "dev"}, config)
    assert recalled(first["output"]) == ["for contrast"]
    assert recalled(graph.invoke({"text": BATTERY}, config)["output"]) == ["anchor"]
    assert len(stored(store)) == 3  # the second text had no split any more
    backend.answers = {k: v for k, v in PLAIN.items() if k != "epm"}
    with pytest.raises(BackendError):
        graph.invoke({"text": "맛은 좋지만 양이 적어요."}, config)
    backend.answers = PLAIN
    again = graph.invoke({"text": f"{BATTERY}!"}, config)["output"]
    assert again.meta.memory.recall.sample == sample_id(f"{BATTERY}!")
    assert "for contrast" not in recalled(again)


# The index ---------------------------------------------------------------------------------------

STRUCTURES = st.sets(st.sampled_from(["negation", "contrast", "irony", "implicit"])).map(
    lambda found: tuple(sorted(found)) or ("plain",)
)
SIGNATURES = st.builds(
    Signature,
    lang=st.sampled_from(["ko", "en"]),
    structures=STRUCTURES,
    aspects=st.integers(0, 2),
    length=st.sampled_from(["short", "mid", "long"]),
)
PAST = st.builds(
    Episode,
    sample=st.integers(0, 40).map(str),
    split=st.sampled_from([None, "train", "dev", "test"]),
    signature=SIGNATURES,
    outcome=st.just("neutral"),
    at=st.integers(0, 30),
)


def brute_force(
    past: list[Episode], now: Signature, sample: str, split: str | None, any_split: bool
) -> list[Episode]:
    """The rule, read off the specification, over everything there is."""

    def rank(e: Episode) -> Any:
        one, other = set(e.signature.structures), set(now.structures)
        alike = (e.signature.aspects == now.aspects, e.signature.length == now.length)
        return (len(one & other) / len(one | other), *alike, e.at, e.sample)

    seen = [
        e
        for e in past
        if e.signature.lang == now.lang
        and set(e.signature.structures) & set(now.structures)
        and e.sample != sample
        and (any_split or split in (None, "train") or e.split != split)
    ]
    return sorted(seen, key=rank, reverse=True)[:3]


@examples(max_examples=150)
@given(
    past=st.lists(PAST, max_size=40),
    now=SIGNATURES,
    sample=st.integers(0, 40).map(str),
    split=st.sampled_from([None, "train", "dev", "test"]),
    any_split=st.booleans(),
)
def test_the_index_finds_what_a_search_over_everything_finds(
    past: list[Episode], now: Signature, sample: str, split: str | None, any_split: bool
) -> None:
    store = remember(InMemoryStore(), *past)
    by_sample: dict[tuple[str, str], Episode] = {}
    for one in past:
        by_sample.setdefault((one.signature.lang, one.sample), one)
    places = best(
        read(store, index_reads(now)), now, sample=sample, split=split, any_split=any_split
    )
    episodes = episodes_in(read(store, places))
    assert list(episodes) == brute_force(list(by_sample.values()), now, sample, split, any_split)


@given(st.permutations(range(8)), st.integers(0, 7))
def test_a_full_cell_still_has_three_others_for_each_of_its_own(
    times: list[int], asking: int
) -> None:
    """However late its episodes come in: the sample itself takes up no place."""
    past = [episode(str(n), at=at) for n, at in enumerate(times)]
    store, now = remember(InMemoryStore(), *past), past[0].signature
    places = best(
        read(store, index_reads(now)), now, sample=str(asking), split="train", any_split=False
    )
    episodes = episodes_in(read(store, places))
    assert list(episodes) == brute_force(past, now, str(asking), "train", False)
    assert len(episodes) == 3


def index_in(store: BaseStore) -> dict[tuple[str, str], set[Pointer]]:
    return {
        (namespace[1], item.key): {Pointer(*p) for p in item.value["latest"]}
        for namespace in store.list_namespaces(prefix=(INDEX,))
        for item in store.search(namespace, limit=100)
    }


@examples(max_examples=30)
@given(st.lists(PAST, max_size=40, unique_by=lambda e: e.sample))
def test_an_index_made_anew_is_the_one_that_grew(past: list[Episode]) -> None:
    store = remember(InMemoryStore(), *past)
    grown = index_in(store)
    anew = InMemoryStore()
    anew.batch(index_of(reversed(past)))
    assert grown == index_in(anew)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_many_at_a_time_lose_no_entry_of_the_index(kind: str, tmp_path: Path) -> None:
    texts = ["배터리가 오래가요" + "!" * n for n in range(60)]
    chosen = MemorySettings.model_validate(
        {"condition": "on", "store": kind, "path": str(tmp_path)}
    )

    async def all_at_once(graph: Graph) -> None:
        await asyncio.gather(*(graph.ainvoke({"text": t, "split": "train"}) for t in texts))

    with open_memory(chosen) as store:
        assert store is not None
        graph = build(pipeline(**ON), ScriptedBackend(PLAIN), store=store)
        asyncio.run(all_at_once(graph))
        episodes = stored(store)
        assert {e.sample for e in episodes} == {sample_id(t) for t in texts}
        grown = index_in(store)
        anew = InMemoryStore()
        anew.batch(index_of(episodes))
        assert grown == index_in(anew)


def test_a_language_code_may_be_anything() -> None:
    store = InMemoryStore()
    graph = build(pipeline(**ON), ScriptedBackend(PLAIN), store=store)
    for lang in ("xx.yy", "-", "en"):
        graph.invoke({"text": BATTERY, "lang": lang})
    assert len(stored(store)) == 3


# Runs, replay, verify ----------------------------------------------------------------------------


class ByUid:
    """A script per sample."""

    def __init__(self, scripts: dict[str, Answers]) -> None:
        self._scripts = {uid: ScriptedBackend(answers) for uid, answers in scripts.items()}

    def ask(self, question: Ask) -> Reply:
        return self._scripts[question.uid].ask(question)

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


def memory_settings(folder: Path, condition: str = "on", **more: Any) -> Settings:
    memory = {"condition": condition, "store": "sqlite", "path": str(folder)}
    allowed = more.pop("allow_eval_writes", False)
    memory["allow_eval_writes"] = allowed
    return Settings.model_validate({"pipeline": {"memory": memory, **more}})


def run_over(
    rows: list[Json], folder: Path, name: str, chosen: Settings, scripts: dict[str, Answers]
) -> Path:
    data, out = folder / f"{name}.jsonl", folder / name
    data.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
    plan = RunPlan(data=data, out=out, settings=chosen, concurrency=1)
    report = asyncio.run(run(plan, backend_for=lambda backend: ByUid(scripts)))
    assert report.exit_code == 0
    return out


SCRIPTS: dict[str, Answers] = {
    "harmed": override(judge_says="positive"),
    "warned": override(judge_says="positive"),
    "stuck": stuck(*SIGNS),
}


NEGATIVE = [{"term": "배터리", "from": 0, "to": 3, "polarity": "negative"}]
POSITIVE = [{**NEGATIVE[0], "polarity": "positive"}]
NEUTRAL = [{**NEGATIVE[0], "polarity": "neutral"}]


@pytest.mark.parametrize(
    ("row", "script", "outcome"),
    [
        ({"split": "train", "aspects": POSITIVE}, "flipped", "success"),
        ({"split": "train", "aspects": NEGATIVE}, "flipped", "harm"),
        # Gold outranks the risks.
        ({"split": "train", "aspects": NEGATIVE}, "fewer risks", "harm"),
        ({"split": "train", "aspects": NEUTRAL}, "fewer risks", "neutral"),
        ({"split": "train", "aspects": NEGATIVE}, "refused", "neutral"),
        # Not scored, or not a training split.
        ({"split": "train"}, "fewer risks", "success"),
        ({"split": "train", "aspects": NEGATIVE, "dropped_aspects": 1}, "fewer risks", "success"),
        ({"split": "test", "aspects": NEGATIVE}, "fewer risks", "success"),
    ],
)
def test_gold_of_a_training_split_says_how_a_case_went(
    row: Json, script: str, outcome: str, tmp_path: Path
) -> None:
    scripts = {
        "flipped": override(judge_says="positive"),
        "fewer risks": override(judge_says="positive", validator=validator("OTHER")),
        "refused": override(judge_says="negative"),
    }
    chosen = memory_settings(tmp_path / "memory", allow_eval_writes=True)
    rows = [{"uid": script, "text": BATTERY, **row}]
    out = run_over(rows, tmp_path, "run", chosen, scripts)
    with open_folder(tmp_path / "memory") as store:
        (one,) = stored(store)
        assert (one.override, one.outcome) == ("applied", outcome)
        # Another result of the same text teaches nothing about this episode.
        other, _ = held(said(ate=ate("배터리")), text=BATTERY, split="train")
        assert not learn(store, other, "success")
        assert stored(store) == [one]
    assert absa(["verify", str(out)]) == 0


@pytest.mark.parametrize(
    ("decisions", "outcome"),
    [
        ([], "success"),
        ([{"action": "keep", "aspect": "배터리"}], "success"),
        ([{"action": "flip", "aspect": "배터리", "polarity": "negative"}], "harm"),
        ([{"action": "flip", "aspect": "배터리", "polarity": "neutral"}], "neutral"),
        ([{"action": "label", "label": "negative"}], "success"),
    ],
)
def test_a_person_says_how_a_case_went(decisions: list[Json], outcome: str, tmp_path: Path) -> None:
    """In the graph, and in a review of the finished run. The override made it positive."""
    store = InMemoryStore()
    answers = override(judge_says="positive")
    graph = build(
        pipeline(**ON, human_review="always"),
        ScriptedBackend(answers),
        store=store,
        checkpointer=InMemorySaver(serde=checkpoint_serde()),
    )
    thread: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"text": BATTERY, "lang": "ko", "split": "train"}, thread)
    graph.invoke(Command(resume={"decisions": decisions}), thread)
    assert [one.outcome for one in stored(store)] == [outcome]

    memory, rows = tmp_path / "memory", [{"uid": "u", "text": BATTERY, "split": "train"}]
    out = run_over(rows, tmp_path, "run", memory_settings(memory), {"u": answers})
    queue = Queue(out)
    with queue.file.open():
        review = {"uid": "u", "seed": 0, "shown": queue.items[0].shown, "decisions": decisions}
        queue.file.write(Review.model_validate({**review, "reviewer": "kim", "finished": True}))
    assert absa(["memory", "learn", str(memory), str(out)]) == 0
    with open_folder(memory) as learned:
        assert [one.outcome for one in stored(learned)] == [outcome]


def trained_and_tested(folder: Path, **more: Any) -> Path:
    """A training run whose override failed, and an evaluated one that is warned by it."""
    chosen = memory_settings(folder / "memory", **more)
    train = [{"uid": "harmed", "text": f"{BATTERY}!!", "split": "train", "aspects": NEGATIVE}]
    run_over(train, folder, "train", chosen, SCRIPTS)
    test = [
        {"uid": "warned", "text": BATTERY, "split": "test"},
        {"uid": "stuck", "text": TEXT, "split": "test"},
    ]
    return run_over(test, folder, "test", chosen, SCRIPTS)


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_and_tested(tmp_path_factory.mktemp("memory"))


def outputs(out: Path) -> dict[str, Json]:
    lines = (out / "outputs.jsonl").read_text("utf-8").splitlines()
    return {o["uid"]: o for o in map(json.loads, lines)}


def test_what_was_learned_in_training_is_used_in_the_test(tested: Path) -> None:
    outputs_by_uid = outputs(tested)
    assert outputs_by_uid["warned"]["meta"]["adopt_reason"] == "contradictory_memory"
    assert outputs_by_uid["stuck"]["meta"]["memory"]["injections"] == ["cj#0"]
    for output in outputs_by_uid.values():
        (past,) = output["meta"]["memory"]["recall"]["episodes"]
        assert past["split"] == "train"
    with open_folder(tested.parent / "memory") as store:
        assert [e.split for e in stored(store)] == ["train"]


def test_a_run_with_memory_passes_verification(tested: Path, tmp_path: Path) -> None:
    for name in ("train", "test"):
        assert absa(["verify", str(tested.parent / name)]) == 0
    # Also when the memory is another one by now, or gone.
    moved = trained_and_tested(tmp_path)
    with open_folder(tmp_path / "memory") as store:
        remember(store, SUCCESS, ANCHOR)
    assert absa(["verify", str(moved)]) == 0
    for file in (tmp_path / "memory").iterdir():
        file.unlink()
    assert absa(["verify", str(moved)]) == 0


def replayed(recorded: Path, out: Path, **overrides: object) -> dict[str, Json]:
    run_ = Recorded.read(recorded)
    chosen = replay_settings(run_, None, overrides)
    report = asyncio.run(replay(run_, out, chosen))
    assert report.exit_code == 0
    # Memory needs LangGraph's store, and the report says that this replay took the longer way.
    notes = [] if overrides.get("pipeline.memory.condition") == "off" else ["memory is on"]
    assert [note.rpartition(": ")[2] for note in report.notes] == notes
    assert absa(["verify", str(out)]) == 0
    return outputs(out)


def test_a_replay_decides_the_same_and_is_not_remembered(tested: Path, tmp_path: Path) -> None:
    with open_folder(tested.parent / "memory") as store:
        before = everything_in(store)
    again = replayed(tested, tmp_path / "again")
    for uid, output in outputs(tested).items():
        assert again[uid]["meta"]["memory"] == output["meta"]["memory"]
        assert again[uid]["final_result"] == output["final_result"]
    assert replayed(tested.parent / "train", tmp_path / "train")
    with open_folder(tested.parent / "memory") as store:
        assert everything_in(store) == before


def test_a_replay_without_the_warning_lets_the_override_through(
    tested: Path, tmp_path: Path
) -> None:
    silent = replayed(tested, tmp_path / "silent", **{"pipeline.memory.condition": "silent"})
    assert silent["warned"]["meta"]["gate_decision"] == "APPLY"
    assert silent["warned"]["meta"]["memory"]["recall"]["condition"] == "silent"
    assert silent["stuck"]["meta"]["memory"]["injections"] == []
    off = replayed(tested, tmp_path / "off", **{"pipeline.memory.condition": "off"})
    assert off["warned"]["meta"]["gate_decision"] == "APPLY"
    assert off["warned"]["meta"]["memory"] is None


def corrupted(out: Path, uid: str, edit: Callable[[Json], Any]) -> str:
    """What `verify` says about a recall that was changed afterwards."""
    from absa.runs.verify import verify

    outputs_by_uid = outputs(out)
    edit(outputs_by_uid[uid]["meta"]["memory"]["recall"])
    lines = (json.dumps(o, ensure_ascii=False) + "\n" for o in outputs_by_uid.values())
    (out / "outputs.jsonl").write_text("".join(lines), "utf-8")
    report = verify(out)
    assert report.exit_code == 1
    return "\n".join(v.what for v in report.check("S6").violations if v.uid == uid)


LEAKS: dict[str, tuple[Callable[[Json], Any], str]] = {
    "the sample itself": (
        lambda r: r["episodes"][0].update(sample=sample_id(TEXT)),
        "the sample itself",
    ),
    "its split": (lambda r: r["episodes"][0].update(split="test"), "the evaluated split"),
    "a term": (
        lambda r: r["episodes"][0].update(stage1=[{"aspect": "소리", "polarity": "negative"}]),
        "more than its shape",
    ),
    "words as a polarity": (
        lambda r: r["episodes"][0].update(final=[{"aspect": "A1", "polarity": "소리가 커요"}]),
        "more than its shape",
    ),
    "words as a correction": (
        lambda r: r["episodes"][0].update(corrections=["소리가 커요"]),
        "more than its shape",
    ),
    "words as advice": (
        lambda r: r["advice"][0].update(message="소리 is negative"),
        "does not follow from the recalled cases",
    ),
    "a recall for another text": (lambda r: r.update(sample="another"), "another text"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_verify_finds_what_memory_must_not_hold(name: str, tmp_path: Path) -> None:
    edit, words = LEAKS[name]
    assert words in corrupted(trained_and_tested(tmp_path), "stuck", edit)


def test_verify_accepts_the_split_where_the_settings_do(tmp_path: Path) -> None:
    out = trained_and_tested(tmp_path, allow_eval_writes=True)
    assert {e["split"] for e in outputs(out)["stuck"]["meta"]["memory"]["recall"]["episodes"]} == {
        "train",
        "test",
    }
    assert absa(["verify", str(out)]) == 0


def test_verify_finds_an_episode_with_a_field_too_many(tmp_path: Path) -> None:
    from absa.runs.verify import verify

    out = trained_and_tested(tmp_path)
    corrupted(out, "stuck", lambda r: r["episodes"][0].update(text=BATTERY))
    (what,) = [v.what for v in verify(out).check("Counts").violations if v.uid == "stuck"]
    assert "episodes.0.text" in what


def test_the_shipped_configurations_work_offline(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    rows = [{"uid": f"u{n}", "text": f"사용감은 좋지만 가격은 비싸요{'!' * n}"} for n in range(3)]
    data.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    recalls = {}
    for condition in ("silent", "on"):
        out = tmp_path / condition
        chosen = ["--config", f"configs/memory_{condition}.yaml"]
        chosen += ["--set", f"pipeline.memory.path={tmp_path / 'memory'}"]
        assert absa(["run", str(data), "--out", str(out), *chosen]) == 0
        assert absa(["verify", str(out)]) == 0
        recalls = {uid: o["meta"]["memory"]["recall"] for uid, o in outputs(out).items()}
        assert {r["condition"] for r in recalls.values()} == {condition}
    # The first run filled the memory; the second finds the other two texts for each.
    assert [len(r["episodes"]) for r in recalls.values()] == [2, 2, 2]


# The commands ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chosen = MemorySettings(condition="on", store="sqlite", path=str(tmp_path / "memory"))
    past = [
        episode("a", "negation", at=1_000_000_000),
        episode("b", "contrast", "negation", at=2_000_000_000, override="applied", outcome="harm"),
        episode("c", lang="en", at=3_000_000_000, outcome="success", risks_before=1, risks_after=0),
    ]
    with open_memory(chosen) as store:
        assert store is not None
        remember(store, *past)
    return tmp_path / "memory"


def test_stats_count_episodes_by_kind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["memory", "stats", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "episodes": 3,
        "lang": {"ko": 2, "en": 1},
        "structure": {"negation": 2, "contrast": 1, "plain": 1},
        "outcome": {"neutral": 1, "harm": 1, "success": 1},
        "override": {"none": 2, "applied": 1},
    }
    assert absa(["memory", "stats", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["all", "3"]
    assert ["structure", "negation", "2"] in [line.split() for line in lines]


def test_show_lists_the_latest_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert absa(["memory", "show", str(folder), "--limit", "2", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["sample"] for line in lines] == ["c", "b"]
    assert absa(["memory", "show", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "1970-01-01 00:00:03" in out and "1 → 0" in out and "0 → –" in out


def test_prune_keeps_the_latest_and_an_index_that_finds_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert absa(["memory", "prune", str(folder), "--keep", "2"]) == 0
    assert capsys.readouterr().out == "1 episodes deleted, the latest 2 kept\n"
    now = Signature(lang="ko", structures=("negation",), aspects=1, length="short")
    with open_folder(folder) as store:
        assert {e.sample for e in stored(store)} == {"b", "c"}
        places = best(read(store, index_reads(now)), now, sample="", split=None, any_split=False)
        assert [e.sample for e in episodes_in(read(store, places))] == ["b"]
    assert absa(["memory", "prune", str(folder), "--keep", "0"]) == 0
    with open_folder(folder) as store:
        assert everything_in(store) == ""


@pytest.mark.parametrize("command", [["stats"], ["show"], ["prune", "--keep", "1"]])
def test_a_folder_without_a_memory_is_wrong_use(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *options = command
    assert absa(["memory", name, str(tmp_path / "nowhere"), *options]) == 2
    assert "has no memory" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "memory.sqlite").write_text("not a database " * 100)
    assert absa(["memory", name, str(tmp_path), *options]) == 2
    assert "cannot be used as a memory: file is not a database" in capsys.readouterr().err


def test_a_memory_that_cannot_be_made_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "data.jsonl").write_text('{"text": "배송이 빨라요."}\n', "utf-8")
    chosen = ["--config", "configs/memory_on.yaml"]
    chosen += ["--set", f"pipeline.memory.path={tmp_path / 'file'}"]
    out = ["--out", str(tmp_path / "run")]
    assert absa(["run", str(tmp_path / "data.jsonl"), *out, *chosen]) == 2
    assert "cannot be used as a memory" in capsys.readouterr().err


# Stores ------------------------------------------------------------------------------------------


def test_a_sqlite_memory_outlives_its_process(tmp_path: Path) -> None:
    chosen = memory_settings(tmp_path / "memory")
    build_graph(chosen, backend=ScriptedBackend(PLAIN)).invoke({"text": BATTERY})
    program = "from absa.cli import main; main()"
    command = [sys.executable, "-c", program, "memory", "stats", str(tmp_path / "memory"), "--json"]
    seen = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(seen.stdout)["episodes"] == 1
    graph = build_graph(chosen, backend=ScriptedBackend(PLAIN))
    assert recalled(graph.invoke({"text": f"{BATTERY}!"})["output"]) == [sample_id(BATTERY)]


def test_without_a_store_memory_lasts_as_long_as_the_graph() -> None:
    for _ in range(2):
        graph = build_graph(Settings(pipeline=PipelineSettings.model_validate(ON)))
        first, second = (graph.invoke({"text": f"배송이 빨라요{end}"})["output"] for end in ".!")
        assert (recalled(first), recalled(second)) == ([], [sample_id("배송이 빨라요.")])
