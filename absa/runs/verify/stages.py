"""S1 to S3 without the decision layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from absa.nodes.adopt import EV_REASONS
from absa.nodes.doubts import present_name, renames
from absa.nodes.names import joint_answers, separate_answers
from absa.nodes.polarity import PolarityCounter, read
from absa.nodes.thresholds import reaches
from absa.runs.directory import TRACES
from absa.runs.verify.conflict_review import review_follows
from absa.runs.verify.corrections import OVERRIDE
from absa.runs.verify.records import Findings, SampleRecords
from absa.runs.verify.words import (
    dicts_of,
    judgement,
    mapping_of,
    named,
    pairs_in,
    tuples_in,
    word_of,
)
from absa.schemas.answers import (
    LABELS,
    POLARITIES,
    UNNAMED,
    AteAnswer,
    AtsaAnswer,
    ExtractAnswer,
    name_of,
    read_answer,
)
from absa.schemas.errors import AnswerError
from absa.schemas.output import AspectTuple
from absa.schemas.verdicts import OVERRIDES, SKIPS


def follows_directly(e: SampleRecords) -> Findings:
    """Stage 1 follows from its answers, the final tuples from adoption, overrides from the gate."""
    result, meta = e.output.final_result, e.output.meta
    if e.is_conflict_review:
        answers = {str(c.record.get("node")): mapping_of(c.record.get("output")) for c in e.calls}
        yield from review_follows(e.output, answers)
    if not e.is_debate:
        return
    yield from _stage1_follows(e)
    chosen = result.stage2_tuples if e.adopted else result.stage1_tuples
    if e.keyed(result.final_tuples) != e.keyed(chosen):
        stage = "Stage 2" if e.adopted else "Stage 1"
        what = f"final_tuples are {tuples_in(result.final_tuples)} and those of {stage}"
        yield "S1", f"{meta.adopt_decision}, but {what} {tuples_in(chosen)}"
    moderator = e.output.moderator
    if moderator and (moderator.selected_stage == "stage2") != e.adopted:
        yield "S1", f"{meta.adopt_decision}, but the Moderator took {moderator.selected_stage}"
    overrides = [c for c in meta.correction_applied_log if c.source == OVERRIDE and c.applied]
    granted = sum(r.verdict not in SKIPS for r in meta.override_gate)
    if len(overrides) != granted:
        logged = f"{len(overrides)} overrides and confirms in correction_applied_log"
        yield "S1", f"{logged}, {granted} granted by the gate"
    changing = sum(r.verdict in OVERRIDES for r in meta.override_gate)
    if (meta.gate_decision == "APPLY") != bool(changing):
        yield "S1", f"gate_decision is {meta.gate_decision}, the gate granted {changing} overrides"
    yield from _asked_for(e)


def _stage1_follows(e: SampleRecords) -> Findings:
    """Stage 1's tuples: ATE's likely aspects with ATSA's sentiments, else neutral."""
    try:
        answers = _stage1_answers(e)
    except AnswerError:
        return
    if answers is None:
        return
    aspects, sentiments = answers
    polarities: dict[str, set[str]] = {}
    own: dict[str, str | None] = {}
    named_keys = {e.lang.key(a.term) for a in aspects.aspects if a.term}
    for a in aspects.aspects:
        category = e.category(a.category)
        own.setdefault(e.lang.key(name_of(a.term, category)), category)
    for item in sentiments.aspect_sentiments:
        polarity = read(item.polarity).value
        if polarity:
            category = e.category(item.category)
            key = e.lang.key(name_of(item.aspect_ref, category))
            if item.aspect_ref is None and key not in own and e.lang.key(UNNAMED) in own:
                own[key] = category
            if item.category is None:
                category = own.get(key)
            polarities.setdefault(key, set()).add(judgement(category, polarity))
    every = own.keys() - {""}
    keys = every & {
        e.lang.key(a.term)
        for a in aspects.aspects
        if a.term
        and (a.name_probability is None or reaches(a.name_probability, e.min_name_probability))
    }
    # An opinion that names nothing is an aspect only if it is judged.
    keys |= {key for key in every - named_keys if key in polarities}
    expected = {
        (key, p)
        for key in keys
        for p in polarities.get(key) or {judgement(own.get(key), "neutral")}
    }
    recorded = e.keyed(e.output.final_result.stage1_tuples)
    added = {key for key, _ in recorded} - keys
    # The contrast rule can add one aspect, unless one of its sides lost its name.
    whole = named_keys - {""} <= keys and len(keys) < 2
    if len(added) == 1 and whole and e.lang.has_contrast(e.output.text):
        key = next(iter(added))
        expected |= {(key, p) for p in polarities.get(key) or {"neutral"}}
    if recorded != expected:
        what = f"stage1_tuples are {pairs_in(recorded)}, the recorded answers give"
        yield "S1", f"{what} {pairs_in(expected)}"


