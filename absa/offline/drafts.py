"""From the learned findings of a text to what all readings together say of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from absa.offline.models.combination import Combination, Measures, clipped, logit, put
from absa.offline.models.decision import Candidacy
from absa.offline.models.loading import LanguageModels
from absa.offline.models.polarity_model import LABELS, PolarityModel
from absa.offline.text.annotations import (
    MIXED,
    NEUTRAL,
    POSITIVE,
    Finding,
    Probabilities,
    Reading,
    View,
)
from absa.offline.text.windows import clauses_of

#: Beyond so many clauses a sentence is not read as a whole.
_SENTENCE = 6
_FULL_SCORE = 1.5
#: Measures that also count apart where the tagger does not know the domain.
_FOREIGN = ("sure", "span", "phrase", "phrase only", "linked", "unlinked", "judged")
_FOREIGN_POLARITY = ("aspect", "rules", "nearest", "clause")
#: From this probability on the text may contradict all its aspects.
_OPPOSITE = 0.9


@dataclass(frozen=True)
class Draft:
    """A finding of the learned models, before other readings are heard.

    Attributes:
        finding: What Stage 1 says.
        said: P(positive), P(negative), P(neutral) by the learned models.
        ruled: What the rules read in its clause.
        sure: How likely the tuple is right, by the learned models.
        candidacy: What the tagger says of it; None for a noun phrase of the rules.
        strength: How strongly the rules stand for it, where only they do.
        guessed: It is only what a text most likely judges that judges something.
    """

    finding: Finding
    said: Probabilities
    ruled: Reading
    sure: float
    candidacy: Candidacy | None = None
    strength: float = 0.0
    guessed: bool = False


@dataclass(frozen=True)
class Weighed:
    """The findings with their combined readings, and the label of the text."""

    findings: tuple[Finding, ...]
    reserve: tuple[Finding, ...]
    label: tuple[str, float] | None


def weigh(
    view: View,
    models: LanguageModels,
    mood: Probabilities,
    accepted: Sequence[Draft],
    reserve: Sequence[Draft],
    given: bool,
) -> Weighed:
    """Let all readings of the text speak."""
    combination = models.combination
    if combination is None:
        return Weighed(
            tuple(
                replace(each.finding, verdict=each.finding.clause_reading.polarity)
                for each in accepted
            ),
            tuple(each.finding for each in reserve),
            None,
        )
    drafts = [*accepted, *reserve]
    rows = measures(view, models, mood, drafts)
    return weigh_rows(view, combination, mood, drafts, rows, len(accepted), given=given)


def weigh_rows(
    view: View,
    combination: Combination,
    mood: Probabilities,
    drafts: Sequence[Draft],
    rows: Sequence[Measures],
    accepted: int,
    *,
    given: bool,
) -> Weighed:
    """The same where the measures are known; the first `accepted` drafts are Stage 1's."""
    heard = [
        _heard(view, combination, each, row, number < accepted, given)
        for number, (each, row) in enumerate(zip(drafts, rows, strict=True))
    ]
    if accepted and not any(finding.verdict for finding in heard):
        # Stage 2 never empties a text: what is likeliest stays.
        best = max(range(accepted), key=lambda number: _likeliest(heard[number])[0])
        heard[best] = replace(heard[best], verdict=_likeliest(heard[best])[1])
    label = _label(combination, label_measures(view, mood, heard), heard)
    return Weighed(tuple(heard[:accepted]), tuple(heard[accepted:]), label)


def _likeliest(finding: Finding) -> tuple[float, str]:
    assert finding.combined is not None
    return max(zip(finding.combined, LABELS, strict=True))


def _heard(
    view: View,
    combination: Combination,
    drafted: Draft,
    row: Measures,
    is_accepted: bool,
    given: bool,
) -> Finding:
    share = 1.0 if given else combination.is_aspect(row)
    likely = combination.polarities(row)
    combined = (share * likely[0], share * likely[1], share * likely[2])
    finding = drafted.finding
    heard = replace(
        finding,
        combined=combined,
        rule_reading=_reading(view, finding, drafted.ruled, combination.by_rules(row)),
        text_reading=_reading(view, finding, drafted.ruled, combination.by_clause(row)),
    )
    probability, polarity = _likeliest(heard)
    stated = finding.clause_reading.polarity
    if is_accepted:
        before = combined[LABELS.index(stated)]
        if not given and probability < combination.drop:
            return heard
        flips = probability - before >= combination.flip
        return replace(heard, verdict=polarity if flips else stated)
    return replace(heard, verdict=polarity) if probability >= combination.add else heard


def _reading(view: View, finding: Finding, ruled: Reading, said: Probabilities) -> Reading:
    """The likeliest polarity of a reading, with the words of the clause that bear it out."""
    likely = max(said)
    polarity = LABELS[said.index(likely)]
    clause = view.clauses[finding.aspect.clause]
    score = {POSITIVE: likely, NEUTRAL: 0.0}.get(polarity, -likely)
    opinion = ruled.opinion
    if opinion is None or polarity == NEUTRAL or (opinion.score > 0) != (score > 0):
        opinion = next(
            (o for o in ruled.support if polarity != NEUTRAL and (o.score > 0) == (score > 0)), None
        )
    start, end = (opinion.start, opinion.end) if opinion else (clause.start, clause.end)
    return Reading(polarity, score, round(likely, 3), start, end, opinion, ruled.support)


