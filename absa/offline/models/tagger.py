"""The learned aspect tagger: which stretches of a text name an aspect, and how surely.

A linear-chain CRF gives each token the probability of beginning (B), continuing (I) or being
outside (O) an aspect. B and I come in two kinds: ``J`` for an aspect that is judged and ``N`` for
one that is only mentioned, because data sets differ in whether they name the latter. Where there is
a network beside the CRF, the mean of what both say counts.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pycrfsuite

from absa.offline import stopping
from absa.offline.models.encoder import tags_of
from absa.offline.models.features import features
from absa.offline.models.network import LABELS, Network
from absa.offline.text.annotations import View
from absa.offline.text.windows import pieces

#: A candidate less likely than this is not worth a second look.
_FLOOR = 0.08
_MAX_TOKENS = 10
_TINY = 1e-9
_STEPS = (0.02, 0.08, 0.2, 0.35, 0.5, 0.7, 0.9)
#: How a CRF begins: magic number, size of the file, kind, version, three counts, five offsets.
_HEADER = struct.Struct("<4sI4s9I")
#: How much the CRF's word counts beside the network's.
_SHARE = 0.5
#: How much the encoder counts beside both, in texts of a domain that they know and in others.
_ENCODER_SHARES = {"en": {True: 0.35, False: 0.5}, "ko": {True: 0.35, False: 0.5}}
_DOMAINS = frozenset({"food", "hotel", "laptop", "restaurant"})

Rows = list[list[str]]
Marginals = tuple[list[float], list[float], list[float]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Tokens ``[first, last)`` that may name an aspect.

    Attributes:
        first: The first token.
        last: The token after the last one.
        probability: How likely exactly these tokens are an aspect term.
        judged: How likely it is judged, given that it is one, and not only mentioned.
    """

    first: int
    last: int
    probability: float
    judged: float


class Tagger:
    """Finds aspect candidates. May be shared between threads."""

    def __init__(
        self, content: bytes, base: Tagger | None = None, network: Network | None = None
    ) -> None:
        """Take a model file's content; a stacked model also reads what its ``base`` says.

        Raises:
            ValueError: if it is not a tagger's model. Native code does not notice all damage: the
                content of a file has to be checked before (`absa.offline.models.folder`).
        """
        if not _is_whole(content):
            raise ValueError("the file is cut off, or something else")
        self._base = base
        self._network = network
        # The CRF reads from these bytes for as long as it lives, without owning them.
        self._content = content
        # Two threads in one CRF would read each other's marginals: each takes one that is free.
        self._free: deque[pycrfsuite.Tagger] = deque()
        crf = self._open()
        self._labels = frozenset(crf.labels())
        self._free.append(crf)

    def candidates(self, view: View) -> list[Candidate]:
        """All plausible candidates of a text, overlapping ones included, in order of the text."""
        if not view.tokens:
            return []
        return [
            replace(candidate, first=candidate.first + first, last=candidate.last + first)
            if first
            else candidate
            # In pieces, so that memory and the time of a native call are bounded.
            for first, piece in stopping.watched_closely(pieces(view))
            for candidate in self._candidates(piece)
        ]

    def _candidates(self, view: View) -> list[Candidate]:
        return spans(*self._marginals(view))

    def with_hints(self, view: View, rows: Rows) -> Rows:
        """The features of a text with what this tagger says of each token added to them."""
        judged, begins, inside = self._marginals(view)
        likely = [f"{_step(b)}{_step(i)}" for b, i in zip(begins, inside, strict=True)]
        stacked = []
        for index, row in enumerate(rows):
            after = likely[index + 1] if index + 1 < len(rows) else "^"
            kind = "J" if 2 * judged[index] >= begins[index] else "N"
            features = (f"base={likely[index]}", f"base+={likely[index]}|{after}", f"kind={kind}")
            stacked.append(
                [*row, *features, f"b={_step(begins[index])}", f"i={_step(inside[index])}"]
            )
        return stacked

    def _marginals(self, view: View) -> Marginals:
        """For each token P(it begins a judged aspect), P(it begins one), P(it continues one)."""
        if self._base is not None:
            shares, tags = self._shares(view), None
        else:
            shares, tags = view.once(("tags", id(self)), lambda: self._shares(view)), tags_of(view)
        if tags is not None:
            share = _ENCODER_SHARES[view.lang][view.domain in _DOMAINS]
            shares = (1 - share) * shares + share * tags
        _, judged, in_judged, mentioned, in_mentioned = shares.T
        return judged.tolist(), (judged + mentioned).tolist(), (in_judged + in_mentioned).tolist()

    def _shares(self, view: View) -> npt.NDArray[np.float64]:
        """For each token the probabilities of LABELS without the encoder."""
        rows = features(view)
        if self._base is not None:
            rows = self._base.with_hints(view, rows)
        shares = self._crf_shares(rows)
        if self._network is not None:
            shares = _SHARE * shares + (1 - _SHARE) * self._network.probabilities(view)
        return shares

    def _crf_shares(self, rows: Rows) -> npt.NDArray[np.float64]:
        """For each token the CRF's probabilities of LABELS except the first, which is not used."""
        shares = np.zeros((len(rows), len(LABELS)))
        try:
            crf = self._free.pop()
        except IndexError:
            crf = self._open()
        crf.set(rows)
        for column, label in enumerate(LABELS):
            if column and label in self._labels:
                shares[:, column] = [crf.marginal(label, i) for i in range(len(rows))]
        self._free.append(crf)
        return shares

    def _open(self) -> pycrfsuite.Tagger:
        crf = pycrfsuite.Tagger()
        crf.open_inmemory(self._content)
        return crf


def _is_whole(content: bytes) -> bool:
    """Whether bytes begin like a CRF and have the length that it is said to have."""
    if len(content) < _HEADER.size:
        return False
    magic, size, kind, *_, features, labels, attributes, by_label, by_attribute = (
        _HEADER.unpack_from(content)
    )
    offsets = (features, labels, attributes, by_label, by_attribute)
    return (magic, size, kind) == (b"lCRF", len(content), b"FOMC") and max(offsets) < size


def _step(probability: float) -> int:
    """A probability as one of eight steps."""
    return bisect_right(_STEPS, probability)


def spans(judged: list[float], begins: list[float], inside: list[float]) -> list[Candidate]:
    """The candidates that token probabilities amount to.

    P(span) = P(begin) · P(goes on | in an aspect) … · P(stops | in an aspect): exact for a chain
    of first order whose only memory is being in an aspect or not.
    """
    size = len(begins)
    spans = []
    for first in range(size):
        probability = begins[first]
        if probability < _FLOOR:
            continue
        share = judged[first] / begins[first]
        for last in range(first + 1, min(size, first + _MAX_TOKENS) + 1):
            here = max(begins[last - 1] + inside[last - 1], _TINY)
            on = min(1.0, inside[last] / here) if last < size else 0.0
            exact = probability * (1.0 - on)
            if exact >= _FLOOR:
                spans.append(Candidate(first, last, exact, share))
            probability *= on
            if probability < _FLOOR:
                break
    return spans


def disjoint(candidates: list[Candidate]) -> list[Candidate]:
    """The likeliest candidates that do not overlap, in order of the text."""
    taken: set[int] = set()
    kept = []
    for candidate in sorted(candidates, key=lambda c: (-c.probability, c.first, c.last)):
        tokens = range(candidate.first, candidate.last)
        if taken.isdisjoint(tokens):
            taken.update(tokens)
            kept.append(candidate)
    return sorted(kept, key=lambda c: c.first)
