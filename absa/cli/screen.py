"""Prints one analyzed text: marked text, table, label, and the agents' changes.

Everything is readable without colour. Below the text, each mark begins with the number of its row:

    사용감은 좋지만 가격은 비싸요.
    1=====   1+++++ 2===   2-----

`=` is the aspect, `+`, `-` and `~` its positive, negative or neutral evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from absa import outcome, show
from absa.schemas.human import CandidateTuple
from absa.schemas.output import FinalAspect, FinalOutput
from absa.schemas.settings import OverrideSettings

STYLES = {"positive": "green", "negative": "red", "neutral": "yellow", "mixed": "magenta"}
SIGNS = {"positive": "+", "negative": "-", "neutral": "~"}
ASPECT_SIGN = "="
KIND_STYLES: dict[str, str] = {
    "changed": "bold cyan",
    "set aside": "dim",
    "refused": "yellow",
    "agreed": "green",
}
# The name of the last decision, by protocol.
_DECISIONS = {"debate": "adoption", "conflict_review": "review", "selective": "second opinion"}
WIDE_ENOUGH_FOR_A_TABLE = 70
NARROW_TABLE = 45


@dataclass(frozen=True)
class Screen:
    """Renders a `FinalOutput` with rich.

    `verbose` adds the gate, the adoption and the Moderator's rules with their numbers.
    """

    output: FinalOutput
    settings: OverrideSettings
    # Wall time; if it was not measured, the sum of the calls' latencies.
    seconds: float | None = None
    verbose: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        yield from marked_text(self.output, width)
        yield Text()
        aspects = self.output.final_result.final_aspects
        if not aspects:
            yield Text("no aspects found", style="dim")
        elif width < NARROW_TABLE:
            yield self._list()
        else:
            yield self._table(origin=width >= WIDE_ENOUGH_FOR_A_TABLE)
        yield Text()
        yield self._decisions()

    def _table(self, *, origin: bool) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
        table.add_column("#", justify="right")
        table.add_column("aspect", overflow="fold", min_width=6)
        table.add_column("polarity", no_wrap=True)
        table.add_column("evidence", overflow="fold", min_width=8)
        table.add_column("confidence", justify="right", no_wrap=True)
        if origin:
            table.add_column("from", no_wrap=True)
        for row, aspect in enumerate(self.output.final_result.final_aspects, start=1):
            table.add_row(
                str(row),
                _aspect(aspect),
                _polarity(aspect.polarity),
                evidence(aspect),
                f"{aspect.confidence:.2f}",
                *([show.origin(aspect, self.output)] if origin else []),
            )
        return table

    def _list(self) -> Group:
        """The same rows for a narrow terminal."""
        blocks: list[Text | Table] = []
        for row, aspect in enumerate(self.output.final_result.final_aspects, start=1):
            head = Text.assemble(f"{row} ", _aspect(aspect), overflow="fold")
            fields = Table.grid(padding=(0, 1))
            fields.add_column(style="dim")
            fields.add_column(overflow="fold")
            polarity = Text.assemble(_polarity(aspect.polarity), f" {aspect.confidence:.2f}")
            fields.add_row("  polarity", polarity)
            fields.add_row("  evidence", evidence(aspect))
            fields.add_row("  from", show.origin(aspect, self.output))
            blocks += [head, fields]
        return Group(*blocks)

    def _decisions(self) -> Table:
        output, settings = self.output, self.settings
        result = output.final_result
        lines = Table.grid(padding=(0, 2))
        lines.add_column(no_wrap=True)
        lines.add_column(overflow="fold")

        def add(head: str, *texts: str | Text, style: str = "bold") -> None:
            for text in texts:
                lines.add_row(Text(head, style), text)
                head = ""

        label = Text.assemble(_polarity(result.label), f" {result.confidence:.2f}: ")
        add("label", label.append(outcome.label_reason(output)))
        add("debate", *map(Text, outcome.debate(output, settings)))
        if not self.verbose:
            add("review", *map(Text, outcome.reviews(output)))
        else:
            for event in show.events(output, settings):
                add(event.kind, Text(str(event)), style=KIND_STYLES[event.kind])
            if head := _DECISIONS.get(output.meta.protocol):
                add(head, Text(show.adoption(output, settings)))
            add("rules", Text(show.rules(output)))
        if person := show.person(output):
            add("person", Text(person))
        add("time", Text(_cost(output, self.seconds), "dim"), style="dim")
        return lines


def _polarity(polarity: str) -> Text:
    return Text(show.printable(polarity), STYLES.get(polarity, ""))


def _aspect(aspect: FinalAspect) -> Text:
    term = Text(show.aspect_name(aspect), f"bold {STYLES.get(aspect.polarity, '')}")
    if aspect.is_implicit and aspect.aspect_term:
        term.append(" (implicit)", "not bold dim")
    if aspect.category and aspect.aspect_term:
        term.append(f" {show.printable(aspect.category)}", "not bold dim")
    return term


def evidence(aspect: FinalAspect | CandidateTuple) -> Text:
    """The evidence, marked if it is not in the text."""
    if not (aspect.evidence or "").strip():
        return Text("none", "dim")
    text = Text(show.printable(str(aspect.evidence)))
    return text if aspect.is_grounded else text.append(" (not in the text)", "bold red")


def _cost(output: FinalOutput, seconds: float | None) -> str:
    usage = output.meta.usage
    backends = dict.fromkeys(f"{c.backend} {c.model or ''}".strip() for c in output.process_trace)
    tokens = usage.prompt_tokens + usage.completion_tokens
    seconds = usage.latency_ms / 1000 if seconds is None else seconds
    parts = [
        f"{seconds:,.1f} s",
        f"{usage.calls} call{'' if usage.calls == 1 else 's'}",
        f"{tokens:,} tokens" if tokens else "",
        ", ".join(map(show.printable, backends)),
    ]
    return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Mark:
    """A mark under the text: the rows it belongs to and the characters it covers."""

    label: str
    sign: str
    style: str
    start: int
    end: int


def marked_text(output: FinalOutput, width: int) -> Iterator[Text]:
    """The text in lines that fit, each with its marks below."""
    units = [c if c == "\n" else show.printable_char(c) for c in output.text.replace("\r\n", " \n")]
    places = show.places(output)
    styles: list[str] = [""] * len(units)
    # Evidence first, so that an aspect inside evidence keeps its own style.
    for place in sorted(places, key=lambda p: p.part == "aspect"):
        look = "bold" if place.part == "aspect" else "underline"
        for at in range(place.start, min(place.end, len(units))):
            styles[at] = f"{look} {STYLES.get(place.polarity, '')}"
    marks = list(_marks(places))
    for start, end in wrap(units, width):
        line = Text(no_wrap=True, overflow="ignore")
        for at in range(start, end):
            line.append(units[at], styles[at])
        line.rstrip()
        yield line
        yield from _mark_lines(marks, units, start, end)


def _marks(places: Sequence[show.Place]) -> Iterator[Mark]:
    """One mark per piece of text. Rows with the same piece share a mark if their numbers fit."""
    rows: dict[tuple[str, str, int, int], list[str]] = {}
    for place in places:
        sign = ASPECT_SIGN if place.part == "aspect" else SIGNS.get(place.polarity, "~")
        key = (sign, STYLES.get(place.polarity, ""), place.start, place.end)
        rows.setdefault(key, []).append(str(place.row))
    for (sign, style, start, end), numbers in rows.items():
        together = ",".join(numbers)
        labels = [together] if len(together) < end - start else numbers
        for label in labels:
            yield Mark(label, sign, style, start, end)


def _mark_lines(marks: Sequence[Mark], units: list[str], start: int, end: int) -> Iterator[Text]:
    """The marks of one line of text, in the fewest lines without overlaps."""
    layers: list[list[tuple[int, int, Mark]]] = []
    for mark in marks:
        first, last = max(mark.start, start), min(mark.end, end)
        if first >= last:
            continue
        column = cell_len("".join(units[start:first]))
        size = max(1, cell_len("".join(units[first:last]).rstrip()))
        for layer in layers:
            if all(column >= c + s or c >= column + size for c, s, _ in layer):
                break
        else:
            layer = []
            layers.append(layer)
        layer.append((column, size, mark))
    for layer in layers:
        line = Text(no_wrap=True, overflow="ignore")
        for column, size, mark in sorted(layer, key=lambda item: item[0]):
            line.append(" " * (column - cell_len(line.plain)))
            label = mark.label if mark.start >= start and len(mark.label) < size else ""
            line.append(label.ljust(size, mark.sign), mark.style)
        yield line


def wrap(units: Sequence[str], width: int) -> Iterator[tuple[int, int]]:
    """Ranges of characters that fit into a width in cells, broken at spaces if possible."""
    start = used = 0
    after_space: int | None = None
    for at, unit in enumerate(units):
        if unit == "\n":
            yield start, at
            start, used, after_space = at + 1, 0, None
            continue
        size = cell_len(unit)
        # A space at the end of a line may exceed the width.
        if used + size > width and unit != " " and at > start:
            cut = at if after_space is None else after_space
            yield start, cut
            start, after_space = cut, None
            used = cell_len("".join(units[cut:at]))
        used += size
        if unit == " ":
            after_space = at + 1
    if start < len(units):
        yield start, len(units)
