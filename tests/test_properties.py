"""Whatever the agents answer, the graph ends with an output that holds together."""

from __future__ import annotations

import json
import random
import unicodedata
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import (
    ScriptedBackend,
    aspect,
    ate,
    board,
    felt,
    hint,
    pipeline,
    said,
    without_latency,
)

from absa.graph import Graph, build, build_switchable
from absa.nodes.adopt import EV_REASONS
from absa.nodes.board import snapshot_name
from absa.nodes.language import language
from absa.nodes.override_gate import HintedAspect, weigh
from absa.nodes.polarity import read
from absa.runs.verify.conflict_review import actions_visible, review_follows
from absa.schemas.answers import (
    ASPECT_ACTIONS,
    EDIT_OPS,
    LABELS,
    POLARITIES,
    PROPOSALS,
    REASON_CODES,
    REVIEW_ACTIONS,
    RISK_TYPES,
    SENTIMENT_ACTIONS,
    SEVERITIES,
    JudgeAnswer,
    Risk,
    name_of,
)
from absa.schemas.context import RunContext
from absa.schemas.output import AspectTuple, FinalOutput
from absa.schemas.records import ReviewContext
from absa.schemas.settings import OverrideSettings, PipelineSettings

KO_TEXT = "배터리 가격은 비싸지만 맛은 좋고 종이가 얇아요."
TEXTS = (KO_TEXT, "가격이 비싸요.", "The battery life is short but the screen looks great.")
KO = language("ko")

# Answers -----------------------------------------------------------------------------------------

CORE = ("가격", "맛", "종이", "배터리 가격", "비싸지만", "좋고", "battery life", "screen")
WORDS = (
    *("가격은", "값", "배터리", "맛이", "얇아요", "배송", "없는 것", "battery", "display", "great"),
    *("", " ", "...", "가", "은", unicodedata.normalize("NFD", "가격"), "x" * 500, "\x00", "😀"),
)
BAD_POLARITIES = ("positve", "NEG", "neu", "mixed", "good", "", "pogative", "부정")
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -3, 10**30, 0.5, float("nan"), float("inf"), "", "?", "\x00"),
    *([], [[]], {}, {"a": 1}, ["가격", None, 3], {"start": 0}, {"term": {"term": "가격"}}),
)


