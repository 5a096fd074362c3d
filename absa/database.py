"""A SQLite file that many coroutines, threads and processes may write to.

Writes go through one thread that puts whatever is waiting into one transaction: a sync per answer
would be slower than the answers. A write's future is done when it is on the disk.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

_BUSY_S = 60.0
_BATCH = 500


class Database:
    """One SQLite file: grouped, synced writes; reads from any thread."""

    def __init__(self, path: Path, schema: str) -> None:
        """Open or create the file."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        with self._connect() as connection:
            connection.executescript(schema)
        self._writer = threading.Thread(target=self._write_all, name=f"write {path.name}", daemon=True)
        self._writer.start()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        # FULL syncs each commit: after a power cut nothing that was acknowledged is missing.
        connection.execute("PRAGMA synchronous=FULL")
        self._connections.append(connection)
        return connection

    def _reader(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = self._connect()
        return found

    def read(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, one after the other."""
        return iter(self._reader().execute(sql, values))

    def one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query."""
        row: tuple[Any, ...] | None = self._reader().execute(sql, values).fetchone()
        return row

    def write(self, sql: str, *values: Any) -> Future[None]:
        """Write; the future is done once it is on the disk."""
        pending = _Write(sql, values)
        self._queue.put(pending)
        return pending.done

    def close(self) -> None:
        """Write what is waiting and close."""
        self._queue.put(None)
        self._writer.join()
        for connection in self._connections:
            connection.close()

    def _write_all(self) -> None:
        connection = self._connect()
        open_ = True
        while open_:
            batch = [self._queue.get()]
            while len(batch) < _BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            open_ = None not in batch
            _commit(connection, [write for write in batch if write is not None])


class _Write:
    def __init__(self, sql: str, values: tuple[Any, ...]) -> None:
        self.sql = sql
        self.values = values
        self.done: Future[None] = Future()


def _commit(connection: sqlite3.Connection, batch: list[_Write]) -> None:
    """One transaction for the batch: all of it is on the disk, or none and everyone is told."""
    if not batch:
        return
    try:
        with connection:
            for write in batch:
                connection.execute(write.sql, write.values)
    except sqlite3.Error as error:
        for write in batch:
            write.done.set_exception(error)
    else:
        for write in batch:
            write.done.set_result(None)
