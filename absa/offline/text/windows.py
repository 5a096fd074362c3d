"""Long texts in pieces: what is said of an aspect stands near it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

from absa.offline.text.annotations import View

#: Tokens of a piece. A longer text is cut into pieces of this size that overlap by half.
_SIZE = 200
#: Longer texts go to the tagger in pieces of about this many tokens.
_PIECE = 2_000

_CLAUSE = attrgetter("clause")
_LAST = attrgetter("last")


class Windows:
    """Cuts of a text, so that the work for each aspect does not grow with the text."""

    def __init__(self, view: View) -> None:
        """Take the whole text."""
        self._view = view
        self._firsts = [clause.first for clause in view.clauses]
        self._made: dict[int, View] = {}

    def at(self, token: int) -> View:
        """A piece of the text around a token; offsets in characters are those of the text."""
        if len(self._view.tokens) <= _SIZE:
            return self._view
        number = token // (_SIZE // 2)
        if number not in self._made:
            middle = number * (_SIZE // 2)
            self._made[number] = self._cut(middle - _SIZE // 4, middle + 3 * _SIZE // 4)
        return self._made[number]

    def _cut(self, begin: int, end: int) -> View:
        view = self._view
        low = max(0, bisect_right(self._firsts, max(begin, 0)) - 1)
        high = bisect_right(self._firsts, min(end, len(view.tokens) - 1))
        return _clauses_of(view, low, high)


def pieces(view: View) -> Iterator[tuple[int, View]]:
    """A text in pieces of whole clauses, each with the number of its first token."""
    if len(view.tokens) <= _PIECE:
        yield 0, view
        return
    low = 0
    while low < len(view.clauses):
        first = view.clauses[low].first
        high = max(low + 1, bisect_right(view.clauses, first + _PIECE, key=_LAST))
        yield first, _clauses_of(view, low, high)
        low = high


def _clauses_of(view: View, low: int, high: int) -> View:
    """The clauses `[low, high)` of a text. The cost does not depend on how long the text is."""
    first, last = view.clauses[low].first, view.clauses[high - 1].last
    # Opinions and negators stand in order of the text.
    opinions = view.opinions[
        bisect_left(view.opinions, low, key=_CLAUSE) : bisect_left(view.opinions, high, key=_CLAUSE)
    ]
    negators = view.negators[bisect_left(view.negators, first) : bisect_left(view.negators, last)]
    return replace(
        view,
        tokens=view.tokens[first:last],
        clauses=tuple(
            replace(clause, first=clause.first - first, last=clause.last - first)
            for clause in view.clauses[low:high]
        ),
        opinions=tuple(
            replace(o, first=o.first - first, last=o.last - first, clause=o.clause - low)
            for o in opinions
            if o.last <= last
        ),
        negators=tuple(i - first for i in negators),
        used_negators=frozenset(i - first for i in range(first, last) if i in view.used_negators),
    )
