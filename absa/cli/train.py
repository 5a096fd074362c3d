"""`absa train`: the embedded analyser learns from one's own labelled data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli.options import UsageError, complain, console, print_text
from absa.cli.run import parse_columns

if TYPE_CHECKING:
    from absa.offline.training.own_data import Case

HELP = """Train the offline analyzer on your labelled data.

Training starts from the shipped models. The result is a folder; use it with
--set backend.model=MODEL. At the end the command shows pair F1 of the shipped and of the new model,
on --dev or on a tenth of the data that was kept out of training."""
EPILOG = "Example: absa train mine.jsonl --out models/mine"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", help=HELP, epilog=EPILOG)(train)


def train(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="Texts with gold annotations, in any format that `absa run` reads."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL", help="The folder of the new model.")
    ],
    dev: Annotated[
        Path | None,
        typer.Option(
            "--dev", metavar="FILE", help="Score on these texts instead of a tenth of DATA."
        ),
    ] = None,
    data_format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="Format of the data. Default: recognised by content."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="The column of a field, for example text=review. May be repeated.",
        ),
    ] = None,
) -> None:
    """Read, train, score."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from absa.offline.training import own_data
    from absa.offline.training.decision import TooLittleData

    columns = parse_columns(column)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; name a folder for the model")
    out.mkdir(parents=True, exist_ok=True)
    with console(stderr=True).status("reading…"):
        cases = _read(data, data_format, columns)
        if dev is None:
            cases, unseen = own_data.hold_out(cases)
        else:
            unseen = _read(dev, data_format, columns)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("training", total=1.0)
        try:
            own_data.train(
                cases,
                out,
                lambda what, share: bar.update(task, description=what, completed=share),
            )
        except TooLittleData as error:
            raise UsageError(f"{data}: {error}") from error
    print_text(f"trained on {len(cases)} texts -> {out}")
    where = str(dev) if dev is not None else "a tenth of the data, not trained on"
    for score in own_data.score(unseen, out):
        print_text(
            f"{score.lang}: pair F1 {100 * score.shipped:.1f} -> {100 * score.trained:.1f} "
            f"({score.texts} texts of {where})"
        )
    print_text(f"use it with --set backend.model={out}")


def _read(path: Path, data_format: str | None, columns: Mapping[str, str] | None) -> list[Case]:
    from absa.data import BadLine, read_samples
    from absa.offline.training import own_data

    rows = list(read_samples(path, data_format, columns))
    for row in rows:
        if isinstance(row, BadLine):
            complain(str(row))
    cases = own_data.read(row for row in rows if not isinstance(row, BadLine))
    if not cases:
        raise UsageError(f"{path}: no text has gold aspects to learn from")
    return cases