class Chaos:
    """Agents that answer anything: the more chaos, the less of it makes sense.

    Drawn from one seed rather than piece by piece: ten answers are too much for a strategy to
    draw often enough, and a failing seed is all one needs to see an example again.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.level = self.random.choice((0.0, 0.02, 0.1, 0.4))

    def one(self, *choices: Any) -> Any:
        """One of the choices, or junk."""
        return self.random.choice(JUNK if self.random.random() < self.level else choices)

    def word(self) -> Any:
        strange = self.random.random() < 0.2
        return self.one(*(WORDS if strange else CORE))

    def polarity(self) -> Any:
        strange = self.random.random() < 0.2
        return self.one(*(BAD_POLARITIES if strange else POLARITIES))

    def confidence(self) -> Any:
        return self.one(0.0, 0.3, 0.5, 0.55, 0.6, 0.7, 0.9, 1.0, 7, -1, "0.8", None)

    def span(self) -> Any:
        start = self.random.randint(-1, 20)
        end = start + self.random.randint(-1, 8)
        return self.one([start, end], {"start": start, "end": end}, None, self.word())

    def item(self, **fields: Any) -> Any:
        """An object that may lack a field, or no object at all."""
        kept = {k: v for k, v in fields.items() if self.random.random() >= self.level / 2}
        return self.one(kept)

    def several(self, make: Any, most: int = 5) -> Any:
        """None, a few, or a great many with duplicates; or no list at all."""
        found = [make() for _ in range(self.random.randint(0, most))]
        return self.one(found * (40 if self.random.random() < 0.03 else 1))

    def asked_for(self, **fields: Any) -> dict[str, Any]:
        """An answer with at least its first key: without any it would be a failed call."""
        first = next(iter(fields))
        return {**fields, first: "?" if fields[first] is None else fields[first]}

    def edit(self) -> Any:
        target = self.item(
            aspect_ref=self.word(), aspect_term=self.word(), polarity=self.polarity()
        )
        return self.item(
            op=self.one(*EDIT_OPS, *EDIT_OPS, "explode"),
            target=target,
            value=self.polarity(),
            evidence=self.word(),
            confidence=self.confidence(),
        )

    def turn(self) -> dict[str, Any]:
        return self.asked_for(proposed_edits=self.several(self.edit), agent=self.word())

    def validation(self) -> dict[str, Any]:
        def risk() -> Any:
            type_, severity = self.one(*RISK_TYPES, "SARCASM"), self.one(*SEVERITIES)
            return self.item(type=type_, severity=severity, span=self.span())

        def proposal() -> Any:
            return self.item(
                proposal_type=self.one(*PROPOSALS, *PROPOSALS, "EXPLODE"),
                target_aspect=self.word(),
                revised_span=self.span(),
            )

        return self.asked_for(
            structural_risks=self.several(risk, 2),
            correction_proposals=self.several(proposal, 3),
            suggested_label=self.one(*LABELS, *BAD_POLARITIES, None),
            confidence=self.confidence(),
        )

    def judge(self) -> dict[str, Any]:
        def told() -> Any:
            return self.item(aspect_term=self.word(), polarity=self.polarity())

        def shown_() -> Any:
            return self.item(aspect_ref=self.word(), evidence=self.word())

        return self.asked_for(
            final_patch=self.several(self.edit),
            final_tuples=self.several(told, self.random.choice((0, 3))),
            sentence_polarity=self.one(*LABELS, *BAD_POLARITIES),
            sentence_evidence_spans=self.several(self.word),
            aspect_evidence=self.one(self.several(shown_), {"가격": "비싸지만", "맛": None}),
            rationale=self.word(),
            unresolved_conflicts=self.several(self.word),
        )

    def aspect_review(self) -> Any:
        return self.item(
            term=self.word(),
            action=self.one(*ASPECT_ACTIONS, *ASPECT_ACTIONS, "explode"),
            revised_span=self.span(),
            reason=self.word(),
        )

    def sentiment_review(self) -> Any:
        return self.item(
            aspect_ref=self.word(),
            action=self.one(*SENTIMENT_ACTIONS, *SENTIMENT_ACTIONS, "explode"),
            revised_polarity=self.polarity(),
            confidence=self.confidence(),
            evidence=self.word(),
            reason=self.word(),
        )

    def aspect(self) -> Any:
        return self.item(term=self.word(), span=self.span(), confidence=self.confidence())

    def sentiment(self) -> Any:
        return self.item(
            aspect_ref=self.word(),
            polarity=self.polarity(),
            evidence=self.word(),
            confidence=self.confidence(),
            is_implicit=self.one(True, False, False, None),
        )

    def answers(self) -> dict[Any, Any]:
        reviews = self.several(self.aspect_review)
        full_list = {"aspects": [1]} if self.random.random() < 0.2 else {}
        return {
            "ate": self.asked_for(aspects=self.several(self.aspect)),
            "atsa": self.asked_for(aspect_sentiments=self.several(self.sentiment, 8)),
            "validator": self.validation(),
            "epm": self.turn(),
            "tan": self.turn(),
            "cj": self.turn(),
            "judge": self.judge(),
            "ate_review": self.asked_for(aspect_review=reviews, **full_list),
            "atsa_review": self.asked_for(sentiment_review=self.several(self.sentiment_review)),
            "validator_review": self.validation(),
        }

    def triplet(self) -> Any:
        return self.item(
            aspect_term=self.word(),
            aspect_ref=self.one(None, None, self.word()),
            polarity=self.polarity(),
            evidence=self.word(),
            span=self.span(),
            confidence=self.confidence(),
        )

    def review_action(self) -> Any:
        ids = [f"t{self.random.randint(0, 5)}" for _ in range(self.random.randint(0, 3))]
        value = self.item(polarity=self.polarity(), normalized_ref=self.word())
        return self.item(
            action_type=self.one(*REVIEW_ACTIONS, *REVIEW_ACTIONS, "EXPLODE"),
            target_tuple_ids=self.one(ids, ids, ids, "t0"),
            new_value=self.one(value, value, None, "negative"),
            reason_code=self.one(*REASON_CODES, "BECAUSE"),
            actor=self.one("A", "B", "C"),
        )

    def conflict_answers(self) -> dict[Any, Any]:
        perspectives = {
            name: self.asked_for(triplets=self.several(self.triplet, 3))
            for name in ("p_neg", "p_imp", "p_lit")
        }
        reviewers = {
            name: self.asked_for(review_actions=self.several(self.review_action, 6))
            for name in ("review_a", "review_b", "review_c", "arbiter")
        }
        return {**perspectives, **reviewers}


seeds = st.integers(0, 2**32 - 1)
answers = seeds.map(lambda seed: Chaos(seed).answers())
thresholds = st.fixed_dictionaries(
    {
        "min_total": st.sampled_from([0.0, 0.5, 1.0, 1.6, 1.8]),
        "min_margin": st.sampled_from([0.0, 0.3, 0.5, 0.8]),
        "min_target_conf": st.sampled_from([0.0, 0.55, 0.7, 1.0]),
        "ev_threshold": st.sampled_from([0.0, 0.3, 0.5, 1.0]),
        "l3_conservative": st.booleans(),
        "max_overrides_per_sample": st.integers(0, 3),
        "allow_drop": st.booleans(),
    }
)
TOGGLES = ("validator", "stage2", "debate", "debate_override", "moderator")
toggles = st.fixed_dictionaries({f"enable_{name}": st.booleans() for name in TOGGLES})


# Agents that mean well: what they say can be used, so that much happens. ------------------------

aspects_of_text = st.sampled_from(["가격", "맛", "종이", "배터리"])
polar = st.sampled_from(["positive", "negative"])


@st.composite
def sensible_answers(draw: st.DrawFn) -> dict[Any, Any]:
    known = draw(st.lists(aspects_of_text, unique=True, min_size=1))
    pieces = st.sampled_from(["비싸지만", "좋고", "얇아요", "없는 말"])
    edit = st.fixed_dictionaries(
        {
            "op": st.sampled_from(EDIT_OPS),
            "target": st.fixed_dictionaries({"aspect_ref": aspects_of_text, "polarity": polar}),
            "value": polar,
        }
    )
    spoken = st.fixed_dictionaries({"proposed_edits": st.lists(edit, max_size=4)})
    validation = st.fixed_dictionaries(
        {
            "structural_risks": st.lists(
                st.fixed_dictionaries({"type": st.sampled_from(RISK_TYPES)}), max_size=2
            ),
            "correction_proposals": st.lists(
                st.fixed_dictionaries(
                    {
                        "proposal_type": st.sampled_from(PROPOSALS),
                        "target_aspect": aspects_of_text,
                        "revised_span": aspects_of_text | st.just("배터리 가격"),
                    }
                ),
                max_size=2,
            ),
        }
    )
    sentiments = [
        {
            "aspect_ref": name,
            "polarity": draw(polar),
            "evidence": draw(pieces),
            "confidence": draw(st.sampled_from([0.4, 0.6, 0.8])),
        }
        for name in known
    ]
    tuples = st.lists(st.fixed_dictionaries({"aspect_term": aspects_of_text, "polarity": polar}))
    return said(
        ate=ate(*known),
        atsa={"aspect_sentiments": sentiments},
        validator=draw(validation),
        validator_review=draw(validation),
        epm=draw(spoken),
        tan=draw(spoken),
        cj=draw(spoken),
        judge={
            "final_patch": draw(st.lists(edit, max_size=3)),
            "final_tuples": draw(st.just([]) | tuples),
            "sentence_evidence_spans": [draw(pieces)],
            "sentence_polarity": draw(st.sampled_from(LABELS)),
        },
        ate_review={
            "aspect_review": draw(
                st.lists(
                    st.fixed_dictionaries(
                        {
                            "term": aspects_of_text,
                            "action": st.sampled_from(ASPECT_ACTIONS),
                            "revised_span": aspects_of_text | st.just("배터리 가격"),
                        }
                    ),
                    max_size=3,
                )
            )
        },
        atsa_review={
            "sentiment_review": draw(
                st.lists(
                    st.fixed_dictionaries(
                        {
                            "aspect_ref": aspects_of_text,
                            "action": st.sampled_from(SENTIMENT_ACTIONS),
                            "revised_polarity": st.none() | polar,
                            "evidence": pieces,
                        }
                    ),
                    max_size=3,
                )
            )
        },
    )


def any_answers() -> st.SearchStrategy[dict[Any, Any]]:
    return answers | sensible_answers()


# Running -----------------------------------------------------------------------------------------


@cache
def _graph(settings_json: str, switchable: bool) -> tuple[Graph, ScriptedBackend]:
    """Building costs as much as running: the same settings share one graph."""
    backend = ScriptedBackend({})
    made = build_switchable if switchable else build
    return made(PipelineSettings.model_validate_json(settings_json), backend), backend


def run(
    text: str,
    spoken: Any,
    chosen: PipelineSettings | None = None,
    context: RunContext | None = None,
    **more: Any,
) -> FinalOutput:
    chosen = chosen or PipelineSettings()
    base = PipelineSettings() if context else chosen
    graph, backend = _graph(base.model_dump_json(), context is not None)
    backend.answers, backend.asked = spoken, []
    output: FinalOutput = graph.invoke({"text": text, **more}, context=context)["output"]
    return output


# What always holds -------------------------------------------------------------------------------

Polarities = dict[str, frozenset[str]]


def by_key(tuples: Any, key: Any) -> Polarities:
    found: dict[str, set[str]] = {}
    for each in tuples:
        found.setdefault(key(each.name), set()).add(each.polarity)
    return {name: frozenset(said_) for name, said_ in found.items()}


def shown(snapshot: dict[str, Any]) -> frozenset[str]:
    return frozenset(s["polarity"] for s in snapshot["sentiments"])


def check_values(out: FinalOutput) -> None:
    """The output validates, says only canonical things, and points only into the text."""
    assert FinalOutput.model_validate(out.model_dump()) is not None
    assert FinalOutput.model_validate_json(out.model_dump_json()) is not None
    result = out.final_result
    assert result.label in LABELS and 0 <= result.confidence <= 1
    for each in (*result.final_tuples, *result.stage1_tuples, *result.stage2_tuples):
        assert each.polarity in POLARITIES
    for found in result.final_aspects:
        assert 0 <= found.confidence <= 1
        assert found.is_grounded is bool(
            found.evidence and found.evidence.strip() and found.evidence in out.text
        )
        if found.span is not None:
            assert out.text[found.span.start : found.span.end] == found.aspect_term
        else:
            assert found.is_implicit


def check_final_tuples(out: FinalOutput) -> None:
    key, result = language(out.lang).key, out.final_result
    assert by_key(result.final_tuples, key) == by_key(result.final_aspects, key)
    pairs = [(key(t.name), t.polarity) for t in result.final_tuples]
    assert len(pairs) == len(set(pairs))
    adopted = out.meta.adopt_decision == "adopted"
    assert result.final_tuples == (result.stage2_tuples if adopted else result.stage1_tuples)
    changed = by_key(result.final_tuples, key) != by_key(result.stage1_tuples, key)
    assert out.analysis_flags.correction_occurred is changed


def check_log(out: FinalOutput) -> dict[str, str]:
    """Stage 1 plus the applied entries, one after another, is Stage 2. Returns the renames."""
    key, result = language(out.lang).key, out.final_result
    now, renamed = by_key(result.stage1_tuples, key), {}
    for entry in out.meta.correction_applied_log:
        before, after = entry.before, entry.after
        if not entry.applied:
            assert entry.reason
            continue
        assert visible(before) != visible(after)
        old = key(snapshot_name(before)) if before else None
        new = key(snapshot_name(after)) if after else None
        if old is not None:
            assert now.pop(old, frozenset()) == shown(before)
        if new is not None:
            now[new] = shown(after)
            if old is not None and old != new:
                # A name means the aspect that had it first.
                names = [name for name, held in renamed.items() if held == old]
                names += [old] if old not in renamed else []
                renamed.update(dict.fromkeys(names, new))
    if out.analysis_flags.stage2_executed:
        left = {name: said_ for name, said_ in now.items() if said_}
        assert left == by_key(result.stage2_tuples, key)
        assert out.patched_stage2_ate is not None and out.patched_stage2_atsa is not None
        sentiments = out.patched_stage2_atsa.aspect_sentiments
        tuples = [AspectTuple(aspect_term=s.aspect_ref, polarity=s.polarity) for s in sentiments]
        assert by_key(tuples, key) == left
        aspects = [key(name_of(a.term)) for a in out.patched_stage2_ate.aspects]
        assert {*left} <= {*aspects} and len(aspects) == len({*aspects})
    else:
        assert out.patched_stage2_ate is out.patched_stage2_atsa is None
        assert out.meta.correction_applied_log == () and result.stage2_tuples == ()
    return renamed


def visible(snapshot: dict[str, Any] | None) -> Any:
    if snapshot is None:
        return None
    felt_ = sorted((s["polarity"], s["confidence"]) for s in snapshot["sentiments"])
    return snapshot["aspect_term"], snapshot["span"], felt_


def check_s3(out: FinalOutput, renamed: dict[str, str]) -> None:
    """A debate whose tuples are not the final ones was overruled for an allowed reason."""
    if out.debate is None:
        return
    key = language(out.lang).key
    told = {
        (
            renamed.get(key(name_of(t.aspect_term)), key(name_of(t.aspect_term))),
            read(t.polarity).value,
        )
        for t in out.debate.summary.final_tuples
    }
    told = {(name, polarity) for name, polarity in told if name and polarity}
    final = {(key(t.name), t.polarity) for t in out.final_result.final_tuples}
    if told and out.meta.adopt_decision == "adopted":
        assert told == final
    if out.meta.adopt_decision == "not_adopted":
        assert out.meta.adopt_reason in EV_REASONS


def check_decision(out: FinalOutput, chosen: PipelineSettings) -> None:
    meta, stats = out.meta, out.meta.debate_override_stats
    adopted = meta.adopt_decision == "adopted"
    if out.moderator is not None:
        assert (out.moderator.selected_stage == "stage2") is adopted
        assert out.moderator.rationale.count("Rule") >= len(out.moderator.applied_rules)
    if adopted:
        assert meta.ev_score is not None
        assert meta.ev_score >= chosen.debate_override.ev_threshold - 1e-9
    if meta.ev_score is not None:
        assert -1e-9 <= meta.ev_score <= 1 + 1e-9
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in meta.ev_components.values())
    assert (meta.gate_decision == "APPLY") is (stats.applied > 0)
    assert stats.applied <= chosen.debate_override.max_overrides_per_sample
    assert stats.applied + stats.confirmed == sum(
        c.source == "debate_override" and c.applied for c in meta.correction_applied_log
    )
    skipped = sum(
        count
        for name, count in stats.model_dump().items()
        if name not in ("applied", "skipped_neutral_only")  # counted in low_signal already
    )
    assert stats.applied + skipped == len(meta.override_gate)
    conflicts = meta.debate_override_skip_reasons.model_dump()
    assert sum(conflicts.values()) == stats.skipped_conflict


def check(out: FinalOutput, chosen: PipelineSettings) -> None:
    check_values(out)
    check_final_tuples(out)
    check_s3(out, check_log(out))
    check_decision(out, chosen)


@settings(max_examples=150)
@given(st.sampled_from(TEXTS), seeds, thresholds)
def test_whatever_is_answered_the_output_holds_together(text, seed, limits):
    chosen = pipeline(override=limits)
    check(run(text, Chaos(seed).answers(), chosen), chosen)


@settings(max_examples=80)
@given(sensible_answers(), thresholds)
def test_whatever_is_decided_the_output_holds_together(spoken, limits):
    chosen = pipeline(override=limits)
    check(run(KO_TEXT, spoken, chosen), chosen)


@settings(max_examples=60)
@given(sensible_answers(), thresholds)
def test_a_judge_that_foresees_stage2_never_blocks_it(spoken, limits):
    """The judge's tuples change nothing but whether they agree: take them from a first run."""
    chosen = pipeline(override=limits)
    first = run(KO_TEXT, with_tuples(spoken, ()), chosen)
    second = run(KO_TEXT, with_tuples(spoken, first.final_result.stage2_tuples), chosen)
    check(second, chosen)
    assert second.final_result.stage2_tuples == first.final_result.stage2_tuples
    assert second.meta.adopt_decision == first.meta.adopt_decision
    assert second.meta.adopt_reason == first.meta.adopt_reason


