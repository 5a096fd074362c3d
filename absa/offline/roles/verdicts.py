"""What all readings together say of each aspect: the debate, the judge and the reviewers agree.

Every agent speaks from a reading of its own. What they decide comes from the same combined
probabilities, so that the judge's tuples, the reviews and the overrides fit each other. What an
agent that is not the analyzer said (another model's Stage 1, another speaker) counts as one more
witness.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from absa.offline.models.polarity_model import LABELS
from absa.offline.roles import lookup
from absa.offline.roles.inputs import Stage1, StatedSentiment, edit_polarity, edit_target
from absa.offline.roles.lookup import key
from absa.offline.text.annotations import Analysis, Finding, Probabilities
from absa.schemas.answers import Edit

#: Weight of a witness that is fully sure, in log-odds; one that says nothing of it counts as 0.6.
_WITNESS = 2.5
_UNSTATED = 0.6
_BACKFILLED = 0.2
#: Below this probability of being an aspect, a tuple of another model's Stage 1 is dropped.
_HARDLY = 0.12


@dataclass(frozen=True)
class Verdict:
    """What becomes of an aspect.

    Attributes:
        term: The aspect.
        before: Its polarities in Stage 1; none for an aspect that Stage 1 missed.
        after: The polarity that the readings stand for; None where they report no such aspect.
        probability: How likely that is right.
        evidence: The words of the text that bear it out.
    """

    term: str
    before: tuple[str, ...]
    after: str | None
    probability: float
    evidence: str

    @property
    def changes(self) -> bool:
        """Whether the tuples of Stage 1 change."""
        return set(self.before) != ({self.after} if self.after else set())


class Verdicts:
    """The verdicts on the aspects of Stage 1, and on those that it missed."""

    def __init__(
        self,
        analysis: Analysis,
        stage1: Stage1,
        heard: Iterable[Edit] = (),
        *,
        given: bool = False,
    ) -> None:
        """Take Stage 1 and what other speakers said; of `given` aspects none is dropped."""
        self._analysis = analysis
        self._given = given
        self._edits: dict[str, list[Edit]] = {}
        for edit in heard:
            self._edits.setdefault(key(edit_target(edit)), []).append(edit)
        stated: dict[str, list[StatedSentiment]] = {}
        for item in stage1.sentiments:
            stated.setdefault(key(item.aspect_term), []).append(item)
        self._known = {key(term): term for term in stage1.terms}
        self.all: list[Verdict] = [
            self._on(term, stated.get(own, [])) for own, term in self._known.items()
        ]
        if not given:
            self.all += [*self._missed(), *self._named_by_others()]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.all)

    def _on(self, term: str, items: Sequence[StatedSentiment]) -> Verdict:
        """The verdict on an aspect of Stage 1."""
        before = tuple(dict.fromkeys(item.polarity for item in items))
        finding = mention(self._analysis, term)
        witnesses = self._witnesses(term, finding, items)
        dropped = sum(_share(e) for e in self._edits.get(key(term), ()) if e.op == "drop_tuple")
        if finding is None:
            return self._unread(term, before, items, witnesses, dropped)
        if len(before) > 1:
            # Two mentions are judged differently; what changes one would change both.
            return Verdict(term, before, before[0], max(finding.likely), "")
        after, probability = finding.verdict, max(finding.likely)
        if self._given or witnesses or dropped or not _is_own(self._analysis, finding, before):
            likely = _weighed(finding.likely, witnesses)
            probability = max(likely)
            after = LABELS[likely.index(probability)]
            if not self._given and sum(likely) < _HARDLY * (1 + dropped):
                after = None
        elif after is not None:
            probability = finding.likely[LABELS.index(after)]
        quoted = self._quote(finding, after or "", items)
        return Verdict(term, before, after, round(probability, 3), quoted)

    def _witnesses(
        self, term: str, finding: Finding | None, items: Sequence[StatedSentiment]
    ) -> list[tuple[str, float]]:
        """Polarities that somebody else than the analyzer stands for, each with its weight."""
        witnesses: list[tuple[str, float]] = []
        before = {item.polarity for item in items}
        if finding is None or not _is_own(self._analysis, finding, tuple(before)):
            for item in items:
                sure = _BACKFILLED if item.is_backfilled else item.confidence
                witnesses.append((item.polarity, sure))
                nearest = finding.nearest_reading if finding is not None else None
                if item.is_backfilled and nearest is not None and nearest.opinion is not None:
                    # No agent has judged it yet: the nearest words decide.
                    witnesses.append((nearest.polarity, nearest.confidence))
        for edit in self._edits.get(key(term), ()):
            polarity = edit_polarity(edit)
            if polarity and not (edit.evidence and edit.evidence not in self._analysis.text):
                witnesses.append((polarity, _share(edit)))
        return witnesses

    def _unread(
        self,
        term: str,
        before: tuple[str, ...],
        items: Sequence[StatedSentiment],
        witnesses: Sequence[tuple[str, float]],
        dropped: float,
    ) -> Verdict:
        """The verdict on an aspect that the analyzer does not see."""
        weights: dict[str, float] = {}
        for polarity, sure in witnesses:
            weights[polarity] = weights.get(polarity, 0.0) + sure
        best = max(weights, key=lambda word: (round(weights[word], 9), word in before), default="")
        quotes = [item.evidence for item in items if item.polarity == best]
        quotes += [e.evidence for e in self._edits.get(key(term), ()) if edit_polarity(e) == best]
        quoted = next((q for q in quotes if q and q in self._analysis.text), "")
        only_named = bool(items) and all(item.is_backfilled for item in items) and not quoted
        absent = (
            not any(item.is_implicit for item in items)
            and term.lower() not in self._analysis.text.lower()
            and not quoted
        )
        gone = not best or only_named or absent or dropped > weights[best]
        if gone and not self._given:
            return Verdict(term, before, None, 0.7, "")
        total = sum(weights.values())
        share = round(weights[best] / total, 3) if best and total else 0.5
        return Verdict(term, before, best or None, share, quoted)

    def _quote(self, finding: Finding, polarity: str, items: Sequence[StatedSentiment]) -> str:
        own = quote(self._analysis, finding, polarity)
        others = [item.evidence for item in items if item.polarity == polarity]
        return own or next((q for q in others if q and q in self._analysis.text), "")

    def _missed(self) -> Iterator[Verdict]:
        """Aspects that Stage 1 did not report although the readings together stand for them."""
        taken = [f for own in self._known if (f := mention(self._analysis, own)) is not None]
        joined = " ".join(self._known)
        for finding in (*lookup.distinct(self._analysis), *self._analysis.reserve):
            own = key(finding.aspect.term)
            if finding.verdict is None or not own or own in joined:
                continue
            if any(_overlap(finding, other) for other in taken):
                continue
            taken.append(finding)
            joined += f" {own}"
            probability = finding.likely[LABELS.index(finding.verdict)]
            quoted = quote(self._analysis, finding, finding.verdict)
            term, verdict = finding.aspect.term, finding.verdict
            yield Verdict(term, (), verdict, round(probability, 3), quoted)

    def _named_by_others(self) -> Iterator[Verdict]:
        """Aspects that another speaker named, with words of the text that judge them."""
        seen = {*self._known, *(key(each.term) for each in self.all)}
        for own, edits in self._edits.items():
            grounded = [
                e
                for e in edits
                if edit_polarity(e) and e.evidence and e.evidence in self._analysis.text
            ]
            if own and own not in seen and grounded:
                term, best = edit_target(grounded[0]), max(grounded, key=_share)
                if term in self._analysis.text:
                    polarity, quoted = edit_polarity(best), best.evidence or ""
                    yield Verdict(term, (), polarity, round(_share(best), 3), quoted)


def mention(analysis: Analysis, term: str) -> Finding | None:
    """The finding of a term: of several mentions the surest; else the one phrase around it."""
    wanted = key(term)
    same = [f for f in (*analysis.findings, *analysis.reserve) if key(f.aspect.term) == wanted]
    if same and wanted:
        return max(same, key=lambda f: (f.verdict is not None, max(f.likely)))
    return lookup.find(analysis, term)


def quote(analysis: Analysis, finding: Finding, polarity: str) -> str:
    """The words that bear out a polarity: those of a reading that has it, else the clause."""
    readings = (finding.nearest_reading, finding.second_reading, finding.clause_reading)
    for reading in readings:
        if reading is not None and reading.polarity == polarity and reading.opinion is not None:
            return lookup.evidence(analysis, reading)
    if not polarity:
        return ""
    clause = analysis.clauses[finding.aspect.clause]
    return lookup.grounds(analysis, finding, analysis.text[clause.start : clause.end])


def _is_own(analysis: Analysis, finding: Finding, before: Sequence[str]) -> bool:
    """Whether Stage 1 says what the analyzer's own Stage 1 says."""
    own = key(finding.aspect.term)
    return any(
        key(each.aspect.term) == own and each.clause_reading.polarity in before
        for each in analysis.findings
    )


def _weighed(
    likely: Probabilities, witnesses: Sequence[tuple[str, float]]
) -> tuple[float, float, float]:
    """The probabilities after hearing witnesses."""
    odds = [max(share, 1e-3) for share in likely]
    none = max(1.0 - sum(likely), 1e-3)
    for polarity, sure in witnesses:
        odds[LABELS.index(polarity)] *= math.exp(_WITNESS * sure)
    total = none + sum(odds)
    return odds[0] / total, odds[1] / total, odds[2] / total


def _share(edit: Edit) -> float:
    return _UNSTATED if edit.confidence is None else edit.confidence


def _overlap(one: Finding, other: Finding) -> bool:
    return one.aspect.start < other.aspect.end and other.aspect.start < one.aspect.end
