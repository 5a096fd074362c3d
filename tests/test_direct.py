"""A table walked without LangGraph gives what the compiled graph gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import ScriptedBackend, pipeline
from test_properties import KO_TEXT, TEXTS, Chaos, sensible_answers, thresholds

from absa.graph import Decisions, Wiring, wiring
from absa.nodes.override_gate import override_gate
from absa.schemas.errors import BackendError, WiringError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import RULE_NAMES, PipelineSettings

PROTOCOLS: dict[str, dict[str, Any]] = {
    "patch": {},
    "two rounds": {"debate": {"rounds": 2}},
    "contested": {"debate": {"when": "contested"}},
    "joint": {"stage1": "joint"},
    "persona": {"debate": {"protocol": "persona"}},
    "conflict_review": {"protocol": "conflict_review"},
    "asking arbiter": {"protocol": "conflict_review", "conflict_review": {"arbiter": "llm"}},
    "single": {"protocol": "single"},
    "vote": {"protocol": "vote", "vote": {"n": 4}},
    "selective": {"protocol": "selective"},
}
bases = st.fixed_dictionaries(
    {
        "enable_validator": st.booleans(),
        "enable_stage2": st.sampled_from([True, True, False]),
        "enable_debate": st.sampled_from([True, True, False]),
        "human_review": st.sampled_from(["off", "on_conflict", "always"]),
    }
)
# What `absa ablate --sweep` may change: no agent is asked about it.
decisions = st.fixed_dictionaries(
    {
        "override": thresholds,
        "enable_debate_override": st.booleans(),
        "enable_moderator": st.booleans(),
        "rules": st.sets(st.sampled_from(RULE_NAMES)).map(sorted),
        "vote": st.fixed_dictionaries({"n": st.just(4), "threshold": st.sampled_from([0.3, 0.8])}),
    }
)
weights = st.sampled_from([{}, {"set_polarity": 2.0, "drop_tuple": 2.0}])


def spoken_by_all(seed: int, protocol: str, sensible: dict[Any, Any]) -> dict[Any, Any]:
    """Answers for every agent of every protocol."""
    chaos = Chaos(seed)
    patch = chaos.answers() if seed % 2 else sensible
    persona = {
        name: {
            "speaker": name,
            "stance": chaos.one("pro", "con", "neutral", "odd"),
            "message": chaos.word(),
            "key_points": [chaos.word(), "가격", "맛은 좋고"],
        }
        for name in ("analyst", "critic", "empath")
    }
    if protocol == "persona":
        persona["judge"] = {"winner": "critic", "consensus": "부정", "rationale": chaos.word()}
    extract = {
        ("extract", turn): {
            "tuples": [
                {"aspect_term": term, "polarity": chaos.one("positive", "negative")}
                for term in ("가격", "맛", "종이")
                if chaos.random.random() < 0.6
            ]
        }
        for turn in range(4)
    }
    reader = {
        "tuples": [
            {"aspect_term": "가격", "polarity": "negative", "probability": 0.6, "reported": True}
        ]
    }
    return {
        **patch,
        **chaos.conflict_answers(),
        **persona,
        **extract,
        "second_reader": reader,
    }


def plain(output: FinalOutput) -> str:
    """As text: an answer may hold a NaN, which equals nothing. In order: calls are not sorted."""
    values = output.model_dump(mode="json")
    values["meta"]["usage"].pop("latency_ms")
    for call in values["process_trace"]:
        call.pop("latency_ms")
    return json.dumps(values, ensure_ascii=False)


@settings(max_examples=70)
@given(
    st.sampled_from(sorted(PROTOCOLS)),
    st.sampled_from(TEXTS),
    st.integers(0, 2**32 - 1),
    sensible_answers(),
    bases,
    st.lists(st.tuples(decisions, weights), min_size=2, max_size=3),
    st.none() | st.just(["가격", "맛", "배송"]),
)
def test_graph_and_direct_run_agree(protocol, text, seed, sensible, base, changes, terms):
    """Under each of several settings, although the direct runs share what they can."""
    backend = ScriptedBackend(spoken_by_all(seed, protocol, sensible))
    sample = {"text": text, "uid": "u1", "given_aspects": terms}
    together = Decisions(sample)
    for change, hint_weights in changes:
        chosen = {**base, **change, **PROTOCOLS[protocol]}
        if "debate" in chosen or hint_weights:
            chosen["debate"] = {**chosen.get("debate", {}), "hint_weights": hint_weights}
        edges = wiring(pipeline(**chosen))
        outcome: list[str] = []
        for decide in (
            lambda edges=edges: edges.compile(backend=backend).invoke(sample)["output"],
            lambda edges=edges: together.under(edges.direct(backend)),
            lambda edges=edges: edges.direct(backend).invoke(sample)["output"],
        ):
            try:
                outcome.append(plain(decide()))
            except BackendError as error:  # an answer that cannot be read
                outcome.append(str(error))
        assert outcome[0] == outcome[1] == outcome[2]


def test_a_node_runs_again_only_where_a_setting_it_reads_differs() -> None:
    """What 20 settings have in common is computed once: questions too."""
    backend = ScriptedBackend(spoken_by_all(1, "patch", {}))
    backend.answers |= {"epm": {"proposed_edits": []}}
    together = Decisions({"text": KO_TEXT, "uid": "u1"})
    for rules in (["Z"], ["Z", "B"], [], RULE_NAMES):
        for total in (0.5, 1.0, 1.6):
            chosen = pipeline(rules=rules, override={"min_total": total})
            together.under(wiring(chosen).direct(backend))
    assert len(backend.asked) == 10


def changed(pipeline: PipelineSettings) -> Wiring:
    return wiring(pipeline).rewire("apply_reviews", "adopt")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (wiring(pipeline(memory={"condition": "silent"})), "memory is on"),
        (changed(pipeline()), "its nodes or edges are not the shipped ones"),
        (wiring(pipeline()).replace("override_gate", override_gate), "its nodes or edges"),
        (wiring(pipeline()).remove("validator_review"), "its nodes or edges"),
    ],
)
def test_memory_and_foreign_wirings_run_as_a_graph_and_say_why(made: Wiring, why: str) -> None:
    with pytest.raises(WiringError, match=why):
        made.direct(ScriptedBackend({}))
