"""What the debate knows of Stage 1's findings: a second reading of the same text.

Stage 1 speaks with the small learned models alone. The second reading takes all readers of the
language together. Here the two meet: each finding of either gets the verdict of the second one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from absa.offline.models.polarity_model import LABELS
from absa.offline.text.annotations import Finding, Probabilities


@dataclass(frozen=True)
class Found:
    """The findings that are reported, and those that are kept for a second look."""

    reported: Sequence[Finding]
    reserve: Sequence[Finding] = ()

    @property
    def parts(self) -> tuple[Sequence[Finding], Sequence[Finding]]:
        """Both, apart."""
        return self.reported, self.reserve

    def __iter__(self) -> Iterator[Finding]:
        yield from self.reported
        yield from self.reserve


@dataclass(frozen=True)
class Bars:
    """From where on the second reading contradicts Stage 1.

    Attributes:
        add: How likely a tuple must be right to be added.
        drop: Below which probability a tuple of Stage 1 is dropped.
        flip: How much likelier than Stage 1's another polarity must be.
    """

    add: float
    drop: float
    flip: float


#: Where the tagger knows the domain, Stage 1 is rarely wrong, and it takes more to contradict it;
#: elsewhere the second reading has the last word.
KNOWN_DOMAIN = {
    "en": Bars(add=0.45, drop=0.2, flip=0.1),
    "ko": Bars(add=0.4, drop=0.25, flip=0.05),
}


def compare(first: Found, second: Found, bars: Bars | None = None) -> Found:
    """The findings of Stage 1 with their verdicts, and in reserve what only the second one has.

    Without bars the second reading decides alone.
    """
    at = {_place(finding): finding for finding in second}
    reported = {_place(finding) for finding in second.reported}
    own = {_place(finding) for finding in first.reported}

    def verdict(finding: Finding, other: Finding) -> str | None:
        place, shares = _place(other), likely(other)
        probability, polarity = max(zip(shares, LABELS, strict=True))
        if bars is None:
            return other.clause_reading.polarity if place in reported else None
        if place not in own:
            return polarity if place in reported and probability >= bars.add else None
        if probability < bars.drop:
            return None
        stated = finding.clause_reading.polarity
        flips = probability - shares[LABELS.index(stated)] >= bars.flip
        return polarity if flips else stated

    def judged(finding: Finding) -> Finding:
        other = at.get(_place(finding))
        if other is None:
            return finding
        return replace(
            finding,
            nearest_reading=other.nearest_reading,
            second_reading=other.clause_reading,
            likely=likely(other),
            verdict=verdict(finding, other),
        )

    others = {**{_place(finding): finding for finding in first.reserve}, **at}
    found = Found(
        [judged(finding) for finding in first.reported],
        [judged(others[place]) for place in sorted(others) if place not in own],
    )
    if first.reported and not any(finding.verdict for finding in found):
        # Stage 2 does not empty a text: what is likeliest stays.
        best = max(found, key=lambda finding: max(finding.likely))
        if max(best.likely):
            word = max(zip(best.likely, LABELS, strict=True))[1]
            kept = replace(best, verdict=word)
            return Found(*([kept if f is best else f for f in part] for part in found.parts))
    return found


def likely(finding: Finding) -> Probabilities:
    """For each polarity how likely the tuple with it is right."""
    reading = finding.clause_reading
    shares = {reading.polarity: reading.confidence, **dict(finding.alternatives)}
    positive, negative, neutral = (shares.get(word, 0.0) for word in LABELS)
    return positive, negative, neutral


def _place(finding: Finding) -> tuple[int, int]:
    return finding.aspect.start, finding.aspect.end