def with_tuples(spoken: dict[Any, Any], tuples: Any) -> dict[Any, Any]:
    given_ = [t.model_dump() for t in tuples]
    return {**spoken, "judge": {**spoken["judge"], "final_tuples": given_}}


@settings(max_examples=50)
@given(any_answers(), toggles, thresholds, st.integers(1, 2))
def test_fixed_and_switchable_graph_agree(spoken, switches, limits, rounds):
    chosen = pipeline(**switches, override=limits, debate={"rounds": rounds})
    context = RunContext(**switches, **limits, rounds=rounds)
    fixed = run(KO_TEXT, spoken, chosen)
    switched = run(KO_TEXT, spoken, context=context)
    # As JSON text: an answer may hold a NaN, which equals nothing, itself included.
    assert as_json(fixed) == as_json(switched)
    check(fixed, chosen)


def as_json(out: FinalOutput) -> str:
    return json.dumps(without_latency(out), ensure_ascii=False, sort_keys=True)


@settings(max_examples=25)
@given(any_answers())
def test_the_same_answers_give_the_same_output_twice(spoken):
    assert as_json(run(KO_TEXT, spoken)) == as_json(run(KO_TEXT, spoken))


@settings(max_examples=40)
@given(sensible_answers(), st.sets(st.sampled_from("ZBMCADE")))
def test_any_subset_of_the_moderators_rules_gives_a_label(spoken, rules):
    chosen = pipeline(rules=sorted(rules))
    out = run(KO_TEXT, spoken, chosen)
    assert {r.removeprefix("Rule") for r in out.moderator.applied_rules} <= rules
    check_values(out)


