"""A real Dask cluster on loopback: a scheduler and workers in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

WORKER_KEY = "key-of-the-workers"


class Cluster:
    """Starts and ends the processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        self._file = folder / "scheduler.json"
        listen = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
        self._scheduler = self._start(
            "dask_scheduler", *listen, "--scheduler-file", str(self._file)
        )

    @property
    def address(self) -> str:
        end = time.monotonic() + 60
        while not self._file.exists() or not self._file.read_text():
            assert time.monotonic() < end, "the scheduler did not start"
            time.sleep(0.05)
        return str(json.loads(self._file.read_text())["address"])

    def add_worker(self) -> None:
        place = ["--host", "127.0.0.1", "--nthreads", "2", "--no-nanny", "--no-dashboard"]
        self.workers.append(
            self._start(
                "dask_worker", "--scheduler-file", str(self._file), *place, "--death-timeout", "60"
            )
        )

    def _start(self, module: str, *args: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{module}-{time.monotonic_ns()}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", *args],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "OPENAI_API_KEY": WORKER_KEY},
            )

    def kill_worker(self) -> None:
        """Without a warning, the oldest one."""
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()

    def kill_scheduler(self) -> None:
        """Without a warning."""
        self._scheduler.kill()
        self._scheduler.wait()

    def close(self) -> None:
        # Killed, not asked: a worker whose scheduler ends at the same moment may never end itself.
        for process in (*self.workers, self._scheduler):
            process.kill()
        for process in (*self.workers, self._scheduler):
            process.wait()

    def logs(self) -> str:
        return "\n".join(p.read_text(errors="replace") for p in self.folder.glob("*.log"))
