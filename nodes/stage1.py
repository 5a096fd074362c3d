"""`stage1`: merges the independent answers into one result by rules.

0. Names: opinion words are cut off, and an adjective names nothing (`absa.nodes.names`). With
`pipeline.stage1: joint`, one answer of `extract` replaces those of ATE and ATSA.
1. ATE: particles are stripped, spans located again, duplicates (by aspect key) dropped. If the text
has a contrast marker and fewer than two aspects, one is added from the other clause if possible,
and the Validator's risks get `MISSING_SECOND_ASPECT`. If there is no aspect at all, both clauses
must have a subject. Then aspects with a low token probability are removed
(`min_name_probability`). Given aspects are not changed: ATE is not asked, nothing is added.
2. ATSA: sentiments are anchored to ATE's aspects by aspect key. An aspect without a sentiment is
backfilled (neutral, confidence 0.3, marked). A sentiment without an aspect is unanchored.
An unnamed aspect (`term` null) counts only if it has a sentiment.
3. Validator: unchanged.
"""

from __future__ import annotations

from absa.nodes.board import DEFAULT_CONFIDENCE, backfilled
from absa.nodes.categories import CategorySet, categories_of
from absa.nodes.language import Language, language
from absa.nodes.names import joint_answers, separate_answers
from absa.nodes.polarity import PolarityCounter
from absa.nodes.text import locate
from absa.nodes.thresholds import reaches
from absa.schemas.answers import (
    UNNAMED,
    AspectItem,
    AteAnswer,
    AtsaAnswer,
    Risk,
    Span,
    ValidatorAnswer,
    name_of,
)
from absa.schemas.records import AspectRecord, Sentiment, StageResult, Unanchored
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import Stage1Update, State


def stage1(state: State, pipeline: PipelineSettings) -> Stage1Update:
    """Merge the answers of Stage 1."""
    lang = language(state["lang"])
    given_aspects, counter = state.get("given_aspects"), PolarityCounter(categories_of(pipeline))
    ate, atsa = _answers(state, pipeline, lang, counter)
    if given_aspects is None:
        least = pipeline.min_name_probability
        aspects, second = found_aspects(ate, state["text"], lang, least, counter)
    else:
        aspects, second = given_records(given_aspects, state["text"], lang), None
    validation = state.get("validator_answer")
    if second is not None and validation is not None:
        validation = with_missing_second_aspect(validation, second)
    result = anchor(atsa, aspects, lang, counter)
    if validation is not None:
        counter.label(validation.suggested_label)
    return {
        "stage1_result": result,
        "stage1_validation": validation or ValidatorAnswer(),
        "counts": {**state["counts"], "stage1": counter.counts()},
    }


def _answers(
    state: State, pipeline: PipelineSettings, lang: Language, counter: PolarityCounter
) -> tuple[AteAnswer, AtsaAnswer]:
    """The answers of ATE and ATSA, or of the joint call, with cleaned names."""
    has_given_aspects = state.get("given_aspects") is not None
    if pipeline.stage1 == "joint":
        return joint_answers(state["extract_answers"]["0"], lang, counter, given=has_given_aspects)
    if has_given_aspects:
        return AteAnswer(), state["atsa_answer"]
    return separate_answers(state["ate_answer"], state["atsa_answer"], lang, counter)


def found_aspects(
    answer: AteAnswer,
    text: str,
    lang: Language,
    least: float,
    counter: PolarityCounter | None = None,
) -> tuple[list[AspectRecord], AspectRecord | None]:
    """ATE's aspects after the rules, and the aspect that the contrast rule added."""
    merged = merge_aspects(answer, text, lang, counter.categories if counter else None)
    likely = likely_aspects(merged, answer, lang, least)
    if counter is not None:
        counter.names_unlikely += len(merged) - len(likely)
    # Names with a low probability still count as a side of the contrast.
    second = second_aspect(merged, text, lang) if likely == merged else None
    return [*likely, *([second] if second else [])], second


def likely_aspects(
    aspects: list[AspectRecord], answer: AteAnswer, lang: Language, least: float
) -> list[AspectRecord]:
    """Remove aspects whose name never reached the minimum probability."""
    likely = {
        lang.key(item.term)
        for item in answer.aspects
        if item.term and (item.name_probability is None or reaches(item.name_probability, least))
    }
    return [a for a in aspects if a.term is None or lang.key(a.term) in likely]