@settings(max_examples=200)
@given(
    st.sampled_from(TEXTS),
    seeds,
    st.sampled_from(["rules", "llm"]),
    st.none() | st.just(["가격", "맛", "배송"]),
)
def test_whatever_is_answered_in_a_conflict_review_the_output_holds_together(
    text, seed, arbiter, terms
):
    chosen = pipeline(protocol="conflict_review", conflict_review={"arbiter": arbiter})
    spoken = Chaos(seed).conflict_answers()
    out = run(text, spoken, chosen, given_aspects=terms)
    check_values(out)
    assert list(review_follows(out, spoken)) == []
    assert list(actions_visible(out)) == []
    key, result = language(out.lang).key, out.final_result
    assert by_key(result.final_tuples, key) == by_key(result.final_aspects, key)
    # A review takes away and changes; what it leaves was proposed, but for the polarity of a flip.
    assert by_key(result.final_tuples, key).keys() <= by_key(result.stage1_tuples, key).keys()
    changed = by_key(result.final_tuples, key) != by_key(result.stage1_tuples, key)
    assert out.analysis_flags.correction_occurred is changed
    reviewed = bool(out.meta.conflict_flags or out.meta.validator_risks)
    assert out.analysis_flags.stage2_executed is reviewed
    assert len(out.process_trace) <= (7 if arbiter == "llm" else 6)
    if not reviewed:
        assert not out.meta.arbiter_actions and len(out.process_trace) == 3
    if terms is not None:
        assert by_key(result.final_tuples, key).keys() == set(terms)
    assert as_json(run(text, spoken, chosen, given_aspects=terms)) == as_json(out)


