"""The review screen: a text with its candidates, the agents' statements, and the keys."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.segment import Segment, SegmentLines
from rich.table import Table
from rich.text import Text

from absa.cli.screen import STYLES, WIDE_ENOUGH_FOR_A_TABLE, evidence, marked_text
from absa.review.session import Session
from absa.schemas.human import CandidateTuple, Decision, Flip, Voice
from absa.show import printable, quoted

KEYS = (
    ("k", "keep"),
    ("f", "flip"),
    ("d", "drop"),
    ("a", "add"),
    ("l", "label"),
    ("u", "undo"),
    ("n", "next"),
    ("s", "skip"),
    ("b", "back"),
    ("q", "quit"),
    ("?", "help"),
)
HELP = """\
up, down, j, i   choose a tuple; 1 to 9 choose it by its number
k   keep it: it is right            f   flip it to another polarity
d   drop it from the result         a   add a tuple, or the selected one if it
l   set the label of the text           is not in the result
u   undo the last decision here
n   finish this text; tuples without a decision are kept
s   skip this text for now          b   back to the previous text
q   quit; everything is saved, repeat the command to continue"""
_STAGES = {"stage1": "Stage 1", "debate": "debate", "review": "review"}
# The number of lines that are left for the statements on a very low screen.
_FEWEST_STATEMENTS = 3


def show_session(
    console: Console, session: Session, *, prompt: str = "", help: bool = False
) -> None:
    """Draw the current text."""
    width, height = console.size

    def lines(*parts: RenderableType) -> list[list[Segment]]:
        return console.render_lines(Group(*parts), pad=False)

    above, below = lines(*_above(session, width)), lines(*_below(session, prompt, help))
    room = max(_FEWEST_STATEMENTS, height - len(above) - len(below) - 1)
    statements = lines(*_statements(session))
    if len(statements) > room:
        more = f"  … {len(statements) - room + 1} more lines; a taller window shows them"
        statements = [*statements[: room - 1], *lines(Text(more, "dim"))]
    console.clear()
    console.print(SegmentLines([*above, *statements, *below], new_lines=True))


def _above(session: Session, width: int) -> Iterator[RenderableType]:
    yield _head(session, width)
    for doubt in session.item.reasons:
        yield Text.assemble(("why  ", "bold"), printable(doubt.detail))
    yield Text()
    yield from marked_text(session.item.output, width)
    yield Text()
    yield _table(session, wide=width >= WIDE_ENOUGH_FOR_A_TABLE)
    for added in session.additions:
        yield Text.assemble(
            ("  + ", "bold green"),
            (printable(added.aspect), "bold"),
            " ",
            (added.polarity, STYLES.get(added.polarity, "")),
            f" {quoted(added.evidence)}",
        )
    yield _label(session)


def _head(session: Session, width: int) -> Text:
    state = "reviewed" if session.is_finished else "begun" if session.decisions else "to review"
    left = f"{session.position + 1} of {len(session.items)}  {printable(session.item.uid)}"
    right = f"{state}, by {printable(session.reviewer)}"
    gap = max(2, width - cell_len(left) - cell_len(right))
    return Text.assemble((left, "bold"), " " * gap, (right, "dim"), no_wrap=True)


def _table(session: Session, *, wide: bool) -> RenderableType:
    """The candidates. On a narrow terminal, columns that repeat other parts are left out."""
    if not session.question.candidates:
        return Text("no tuples; press a to add one", "dim")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("", no_wrap=True, width=1)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("aspect", overflow="fold", min_width=6)
    table.add_column("polarity", no_wrap=True)
    if wide:
        table.add_column("evidence", overflow="fold", min_width=8)
        table.add_column("conf", justify="right", no_wrap=True)
    table.add_column("decision", no_wrap=True, min_width=10)
    for number, candidate in enumerate(session.question.candidates):
        sure = f"{candidate.confidence:.2f}" if candidate.confidence is not None else ""
        table.add_row(
            Text(">" if number == session.row else "", "bold not dim"),
            str(number + 1),
            _aspect(candidate),
            Text(candidate.polarity, STYLES.get(candidate.polarity, "")),
            *((evidence(candidate), sure) if wide else ()),
            _decision(session.decision_on(candidate), candidate),
            style="" if candidate.in_result else "dim",
        )
    return table


def _aspect(candidate: CandidateTuple) -> Text:
    term = Text(printable(candidate.aspect), "bold")
    return term.append(" (implicit)", "not bold dim") if candidate.is_implicit else term


def _decision(decision: Decision | None, candidate: CandidateTuple) -> Text:
    if isinstance(decision, Flip):
        return Text(f"-> {decision.polarity}", f"bold {STYLES.get(decision.polarity, '')}")
    if decision is not None:
        return Text(decision.action, "bold")
    return Text("" if candidate.in_result else "left out", "dim")


def _label(session: Session) -> Text:
    before = session.question.label
    line = Text.assemble(
        ("label  ", "bold"),
        (before, STYLES.get(before, "")),
        f" {session.question.confidence:.2f}",
    )
    is_decided = any(decision.action == "label" for decision in session.decisions)
    if (after := session.label) != before or is_decided:
        line.append(" -> ").append(after, f"bold {STYLES.get(after, '')}")
    return line


def _statements(session: Session) -> Iterator[RenderableType]:
    at = session.candidate
    if at is not None and at.said:
        yield Text()
        yield Text.assemble(("said about ", "dim"), (printable(at.aspect), "bold"))
        yield _grid(at.said)
    if session.question.said:
        yield Text()
        yield Text("said about the text", "dim")
        yield _grid(session.question.said)


def _grid(statements: tuple[Voice, ...]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    before = ""
    for statement in statements:
        stage = _STAGES[statement.stage]
        says = Text(printable(statement.says))
        if statement.evidence:
            says.append(f" {quoted(statement.evidence)}", "dim")
        if statement.confidence is not None:
            says.append(f" {statement.confidence:.2f}", "dim")
        grid.add_row("" if stage == before else f"  {stage}", printable(statement.who), says)
        before = stage
    return grid


def _below(session: Session, prompt: str, help: bool) -> Iterator[RenderableType]:
    yield Text()
    if help:
        yield from map(Text, HELP.splitlines())
        yield Text("any key goes back", "dim")
        return
    if session.message:
        yield Text(printable(session.message), "bold yellow")
    if prompt:
        yield Text(prompt, "bold")
    else:
        yield Text(" ").join(Text.assemble((key, "bold cyan"), f" {does}") for key, does in KEYS)
