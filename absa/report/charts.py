"""Small charts as SVG and HTML, without a library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from absa.report.markup import Markup, el, quiet
from absa.report.tally import BINS, Reliability


@dataclass(frozen=True)
class Bar:
    """A row of a bar chart; `href` is the link to its samples."""

    name: str
    code: str
    count: int
    strong: bool = False
    href: str | None = None


def percent(part: int, whole: int) -> str:
    """A share as text; a dash if the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def bars(rows: Sequence[Bar], whole: int) -> Markup:
    """Horizontal bars, the longest over the full width, with counts and shares of the whole."""
    longest = max((row.count for row in rows), default=0) or 1
    return el("ul", [_bar(row, whole, longest) for row in rows], class_="bars")


def _bar(row: Bar, whole: int, longest: int) -> Markup:
    drawing = el(
        "svg",
        el("rect", class_="track", width="100%", height="100%", rx="4"),
        el("rect", class_="fill", width=f"{100 * row.count / longest:.2f}%", height="100%", rx="4"),
        class_="bar",
        aria_hidden="true",
    )
    inside = [
        el("span", row.name, class_="bar-name", title=row.code),
        el("span", f"{row.count:,}", class_="bar-count"),
        el("span", percent(row.count, whole), class_="bar-share"),
        drawing,
    ]
    kind = "bar-row strong" if row.strong else "bar-row"
    href = row.href if row.count else None
    return el("li", el("a" if href else "div", inside, class_=kind, href=href))


_SIZE, _LEFT, _TOP = 220, 52, 12


def reliability(title: str, data: Reliability) -> Markup:
    """Accuracy over confidence. On the diagonal both are equal."""
    if not data.total or data.error is None:
        return quiet(f"{title}: no gold annotations.")
    most = max(data.count)
    ticks = [_tick(n / 4) for n in range(5)]
    dots = []
    for n in range(BINS):
        if not data.count[n]:
            continue
        x, y = data.confidence[n] / data.count[n], data.correct[n] / data.count[n]
        radius = 3 + 9 * (data.count[n] / most) ** 0.5
        dots.append(
            el(
                "g",
                el("title", f"confidence {x:.2f}: {data.correct[n]} of {data.count[n]} correct"),
                el("line", class_="gap", x1=_x(x), x2=_x(x), y1=_y(x), y2=_y(y)),
                el("circle", class_="dot", cx=_x(x), cy=_y(y), r=f"{radius:.1f}"),
            )
        )
    middle = _LEFT + _SIZE / 2
    drawing = el(
        "svg",
        ticks,
        el("line", class_="diagonal", x1=_x(0), y1=_y(0), x2=_x(1), y2=_y(1)),
        dots,
        el("text", "confidence", class_="axis", x=middle, y=_TOP + _SIZE + 36),
        el(
            "text",
            "share correct",
            class_="axis",
            transform=f"translate(11 {_TOP + _SIZE / 2}) rotate(-90)",
        ),
        class_="plot",
        viewBox=f"0 0 {_LEFT + _SIZE + 14} {_TOP + _SIZE + 44}",
        role="img",
        aria_label=f"{title}: expected calibration error {data.error:.3f} over {data.total}",
    )
    note = el(
        "figcaption",
        el("strong", title),
        el("span", f"{data.total:,} answers · calibration error {data.error:.3f}"),
    )
    return el("figure", drawing, note, class_="reliability")


def _x(value: float) -> str:
    return f"{_LEFT + value * _SIZE:.1f}"


def _y(value: float) -> str:
    return f"{_TOP + (1 - value) * _SIZE:.1f}"


def _tick(value: float) -> list[Markup]:
    name = f"{value:g}"
    return [
        el("line", class_="grid", x1=_x(0), x2=_x(1), y1=_y(value), y2=_y(value)),
        el("line", class_="grid", x1=_x(value), x2=_x(value), y1=_y(0), y2=_y(1)),
        el("text", name, class_="tick", x=_LEFT - 8, y=_y(value), dy="0.32em", text_anchor="end"),
        el("text", name, class_="tick", x=_x(value), y=_TOP + _SIZE + 17, text_anchor="middle"),
    ]
