"""`status.json`: how far a run is, for whoever looks on while it goes on.

Written every second and gone when the process ends in order; one that lies there although nobody
holds the directory's lock was left by a process that was killed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from absa.runs.plan import Control, Engine, Progress
from absa.runs.pool import Worker

FILE = "status.json"
EVERY_S = 1.0


class StatusFile:
    """Writes the file."""

    def __init__(self, out: Path, engine: Engine) -> None:
        """Of the run in `out`, which starts now."""
        self._path = out / FILE
        self._engine = engine
        self._started = time.monotonic()

    def write(self, progress: Progress, control: Control, workers: Sequence[Worker]) -> None:
        """Write it whole. It is no record: nothing waits for the disk, and a full one is no end."""
        facts = {
            "pid": os.getpid(),
            "engine": self._engine,
            "elapsed_s": round(time.monotonic() - self._started, 3),
            "stopping": control.reason if control.draining else None,
            "progress": asdict(progress),
            "workers": [asdict(worker) for worker in workers],
        }
        part = self._path.with_name(f"{FILE}.part")
        with suppress(OSError):
            part.write_text(json.dumps(facts, ensure_ascii=False), encoding="utf-8")
            os.replace(part, self._path)

    def remove(self) -> None:
        """The run has ended, and its manifest says how."""
        for path in (self._path, self._path.with_name(f"{FILE}.part")):
            path.unlink(missing_ok=True)
