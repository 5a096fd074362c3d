"""The question of a human review: the candidates, and the agents' statements about them.

It is made only from an output, so that texts of a finished run can be reviewed, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from absa.nodes.apply_reviews import NOT_CORRECTIONS
from absa.nodes.board import snapshot_name
from absa.nodes.language import language
from absa.nodes.names import clean_name, cleaned_name
from absa.nodes.text import grounded, locate
from absa.schemas.answers import (
    Answer,
    AspectReview,
    AteReviewAnswer,
    AtsaAnswer,
    AtsaReviewAnswer,
    ExtractAnswer,
    PersonaJudgeAnswer,
    SentimentReview,
    name_of,
    read_answer,
)
from absa.schemas.errors import AnswerError
from absa.schemas.human import CandidateTuple, Doubt, HumanQuestion, Voice
from absa.schemas.output import DebateTurn, FinalOutput
from absa.schemas.records import Correction

ACTIONS = {
    "keep": {"action": "keep", "aspect": "…"},
    "flip": {"action": "flip", "aspect": "…", "polarity": "positive | negative | neutral"},
    "drop": {"action": "drop", "aspect": "…"},
    "add": {
        "action": "add",
        "aspect": "…",
        "polarity": "positive | negative | neutral",
        "evidence": "words of the text",
    },
    "label": {"action": "label", "label": "positive | negative | neutral | mixed"},
}
_REVIEWERS = {
    "validator": "Validator",
    "ate_review": "ATE",
    "atsa_review": "ATSA",
    "debate_override": "override",
}
A = TypeVar("A", bound=Answer)


def question_of(output: FinalOutput, reasons: Sequence[Doubt]) -> HumanQuestion:
    """The question about an output before human review."""
    lang = language(output.lang)
    voices = list(voices_of(output))
    voices_about: dict[str, list[Voice]] = {}
    for voice in voices:
        voices_about.setdefault(lang.key(voice.aspect or ""), []).append(voice)
    candidates = [*_in_result(output), *_left_out(output)]
    keys = {lang.key(c.aspect) for c in candidates}
    return HumanQuestion(
        uid=output.uid,
        text=output.text,
        lang=output.lang,
        reasons=tuple(reasons),
        label=output.final_result.label,
        confidence=output.final_result.confidence,
        candidates=tuple(
            c.model_copy(update={"said": tuple(voices_about.get(lang.key(c.aspect), ()))})
            for c in candidates
        ),
        said=tuple(v for v in voices if lang.key(v.aspect or "") not in keys),
        actions=ACTIONS,
    )


def _in_result(output: FinalOutput) -> Iterator[CandidateTuple]:
    for a in output.final_result.final_aspects:
        facts = a.model_dump(exclude={"aspect_term", "opinion_term"})
        yield CandidateTuple(aspect=a.name, **facts)


def _left_out(output: FinalOutput) -> Iterator[CandidateTuple]:
    """Tuples of a stage, the debate or a perspective that are not in the result."""
    lang, text = language(output.lang), output.text
    there = {(lang.key(t.name), t.polarity) for t in output.final_result.final_tuples}
    for term, polarity, evidence, confidence in _proposed(output):
        key = (lang.key(term), polarity)
        if key[0] and key not in there:
            there.add(key)
            span = locate(text, term)
            yield CandidateTuple(
                aspect=term,
                polarity=polarity,
                evidence=evidence,
                is_grounded=grounded(text, evidence),
                confidence=confidence,
                span=span,
                is_implicit=span is None,
                in_result=False,
            )


def _proposed(output: FinalOutput) -> Iterator[tuple[str, str, str | None, float | None]]:
    for c in output.meta.candidates:
        yield c.name, c.polarity, c.evidence, c.confidence
    for entry in output.meta.correction_applied_log:
        for shot in (entry.before, entry.after):
            for s in (shot or {}).get("sentiments", ()):
                yield (snapshot_name(shot or {}), s["polarity"], s["evidence"], s["confidence"])
    result = output.final_result
    for t in (*result.stage1_tuples, *result.stage2_tuples):
        yield t.name, t.polarity, None, None


def voices_of(output: FinalOutput) -> Iterator[Voice]:
    """All statements of agents, in the order of the stages."""
    yield from _stage1(output)
    if output.debate is not None:
        for held in output.debate.rounds:
            for turn in held.turns:
                yield from _turn(turn)
        yield from _judge(output)
    yield from _conflict_review(output)
    yield from _stage2(output)


def _stage1(output: FinalOutput) -> Iterator[Voice]:
    lang = language(output.lang)
    # Given aspects keep the user's words.
    has_given_aspects = output.meta.given_aspects is not None
    for answer in _answers(output, "atsa", AtsaAnswer):
        for item in answer.aspect_sentiments:
            thing = clean_name(item.aspect_ref, item.polarity, item.evidence, lang)
            yield Voice(
                stage="stage1",
                who="ATSA",
                aspect=name_of(item.aspect_ref if has_given_aspects else thing or item.aspect_ref),
                says=item.polarity or "no polarity",
                evidence=item.evidence,
                confidence=item.confidence,
            )
    extracted = list(_answers(output, "extract", ExtractAnswer))
    counts = Counter(
        (t.aspect_term if has_given_aspects else cleaned_name(t, lang) or t.aspect_term, t.polarity)
        for answer in extracted
        for t in answer.tuples
    )
    for (term, polarity), times in counts.items():
        who = f"{times} of {len(extracted)} calls" if len(extracted) > 1 else "the model"
        yield Voice(stage="stage1", who=who, aspect=name_of(term), says=polarity or "no polarity")


def _turn(turn: DebateTurn) -> Iterator[Voice]:
    for edit in turn.proposed_edits:
        yield _edit(turn.speaker, edit)
    if words := turn.message or " ".join(turn.key_points):
        stance = f"{turn.stance}: " if turn.stance else ""
        yield Voice(stage="debate", who=turn.speaker, says=f"{stance}{words}")


def _edit(speaker: str, edit: Mapping[str, Any]) -> Voice:
    target = edit.get("target") or {}
    words = (str(edit.get("op")).replace("_", " "), edit.get("value") or target.get("polarity"))
    return Voice(
        stage="debate",
        who=speaker,
        aspect=name_of(target.get("aspect_ref") or target.get("aspect_term")),
        says=" ".join(str(word) for word in words if word),
        evidence=edit.get("evidence"),
        confidence=edit.get("confidence"),
    )


def _judge(output: FinalOutput) -> Iterator[Voice]:
    summary = output.debate.summary if output.debate else None
    if isinstance(summary, PersonaJudgeAnswer):
        if summary.consensus:
            yield Voice(stage="debate", who="judge", says=summary.consensus)
        return
    if summary is None:
        return
    key = language(output.lang).key
    proofs = {key(name_of(e.aspect_ref)): e.evidence for e in summary.aspect_evidence}
    for t in summary.final_tuples:
        yield Voice(
            stage="debate",
            who="judge",
            aspect=name_of(t.aspect_term),
            says=t.polarity or "no polarity",
            evidence=proofs.get(key(name_of(t.aspect_term))),
        )


def _conflict_review(output: FinalOutput) -> Iterator[Voice]:
    meta = output.meta
    names = {c.tuple_id: c.name for c in meta.candidates}
    for c in meta.candidates:
        yield Voice(
            stage="stage1",
            who=f"perspective {c.origin_agent}",
            aspect=c.name,
            says=c.polarity,
            evidence=c.evidence,
            confidence=c.confidence,
        )
    decided = ((f"reviewer {a.actor}", a) for a in meta.review_actions)
    for who, action in (*decided, *(("arbiter", a) for a in meta.arbiter_actions)):
        value = " ".join((action.new_value or {}).values())
        why = f"({action.reason_code.replace('_', ' ').lower()})" if action.reason_code else ""
        says = " ".join(word for word in (action.action_type.lower(), value, why) if word)
        for tuple_id in action.target_tuple_ids:
            yield Voice(stage="review", who=who, aspect=names.get(tuple_id), says=says)


def _stage2(output: FinalOutput) -> Iterator[Voice]:
    ate = _answers(output, "ate_review", AteReviewAnswer)
    atsa = _answers(output, "atsa_review", AtsaReviewAnswer)
    reviews: list[tuple[str, str | None, AspectReview | SentimentReview]] = [
        *(("ATE", review.term, review) for answer in ate for review in answer.aspect_review),
        *(("ATSA", one.aspect_ref, one) for answer in atsa for one in answer.sentiment_review),
    ]
    for who, aspect, review in reviews:
        if review.action in NOT_CORRECTIONS:
            says = _with_reason(review.action, review.reason)
            yield Voice(stage="review", who=who, aspect=name_of(aspect), says=says)
    for entry in output.meta.correction_applied_log:
        yield _correction(entry)


def _correction(entry: Correction) -> Voice:
    after = [s["polarity"] for s in (entry.after or {}).get("sentiments", ())]
    wish = entry.proposal_type.removeprefix(f"{entry.source}_").replace("_", " ").lower()
    did = " ".join((wish, *dict.fromkeys(after)))
    says = did if entry.applied else f"{did}, refused"
    return Voice(
        stage="review",
        who=_REVIEWERS.get(entry.source, entry.source),
        aspect=entry.target_aspect,
        says=_with_reason(says, entry.reason),
    )


def _with_reason(says: str, reason: str | None) -> str:
    return f"{says} ({reason})" if reason else says


def _answers(output: FinalOutput, node: str, kind: type[A]) -> Iterator[A]:
    """The items of a node's answer; empty for an unreadable answer."""
    for call in output.process_trace:
        if call.node == node and call.output is not None:
            try:
                yield read_answer(kind, call.output)[0]
            except AnswerError:
                continue
