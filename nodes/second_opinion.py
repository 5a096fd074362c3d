"""`compare` and `fuse`: a joint call beside the embedded analyser.

`compare` takes the first call's tuples if the explicit ones equal those that the analyser reports.
Where they differ, more calls are made, and `fuse` decides about each aspect by its score:

    score = (1 - trust) x share of the calls that name it + trust x the analyser's probability

An aspect stays if its score reaches `selective.threshold`. Its polarity is then decided in the same
way with half the trust, since a model judges polarity better than it finds names; a second polarity
stays if most of the calls have it. Implicit tuples are decided by the calls alone.

`trust` is measured on the run's first texts, without gold:

    quality   = the F1 that the analyser expects of itself, from its calibrated probabilities
    agreement = F1 of the model's first calls against what the analyser reports
    model     = agreement / sqrt(quality), an estimate of the model's F1, at most 1
    trust     = quality / (quality + model_weight x model)

In a domain that the analyser does not know its probabilities are low, and so are quality, trust and
every score that rests on it. If `model` is below `alone_below` x quality, the trust is 1: the
analyser decides alone and no further call is made. In a language that it has no model for the trust
is 0 and the calls vote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from absa.nodes.language import Language, language
from absa.nodes.polarity import PolarityCounter
from absa.nodes.text import locate
from absa.nodes.thresholds import reaches
from absa.nodes.vote import (
    Form,
    Pair,
    best_supported,
    forms_of,
    majority,
    read_extraction,
    result_of,
)
from absa.schemas.answers import POLARITIES, ReaderTuple, SecondReaderAnswer, ValidatorAnswer
from absa.schemas.records import (
    Agreement,
    AspectRecord,
    FusedTuple,
    SecondOpinion,
    Sentiment,
    StageResult,
)
from absa.schemas.settings import PipelineSettings, SelectiveSettings
from absa.schemas.state import CompareUpdate, FuseUpdate, State

# Where nothing was measured, by whether the analyser knows the domain.
UNMEASURED_TRUST = {True: 0.6, False: 0.5}


@dataclass(frozen=True)
class Seen:
    """A tuple that the analyser sees: its form, its probability, whether it is reported."""

    form: Form
    probability: float
    reported: bool


def seen_by(reader: SecondReaderAnswer, text: str, lang: Language) -> dict[Pair, Seen]:
    """The explicit tuples of the second reader by (aspect key, polarity), the likeliest of each."""
    seen: dict[Pair, Seen] = {}
    for item in reader.tuples:
        one = _seen(item, text)
        if one is None:
            continue
        pair = (lang.key(one.form[0].term), one.form[1].polarity)
        if pair not in seen or seen[pair].probability < one.probability:
            seen[pair] = one
    return seen


def _seen(item: ReaderTuple, text: str) -> Seen | None:
    span = locate(text, item.aspect_term or "", item.span)
    if span is None or item.polarity not in POLARITIES:
        return None
    probability = item.probability or 0.0
    sentiment = Sentiment(
        polarity=str(item.polarity), confidence=probability, evidence=item.evidence
    )
    aspect = AspectRecord(term=item.aspect_term or "", span=span, confidence=probability)
    return Seen((aspect, sentiment), probability, bool(item.reported))


def explicit(forms: Mapping[Pair, Form]) -> dict[Pair, Form]:
    """The tuples whose aspect stands in the text."""
    return {pair: form for pair, form in forms.items() if not form[0].is_implicit(form[1])}


def compare(state: State, pipeline: PipelineSettings) -> CompareUpdate:
    """Hold the first call against the second reader."""
    lang, text = language(state["lang"]), state["text"]
    counter, reader = PolarityCounter(), state["second_reader_answer"]
    result = read_extraction(
        state["extract_answers"]["0"],
        text,
        lang,
        counter,
        state.get("given_aspects"),
        pipeline.min_name_probability,
    )
    called = explicit(forms_of(result, text, lang))
    seen = seen_by(reader, text, lang)
    reported = {pair: one for pair, one in seen.items() if one.reported}
    reads_language, knows_domain = reader.reads_language is not False, bool(reader.knows_domain)
    trust, trust_from = _trust(state, pipeline.selective, reads_language, knows_domain)
    outcome: Literal["agreed", "contested", "reader_alone"] = "contested"
    if reads_language and called.keys() == reported.keys():
        outcome = "agreed"
    elif reaches(trust, 1.0):
        outcome = "reader_alone"
    fused = fused_tuples([called], reported, trust, 0.0) if outcome == "agreed" else []
    scores = {(lang.key(t.aspect_term), t.polarity): t.score for t in fused if t.kept}
    return {
        "stage1_result": _scored(result, scores, lang),
        "stage1_validation": ValidatorAnswer(),
        "counts": {**state["counts"], "stage1": counter.counts()},
        "second_opinion": SecondOpinion(
            outcome=outcome,
            reads_language=reads_language,
            knows_domain=knows_domain,
            trust=trust,
            trust_from=trust_from,
            calls=1,
            agreement=Agreement(
                matched=len(called.keys() & reported.keys()),
                called=len(called),
                reported=len(reported),
                probability_reported=round(sum(s.probability for s in reported.values()), 6),
                probability_seen=round(sum(s.probability for s in seen.values()), 6),
            ),
            tuples=tuple(t for t in fused if t.kept),
        ),
    }


def _scored(result: StageResult, scores: Mapping[Pair, float], lang: Language) -> StageResult:
    """The result with the scores of its tuples as their confidence."""

    def scored(aspect: AspectRecord) -> AspectRecord:
        return aspect.model_copy(
            update={
                "sentiments": tuple(
                    s.model_copy(
                        update={
                            "confidence": scores.get(
                                (lang.key(aspect.term), s.polarity), s.confidence
                            )
                        }
                    )
                    for s in aspect.sentiments
                )
            }
        )

    return result.model_copy(update={"aspects": tuple(map(scored, result.aspects))})


def _trust(
    state: State, s: SelectiveSettings, reads_language: bool, knows_domain: bool
) -> tuple[float, Literal["setting", "run", "default"]]:
    if s.trust is not None:
        return (s.trust if reads_language else 0.0), "setting"
    measured = state.get("reader_trust")
    if measured is not None and reads_language:
        return measured, "run"
    return (UNMEASURED_TRUST[knows_domain] if reads_language else 0.0), "default"


def measured_trust(texts: Iterable[Agreement], s: SelectiveSettings) -> float | None:
    """The trust that these texts speak for; None where the readers saw nothing on them."""
    totals = [
        (a.matched, a.called, a.reported, a.probability_reported, a.probability_seen) for a in texts
    ]
    if not totals:
        return None
    matched, called, reported, probability_reported, seen = map(sum, zip(*totals, strict=True))
    if not called + reported or not reported + seen:
        return None
    quality = min(1.0, 2 * probability_reported / (reported + seen))
    if not quality:
        return 0.0
    model = min(1.0, 2 * matched / (called + reported) / sqrt(quality))
    if model < s.alone_below * quality:
        return 1.0
    return round(quality / (quality + s.model_weight * model), 6)


def fuse(state: State, pipeline: PipelineSettings) -> FuseUpdate:
    """Decide about every aspect that a call or the second reader saw."""
    lang, text = language(state["lang"]), state["text"]
    counter, given = PolarityCounter(), state.get("given_aspects")
    answers = sorted(state["extract_answers"].items(), key=lambda item: int(item[0]))
    results = [read_extraction(a, text, lang, counter, given) for _, a in answers]
    opinion = state["second_opinion"]
    assert opinion is not None, "`compare` writes it"
    tuples: list[FusedTuple] = []
    if opinion.reads_language:
        every = [forms_of(result, text, lang) for result in results]
        seen = seen_by(state["second_reader_answer"], text, lang)
        calls = [explicit(forms) for forms in every]
        threshold = pipeline.selective.threshold if given is None else 0.0
        if opinion.outcome == "reader_alone":
            # The analyser reports by its own bar, and the call decides implicit tuples only.
            seen = {pair: one for pair, one in seen.items() if one.reported}
            calls, threshold = [{} for _ in calls], 0.0
        tuples = fused_tuples(calls, seen, opinion.trust, threshold)
        scores = {(lang.key(t.aspect_term), t.polarity): t.score for t in tuples if t.kept}
        forms = {
            pair: best_supported(
                [
                    *(call[pair] for call in calls if pair in call),
                    *([seen[pair].form] if pair in seen else []),
                ],
                text,
            )
            for pair in scores
        }
        implicit = [
            result_of({p: f for p, f in one.items() if f[0].is_implicit(f[1])}) for one in every
        ]
        forms |= forms_of(majority(implicit, pipeline.vote.threshold, text, lang), text, lang)
        if given is not None:  # each of these keeps a tuple
            decided = {key for key, _ in forms}
            forms |= {pair: form for pair, form in every[0].items() if pair[0] not in decided}
        fused = _scored(result_of(forms), scores, lang)
    else:
        fused = majority(results, pipeline.vote.threshold, text, lang)
    return {
        "fused_result": fused.model_copy(update={"unanchored": results[0].unanchored}),
        "second_opinion": opinion.model_copy(
            update={"calls": len(results), "tuples": tuple(tuples)}
        ),
        "counts": {**state["counts"], "stage1": counter.counts()},
    }


def fused_tuples(
    calls: Sequence[Mapping[Pair, Form]],
    seen: Mapping[Pair, Seen],
    trust: float,
    threshold: float,
) -> list[FusedTuple]:
    """Every explicit tuple with its votes, probability and score, and whether it is kept."""
    terms: dict[Pair, str] = {}
    for forms in (*calls, {pair: one.form for pair, one in seen.items()}):
        for pair, (aspect, _) in forms.items():
            terms.setdefault(pair, aspect.term)
    tuples = []
    for key in dict.fromkeys(key for key, _ in terms):
        pairs = [pair for pair in terms if pair[0] == key]
        votes = {pair: sum(pair in call for call in calls) for pair in pairs}
        likely = {pair: seen[pair].probability if pair in seen else 0.0 for pair in pairs}
        naming = sum(any(pair in call for pair in pairs) for call in calls)
        score = _mean(naming / len(calls), min(1.0, sum(likely.values())), trust)
        best = max(pairs, key=lambda p: _mean(votes[p] / len(calls), likely[p], trust / 2))
        tuples += [
            FusedTuple(
                aspect_term=terms[pair],
                polarity=pair[1],
                votes=votes[pair],
                probability=likely[pair],
                reported=pair in seen and seen[pair].reported,
                score=round(score, 6),
                kept=reaches(score, threshold) and (pair == best or 2 * votes[pair] > len(calls)),
            )
            for pair in pairs
        ]
    return tuples


def _mean(share: float, probability: float, weight: float) -> float:
    return (1 - weight) * share + weight * probability
