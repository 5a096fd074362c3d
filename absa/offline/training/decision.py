"""When to report a tuple: fitted to what the models say of texts that they have not seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from absa.nodes.language import language
from absa.offline.models.decision import Candidacy, Decision, candidacies, evidence_of
from absa.offline.models.polarity_model import PolarityModel
from absa.offline.models.readers import Readers
from absa.offline.models.tagger import Tagger
from absa.offline.text import polarity_rules
from absa.offline.text.annotations import Aspect, View
from absa.offline.text.noun_phrases import find_noun_phrases
from absa.schemas.sample import GoldAspect

#: The bars that are tried, and the share of the chosen one that is worth a second look.
_BARS = tuple(bar / 100 for bar in range(16, 56, 2))
_SECOND_LOOK = 0.3

Pair = tuple[str, str]


class TooLittleData(ValueError):
    """The data cannot train a model; the message says what is missing."""


@dataclass(frozen=True)
class Judged:
    """What the models say of one text, and what is right."""

    candidates: tuple[tuple[str, Candidacy], ...]
    gold: frozenset[Pair]


def judged(
    view: View,
    named: Sequence[GoldAspect],
    tagger: Tagger,
    polarity: PolarityModel,
    reader: Readers | None = None,
    domains: Collection[str] | None = None,
) -> Judged:
    """Let the models speak about a labelled text.

    In a text of none of the `domains` that no encoder has read, the rules' reading is added, as
    when the text is analyzed.
    """
    key = language(view.lang).key
    candidates = candidacies(view, tagger, polarity, find_noun_phrases(view), reader)
    helped = reader is None and view.encoded is None
    if helped and domains is not None and view.domain not in domains:
        candidates = _backed(view, candidates)
    keyed = ((key(view.text[made.start : made.end]), made) for made in candidates)
    gold = frozenset((key(a.term), a.polarity) for a in named if a.term and not a.implicit)
    return Judged(tuple(keyed), gold)


def _backed(view: View, found: Sequence[Candidacy]) -> list[Candidacy]:
    firsts = [clause.first for clause in view.clauses]
    aspects = [
        Aspect(
            view.text[each.start : each.end],
            each.start,
            each.end,
            each.candidate.first,
            each.candidate.last,
            bisect_right(firsts, each.candidate.first) - 1,
            each.candidate.probability,
        )
        for each in found
    ]
    readings = polarity_rules.read_by_rules(view, aspects)
    return [
        replace(each, said=polarity_rules.blend_with_rules(each.said, clause))
        for each, (clause, _) in zip(found, readings, strict=True)
    ]


def fit(
    texts: Sequence[Judged],
    domains: Iterable[str],
    quiet: Iterable[str],
    *,
    stacked: bool = False,
    worth: float = 0.0,
    mentioned: float = 0.5,
) -> Decision:
    """The decision that gives the best pair F1 on these texts, with calibrated confidences.

    Candidates less likely than `worth` are left out of a second fit: confidences are shown of what
    is reported, and need not hold far below. `mentioned` is how much the tagger's word counts in
    whether an aspect is neutral.

    Raises:
        TooLittleData: everything that was found is right, or nothing.
    """
    from sklearn.linear_model import LogisticRegression

    known_domains, silent = tuple(sorted(domains)), tuple(sorted(quiet))
    decision = Decision((), mentioned, 1.0, 1.0, known_domains, silent, stacked)
    rows, right = [], []
    for text in texts:
        for key, made in text.candidates:
            polarity, likely = decision.polarity(made)
            rows.append(evidence_of(made, polarity, likely, known_domains))
            right.append((key, polarity) in text.gold)
    if len(set(right)) < 2:
        raise TooLittleData(
            "the texts are too alike to learn when an aspect is right; add other sentences"
        )
    model = LogisticRegression(C=10.0, max_iter=1000, fit_intercept=False)
    model.fit(rows, right)
    if worth:
        likely_ones = model.predict_proba(rows)[:, 1] >= worth
        model.fit(list(compress(rows, likely_ones)), list(compress(right, likely_ones)))
    weights = tuple(round(float(weight), 4) for weight in model.coef_[0])
    decision = replace(decision, weights=weights)
    scores = {bar: pair_f1(texts, replace(decision, accept=bar)) for bar in _BARS}
    # Of neighbouring bars the best on average: one good bar among worse ones is chance.
    smooth = {
        bar: sum(scores.get(round(bar + d, 2), 0.0) for d in (-0.02, 0.0, 0.02)) for bar in _BARS
    }
    accept = max(_BARS[1:-1], key=lambda bar: smooth[bar])
    return replace(decision, accept=accept, reserve=round(accept * _SECOND_LOOK, 3))


def pair_f1(texts: Sequence[Judged], decision: Decision) -> float:
    """F1 of (term, polarity) pairs, each term once per text."""
    hits = predicted = wanted = 0
    for text in texts:
        pairs: dict[str, str] = {}
        for key, made in text.candidates:
            polarity, likely = decision.polarity(made)
            if decision.confidence(made, polarity, likely) >= decision.accept:
                pairs.setdefault(key, polarity)
        hits += len(text.gold & set(pairs.items()))
        predicted += len(pairs)
        wanted += len(text.gold)
    return 2 * hits / (predicted + wanted) if predicted + wanted else 0.0
