"""The label of a text: what the encoder says of the text, and what was found in it."""

from __future__ import annotations

from collections.abc import Sequence

from absa.offline.models.polarity_model import LABELS
from absa.offline.text.annotations import MIXED, NEGATIVE, NEUTRAL, POSITIVE, Finding, Reading, View

TEXT_LABELS = (*LABELS, MIXED)
#: How much the findings count beside the encoder, and by what the sum of both is flattened. Chosen
#: on everyday sentences that were kept from training.
_FINDINGS = 0.2
_FLATTEN = 0.85
#: What is left for what a reader does not see.
_LEAST = 0.02
#: From this probability on a label that a reader gives may be the opposite of all aspects.
CLEAR_LABEL = 0.6
_OPPOSITE = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}


def label_of(
    view: View, findings: Sequence[Finding], overall: Reading | None
) -> tuple[str, float] | None:
    """The label with its probability; nothing in a language without an encoder.

    It is never the opposite of everything that was found.
    """
    if view.encoded is None:
        return None
    judged = {finding.clause_reading.polarity for finding in findings} - {NEUTRAL}
    if overall is not None:
        judged.add(overall.polarity)
    excluded = {_OPPOSITE[polarity] for polarity in judged} - judged
    powers = {
        label: (max(encoded, _LEAST) * max(seen, _LEAST) ** _FINDINGS) ** _FLATTEN
        for label, encoded, seen in zip(
            TEXT_LABELS, view.encoded.labels, _by_findings(findings, overall), strict=True
        )
        if label not in excluded
    }
    likeliest = max(powers, key=powers.__getitem__)
    return likeliest, round(powers[likeliest] / sum(powers.values()), 3)


def _by_findings(findings: Sequence[Finding], overall: Reading | None) -> tuple[float, ...]:
    """The probabilities of the labels if the findings were independent of each other."""
    absent = {POSITIVE: 1.0, NEGATIVE: 1.0}
    for finding in findings:
        reading = finding.clause_reading
        shares = {**dict(finding.alternatives), reading.polarity: reading.confidence}
        for polarity in absent:
            absent[polarity] *= 1.0 - shares.get(polarity, 0.0)
    if overall is not None:
        absent[overall.polarity] *= 1.0 - overall.confidence
    no_praise, no_blame = absent[POSITIVE], absent[NEGATIVE]
    return (
        (1 - no_praise) * no_blame,
        no_praise * (1 - no_blame),
        no_praise * no_blame,
        (1 - no_praise) * (1 - no_blame),
    )
