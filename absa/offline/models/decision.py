"""Which candidates of a text are reported, with which polarity, and with what confidence."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Self

from pydantic import ConfigDict, TypeAdapter

from absa.offline.models.folder import read_as
from absa.offline.models.judge import Judge, Judgement
from absa.offline.models.polarity_model import LABELS, PolarityModel
from absa.offline.models.readers import Readers
from absa.offline.models.tagger import Candidate, Tagger, disjoint
from absa.offline.text.annotations import NEUTRAL, Aspect, Probabilities, View

_CLIP = 1e-4
#: From this probability on a candidate counts as one of those that share a text's opinions.
_LIKELY = 0.3
#: The number of other aspects from which on one more makes no difference.
_COMPANY = 3.0
#: The places among a text's candidates that count for themselves.
_RANKS = (0, 1, 2)
#: Weights of a decision beside those of domains: see :func:`evidence_of`.
_WEIGHTS = 2 * 5 + 2 + len(_RANKS)
#: Measures of the readers, where the language has some.
_READ = 5
#: The probability of a noun phrase that the tagger does not see, and how likely it must be a term.
_UNTAGGED = 0.02
_TERMNESS = 0.15
#: Stands among a decision's domains for all others, where it was fitted to texts of such.
OTHER = ""
#: A text has no more aspects than this.
MOST = 100


@dataclass(frozen=True, slots=True)
class Candidacy:
    """A candidate in its text.

    Attributes:
        candidate: What the tagger says.
        start: Where it begins, in characters.
        end: Where it ends.
        said: P(positive), P(negative), P(neutral), if it is an aspect.
        others: How many other aspects the text probably has.
        rank: How many other candidates of the text are likelier.
        rule: How surely the rules take the same words for an aspect; 0 where they do not.
        domain: What the text is about, where that is known.
        judgement: What else the readers say of its polarity.
    """

    candidate: Candidate
    start: int
    end: int
    said: Probabilities
    others: float
    rank: int
    rule: float
    domain: str | None
    judgement: Judgement | None = None


def candidacies(
    view: View,
    tagger: Tagger,
    polarity: PolarityModel,
    noun_phrases: Sequence[Aspect],
    reader: Readers | None = None,
) -> list[Candidacy]:
    """The likeliest candidates that do not overlap, in order of the text.

    `noun_phrases` is what the rules see: a candidate that they see too is likelier to be right.
    Where the language has readers, what only the rules see is a candidate as well.

    What a text says as a whole, it says of its only aspect: there the two probabilities meet in
    the middle.
    """
    candidates = disjoint(tagger.candidates(view))
    if reader is not None:
        candidates = _with_noun_phrases(candidates, noun_phrases)
    candidates = _most_likely(candidates)
    places = [(view.tokens[c.first].start, view.tokens[c.last - 1].end) for c in candidates]
    likely = [
        place for place, c in zip(places, candidates, strict=True) if c.probability >= _LIKELY
    ]
    judge = Judge(view, polarity, reader, likely, alone=len(likely) <= 1)
    expected = sum(candidate.probability for candidate in candidates)
    likelier = sorted(-candidate.probability for candidate in candidates)
    by_rule = {(aspect.start, aspect.end): aspect.term_probability for aspect in noun_phrases}
    made = []
    for (start, end), candidate in zip(places, candidates, strict=True):
        judgement = judge.at(candidate.first, start, end)
        company = min(expected - candidate.probability, _COMPANY)
        rank = likelier.index(-candidate.probability)
        rule = by_rule.get((start, end), 0.0)
        made.append(
            Candidacy(
                candidate, start, end, judgement.said, company, rank, rule, view.domain, judgement
            )
        )
    return made


def _with_noun_phrases(
    found: Sequence[Candidate], noun_phrases: Sequence[Aspect]
) -> list[Candidate]:
    taken = {index for candidate in found for index in range(candidate.first, candidate.last)}
    more = [
        Candidate(aspect.first, aspect.last, _UNTAGGED, 1.0)
        for aspect in noun_phrases
        if aspect.term_probability >= _TERMNESS
        and taken.isdisjoint(range(aspect.first, aspect.last))
    ]
    return sorted([*found, *more], key=lambda candidate: candidate.first)


def _most_likely(candidates: list[Candidate]) -> list[Candidate]:
    """The first of them, up to a maximum: the work per text is bounded."""
    if len(candidates) <= MOST:
        return candidates
    bar = sorted((c.probability for c in candidates), reverse=True)[MOST - 1]
    return [c for c in candidates if c.probability >= bar][:MOST]


@dataclass(frozen=True)
class Decision:
    """When a candidate with its polarity is reported, and how sure one may be of it.

    Attributes:
        weights: Weights of :func:`evidence_of`.
        mentioned: How much the tagger's word counts in whether an aspect is neutral (0 to 1).
        accept: How likely a tuple must be right to be reported.
        reserve: How likely it must be to be kept for a second look.
        domains: Domains that the tagger has been trained on; elsewhere rules count for more.
        quiet: Those of them where only what is named counts: nothing unnamed is reported there.
        stacked: Whether the tagger reads what the shipped one says.
    """

    weights: tuple[float, ...]
    mentioned: float
    accept: float
    reserve: float
    domains: tuple[str, ...]
    quiet: tuple[str, ...]
    stacked: bool = False
    #: How to decide about texts of other domains and of none, if not in the same way.
    elsewhere: Decision | None = None
    #: The `bars` of single domains, which earlier versions had, are left aside.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False, extra="ignore")

    @classmethod
    def read(cls, content: bytes, path: Path) -> Self:
        """Take a decision file's content.

        Raises:
            ValueError: if it is none.
        """
        with read_as("a decision file", path):
            decision = TypeAdapter(cls).validate_json(content, strict=True)
            for each in (decision, decision.elsewhere or decision):
                expected = _WEIGHTS + len(each.domains)
                if len(each.weights) not in (expected, expected + _READ):
                    raise ValueError(f"weights has {len(each.weights)} numbers, not {expected}")
            return decision

    def of(self, domain: str | None) -> Decision:
        """The decision for texts of a domain."""
        return self if domain in self.domains or self.elsewhere is None else self.elsewhere

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", "utf-8")

    def polarities(self, made: Candidacy) -> Probabilities:
        """The probability of each polarity, tagger and polarity model taken together."""
        positive, negative, neutral = made.said
        mixed = (1 - self.mentioned) * neutral + self.mentioned * (1 - made.candidate.judged)
        share = (1 - mixed) / max(1 - neutral, _CLIP)
        return positive * share, negative * share, mixed

    def polarity(self, made: Candidacy) -> tuple[str, float]:
        """The likeliest polarity and its probability."""
        options = self.polarities(made)
        best = max(range(len(LABELS)), key=options.__getitem__)
        return LABELS[best], options[best]

    def confidence(self, made: Candidacy, polarity: str, likely: float) -> float:
        """How likely the tuple of a candidate and a polarity is right."""
        evidence = evidence_of(made, polarity, likely, self.domains)
        # A model that was trained before there were readers does not weigh their measures.
        score = sum(w * x for w, x in zip(self.weights, evidence, strict=False))
        return 1 / (1 + math.exp(-score))


def _logit(probability: float) -> float:
    clipped = min(max(probability, _CLIP), 1 - _CLIP)
    return math.log(clipped / (1 - clipped))


def evidence_of(
    made: Candidacy, polarity: str, likely: float, domains: Sequence[str]
) -> list[float]:
    """What speaks for a tuple: the span, the polarity, the company it keeps (apart for neutral).

    And how often a candidate of its rank, of the rules, of its domain is right; where the domain
    is not known, it is a little of each.
    """
    place = made.domain if made.domain in domains else OTHER
    span, judged = _logit(made.candidate.probability), _logit(made.candidate.judged)
    facts = [span, _logit(likely), judged, made.others, 1.0]
    nothing = [0.0] * len(facts)
    return [
        *([*nothing, *facts] if polarity == NEUTRAL else [*facts, *nothing]),
        made.rule,
        float(made.rule > 0),
        *(float(made.rank == rank) for rank in _RANKS),
        *(float(place == domain) if place in domains else 1 / len(domains) for domain in domains),
        *_read(made, polarity),
    ]


def _read(made: Candidacy, polarity: str) -> list[float]:
    """How far the readers bear a candidate out: nothing where the language has none."""
    judgement = made.judgement
    if judgement is None or judgement.rules is None:
        return []
    linked = bool(judgement.own)
    return [
        float(linked),
        judgement.rules[LABELS.index(polarity)],
        float(made.candidate.probability <= _UNTAGGED),
        float(made.candidate.probability <= _UNTAGGED) * made.rule,
        float(linked) * made.rule,
    ]
