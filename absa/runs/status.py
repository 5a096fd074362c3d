"""`status.json`: the progress of a running run, for other processes.

It is written every second and deleted when the process ends normally. A status file in a directory
that is not locked was left by a killed process.
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
        self._path = out / FILE
        self._engine = engine
        self._started = time.monotonic()

    def write(self, progress: Progress, control: Control, workers: Sequence[Worker]) -> None:
        """Write the file atomically, without sync. A write error is ignored."""
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
        """Delete the file, because the run has ended and its manifest has the result."""
        for path in (self._path, self._path.with_name(f"{FILE}.part")):
            path.unlink(missing_ok=True)
