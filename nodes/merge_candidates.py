"""`merge_candidates`: numbers all triplets and flags conflicts and risks.

Equal candidates are not merged here, because each counts as a separate vote. Triplets without a
valid polarity are left out before the numbering. With given aspects, triplets about other aspects
are left out, too, and candidates use the user's words; given aspects may overlap.

| flagged                                                  | as                               |
|----------------------------------------------------------|----------------------------------|
| candidates of one aspect with two or more polarities     | conflict `polarity_mismatch`     |
| candidates of two aspects whose spans overlap            | conflict `aspect_overlap`        |
| candidates of an aspect that only one perspective found,  | conflict `single_support`        |
| with `conflict_review.flag_single_support`               |                                  |
| evidence that is empty or not in the text                | risk `EVIDENCE_GAP`              |
| a given span that does not cover the term                | risk `SPAN_MISMATCH`             |
| positive, although its clause has a negation             | risk `NEGATION_SCOPE`            |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from absa.nodes.board import DEFAULT_CONFIDENCE
from absa.nodes.categories import categories_of
from absa.nodes.language import Language, language
from absa.nodes.perspectives import ORIGINS
from absa.nodes.polarity import PolarityCounter
from absa.nodes.text import grounded, locate
from absa.schemas.answers import Span, TripletsAnswer
from absa.schemas.records import Candidate, ConflictFlag, ConflictType, ValidatorRisk
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import CandidatesUpdate, State

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")


def merge_candidates(state: State, pipeline: PipelineSettings) -> CandidatesUpdate:
    """Number the triplets and flag conflicts and risks."""
    text, lang = state["text"], language(state["lang"])
    counter = PolarityCounter(categories_of(pipeline))
    given_aspects = state.get("given_aspects")
    candidates = number(state["triplet_answers"], text, counter, wanted(given_aspects, lang))
    return {
        "candidates": candidates,
        "conflict_flags": find_conflicts(
            candidates,
            lang,
            may_overlap=given_aspects is not None,
            single_support=pipeline.conflict_review.flag_single_support,
        ),
        "validator_risks": find_risks(candidates, text, lang),
        "counts": {**state["counts"], "perspectives": counter.counts()},
    }


# Maps term and reference of an answer to those of the candidate; None: not a given aspect.
Naming = Callable[[str | None, str | None], tuple[str | None, str | None] | None]


def keep_names(term: str | None, ref: str | None) -> tuple[str | None, str | None]:
    """Keep term and reference. The reference names an implied aspect without a term."""
    return term or ref, ref


def wanted(given: Sequence[str] | None, lang: Language) -> Naming:
    """The naming of candidates: as in the answer or, with given aspects, as given."""
    if given is None:
        return keep_names
    terms = {lang.key(term): term for term in reversed(given) if lang.key(term)}

    def given_names(term: str | None, ref: str | None) -> tuple[str | None, str | None] | None:
        name = terms.get(lang.key(ref or "")) or terms.get(lang.key(term or ""))
        return (name, name) if name else None

    return given_names


def number(
    answers: Mapping[str, TripletsAnswer],
    text: str,
    counter: PolarityCounter,
    naming: Naming = keep_names,
) -> list[Candidate]:
    """The triplets in the order A, B, C, numbered t0, t1 and so on."""
    candidates: list[Candidate] = []
    for name, origin in ORIGINS.items():
        for item in answers[name].triplets:
            polarity = counter.read(item.polarity)
            named = naming(item.aspect_term, item.aspect_ref)
            if polarity is None or named is None:
                continue
            term, ref = named
            candidates.append(
                Candidate(
                    tuple_id=f"t{len(candidates)}",
                    origin_agent=origin,
                    aspect_term=term,
                    aspect_ref=ref,
                    category=counter.category(item.category),
                    polarity=polarity,
                    opinion_term=item.opinion_term,
                    evidence=item.evidence,
                    span=locate(text, term, item.span) if term else None,
                    said_span=item.span,
                    confidence=DEFAULT_CONFIDENCE if item.confidence is None else item.confidence,
                    rationale=item.rationale,
                )
            )
    return candidates


def aspect_of(candidate: Candidate, lang: Language) -> str:
    """The aspect key of a candidate: of its reference, else of its term."""
    return lang.key(candidate.aspect_ref or "") or lang.key(candidate.name)


def find_conflicts(
    candidates: Sequence[Candidate],
    lang: Language,
    *,
    may_overlap: bool = False,
    single_support: bool = False,
) -> list[ConflictFlag]:
    """Conflicts about one aspect, then conflicts of overlapping aspects.

    With `single_support` an aspect that only one perspective found is flagged too.
    """
    by_aspect: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_aspect.setdefault(aspect_of(candidate, lang), []).append(candidate)
    flags = [
        _flag(group, "polarity_mismatch")
        for group in by_aspect.values()
        if len({c.polarity for c in group}) > 1
    ]
    for one, other in combinations(() if may_overlap else by_aspect.values(), 2):
        shared = {
            c.tuple_id for a in one for b in other if _overlap(a.span, b.span) for c in (a, b)
        }
        if group := [c for c in candidates if c.tuple_id in shared]:
            flags.append(_flag(group, "aspect_overlap"))
    if single_support:
        flags += [
            _flag(group, "single_support")
            for group in by_aspect.values()
            if len({c.origin_agent for c in group}) == 1
        ]
    return flags


def _flag(group: Sequence[Candidate], conflict_type: ConflictType) -> ConflictFlag:
    return ConflictFlag(
        aspect_term=group[0].aspect_term,
        tuple_ids=tuple(c.tuple_id for c in group),
        conflict_type=conflict_type,
    )


def _overlap(one: Span | None, other: Span | None) -> bool:
    return bool(one and other and one.start < other.end and other.start < one.end)


def find_risks(candidates: Sequence[Candidate], text: str, lang: Language) -> list[ValidatorRisk]:
    """The risks of single candidates."""
    risks: list[ValidatorRisk] = []
    for c in candidates:
        if not grounded(text, c.evidence):
            why = "evidence is not in the text" if c.evidence else "no evidence"
            risks.append(ValidatorRisk(tuple_id=c.tuple_id, type="EVIDENCE_GAP", description=why))
        if c.said_span is not None and c.said_span != c.span:
            why = "the span does not cover the term"
            risks.append(ValidatorRisk(tuple_id=c.tuple_id, type="SPAN_MISMATCH", description=why))
        if c.polarity == "positive" and any(map(lang.has_negation, its_clauses(c, text, lang))):
            why = "positive, although its clause has a negation"
            risks.append(ValidatorRisk(tuple_id=c.tuple_id, type="NEGATION_SCOPE", description=why))
    return risks


def its_clauses(candidate: Candidate, text: str, lang: Language) -> list[str]:
    """The clauses of the evidence or, if it is not in the text, of the aspect.

    If the evidence occurs twice, the occurrence in the clause of the aspect is used.
    """
    clauses = _clauses(text, lang)

    def around(place: Span | None) -> list[tuple[int, int]]:
        return [(a, b) for a, b in clauses if place and a < place.end and place.start < b]

    own = around(candidate.span)
    nearby = own
    if grounded(text, candidate.evidence):
        clauses_by_place = [around(place) for place in _places(text, candidate.evidence or "")]
        nearby = next(
            (clauses for clauses in clauses_by_place if set(clauses) & set(own)),
            clauses_by_place[0],
        )
    return [text[a:b] for a, b in nearby]


def _places(text: str, words: str) -> list[Span]:
    starts = (i for i in range(len(text)) if text.startswith(words, i))
    return [Span(start=i, end=i + len(words)) for i in starts]


def _clauses(text: str, lang: Language) -> list[tuple[int, int]]:
    """The clauses between contrast markers and sentence ends."""
    cuts = {0, len(text), *(end.end() for end in _SENTENCE_END.finditer(text))}
    cuts.update(start for start, _ in lang.clauses(text))
    ordered = sorted(cuts)
    return list(zip(ordered, ordered[1:], strict=False))


def flagged_ids(
    conflicts: Sequence[ConflictFlag], risks: Sequence[ValidatorRisk]
) -> frozenset[str]:
    """The tuples with a conflict or a risk. Reviewers may change only these."""
    conflicting = {tuple_id for flag in conflicts for tuple_id in flag.tuple_ids}
    return frozenset(conflicting | {risk.tuple_id for risk in risks})
