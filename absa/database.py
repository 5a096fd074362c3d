"""A SQLite file that many coroutines, threads and processes may write to.

Writes go through one thread that puts whatever is waiting into one transaction: a sync per answer
would be slower than the answers. A write's future is done when it is on the disk.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tenacity import retry, retry_if_exception, stop_after_delay, wait_random

CHECK_PLACE = "check that there is space and permission"
_BUSY_S = 60.0
_BATCH = 500
# SQLITE_ERROR: our statements are right, so a table or a column is not what they expect.
_DAMAGE = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR),
    *(sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_MISMATCH),
)


class StorageError(RuntimeError):
    """A file cannot be read or written. What was acknowledged before is safe."""

    def __init__(self, path: Path, why: object, remedy: str, *, is_final: bool = False) -> None:
        """Name the file, what is wrong, and what to do.

        `is_final`: what the file held is lost, so trying again does not help.
        """
        super().__init__(f"{path}: {why}; {remedy}")
        self.path = path
        self.is_final = is_final


def is_damage(error: Exception) -> bool:
    """Whether an error of SQLite says that the content of the file is broken."""
    # The primary code is in the lower byte, whatever the extended one says.
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
    """Let readers and a writer share the file.

    SQLite does not wait for its busy timeout here: of two processes that open a new file at once
    one is told immediately that it is locked.
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
        """Open or create the file. `if_damaged` tells the user what to do about a broken one.

        `is_final`: a broken one cannot be made again from anything else.

        A write waits `gather_s` for others to share its transaction: one of its own costs ten
        times the processor time. `functions` of one value may be used in what is written: they
        are called by the thread that writes, not by the one that asks for it.
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
        """The error of a file whose content cannot be used."""
        return StorageError(self.path, why, self._if_damaged, is_final=self._is_final)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, check_same_thread=False)
        self._connections.append(connection)
        use_wal(connection)
        # FULL syncs each commit: after a power cut nothing that was acknowledged is missing.
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _reader(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = self._connect()
        return found

    def read(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, one after the other."""
        try:
            yield from self._reader().execute(sql, values)
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query."""
        return next(self.read(sql, *values), None)

    def write(self, sql: str, *values: Any) -> Future[None]:
        """Write; the future is done once it is on the disk."""
        pending = _Write(sql, values)
        self._queue.put(pending)
        return pending.done

    def flush(self) -> None:
        """Wait until what is waiting is written."""
        self.write("SELECT 1").result()

    def close(self) -> None:
        """Write what is waiting and close."""
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
        """One transaction for the batch: all of it is on the disk, or none and everyone is told."""
        # What nobody waits for any more is written all the same.
        awaited = [write.done for write in batch if write.done.set_running_or_notify_cancel()]
        try:
            with connection:
                for write in batch:
                    connection.execute(write.sql, write.values)
        except Exception as error:  # this thread must live: others wait for it
            known = isinstance(error, sqlite3.Error | OSError)
            for done in awaited:
                done.set_exception(self._failure(error) if known else error)
        else:
            for done in awaited:
                done.set_result(None)


class _Write:
    def __init__(self, sql: str, values: tuple[Any, ...]) -> None:
        self.sql = sql
        self.values = values
        self.done: Future[None] = Future()
