"""The independent roles: ate, atsa, validator, the joint call `extract`, and `second_reader`."""

from __future__ import annotations

from typing import Any

from absa.offline.labels import CLEAR_LABEL
from absa.offline.models.loading import LANGUAGES
from absa.offline.models.polarity_model import LABELS
from absa.offline.roles import lookup
from absa.offline.roles.categories import category_of, unnamed
from absa.offline.roles.inputs import RoleInputs
from absa.offline.roles.lookup import key
from absa.offline.roles.verdicts import quote
from absa.offline.text.annotations import (
    CONTRAST,
    MIXED,
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    Analysis,
    Finding,
)
from absa.offline.text.lexicon import lexicon

_MAX_RISKS = 20
#: Less likely than this, a polarity is not mentioned by the second reader.
_LEAST = 0.01
#: How far the two likeliest polarities of an aspect must be apart to be clear.
_DOUBT = 0.15
#: Below this probability of being an aspect, the Validator proposes to drop it.
_HARDLY = 0.1
_OPPOSITES = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}
#: How sure the mood of a text is where it is clear, and below what an aspect is doubtful.
_CLEAR = 0.9
_DOUBTFUL = 0.5


def span(finding: Finding) -> dict[str, int]:
    """The offsets of a finding's term."""
    return {"start": finding.aspect.start, "end": finding.aspect.end}


def ate(analysis: Analysis, inputs: RoleInputs) -> dict[str, Any]:
    """Opinionated noun phrases, and what the text judges without a name."""
    aspects: list[dict[str, Any]] = []
    seen: set[str] = set()
    for finding in lookup.distinct(analysis):
        term = key(finding.aspect.term)
        if term in seen:
            continue
        seen.add(term)
        aspects.append(
            {
                "term": finding.aspect.term,
                "span": span(finding),
                "confidence": finding.confidence,
                "rationale": "judged in its clause"
                if finding.clause_reading.opinion
                else "named among judged aspects",
            }
        )
    for judgement in unnamed(analysis, inputs):
        aspects.append(
            {
                "term": None,
                "span": None,
                "confidence": judgement.confidence,
                "rationale": "an opinion without a named aspect",
                **_with_category(judgement.category),
            }
        )
    return {"aspects": aspects}


def atsa(analysis: Analysis, inputs: RoleInputs) -> dict[str, Any]:
    """The polarity of each aspect's clause, negation applied."""
    sentiments: list[dict[str, Any]] = []
    for finding in lookup.distinct(analysis):
        reading = finding.clause_reading
        quoted = lookup.evidence(analysis, reading)
        sentiments.append(
            {
                "aspect_ref": finding.aspect.term,
                "polarity": reading.polarity,
                "opinion_term": quoted or None,
                "evidence": lookup.grounds(analysis, finding, quoted),
                "confidence": reading.confidence,
                "is_implicit": False,
                **_with_category(category_of(analysis, finding, inputs)),
            }
        )
    for judgement in unnamed(analysis, inputs):
        sentiments.append(
            {
                "aspect_ref": None,
                "polarity": judgement.polarity,
                "opinion_term": judgement.evidence or None,
                "evidence": judgement.evidence,
                "confidence": judgement.confidence,
                "is_implicit": True,
                **_with_category(judgement.category),
            }
        )
    return {"aspect_sentiments": sentiments}


def _with_category(category: str | None) -> dict[str, Any]:
    return {"category": category} if category else {}


def extract(analysis: Analysis, inputs: RoleInputs) -> dict[str, Any]:
    """Aspects, polarities and evidence in one answer."""
    aspects = ate(analysis, inputs)["aspects"]
    spans = {key(item["term"]): item["span"] for item in aspects if item["term"]}
    return {
        "tuples": [
            {
                "aspect_term": item["aspect_ref"],
                "span": spans.get(key(item["aspect_ref"] or "")),
                **{name: value for name, value in item.items() if name != "aspect_ref"},
            }
            for item in atsa(analysis, inputs)["aspect_sentiments"]
        ]
    }


def second_reader(analysis: Analysis, inputs: RoleInputs) -> dict[str, Any]:
    """What all readings together report and what they only suspect, each with its probability.

    Of a text in another language than its own it reports nothing.
    """
    if inputs.lang and inputs.lang not in LANGUAGES:
        return {"tuples": [], "reads_language": False, "knows_domain": False}
    return {
        "tuples": [
            {
                "aspect_term": finding.aspect.term,
                "span": span(finding),
                "polarity": polarity,
                "evidence": lookup.grounds(analysis, finding, quoted),
                "confidence": probability,
                "probability": probability,
                "reported": polarity == finding.verdict,
                **_with_category(category_of(analysis, finding, inputs)),
            }
            for finding in (*lookup.distinct(analysis), *analysis.reserve)
            for polarity, probability, quoted in _polarities(analysis, finding)
        ],
        "reads_language": True,
        "knows_domain": analysis.knows_domain,
    }


