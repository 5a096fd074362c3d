"""`absa train`: trains the embedded analyzer on your labelled data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli import options
from absa.cli.options import UsageError, complain, console, print_text
from absa.cli.run import parse_columns

if TYPE_CHECKING:
    from absa.offline.training.own_data import Case


def train(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL", help="The folder of the new model.")
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA", help="Texts with gold annotations, in any format that `absa run` reads."
        ),
    ] = None,
    from_run: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Learn from a run's results, not its gold."),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Leave out texts of --from-run with a less certain tuple (0 to 1). Default: 0.7.",
        ),
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Score on these texts instead of a tenth of DATA."),
    ] = None,
    data_format: options.Format = None,
    columns: options.Column = None,
) -> None:
    """Train the offline analyzer on labels or on a model's answers.

    Without labels, analyze some texts once with a strong model and train on that run (--from-run):
    the offline analyzer learns from the confident answers and reads the other texts without a
    model. Training starts from the shipped models. The result is a folder; use it with
    --set backend.model=MODEL. At the end the command prints pair F1 of the shipped and of the new
    model, on --dev or on a tenth of the data that was not used for training.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from absa.offline.training import own_data
    from absa.offline.training.decision import TooLittleData

    if data is None and from_run is None:
        raise UsageError("nothing to learn from: name DATA, or a run with --from-run")
    if from_run is None and min_confidence is not None:
        raise UsageError("--min-confidence chooses among the texts of --from-run: name a run")
    fields = parse_columns(columns)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; give a folder for the model")
    out.mkdir(parents=True, exist_ok=True)
    with console(stderr=True).status("reading…"):
        cases = _read(data, data_format, fields) if data is not None else []
        if from_run is not None:
            cases += _taught(from_run, min_confidence)
        if dev is None:
            cases, unseen = own_data.hold_out(cases)
        else:
            unseen = _read(dev, data_format, fields)
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
            raise UsageError(f"{data or from_run}: {error}") from error
    print_text(f"trained on {len(cases)} texts -> {out}")
    labels = "" if from_run is None else "; its labels are those of the run"
    where = str(dev) if dev is not None else f"a tenth of the data, not trained on{labels}"
    for score in own_data.score(unseen, out):
        print_text(
            f"{score.lang}: pair F1 {100 * score.shipped:.1f} -> {100 * score.trained:.1f} "
            f"({score.texts} texts of {where})"
        )
        if score.trained < score.shipped:
            complain(
                f"{score.lang}: the new model is worse than the shipped one on these texts."
                " Use the shipped one, or train on more texts, or on texts more like those"
                " that you will analyze."
            )
    print_text(f"use it with --set backend.model={out}")


def _taught(run: Path, least: float | None) -> list[Case]:
    from absa.offline.training import own_data, teacher

    taught = teacher.taught_by(run, teacher.MIN_CERTAINTY if least is None else least)
    print_text(f"{run}: {len(taught.samples)} of {taught.texts} texts are sure enough", stderr=True)
    return own_data.read(taught.samples)


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