class Reviewers:
    """Perspectives and reviewers that mean well: much is in doubt, and every action counts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def triplet(self) -> dict[str, Any]:
        return {
            "aspect_term": self.random.choice(["가격", "가격은", "배터리 가격", "맛", "종이"]),
            "polarity": self.random.choice(["positive", "negative"]),
            "evidence": self.random.choice(["비싸지만", "좋고", "얇아요", "없는 말"]),
            "confidence": self.random.choice([0.4, 0.6, 0.8]),
        }

    def action(self, flagged: list[str]) -> dict[str, Any]:
        kind = self.random.choice(REVIEW_ACTIONS)
        polarity = self.random.choice(["positive", "negative", "neutral"])
        values = {"FLIP": {"polarity": polarity}, "MERGE": {"normalized_ref": "값"}}
        size = 2 if kind == "MERGE" else 1
        return {
            "action_type": kind,
            "target_tuple_ids": self.random.sample(flagged, min(size, len(flagged))),
            "new_value": values.get(kind),
            "reason_code": self.random.choice(REASON_CODES),
        }

    def answers(self, text: str) -> dict[Any, Any]:
        spoken: dict[Any, Any] = {
            name: {"triplets": [self.triplet() for _ in range(self.random.randint(0, 2))]}
            for name in ("p_neg", "p_imp", "p_lit")
        }
        silent = {name: {"review_actions": []} for name in REVIEWER_NODES.values()}
        first = run(text, {**spoken, **silent}, CONFLICT_REVIEW)
        flagged = [a.target_tuple_ids[0] for a in first.meta.arbiter_actions]
        for name in REVIEWER_NODES.values():
            # Of few tuples and few names: votes must meet.
            actions = [self.action(flagged[:3]) for _ in range(4)] if flagged else []
            spoken[name] = {"review_actions": actions}
        return spoken


REVIEWER_NODES = {"A": "review_a", "B": "review_b", "C": "review_c"}
CONFLICT_REVIEW = pipeline(protocol="conflict_review")


def expected_action(tuple_id: str, spoken: dict[Any, Any], polarity_of: dict[str, str]) -> Any:
    """The arbiter's rule once more, from the raw answers: (action, value, marked)."""
    votes, reasons, marked = [], {}, False
    for name in REVIEWER_NODES.values():
        mine = [
            a
            for a in spoken[name]["review_actions"]
            if tuple_id in a["target_tuple_ids"]
            and not (a["action_type"] == "MERGE" and len(a["target_tuple_ids"]) < 2)
        ]
        marked = marked or any(a["action_type"] == "FLAG" for a in mine)
        chosen = next((a for a in mine if a["action_type"] != "FLAG"), None)
        kind = chosen["action_type"] if chosen else "KEEP"
        value = json.dumps(chosen["new_value"]) if chosen else "null"
        targets = frozenset(chosen["target_tuple_ids"]) if kind == "MERGE" else frozenset()
        votes.append((kind, value, targets))
        reasons[kind] = chosen["reason_code"] if chosen else None
    for vote in votes:
        if votes.count(vote) >= 2:
            if vote[0] == "MERGE" and len({polarity_of[t] for t in vote[2]}) > 1:
                return "KEEP", "null", True
            return vote[0], vote[1], marked
    structural = ("NEGATION_SCOPE", "CONTRAST_CLAUSE", "STRUCTURAL_INCONSISTENT")
    if sorted(v[0] for v in votes) == ["DROP", "FLIP", "KEEP"] and reasons["FLIP"] in structural:
        return next((v[0], v[1], marked) for v in votes if v[0] == "FLIP")
    return "KEEP", "null", True


