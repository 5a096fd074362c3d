"""`absa memory`: shows and prunes episodes, and learns from reviews."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from absa.cli.options import console, print_json, print_text

if TYPE_CHECKING:
    from absa.schemas.memory import Episode

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that memory.path names.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, nothing else.")]


app = typer.Typer(no_args_is_help=True, help="Show or prune the memory of past cases.")


@app.command()
def stats(folder: Folder, as_json: AsJson = False) -> None:
    """Count the episodes, by language, structure, outcome and override."""
    from rich.table import Table

    from absa.memory import open_folder
    from absa.memory import stats as count

    with open_folder(folder) as store:
        counts = count(store)
    if as_json:
        print_json(counts)
        return
    table = Table("what", "which", "episodes", box=None, pad_edge=False)
    table.add_row("all", "", str(counts["episodes"]))
    for kind in ("lang", "structure", "outcome", "override"):
        for name, number in sorted(counts[kind].items(), key=lambda item: (-item[1], item[0])):
            table.add_row(kind, name, str(number))
    console().print(table)


@app.command()
def learn(
    folder: Folder,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run that a person reviewed.")],
) -> None:
    """Learn from `absa review`: what a person kept or took back decides how a case went."""
    from absa.memory import open_folder
    from absa.nodes import memory
    from absa.review import Queue

    with open_folder(folder) as store:
        learned = [
            memory.learn(store, item.output, memory.by_person(item.output, item.reviewed(review)))
            for item, review in Queue(run).reviewed()
        ]
    print_text(f"{sum(learned)} episodes learned from {len(learned)} reviewed texts")


@app.command()
def show(
    folder: Folder,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, the latest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the latest episodes."""
    from rich.table import Table

    from absa.memory import episodes, open_folder

    with open_folder(folder) as store:
        latest = sorted(episodes(store), key=lambda e: e.at, reverse=True)[:limit]
    if as_json:
        for episode in latest:
            print_json(episode.model_dump_json())
        return
    table = Table(
        *("when", "case", "Stage 1", "final", "risks", "override", "outcome"),
        box=None,
        pad_edge=False,
    )
    for episode in latest:
        table.add_row(*_row(episode))
    console().print(table)


def _row(episode: Episode) -> tuple[str, ...]:
    from datetime import UTC, datetime

    signature = episode.signature
    when = datetime.fromtimestamp(episode.at / 1e9, UTC)
    after = "–" if episode.risks_after is None else str(episode.risks_after)
    return (
        when.strftime("%Y-%m-%d %H:%M:%S"),
        f"{signature.lang}, {'+'.join(signature.structures)}, {signature.length}",
        " ".join(f"{t.aspect}:{t.polarity}" for t in episode.stage1),
        " ".join(f"{t.aspect}:{t.polarity}" for t in episode.final),
        f"{episode.risks_before} → {after}",
        episode.override,
        episode.outcome,
    )


@app.command()
def prune(
    folder: Folder,
    keep: Annotated[int, typer.Option(min=0, help="How many of the latest to keep.")],
) -> None:
    """Delete old episodes."""
    from absa.memory import open_folder
    from absa.memory import prune as delete_old

    with open_folder(folder) as store:
        forgotten = delete_old(store, keep)
    print_text(f"{forgotten} episodes deleted, the latest {keep} kept")
