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

    def __iter__(self) -> Iterator[Finding]:
        yield from self.reported
        yield from self.reserve


def compare(first: Found, second: Found) -> Found:
    """The findings of Stage 1 with their verdicts, and in reserve what only the second one has."""
    at = {_place(finding): finding for finding in second}
    standing = {_place(finding) for finding in second.reported}
    if not standing and first.reported and second.reserve:
        # Stage 2 does not empty a text: what is likeliest stays.
        standing = {_place(max(second.reserve, key=lambda f: f.clause_reading.confidence))}

    def judged(finding: Finding) -> Finding:
        other = at.get(_place(finding))
        if other is None:
            return finding
        return replace(
            finding,
            nearest_reading=other.nearest_reading,
            second_reading=other.clause_reading,
            likely=likely(other),
            verdict=other.clause_reading.polarity if _place(other) in standing else None,
        )

    own = {_place(finding) for finding in first.reported}
    others = {**{_place(finding): finding for finding in first.reserve}, **at}
    return Found(
        [judged(finding) for finding in first.reported],
        [judged(others[place]) for place in sorted(others) if place not in own],
    )


def likely(finding: Finding) -> Probabilities:
    """For each polarity how likely the tuple with it is right."""
    reading = finding.clause_reading
    shares = {reading.polarity: reading.confidence, **dict(finding.alternatives)}
    positive, negative, neutral = (shares.get(word, 0.0) for word in LABELS)
    return positive, negative, neutral


def _place(finding: Finding) -> tuple[int, int]:
    return finding.aspect.start, finding.aspect.end
