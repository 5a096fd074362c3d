"""Long texts in pieces: what is said of an aspect stands near it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from absa.offline.model import View

#: A text up to so many tokens is one piece; of longer ones pieces of this size overlap by half.
_SIZE = 200


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
        first, last = view.clauses[low].first, view.clauses[high - 1].last
        return replace(
            view,
            tokens=view.tokens[first:last],
            clauses=tuple(
                replace(clause, first=clause.first - first, last=clause.last - first)
                for clause in view.clauses[low:high]
            ),
            opinions=tuple(
                replace(o, first=o.first - first, last=o.last - first, clause=o.clause - low)
                for o in view.opinions
                if low <= o.clause < high and o.last <= last
            ),
            negators=tuple(i - first for i in view.negators if first <= i < last),
            used_negators=frozenset(i - first for i in view.used_negators if first <= i < last),
        )
