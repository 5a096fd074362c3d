"""Figures of a study as SVG: intervals on a line, and quality against cost.

The page has each figure in two widths; a file for a paper has the wide one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from absa.report.markup import Markup, asset, el

WIDE, NARROW = 860, 340
# The colours of the light page, for files.
_LIGHT = {
    "ink": "#1c1f26",
    "quiet": "#5d6472",
    "line": "#e4e6ea",
    "soft": "#f1f2f5",
    "card": "#ffffff",
    "accent": "#3f51c4",
    "positive": "#0b6e5f",
    "negative": "#a83c14",
    "sans": "Helvetica, Arial, sans-serif",
}


class Interval(NamedTuple):
    """A value with its interval, in points (hundredths). The tone is good, bad or empty."""

    name: str
    value: float
    low: float
    high: float
    tone: str = ""
    note: str = ""

    def words(self, *, signed: bool = True) -> str:
        """Value and interval as text; differences have a sign."""
        parts = (self.value, self.low, self.high)
        value, low, high = (_signed(x) if signed else _short(x) for x in parts)
        return f"{value} ({low} to {high})"


class CostPoint(NamedTuple):
    """The cost per text and the score of a configuration; the score is in points."""

    name: str
    cost: float
    value: float
    low: float
    high: float
    is_on_front: bool


def _signed(value: float) -> str:
    text = _short(value)
    return text if text.startswith("−") or text == "0.0" else f"+{text}"


def _short(value: float) -> str:
    text = f"{value:.1f}".replace("-", "−")
    return "0.0" if text == "−0.0" else text


def intervals(
    rows: Sequence[Interval],
    width: int,
    axis: str,
    limits: tuple[float, float] | None = None,
    *,
    from_zero: bool = True,
) -> Markup:
    """One row per configuration: a dot for the value, a line for its interval.

    With `from_zero` the rows are differences, and zero is marked.
    """
    is_wide = width >= 480
    left, right = (210, 170) if is_wide else (8, 8)
    height, top = (36, 8) if is_wide else (56, 6)
    low, high = limits or _limits(rows, with_zero=from_zero)
    bottom = top + height * len(rows)

    def x(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (width - left - right)

    parts: list[Markup] = []
    for tick in _ticks(low, high, 5 if is_wide else 4):
        parts.append(_line("grid", x(tick), top, x(tick), bottom))
        parts.append(_tick(_short(tick).removesuffix(".0"), x(tick), bottom + 18, width))
    if from_zero and low <= 0 <= high:
        parts.append(_line("zero", x(0), top, x(0), bottom))
    for number, row in enumerate(rows):
        y = top + height * number + height / 2 + (0 if is_wide else 12)
        tone = f" {row.tone}" if row.tone else ""
        parts.append(_line(f"whisker{tone}", x(row.low), y, x(row.high), y))
        for end in (row.low, row.high):
            parts.append(_line(f"whisker{tone}", x(end), y - 5, x(end), y + 5))
        parts.append(el("circle", class_=f"point{tone}", cx=_n(x(row.value)), cy=_n(y), r="5.5"))
        above = y + 4.5 if is_wide else y - 14
        parts.append(_text(row.name, left - 14 if is_wide else left, above, "name", not is_wide))
        value = row.words(signed=from_zero)
        parts.append(_text(value, width - 4, above, f"value{tone}"))
    parts.append(_text(axis, (left + width - right) / 2, bottom + 38, "axis"))
    spoken = "; ".join(f"{row.name} {row.words(signed=from_zero)}" for row in rows)
    return _svg(width, bottom + 46, parts, f"{axis}: {spoken}")


#: Costs whose places differ by fewer pixels are drawn as equal.
_EQUAL_COST = 6


def cost_plot(
    points: Sequence[CostPoint], width: int, axis: str, title: str, *, has_names: bool = False
) -> Markup:
    """Quality over cost. The line joins the Pareto front.

    `has_names` adds the names of the numbered points below the axis, for a figure without a table.
    """
    height, left, right, top = (360 if width >= 480 else 300), 52, 20, 16
    floor, ceiling = _limits([Interval("", p.value, p.low, p.high) for p in points])
    most = max((p.cost for p in points), default=1) or 1
    # Over a wide range of costs a square root keeps the cheap configurations apart.
    scale = math.sqrt if most > 4 * min((p.cost for p in points if p.cost), default=most) else float
    bottom = height - 54

    def x(cost: float) -> float:
        return left + 14 + scale(cost) / scale(most) * (width - left - right - 28)

    def y(value: float) -> float:
        return bottom - (value - floor) / (ceiling - floor) * (bottom - top)

    parts: list[Markup] = []
    for tick in _ticks(floor, ceiling, 5):
        parts.append(_line("grid", left, y(tick), width - right, y(tick)))
        parts.append(_text(_short(tick).removesuffix(".0"), left - 8, y(tick) + 4, "tick end"))
    for tick in _cost_ticks(most):
        parts.append(_line("grid", x(tick), top, x(tick), bottom))
        parts.append(_text(f"{tick:g}", x(tick), bottom + 18, "tick"))
    front = sorted((p for p in points if p.is_on_front), key=lambda p: (p.cost, p.value))
    if front:
        path = f"M{_n(x(front[0].cost))} {_n(y(front[0].value))}"
        path += "".join(f" H{_n(x(p.cost))} V{_n(y(p.value))}" for p in front[1:])
        parts.append(el("path", class_="front", d=f"{path} H{_n(width - right)}"))
    taken: list[tuple[float, float, float, float]] = []
    for number, point in enumerate(points, 1):
        at = cost = x(point.cost)
        upper = min(y(point.high), y(point.value) - 12)
        lower = max(y(point.low), y(point.value) + 12)
        # Intervals of (nearly) equal cost that overlap are drawn side by side, towards the middle.
        # All others stand where their cost is.
        step = 24 if at < width / 2 else -24
        while any(
            abs(at - n) < 22 and abs(cost - c) < _EQUAL_COST and upper < end and start < lower
            for n, c, start, end in taken
        ):
            at += step
        taken.append((at, cost, upper, lower))
        tone = "good" if point.is_on_front else ""
        middle = y(point.value)
        parts.append(_line(f"whisker {tone}", at, y(point.low), at, y(point.high)))
        parts.append(el("circle", class_=f"point {tone}", cx=_n(at), cy=_n(middle), r="10"))
        parts.append(_text(str(number), at, middle + 4, "number"))
    parts.append(_text(axis, (left + width - right) / 2, height - 10, "axis"))
    for number, point in enumerate(points if has_names else (), 1):
        height += 24
        tone = "good" if point.is_on_front else ""
        parts.append(el("circle", class_=f"point {tone}", cx=left + 14, cy=height - 14, r="10"))
        parts.append(_text(str(number), left + 14, height - 10, "number"))
        parts.append(_text(point.name, left + 34, height - 9.5, "name", starts=True))
    spoken = "; ".join(f"{p.name}: {p.cost:.3g}, {_short(p.value)}" for p in points)
    return _svg(width, height + (10 if has_names else 0), parts, f"{title}: {spoken}")


def standalone(figure: Markup) -> str:
    """A figure as a separate document, in the colours of the light page."""
    style = re.sub(r"var\(--(\w+)\)", lambda name: _LIGHT[name[1]], asset("figures.css"))
    style = re.sub(r"color-mix\([^;}]*\)", _LIGHT["accent"], style)
    opened, rest = figure.split(">", 1)
    opened = opened.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    page = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f"{opened}><style>{style}</style>{page}{rest}\n"


def _svg(width: float, height: float, parts: Iterable[Markup], label: str) -> Markup:
    return el(
        "svg",
        list(parts),
        class_="figure",
        viewBox=f"0 0 {_n(width)} {_n(height)}",
        width=_n(width),
        height=_n(height),
        role="img",
        aria_label=label,
    )


def _limits(rows: Sequence[Interval], *, with_zero: bool = False) -> tuple[float, float]:
    ends = [end for row in rows for end in (row.low, row.high)] + ([0.0] if with_zero else [])
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = max((high - low) * 0.08, 0.5)
    return low - room, high + room


def _ticks(low: float, high: float, count: int) -> list[float]:
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step) + 1)]


def _cost_ticks(most: float) -> list[float]:
    if most <= 1:
        return _ticks(0, most, 3)
    return [tick for tick in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500) if tick <= most * 1.01]


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return el("line", class_=kind, x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2))


def _tick(text: str, x: float, y: float, width: float) -> Markup:
    """A number below the axis; at the edge of the figure it stays inside."""
    if x < 12:
        return _text(text, 2, y, "tick", starts=True)
    if x > width - 12:
        return _text(text, width - 2, y, "tick end")
    return _text(text, x, y, "tick")


def _text(text: str, x: float, y: float, kind: str, starts: bool = False) -> Markup:
    return el("text", text, class_=f"{kind} start" if starts else kind, x=_n(x), y=_n(y))


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
