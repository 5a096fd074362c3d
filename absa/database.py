"""A SQLite file that many coroutines, threads and processes can write to.

One thread writes and groups all waiting writes into one transaction, because a sync per answer
would be slower than the answers. The future of a write is done when the write is on the disk.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenacity import retry, retry_if_exception, stop_after_delay, wait_random

CHECK_PLACE = "check that there is space and permission"
_BUSY_S = 60.0
_BATCH = 500
# SQLITE_ERROR: the statements are correct, so a table or column of the file is wrong.
_DAMAGE = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR),
    *(sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_MISMATCH),
)


class StorageError(RuntimeError):
    """A file cannot be read or written. Acknowledged writes are not affected."""

    def __init__(self, path: Path, why: object, remedy: str, *, is_final: bool = False) -> None:
        """Name the file, what is wrong, and what to do.

        `is_final`: the content of the file is lost, so a retry does not help.
        """
        super().__init__(f"{path}: {why}; {remedy}")
        self.path = path
        self.is_final = is_final


def is_damage(error: Exception) -> bool:
    """Whether an SQLite error means that the file is damaged."""
    # The primary code is in the lower byte of the extended code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


@retry(
    retry=retry_if_exception(_is_busy),
    stop=stop_after_delay(_BUSY_S),
    wait=wait_random(0.01, 0.05),
    reraise=True,
)
def use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode, so that readers and a writer can share the file.

    SQLite ignores its busy timeout here: if two processes open a new file at once, one of them
    immediately gets the error that the file is locked.
    """
    connection.execute("PRAGMA journal_mode=WAL")


class Database:
    """One SQLite file: grouped, synced writes; reads from any thread.

    Every method raises `StorageError` if the file cannot be used.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        *,
        if_damaged: str,
        is_final: bool = False,
        gather_s: float = 0.0,
        functions: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        """Open or create the file. `if_damaged` is the remedy in the error for a damaged file.

        `is_final`: a damaged file cannot be rebuilt from other files.

        A write waits `gather_s` seconds for others to share its transaction, because a separate
        transaction costs ten times the CPU time. `functions` of one value can be used in SQL; the
        writing thread calls them.
        """
        self.path = path
        self._gather_s = gather_s
        self._if_damaged = if_damaged
        self._is_final = is_final
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = self._connect()
            connection.executescript(schema)
            for name, function in (functions or {}).items():
                connection.create_function(name, 1, function, deterministic=True)
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            raise self._failure(error) from error
        self._writer = threading.Thread(
            target=self._write_all, args=(connection,), name=f"write {path.name}", daemon=True
        )
        self._writer.start()

    def _failure(self, error: Exception) -> StorageError:
        if is_damage(error):
            return self.damaged(error)
        return StorageError(self.path, error, CHECK_PLACE)

    def damaged(self, why: object) -> StorageError:
        """The error for a damaged file."""
        return StorageError(self.path, why, self._if_damaged, is_final=self._is_final)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, check_same_thread=False)
        self._connections.append(connection)
        use_wal(connection)
        # FULL syncs each commit, so a power failure loses no acknowledged write.
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        return connection

    def read(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        try:
            yield from self._reader().execute(sql, values)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query."""
        return next(self.read(sql, *values), None)

    def write(self, sql: str, *values: Any) -> Future[None]:
        """Write. The future is done when the write is on the disk."""
        pending = _Write(sql, values)
        self._queue.put(pending)
        return pending.done

    def flush(self) -> None:
        """Wait until all pending writes are on the disk."""
        self.write("SELECT 1").result()

    def close(self) -> None:
        """Write all pending writes and close."""
        self._queue.put(None)
        self._writer.join()
        self._disconnect()

    def _disconnect(self) -> None:
        for connection in self._connections:
            connection.close()

    def _write_all(self, connection: sqlite3.Connection) -> None:
        open_ = True
        while open_:
            batch = [self._queue.get()]
            if self._gather_s:
                time.sleep(self._gather_s)
            while len(batch) < _BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            open_ = None not in batch
            self._commit(connection, [write for write in batch if write is not None])

    def _commit(self, connection: sqlite3.Connection, batch: list[_Write]) -> None:
        """Commit the batch in one transaction; if it fails, every future of it gets the error."""
        # A cancelled future does not cancel its write.
        awaited = [write.done for write in batch if write.done.set_running_or_notify_cancel()]
        try:
            with connection:
                for write in batch:
                    connection.execute(write.sql, write.values)
        except Exception as error:  # this thread must not end, because others wait for it
            is_expected = isinstance(error, sqlite3.Error | OSError)
            for done in awaited:
                done.set_exception(self._failure(error) if is_expected else error)
        else:
            for done in awaited:
                done.set_result(None)


@dataclass(frozen=True)
class _Write:
    sql: str
    values: tuple[Any, ...]
    done: Future[None] = field(default_factory=Future)
