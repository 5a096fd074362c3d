"""Whose statement the words of a Korean text are: the stretch of the text that judges an aspect.

A clause belongs to its aspect. Two aspects share it where no predicate stands between them ("맛과
양 모두 좋다"); else it is cut before the second one and the words that modify it ("타격감 굿
스토리 노잼"). What follows and names no aspect may speak of the one before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from absa.offline.text.annotations import CONTRAST, Clause, View

_PREDICATES = frozenset({"VA", "VV", "XSA", "XSV", "VCP", "VCN", "XR"})
_MODIFIERS = frozenset({"VA", "VV", "XSA", "XSV", "XR", "MAG", "MM", "EP"})
#: The largest number of clauses without an aspect that count as about the aspect before them.
_BEYOND = 2

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Scope:
    """The tokens that judge an aspect.

    Attributes:
        own: Its own statement.
        beyond: What follows and names no aspect; empty where something does.
        contrast: Whether a contrast divides the two.
        shared: Whether other aspects share its statement.
        last: Whether no aspect comes after it.
    """

    own: Span
    beyond: Span
    contrast: bool
    shared: bool
    last: bool


def scopes(view: View, spans: Sequence[Span]) -> list[Scope]:
    """The scope of each span of tokens; spans are in order and do not overlap."""
    opinion_at = {
        index
        for opinion in view.opinions
        if not opinion.weak
        for index in range(opinion.first, opinion.last)
    }
    firsts = [clause.first for clause in view.clauses]
    clause_of = [max(0, bisect_right(firsts, first) - 1) for first, _ in spans]
    cuts = [_cut(view, spans, clause_of, number, opinion_at) for number in range(len(spans))]
    made = []
    for number, (_, last) in enumerate(spans):
        clause = view.clauses[clause_of[number]]
        begin = number
        while begin and cuts[begin] is None:
            begin -= 1
        left = cuts[begin]
        end = number + 1
        while end < len(spans) and cuts[end] is None:
            end += 1
        limit = cuts[end] if end < len(spans) else None
        inside = limit is not None and clause_of[end] == clause_of[end - 1]
        right = limit if inside and limit is not None else view.clauses[clause_of[end - 1]].last
        own = (clause.first if left is None else left, max(right, last))
        beyond, contrast = _following(view, clause_of, end - 1) if not inside else ((0, 0), False)
        made.append(Scope(own, beyond, contrast, end - begin > 1, number + 1 == len(spans)))
    return made


def _cut(
    view: View,
    spans: Sequence[Span],
    clause_of: Sequence[int],
    number: int,
    opinion_at: set[int],
) -> int | None:
    """Where the statement of an aspect begins; None if it shares that of the aspect before it."""
    clause = view.clauses[clause_of[number]]
    if not number or clause_of[number - 1] != clause_of[number]:
        return clause.first
    before, first = spans[number - 1][1], spans[number][0]
    cut = first
    if cut > before and view.tokens[cut - 1].tag == "ETM":
        cut -= 1
        while cut > before and view.tokens[cut - 1].tag in _MODIFIERS:
            cut -= 1
        if cut > before and view.tokens[cut - 1].tag == "NNG" and view.tokens[cut].tag[:2] == "XS":
            cut -= 1
    judged = any(
        view.tokens[index].tag in _PREDICATES or index in opinion_at for index in range(before, cut)
    )
    return cut if judged else None


def _following(view: View, clause_of: Sequence[int], last: int) -> tuple[Span, bool]:
    """The clauses after an aspect's own that name no aspect, and whether a contrast comes first."""
    first = clause_of[last] + 1
    stop = clause_of[last + 1] if last + 1 < len(clause_of) else len(view.clauses)
    end = min(stop, first + _BEYOND)
    if end <= first:
        return (0, 0), False
    contrast = view.clauses[first].link == CONTRAST
    return (view.clauses[first].first, view.clauses[end - 1].last), contrast


def part(view: View, span: Span) -> View:
    """A stretch of a text as a text of its own."""
    first, last = span
    tokens = view.tokens[first:last]
    start, end = tokens[0].start, tokens[-1].end
    return replace(
        view,
        text=view.text[start:end],
        tokens=tokens,
        clauses=(Clause(0, len(tokens), start, end, view.clauses[0].link, 0),),
        opinions=tuple(
            replace(opinion, first=opinion.first - first, last=opinion.last - first, clause=0)
            for opinion in view.opinions
            if first <= opinion.first and opinion.last <= last
        ),
        negators=tuple(i - first for i in view.negators if first <= i < last),
        used_negators=frozenset(i - first for i in view.used_negators if first <= i < last),
    )


def scopes_at(view: View, places: Sequence[tuple[int, int]]) -> list[tuple[Span, Scope]]:
    """The tokens and the scope of each place; places are characters, in order of the text."""
    starts = [token.start for token in view.tokens]
    spans: list[Span] = []
    for start, end in places:
        first = max(0, bisect_right(starts, start) - 1)
        spans.append((first, max(first + 1, bisect_left(starts, end))))
    return list(zip(spans, scopes(view, spans), strict=True))