@settings(max_examples=250)
@given(seeds)
def test_the_arbiter_decides_as_its_table_says(seed):
    spoken = Reviewers(seed).answers(KO_TEXT)
    out = run(KO_TEXT, spoken, CONFLICT_REVIEW)
    polarity_of = {c.tuple_id: c.polarity for c in out.meta.candidates}
    for made in out.meta.arbiter_actions:
        (tuple_id,) = made.target_tuple_ids
        decided = (made.action_type, json.dumps(made.new_value), made.flag)
        assert decided == expected_action(tuple_id, spoken, polarity_of)
    marked = tuple(a.target_tuple_ids[0] for a in out.meta.arbiter_actions if a.flag)
    assert out.meta.flagged_tuple_ids == marked
    assert list(review_follows(out, spoken)) == [] and list(actions_visible(out)) == []
    check_values(out)


# The gate by itself ------------------------------------------------------------------------------

TEXT = "가격이 비싸요."
one_hint = st.builds(
    hint,
    st.sampled_from(["positive", "negative", "neutral", None]),
    st.sampled_from([0.5, 0.8, 1.0]),
)
one_sentiment = st.builds(felt, st.sampled_from(POLARITIES), st.sampled_from([0.3, 0.7, 0.9]))


@settings(max_examples=300)
@given(
    st.lists(one_hint, max_size=6),
    st.lists(one_sentiment, max_size=2),
    st.sampled_from(["비싸요", "없는 말", "", None]),
    st.booleans(),
    thresholds,
    thresholds,
)
def test_looser_thresholds_never_apply_fewer_overrides(said_, has, evidence, risky, one, two):
    """`min_target_conf` stays: lowered it makes more sentiments sure enough to be left alone."""
    strict = {**one, "min_total": max(one["min_total"], two["min_total"])}
    strict["min_margin"] = max(one["min_margin"], two["min_margin"])
    strict["l3_conservative"] = one["l3_conservative"] or two["l3_conservative"]
    loose = {**one, "min_total": min(one["min_total"], two["min_total"])}
    loose["min_margin"] = min(one["min_margin"], two["min_margin"])
    loose["l3_conservative"] = one["l3_conservative"] and two["l3_conservative"]
    fewest, most = sorted([one["max_overrides_per_sample"], two["max_overrides_per_sample"]])
    strict["max_overrides_per_sample"], loose["max_overrides_per_sample"] = fewest, most

    def applied(limits: dict[str, Any]) -> bool:
        hinted = HintedAspect("가격", "가격", tuple(said_), evidence, evidence is not None)
        record = weigh(
            hinted,
            board(TEXT, aspect(TEXT, "가격", *has)),
            ReviewContext(summary=JudgeAnswer(sentence_evidence_spans=["비싸요"])),
            removed=frozenset(),
            risks=[Risk(type="IRONY")] if risky else [],
            overrides_so_far=0,
            settings=OverrideSettings(**limits),
        )
        return record.applied

    assert applied(loose) >= applied(strict)


@given(st.sampled_from((*CORE, *WORDS)) | st.text(max_size=6))
def test_an_aspect_key_is_stable_under_case_form_space_and_punctuation(term):
    key = KO.key(term)
    assert KO.key(unicodedata.normalize("NFD", term)) == key
    assert KO.key(f" {term}!") == key
    assert not any(c.isspace() or unicodedata.category(c).startswith("P") for c in key)


@pytest.mark.parametrize("node", ["epm", "judge", "ate_review"])
def test_a_lone_surrogate_in_an_answer_does_not_end_the_run(node):
    """JSON can spell one, and so a model can send one."""
    spoken = said(ate=ate("가격"))
    key = next(iter(spoken[node]))
    bad = json.loads('"\\ud800"')
    spoken[node] = {
        **spoken[node],
        key: [{"op": bad, "action": bad}],
        "unresolved_conflicts": [bad],
    }
    out = run(TEXT, spoken)
    assert FinalOutput.model_validate_json(out.model_dump_json()).text == TEXT