def measures(
    view: View, models: LanguageModels, mood: Probabilities, drafts: Sequence[Draft]
) -> list[Measures]:
    """What the combination looks at, for each draft."""
    texts = _Texts(view, models.polarity)
    foreign = view.domain not in models.decision.domains
    rows = []
    for each in drafts:
        row: Measures = {}
        _put_existence(row, view, each)
        _put_readings(row, view, each, texts, mood)
        _put_company(row, each, drafts)
        if foreign:
            row["foreign"] = 1.0
            for name in (*_FOREIGN, *_FOREIGN_POLARITY):
                if name in row:
                    row[f"foreign {name}"] = row[name]
        rows.append(row)
    return rows


def _put_existence(row: Measures, view: View, each: Draft) -> None:
    """What speaks for there being an aspect."""
    aspect, candidacy = each.finding.aspect, each.candidacy
    row["sure"] = logit(each.sure)
    if candidacy is not None:
        row["span"] = logit(candidacy.candidate.probability)
        row["judged"] = logit(candidacy.candidate.judged)
        row["phrase"] = candidacy.rule
        row["others"] = candidacy.others
        row["first"] = float(candidacy.rank == 0)
        row["second"] = float(candidacy.rank == 1)
    else:
        row["phrase only"] = 1.0
        row["phrase"] = aspect.termness
    row["guessed"] = float(each.guessed)
    linked = each.ruled.opinion is not None
    row["linked"] = min(abs(each.ruled.score), _FULL_SCORE)
    row["unlinked"] = float(not linked)
    row["long name"] = float(aspect.last - aspect.first > 2)
    row["one word"] = float(aspect.last - aspect.first == 1)
    row["length"] = math.log(1 + len(view.tokens))
    row["opens"] = float(aspect.first == 0)


def _put_readings(
    row: Measures, view: View, each: Draft, texts: _Texts, mood: Probabilities
) -> None:
    """What each reading says about the polarity."""
    number = each.finding.aspect.clause
    put(row, "aspect", each.said)
    put(row, "clause", texts.of(number, number + 1))
    low, high = texts.sentence(number)
    put(row, "sentence", texts.of(low, high))
    put(row, "text", mood)
    row["rules"] = clipped(each.ruled.score, _FULL_SCORE)
    row["nearest"] = clipped(each.finding.nearest_reading.score, _FULL_SCORE)
    row["silent"] = float(each.ruled.opinion is None)
    support = each.ruled.support
    row["conflict"] = float(any(o.score > 0 for o in support) and any(o.score < 0 for o in support))


def _put_company(row: Measures, each: Draft, drafts: Sequence[Draft]) -> None:
    """What the models say of the other aspects: of the same clause, and elsewhere."""
    for name, beside in (("beside", True), ("elsewhere", False)):
        sums = [0.0, 0.0, 0.0]
        for other in drafts:
            same = other.finding.aspect.clause == each.finding.aspect.clause
            if other is not each and same == beside:
                for place, share in enumerate(other.said):
                    sums[place] += other.sure * share
        row[name] = clipped(sums[0] - sums[1], 2.0)
        row[f"{name}: neutral"] = clipped(sums[2], 2.0)


class _Texts:
    """What the text model says of stretches of a text, each asked once."""

    def __init__(self, view: View, model: PolarityModel) -> None:
        self._view = view
        self._model = model
        self._said: dict[tuple[int, int], Probabilities] = {}

    def of(self, low: int, high: int) -> Probabilities:
        """P(positive), P(negative), P(neutral) of the clauses `[low, high)`."""
        if (low, high) not in self._said:
            clauses = self._view.clauses
            cut = clauses_of(self._view, low, high)
            words = self._view.text[clauses[low].start : clauses[high - 1].end]
            self._said[low, high] = self._model.text(replace(cut, text=words))
        return self._said[low, high]

    def sentence(self, number: int) -> tuple[int, int]:
        """The clauses of the sentence that a clause stands in, at most a few on each side."""
        clauses = self._view.clauses
        own = clauses[number].sentence
        low = high = number
        while low > max(0, number - _SENTENCE) and clauses[low - 1].sentence == own:
            low -= 1
        last = min(len(clauses) - 1, number + _SENTENCE)
        while high < last and clauses[high + 1].sentence == own:
            high += 1
        return low, high + 1


def label_measures(view: View, mood: Probabilities, heard: Sequence[Finding]) -> Measures:
    """What the label of a text is weighed from."""
    row: Measures = {}
    put(row, "text", mood)
    stated = [f for f in heard if f.verdict is not None and f.combined is not None]
    best = {word: 0.0 for word in LABELS}
    for finding in stated:
        assert finding.combined is not None and finding.verdict is not None
        total = sum(finding.combined) or 1.0
        for word, share in zip(LABELS, finding.combined, strict=True):
            best[word] = max(best[word], share / total if word == finding.verdict else 0.0)
    for word, share in best.items():
        row[f"best {word}"] = share
    row["both"] = min(best[POSITIVE], best[LABELS[1]])
    row["unnamed"] = float(not stated)
    if not stated:
        put(row, "text, unnamed", mood)
    row["several"] = float(len(stated) > 1)
    links = [clause.link for clause in view.clauses]
    row["contrast"] = float("contrast" in links)
    row["opinions"] = min(len(view.opinions), 4) / 4
    return row


def _label(
    combination: Combination, row: Measures, heard: Sequence[Finding]
) -> tuple[str, float] | None:
    """The likeliest label; the opposite of all aspects only where the text is very sure of it."""
    labels = (*LABELS, MIXED)
    likely = combination.labels(row)
    stated = {finding.verdict for finding in heard if finding.verdict} - {NEUTRAL}
    best = max(range(len(labels)), key=likely.__getitem__)
    if len(stated) == 1 and labels[best] in set(LABELS[:2]) - stated and likely[best] < _OPPOSITE:
        best = max(
            (n for n, label in enumerate(labels) if label in stated | {MIXED, NEUTRAL}),
            key=likely.__getitem__,
        )
    return labels[best], round(likely[best], 3)