def _polarities(analysis: Analysis, finding: Finding) -> list[tuple[str, float, str]]:
    """The polarities of an aspect, the likeliest first: probability and the words quoted for it."""
    likely = zip(finding.likely, LABELS, strict=True)
    return [
        (word, round(probability, 3), quote(analysis, finding, word))
        for probability, word in sorted(likely, reverse=True)
        if probability >= _LEAST
    ]


def _clause_scores(analysis: Analysis) -> list[tuple[float, float]]:
    """Per clause: how much is said for and against."""
    scores = [(0.0, 0.0)] * len(analysis.clauses)
    for opinion in analysis.opinions:
        if opinion.weak:
            continue
        plus, minus = scores[opinion.clause]
        if opinion.score > 0:
            scores[opinion.clause] = (plus + opinion.score, minus)
        else:
            scores[opinion.clause] = (plus, minus - opinion.score)
    return scores


def _risk(kind: str, severity: str, start: int, end: int, why: str) -> dict[str, Any]:
    return {
        "type": kind,
        "severity": severity,
        "span": {"start": start, "end": end},
        "description": why,
    }


def contrast_risks(analysis: Analysis) -> list[dict[str, Any]]:
    """Contrasts whose marker does not divide the polarities.

    A marker with praise on one side and blame on the other is the easy case and no risk. It is
    one where a side holds both and an aspect of that side has to be given one of them.
    """
    scores = _clause_scores(analysis)
    judged = {finding.aspect.clause for finding in analysis.findings}
    risks = []
    for number, clause in enumerate(analysis.clauses):
        if clause.link != CONTRAST or not number:
            continue
        before = analysis.clauses[number - 1]
        for side in (number - 1, number):
            plus, minus = scores[side]
            if (
                side in judged
                and min(plus, minus) >= 0.4
                and max(plus, minus) < 2 * min(plus, minus)
            ):
                risks.append(
                    _risk(
                        "CONTRAST_SCOPE",
                        "mid",
                        before.start,
                        clause.end,
                        "both polarities on one side of the contrast",
                    )
                )
                break
    return risks


def negation_risks(analysis: Analysis) -> list[dict[str, Any]]:
    """Negators that reach no opinion although an aspect of their clause is called positive."""
    used = analysis.used_negators
    by_clause = {
        finding.aspect.clause: finding
        for finding in analysis.findings
        if finding.clause_reading.polarity == POSITIVE and finding.clause_reading.opinion
    }
    risks = []
    number = 0
    for index in analysis.negators:
        while number + 1 < len(analysis.clauses) and analysis.clauses[number].last <= index:
            number += 1
        finding = by_clause.get(number)
        if index in used or finding is None:
            continue
        clause = analysis.clauses[number]
        near = finding.clause_reading.opinion
        if near is not None and abs(index - near.first) <= 8:
            risks.append(
                _risk(
                    "NEGATION_SCOPE",
                    "mid",
                    clause.start,
                    clause.end,
                    "a negation that may or may not reach the opinion",
                )
            )
    return risks


def irony_risks(analysis: Analysis) -> list[dict[str, Any]]:
    """Set phrases of irony next to praise, where the text as a whole is not clearly meant so."""
    lowered = analysis.text.lower()
    if len(lowered) != len(analysis.text):
        lowered = analysis.text
    if not any(opinion.score > 0 for opinion in analysis.opinions):
        return []
    for cue in lexicon(analysis.lang).irony:
        at = lowered.find(cue)
        if at >= 0:
            return [_risk("IRONY", "mid", at, at + len(cue), "a phrase often meant ironically")]
    return []


def doubt_risks(analysis: Analysis) -> list[dict[str, Any]]:
    """Aspects of which the readings together do not say clearly which polarity they have."""
    risks = []
    for finding in lookup.distinct(analysis):
        if not _doubtful(finding):
            continue
        clause = analysis.clauses[finding.aspect.clause]
        negated = any(clause.first <= index < clause.last for index in analysis.negators)
        contrast = CONTRAST in _links(analysis, finding.aspect.clause)
        kind = "NEGATION" if negated else "CONTRAST" if contrast else "POLARITY_MISMATCH"
        why = f"the readings of {finding.aspect.term} differ, and none is clearly likelier"
        risks.append(_risk(kind, "mid", clause.start, clause.end, why))
    return risks


