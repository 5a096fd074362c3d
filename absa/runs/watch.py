"""Reads the progress of a run from its directory, from another process. Writes nothing."""

from __future__ import annotations

import sqlite3
import time
import zlib
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import TypeAdapter

from absa.runs.directory import MANIFEST, RunDirectory, not_a_run
from absa.runs.journal import FILE as JOURNAL
from absa.runs.journal import Totals, unpack
from absa.runs.lock import is_locked
from absa.runs.plan import Progress
from absa.runs.pool import Worker
from absa.runs.status import EVERY_S
from absa.runs.status import FILE as STATUS
from absa.schemas.json_text import parse_json

# The age at which a status is checked, because its process may have been killed.
_STALE_S = 3 * EVERY_S
# The number of samples whose latencies are shown.
_LATEST = 50

State = Literal["starting", "running", "stopped", "finished", "unfinished"]


@dataclass(frozen=True)
class Seen:
    """The state of a run at one moment."""

    state: State
    progress: Progress
    elapsed_s: float = 0.0
    engine: str = "local"
    # Why the run starts no more samples, else None.
    stopping: str | None = None
    workers: tuple[Worker, ...] = ()

    @property
    def goes_on(self) -> bool:
        """Whether the run is still in progress."""
        return self.state in ("starting", "running")


_SEEN = TypeAdapter(Seen)
_PROGRESS = TypeAdapter(Progress)


def look(directory: Path) -> Seen:
    """Read the state of the run in a directory.

    Raises:
        NoRun: It is not a run directory, or its manifest cannot be read.
    """
    if not (directory / JOURNAL).is_file():
        raise not_a_run(directory)
    if (status := _live_status(directory)) is not None:
        return status
    # Read before the manifest: at first the manifest is still the one of an earlier start.
    starting = is_locked(directory)
    recorded = _recorded(RunDirectory(directory))
    return replace(recorded, state="starting") if starting else recorded


def latencies(directory: Path) -> dict[str, float]:
    """The median latency of each node in milliseconds, over the latest samples."""
    sql = "SELECT traces FROM samples WHERE status = 'done' ORDER BY rowid DESC LIMIT ?"
    by_node: dict[str, list[float]] = {}
    try:
        uri = f"{(directory / JOURNAL).absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as journal:
            rows = journal.execute(sql, [_LATEST]).fetchall()
        for (blob,) in rows:
            for call in map(parse_json, unpack(blob)):
                if not call["cached"]:
                    by_node.setdefault(call["node"], []).append(call["latency_ms"])
        return {node: median(times) for node, times in by_node.items()}
    except sqlite3.Error:  # being written or removed at this moment; try again at the next look
        return {}
    except (zlib.error, ValueError, TypeError, KeyError):  # damaged: `absa verify` says where
        return {}


def _live_status(directory: Path) -> Seen | None:
    """The status that the process of the run wrote; empty if it cannot be read."""
    try:
        status = parse_json((directory / STATUS).read_text(encoding="utf-8"))
        seen = _SEEN.validate_python({**status, "state": "running"})
    except (OSError, ValueError, TypeError):
        return None
    return seen if _is_alive(directory) else replace(seen, state="stopped")


def _is_alive(directory: Path) -> bool:
    try:
        age = time.time() - (directory / STATUS).stat().st_mtime
    except FileNotFoundError:  # the process ends at this moment
        return True
    return age < _STALE_S or is_locked(directory)


def _recorded(run: RunDirectory) -> Seen:
    """The state from the manifest, which has no rate."""
    if not run.has(MANIFEST):
        # The run was killed before it had read the data.
        return Seen("stopped", Progress(total=0, totals=Totals(), bad_lines=0, started_with=0))
    manifest = run.manifest
    try:
        counts, usage = manifest["counts"], manifest["usage"]
        names = ("calls", "prompt_tokens", "completion_tokens", "cost_usd")
        totals = {
            "done": counts["done"],
            "failed": counts["failed"],
            "cached": usage["cached_calls"],
            **{name: usage[name] for name in names},
        }
        progress = _PROGRESS.validate_python(
            {
                "total": counts["samples"],
                "totals": totals,
                "bad_lines": counts["bad_lines"],
                "started_with": counts["done"] + counts["failed"],
            }
        )
        return Seen("finished" if manifest["status"] == "finished" else "unfinished", progress)
    except (ValueError, KeyError, TypeError) as error:
        raise run.not_a_manifest(repr(error)) from error
