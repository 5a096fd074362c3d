"""`absa review`: human review of a finished run."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli import options
from absa.cli.options import UsageError, console, facts_table, print_json, print_text
from absa.show import printable

if TYPE_CHECKING:
    from absa.cli.keys import Keyboard
    from absa.review import Item, Queue, Summary
    from absa.review.session import Session

_POLARITY_KEYS = {"p": "positive", "n": "negative", "u": "neutral"}
_LABEL_KEYS = {**_POLARITY_KEYS, "m": "mixed"}


def review(
    directory: options.RunDir,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all texts, not only doubtful ones.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many texts.")] = None,
    uid: Annotated[str | None, typer.Option(help="Only the text with this identifier.")] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Who reviews. Default: your user.")
    ] = None,
    as_list: Annotated[
        bool,
        typer.Option(
            "--list",
            help="Print the queue, one text per line, and exit. Reviewed ones stay, marked.",
        ),
    ] = False,
    as_summary: Annotated[
        bool, typer.Option("--summary", help="Print what was decided so far and exit.")
    ] = False,
    export: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="gold FILE", help="Write the reviewed texts as gold and exit."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --summary: print it as JSON.")
    ] = False,
) -> None:
    """Correct a finished run by hand and export the result as gold.

    Shows the texts that a person should see, the most doubtful first: a speaker of the debate was
    overruled, the label contradicts the aspects, conflicts were left open, or an adoption was
    blocked; then the tenth of the run with the lowest confidences. --list says why each is there.
    Every decision is written to reviews.jsonl in the run directory at once; the same command goes
    on where you stopped. The run's own files are never changed.
    """
    from absa.review import Queue, export_gold, summarise

    if sum((as_list, as_summary, export is not None)) > 1:
        raise UsageError("use only one of --list, --summary and --export")
    if export is not None and export[0] != "gold":
        raise UsageError(f"--export {export[0]}: not a known export; write --export gold FILE")
    queue = Queue(directory)
    if export is not None:
        print_text(f"{export_gold(queue, export[1])} reviewed texts -> {export[1]}")
        return
    if as_summary:
        _print_summary(summarise(queue), as_json)
        return
    items = _chosen(queue, everything, uid, limit)
    if as_list:
        for item in items:
            print_text(_plain(queue, item))
        return
    if uid is None and all(queue.finished(item) for item in items):
        print_text("there is nothing to review" + ("" if items else "; --all shows every text"))
        return
    _interactive(queue, items, name)


def _chosen(queue: Queue, everything: bool, uid: str | None, limit: int | None) -> list[Item]:
    items = queue.chosen(everything=everything, uid=uid)
    if uid is not None and not items:
        raise UsageError(f"--uid {uid}: no text with this identifier in {queue.directory}")
    finished = [item for item in items if queue.finished(item)]
    # Finished texts come first, so that b goes back to them.
    return [*finished, *[item for item in items if not queue.finished(item)][:limit]]


def _plain(queue: Queue, item: Item) -> str:

    state = "reviewed" if queue.finished(item) else "begun" if queue.review(item) else "pending"
    if not item.reasons and state == "pending":
        state = "undisputed"
    codes = ",".join(reason.code for reason in item.reasons) or "-"
    why = "; ".join(reason.detail for reason in item.reasons) or "-"
    parts = (item.uid, codes, item.output.text, why)
    return "\t".join((state, *(printable(part) for part in parts)))


def _print_summary(summary: Summary, as_json: bool) -> None:
    if as_json:
        print_json(summary.model_dump_json())
        return
    from absa.cli.data import share_text

    people = ", ".join(f"{printable(who)} {n}" for who, n in summary.reviewers.items())
    rows = [
        ("texts", f"{summary.texts:,}"),
        ("reviewed", f"{summary.reviewed:,}" + (f" ({people})" if people else "")),
        ("begun", f"{summary.begun:,}"),
        ("pending", f"{summary.pending:,} wait for a person"),
        *((name, f"{n:,}") for name, n in summary.decisions.model_dump().items()),
        ("same tuples", f"{share_text(summary.same_tuples)} of the reviewed texts"),
        ("same label", f"{share_text(summary.same_label)} of the reviewed texts"),
        ("precision", f"{share_text(summary.precision)} of the run's tuples stand"),
        ("recall", f"{share_text(summary.recall)} of the person's tuples were the run's"),
    ]
    if summary.outdated:
        rows.append(("outdated", f"{', '.join(map(printable, summary.outdated))}: the run changed"))
    console().print(facts_table(rows))


# At the terminal ---------------------------------------------------------------------------------


def _interactive(queue: Queue, items: list[Item], name: str | None) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("a review needs a terminal; --list prints the queue, --summary the counts")
    from absa.cli.keys import Keyboard
    from absa.review.session import Session

    out = console()
    with queue.file.open():
        session = Session(queue, items, name or getpass.getuser())
        out.set_alt_screen(True)
        try:
            with Keyboard() as keyboard:
                _go_through(session, keyboard)
        finally:
            out.set_alt_screen(False)
    left = sum(not queue.finished(item) for item in items)
    print_text(f"{len(items) - left} of {len(items)} texts reviewed -> {queue.file.path}")
    if left:
        print_text("repeat the command to continue")


def _go_through(session: Session, keyboard: Keyboard) -> None:
    from absa.cli.review_screen import show_session

    out = console()
    while not session.done:
        show_session(out, session)
        match keyboard.key():
            case "q" | "":
                return
            case "?":
                show_session(out, session, help=True)
                keyboard.key()
            case "f":
                if polarity := _choice(session, keyboard, "flip to", _POLARITY_KEYS):
                    session.flip(polarity)
            case "l":
                if label := _choice(session, keyboard, "label", _LABEL_KEYS):
                    session.set_label(label)
            case "a":
                _add(session, keyboard)
            case "up" | "i":
                session.move(-1)
            case "down" | "j":
                session.move(1)
            case "k":
                session.keep()
            case "d":
                session.drop()
            case "u":
                session.undo()
            case "n" | "enter":
                session.next()
            case "s":
                session.skip()
            case "b":
                session.back()
            case number if number.isdecimal():
                session.move(int(number) - 1 - session.row)
            case key:
                session.message = f"{key!r} does nothing; ? shows the keys"


def _choice(session: Session, keyboard: Keyboard, what: str, keys: dict[str, str]) -> str | None:
    """Read one of several words by its key; any other key cancels."""
    from absa.cli.review_screen import show_session

    ways = "  ".join(f"{key} {word}" for key, word in keys.items())
    session.message = ""
    show_session(console(), session, prompt=f"{what}:  {ways}  (other keys: cancel)")
    return keys.get(keyboard.key())


def _add(session: Session, keyboard: Keyboard) -> None:
    """Ask for the parts of a tuple; those of the current candidate are the defaults."""
    from absa.cli.review_screen import show_session

    at = session.candidate
    offered = at if at is not None and not at.in_result else None
    session.message = ""
    show_session(console(), session, prompt="add a tuple; an empty line cancels")
    aspect = _typed(keyboard, "aspect", offered.aspect if offered else "")
    if not aspect:
        return
    if offered is not None and aspect == offered.aspect:
        polarity: str | None = offered.polarity
    else:
        polarity = _choice(session, keyboard, f"{aspect} is", _POLARITY_KEYS)
    if polarity is None:
        return
    known_evidence = offered.evidence if offered and offered.is_grounded else None
    evidence = _typed(keyboard, "evidence, words of the text", known_evidence or "")
    if evidence:
        session.add(aspect, polarity, evidence)


def _typed(keyboard: Keyboard, what: str, offered: str) -> str:
    shown = f" [{offered}]" if offered else ""
    return keyboard.line(f"{what}{shown}: ") or offered
