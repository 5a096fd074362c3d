"""How a run is doing, read from its directory by somebody else. Nothing is written there."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from absa.runs.engine import MANIFEST
from absa.runs.journal import FILE as JOURNAL
from absa.runs.journal import Totals, unpack
from absa.runs.lock import is_locked
from absa.runs.plan import Progress
from absa.runs.pool import Worker
from absa.runs.replay import NoRun
from absa.runs.status import EVERY_S
from absa.runs.status import FILE as STATUS

# A status this old is looked into: its process may have been killed.
_STALE_S = 3 * EVERY_S
# Samples whose calls say how long a node takes.
_LATEST = 50

State = Literal["starting", "running", "stopped", "finished", "unfinished"]


@dataclass(frozen=True)
class Seen:
    """A run at one moment."""

    state: State
    progress: Progress
    elapsed_s: float = 0.0
    engine: str = "local"
    # Why it takes no more samples, if it does not.
    stopping: str | None = None
    workers: tuple[Worker, ...] = ()

    @property
    def goes_on(self) -> bool:
        """Whether it is worth another look."""
        return self.state in ("starting", "running")


def look(directory: Path) -> Seen:
    """How the run in a directory is doing.

    Raises:
        NoRun: There is none.
    """
    if not (directory / JOURNAL).is_file():
        raise NoRun(f"{directory} holds no run: there is no {JOURNAL} in it")
    status = _read(directory / STATUS)
    if status is not None:
        return _seen(status, "running" if _is_alive(directory) else "stopped")
    manifest = _read(directory / MANIFEST)
    if manifest is not None and manifest["status"] == "finished":
        return Seen("finished", _counted(manifest))
    if is_locked(directory):
        return Seen("starting", _counted(manifest))
    # Without a manifest it was killed before it had read the data.
    return Seen("unfinished" if manifest else "stopped", _counted(manifest))


def latencies(directory: Path) -> dict[str, float]:
    """The median milliseconds of a call of each node, over the latest samples."""
    sql = "SELECT traces FROM samples WHERE status = 'done' ORDER BY rowid DESC LIMIT ?"
    by_node: dict[str, list[float]] = {}
    try:
        uri = f"{(directory / JOURNAL).absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as journal:
            rows = journal.execute(sql, [_LATEST]).fetchall()
    except sqlite3.Error:  # written to at this moment, or about to be removed: next time
        return {}
    for (blob,) in rows:
        for call in map(json.loads, unpack(blob)):
            if not call["cached"]:
                by_node.setdefault(call["node"], []).append(call["latency_ms"])
    return {node: median(times) for node, times in by_node.items()}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def _is_alive(directory: Path) -> bool:
    try:
        age = time.time() - (directory / STATUS).stat().st_mtime
    except FileNotFoundError:  # it ends at this moment
        return True
    return age < _STALE_S or is_locked(directory)


def _seen(status: dict[str, Any], state: State) -> Seen:
    progress = status["progress"]
    return Seen(
        state,
        Progress(**{**progress, "totals": Totals(**progress["totals"])}),
        status["elapsed_s"],
        status["engine"],
        status["stopping"],
        tuple(Worker(**worker) for worker in status["workers"]),
    )


def _counted(manifest: dict[str, Any] | None) -> Progress:
    """What the manifest says; it knows no rate."""
    if manifest is None:
        return Progress(total=0, totals=Totals(), bad_lines=0, started_with=0)
    counts, usage = manifest["counts"], manifest["usage"]
    totals = Totals(
        done=counts["done"],
        failed=counts["failed"],
        calls=usage["calls"],
        cached=usage["cached_calls"],
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        cost_usd=usage["cost_usd"],
    )
    return Progress(counts["samples"], totals, counts["bad_lines"], totals.done + totals.failed)