def _stage1_answers(e: SampleRecords) -> tuple[AteAnswer, AtsaAnswer] | None:
    """The parsed answers of ATE and ATSA; None if they cannot be compared.

    A missing answer is reported elsewhere, and given aspects are checked by the replay alone.
    """
    if e.output.meta.given_aspects is not None:
        return None
    counter = PolarityCounter()
    if (joint := e.answer("extract")) is not None:
        return joint_answers(read_answer(ExtractAnswer, joint)[0], e.lang, counter)
    ate, atsa = e.answer("ate"), e.answer("atsa")
    if ate is None or atsa is None:
        return None
    read_ate, read_atsa = read_answer(AteAnswer, ate)[0], read_answer(AtsaAnswer, atsa)[0]
    return separate_answers(read_ate, read_atsa, e.lang, counter)


def _asked_for(e: SampleRecords) -> Findings:
    """Every correction except an override has a proposal of the Validator or a reviewer."""
    asked = Counter(
        (source, word_of(item.get(action)), word_of(item.get(target)))
        for source, node, part, action, target in (
            ("validator", "validator", "correction_proposals", "proposal_type", "target_aspect"),
            ("ate_review", "ate_review", "aspect_review", "action", "term"),
            ("atsa_review", "atsa_review", "sentiment_review", "action", "aspect_ref"),
        )
        for item in dicts_of((e.answer(node) or {}).get(part))
    )
    for edit in dicts_of((e.answer("judge") or {}).get("final_patch")):
        asked["debate", word_of(edit.get("op")), ""] += 1
    for c in e.output.meta.correction_applied_log:
        # The debate can have used a synonym of the aspect.
        target = "" if c.source == "debate" else word_of(c.target_aspect)
        what = (c.source, c.proposal_type, target)
        if c.source != OVERRIDE and not asked[what]:
            yield "S1", f"{named(c)} is in the log, but {TRACES} has no proposal for it"
        asked[what] -= 1


def tuples_agree(e: SampleRecords) -> Findings:
    """S2."""
    result = e.output.final_result
    aspects = e.keyed(result.final_aspects)
    if e.keyed(result.final_tuples) != aspects:
        what = f"final_tuples are {tuples_in(result.final_tuples)}, final_aspects have"
        yield "S2", f"{what} {tuples_in(result.final_aspects)}"
    for name in ("final_aspects", "final_tuples", "stage1_tuples", "stage2_tuples"):
        tuples: Sequence[AspectTuple] = getattr(result, name)
        if name != "final_aspects" and len(e.keyed(tuples)) != len(tuples):
            yield "S2", f"{name} hold a tuple twice: {tuples_in(tuples)}"
        for t in tuples:
            if t.polarity not in POLARITIES:
                yield "S2", f"{name}: {t.name} has the polarity {t.polarity!r}"
    yield from _patched_agrees(e)
    if result.label not in LABELS:
        yield "S2", f"the label is {result.label!r}"


def _patched_agrees(e: SampleRecords) -> Findings:
    """The patched result has the tuples of Stage 2, and each sentiment has an aspect."""
    ate, atsa = e.output.patched_stage2_ate, e.output.patched_stage2_atsa
    sentiments = atsa.aspect_sentiments if atsa else ()
    patched = {
        (e.lang.key(name_of(s.aspect_ref, s.category)), judgement(s.category, s.polarity))
        for s in sentiments
    }
    stage2 = e.keyed(e.output.final_result.stage2_tuples)
    if patched != stage2:
        what = f"stage2_tuples are {pairs_in(stage2)}, patched_stage2_atsa has"
        yield "S2", f"{what} {pairs_in(patched)}"
    aspects = {e.lang.key(name_of(a.term, a.category)) for a in ate.aspects} if ate else set()
    if loose := {key for key, _ in patched} - aspects:
        yield "S2", f"patched_stage2_ate lacks {', '.join(sorted(loose))}"


def overruled_with_reason(e: SampleRecords) -> Findings:
    """S3. An aspect with a revised span counts as the same aspect."""
    debate_tuples = e.debate_tuples()
    if not debate_tuples or not e.is_debate:
        return
    meta, final = e.output.meta, e.keyed(e.output.final_result.final_tuples)
    differ = f"the debate's tuples {pairs_in(debate_tuples)} are not the final ones"
    if not e.adopted:
        if debate_tuples != final and meta.adopt_reason not in EV_REASONS:
            why = f"and {meta.adopt_reason!r} is not an allowed reason"
            yield "S3", f"{differ} {pairs_in(final)}, {why}"
        return
    renamed = renames(meta.correction_applied_log, e.lang)
    if {(present_name(key, renamed), polarity) for key, polarity in debate_tuples} != final:
        yield "S3", f"{differ} {pairs_in(final)}, and yet Stage 2 was adopted"