def _links(analysis: Analysis, number: int) -> set[str]:
    """How a clause is joined to its neighbours."""
    return {clause.link for clause in analysis.clauses[number : number + 2]}


def _doubtful(finding: Finding) -> bool:
    first, second, third = sorted(finding.likely, reverse=True)
    return first - second < _DOUBT * (first + second + third)


def opposite_risks(analysis: Analysis) -> list[dict[str, Any]]:
    """The text as a whole is clearly the opposite of all its aspects: the reason for its label."""
    suggestion = sentence_label(analysis)
    if suggestion is None or suggestion[0] not in _OPPOSITES:
        return []
    label, sure = suggestion
    if _stated(analysis) != {_OPPOSITES[label]}:
        return []
    why = f"as a whole the text reads {label} ({sure:.2f}), its aspects {_OPPOSITES[label]}"
    return [_risk("POLARITY_MISMATCH", "mid", 0, len(analysis.text), why)]


def _stated(analysis: Analysis) -> set[str]:
    """The polarities other than neutral that the debate will leave."""
    every = (*analysis.findings, *analysis.reserve)
    return {finding.verdict for finding in every if finding.verdict} - {NEUTRAL}


def proposals(analysis: Analysis) -> list[dict[str, Any]]:
    """Corrections of what Stage 1 reads in the aspects that stay doubtful, and of what is none."""
    proposed = []
    for finding in lookup.distinct(analysis):
        term, stated = finding.aspect.term, finding.clause_reading.polarity
        if finding.verdict is None and sum(finding.likely) < _HARDLY:
            proposed.append(_proposal("DROP_ASPECT", term, "nothing in the text judges it"))
        elif _doubtful(finding) and (stated, finding.verdict) in _OPPOSITES.items():
            quoted = quote(analysis, finding, str(finding.verdict))
            why = f"{quoted!r} is {finding.verdict} about it, not {stated}"
            proposed.append(_proposal("FLIP_POLARITY", term, why))
    return proposed


def _proposal(kind: str, term: str, why: str) -> dict[str, Any]:
    return {"proposal_type": kind, "target_aspect": term, "rationale": why}


def gap_risks(analysis: Analysis) -> list[dict[str, Any]]:
    """Aspects reported without any words that judge them."""
    return [
        _risk(
            "EVIDENCE_GAP",
            "low",
            finding.aspect.start,
            finding.aspect.end,
            f"nothing judges {finding.aspect.term}",
        )
        for finding in lookup.distinct(analysis)
        if finding.clause_reading.opinion is None
    ]


def sentence_label(analysis: Analysis) -> tuple[str, float] | None:
    """The label of the whole text: the opposite of all its aspects only where it is clearly so."""
    label = analysis.label or _label_by_mood(analysis)
    clear = CLEAR_LABEL if analysis.label and analysis.lang == "ko" else _CLEAR
    if label is not None and label[1] < clear and label[0] in _OPPOSITES:
        if _stated(analysis) == {_OPPOSITES[label[0]]}:
            return None
    return label


def _label_by_mood(analysis: Analysis) -> tuple[str, float] | None:
    """Mixed where aspects are judged both ways, else the text's mood.

    One doubtful aspect does not make a clear text mixed.
    """
    if analysis.mood is None:
        return None
    surest = {POSITIVE: 0.0, NEGATIVE: 0.0, NEUTRAL: 0.0}
    for finding in (*analysis.findings, *analysis.reserve):
        reading = finding.second_reading
        if reading is not None and reading.opinion and finding.verdict:
            sure = finding.likely[LABELS.index(finding.verdict)]
            surest[finding.verdict] = max(surest[finding.verdict], sure)
    likely = max(analysis.mood)
    weaker = min(surest[POSITIVE], surest[NEGATIVE])
    if weaker and (likely < _CLEAR or weaker >= _DOUBTFUL):
        return MIXED, round(1.0 - likely / 2, 3)
    return LABELS[analysis.mood.index(likely)], round(likely, 3)


def validator(analysis: Analysis) -> dict[str, Any]:
    """Structural risks, only where they are real, and a label for the sentence."""
    risks = [
        *negation_risks(analysis),
        *contrast_risks(analysis),
        *irony_risks(analysis),
        *doubt_risks(analysis),
        *opposite_risks(analysis),
        *gap_risks(analysis),
    ]
    answer: dict[str, Any] = {
        "structural_risks": risks[:_MAX_RISKS],
        "correction_proposals": proposals(analysis)[:_MAX_RISKS],
    }
    suggestion = sentence_label(analysis)
    if suggestion is not None and (analysis.label or suggestion[0] != NEUTRAL):
        answer["suggested_label"], answer["confidence"] = suggestion
    return answer