def merge_aspects(
    answer: AteAnswer, text: str, lang: Language, categories: CategorySet | None = None
) -> list[AspectRecord]:
    """ATE's aspects, stripped and located, without duplicates and terms of only punctuation."""
    aspects: dict[str, AspectRecord] = {}
    for item in answer.aspects:
        term = lang.strip_particle(item.term) if item.term else None
        category = categories.find(item.category) if categories else None
        key = lang.key(name_of(term, category))
        if key and key not in aspects:
            span = _place(text, term, item) if term else None
            aspects[key] = AspectRecord(
                term=term, category=category, span=span, confidence=item.confidence
            )
    return list(aspects.values())


def given_records(terms: list[str], text: str, lang: Language) -> list[AspectRecord]:
    """The given aspects in the user's words, without duplicates, at their first occurrence."""
    terms_by_key = {lang.key(term): term for term in reversed(terms) if lang.key(term)}
    return [AspectRecord(term=t, span=locate(text, t)) for t in reversed(terms_by_key.values())]


def _place(text: str, term: str, item: AspectItem) -> Span | None:
    """Locate a stripped term. A span that includes the particle has the right start."""
    stated = item.span
    if stated is not None and term != item.term:
        stated = Span(start=stated.start, end=stated.start + len(term))
    return locate(text, term, stated)


def second_aspect(aspects: list[AspectRecord], text: str, lang: Language) -> AspectRecord | None:
    """The aspect of the other clause if only one clause of a contrast has one.

    Without any aspect, both clauses must have a subject, and the first subject is taken.
    """
    if len(aspects) >= 2 or not lang.has_contrast(text):
        return None
    keys = {lang.key(a.name) for a in aspects}
    subjects = _subjects(aspects, text, lang)
    new = [s for s in subjects if lang.key(s.name) and lang.key(s.name) not in keys]
    sides = len(aspects) + len({lang.key(s.name) for s in new})
    return new[0] if new and sides >= 2 else None


def _subjects(aspects: list[AspectRecord], text: str, lang: Language) -> list[AspectRecord]:
    """The subjects of the clauses without an aspect."""
    places = [a.span.start for a in aspects if a.span]
    subjects = []
    for start, end in lang.clauses(text):
        if any(start <= place < end for place in places):
            continue
        subject = lang.subject(text[start:end])
        if subject is not None:
            span = Span(start=start + subject[0], end=start + subject[1])
            subjects.append(AspectRecord(term=text[span.start : span.end], span=span))
    return subjects


def with_missing_second_aspect(answer: ValidatorAnswer, second: AspectRecord) -> ValidatorAnswer:
    """Add the risk of the contrast rule to the Validator's answer."""
    risk = Risk(
        type="MISSING_SECOND_ASPECT",
        severity="mid",
        span=second.span,
        description=f"contrast with one aspect only; {second.name} added",
    )
    return answer.model_copy(update={"structural_risks": [*answer.structural_risks, risk]})


def anchor(
    answer: AtsaAnswer, aspects: list[AspectRecord], lang: Language, counter: PolarityCounter
) -> StageResult:
    """Anchor sentiments to aspects; return the unanchored ones separately.

    A sentiment without a category gets that of its aspect. An unnamed aspect of ATE without a
    category matches unnamed aspects of all categories.
    """
    records = {lang.key(a.name): a for a in aspects}
    anchored: dict[str, list[Sentiment]] = {key: [] for key in records}
    unanchored: list[Unanchored] = []
    for item in answer.aspect_sentiments:
        polarity = counter.read(item.polarity)
        if polarity is None:
            continue
        category = counter.category(item.category)
        sentiment = Sentiment(
            polarity=polarity,
            category=category,
            confidence=DEFAULT_CONFIDENCE if item.confidence is None else item.confidence,
            evidence=item.evidence,
            opinion_term=item.opinion_term,
            said_implicit=bool(item.is_implicit),
        )
        key = lang.key(name_of(item.aspect_ref, category))
        if item.aspect_ref is None and key not in records and lang.key(UNNAMED) in records:
            records[key] = records[lang.key(UNNAMED)].model_copy(update={"category": category})
            anchored[key] = []
        if key in anchored:
            if item.category is None and records[key].category is not None:
                sentiment = sentiment.model_copy(update={"category": records[key].category})
            anchored[key].append(sentiment)
        else:
            unanchored.append(Unanchored(aspect_term=item.aspect_ref, **sentiment.model_dump()))
    return StageResult(
        aspects=tuple(
            a.model_copy(update={"sentiments": tuple(anchored[key] or [backfilled(a.category)])})
            for key, a in records.items()
            if a.term is not None or anchored[key]
        ),
        unanchored=tuple(unanchored),
    )
