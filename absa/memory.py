"""Opens the store of the episodes: in this process, in a SQLite file, or in PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, Item, Op, PutOp, Result
from langgraph.store.memory import InMemoryStore
from typing_extensions import override

from absa.database import CHECK_PLACE, StorageError, is_damage, use_wal
from absa.nodes.forks import ForkSafeLock, abandon, renew_after_fork
from absa.nodes.memory import EPISODES, INDEX, forgetting, index_of, require_readable
from absa.schemas.errors import InputError
from absa.schemas.memory import Episode
from absa.schemas.settings import MemorySettings

FILE = "memory.sqlite"
URL = "ABSA_MEMORY_URL"
_IF_DAMAGED = "restore it from a backup, or delete it to start with an empty memory"
_PAGE = 1000
# Timeout of a database connection in seconds.
_PATIENCE = 10


@contextmanager
def open_memory(settings: MemorySettings) -> Iterator[BaseStore | None]:
    """The store of the settings, None without memory. The context manager closes it.

    Raises:
        InputError: It cannot be opened.
    """
    if settings.condition == "off":
        yield None
    elif settings.store == "sqlite":
        folder = Path(str(settings.path))
        with closing(_PerProcessStore(lambda: _sqlite(folder, create=True))) as store:
            yield store
    elif settings.store == "postgres":
        with closing(_PerProcessStore(_postgres)) as store:
            yield store
    else:
        yield InMemoryStore()


class _PerProcessStore(BaseStore):
    """A store that opens a new connection in a forked process."""

    def __init__(self, open_store: Callable[[], AbstractContextManager[BaseStore]]) -> None:
        self._open_store = open_store
        self._lock = ForkSafeLock()
        self._begin()
        renew_after_fork(self)
        self._current()

    def _begin(self) -> None:
        self._opened = ExitStack()
        self._store: BaseStore | None = None

    def renew(self) -> None:
        abandon(self._opened, self._store)
        self._begin()

    def _current(self) -> BaseStore:
        with self._lock:
            if self._store is None:
                self._store = self._opened.enter_context(self._open_store())
            return self._store

    def close(self) -> None:
        self._opened.close()

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._current().batch(ops)

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._current().abatch(ops)


@contextmanager
def open_folder(folder: Path) -> Iterator[BaseStore]:
    """Open the memory in an existing folder.

    Raises:
        InputError: The folder has no memory, or it cannot be opened.
    """
    with _sqlite(folder, create=False) as store:
        yield store


class _CheckedStore(BaseStore):
    """A store in a SQLite file whose errors name the file and what to do.

    Every method of `BaseStore` goes through `batch`.
    """

    def __init__(self, store: BaseStore, file: Path) -> None:
        self._store = store
        self._file = file

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations.

        Raises:
            StorageError: The file cannot be read or written, or an item in it is damaged.
        """
        try:
            results = self._store.batch(ops)
            for result in results:
                for item in result if isinstance(result, list) else [result]:
                    if isinstance(item, Item):
                        require_readable(item)
        except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
            raise self._failure(error) from error
        return results

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, ops)

    def _failure(self, error: Exception) -> StorageError:
        # LangGraph wraps some errors of SQLite, and adds the statement.
        reason = error.__cause__ if isinstance(error.__cause__, sqlite3.Error) else error
        if isinstance(reason, sqlite3.Error) and not is_damage(reason):
            return StorageError(self._file, reason, CHECK_PLACE)
        why = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
        return StorageError(self._file, f"the memory is damaged ({why})", _IF_DAMAGED)


@contextmanager
def _sqlite(folder: Path, *, create: bool) -> Iterator[BaseStore]:
    from langgraph.store.sqlite import SqliteStore

    file = folder / FILE
    if not create and not file.is_file():
        raise InputError(f"{folder} has no memory: {FILE} is missing")
    with ExitStack() as opened:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            connection = opened.enter_context(
                closing(sqlite3.connect(file, check_same_thread=False, isolation_level=None))
            )
            use_wal(connection)
            inner = SqliteStore(connection)
            inner.setup()
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{file} cannot be used as a memory: {error}") from error
        yield _CheckedStore(inner, file)


@contextmanager
def _postgres() -> Iterator[BaseStore]:
    url = reachable_postgres(URL, "memory.store: postgres")
    import psycopg
    from langgraph.store.postgres import PostgresStore

    with ExitStack() as opened:
        try:
            store = opened.enter_context(
                PostgresStore.from_conn_string(url, pool_config={"min_size": 1})
            )
            store.setup()
        except psycopg.Error as error:
            raise _unusable(URL, url, error) from None
        yield store


def reachable_postgres(name: str, wanted_by: str) -> str:
    """The address of the database in the environment variable `name`, after a test connection.

    Raises:
        InputError: The variable is not set, or the connection fails.
    """
    try:
        import psycopg
    except ImportError as error:
        raise InputError(
            f"{wanted_by} needs more packages: pip install 'absa-debate-graph[postgres]'"
        ) from error
    url = os.environ.get(name)
    if not url:
        raise InputError(
            f"{wanted_by} needs a database: set the environment variable {name} to its address"
        )
    try:
        # A pool would retry and not report the reason.
        psycopg.connect(url, connect_timeout=_PATIENCE).close()
    except psycopg.Error as error:
        raise _unusable(name, url, error) from None
    return url


def _unusable(name: str, url: str, error: Exception) -> InputError:
    """The error. Raise it `from None`, because a traceback would show the hidden password."""
    why = _without_secrets(str(error), url)
    return InputError(f"the database that {name} names cannot be used: {why}")


def _without_secrets(words: str, url: str) -> str:
    """The driver's message, unless it repeats a part of the address that can be a password."""
    hidden = re.split(r"[:/@?#&]", url.partition("://")[2].rpartition("@")[0].partition(":")[2])
    hidden += re.findall(r"password\s*=\s*'?([^\s'&]+)", url)
    if any(part and part in words for part in hidden) or url in words:
        return "its address is not valid; write @ : / in a password as %40 %3A %2F"
    return words.strip()


# The commands of `absa memory` ------------------------------------------------------------------


def episodes(store: BaseStore) -> Iterator[Episode]:
    """Yield all episodes, page by page."""
    for namespace in store.list_namespaces(prefix=(EPISODES,), limit=_PAGE):
        offset = 0
        while page := store.search(namespace, limit=_PAGE, offset=offset):
            for item in page:
                yield Episode.model_validate(item.value)
            offset += len(page)


def stats(store: BaseStore) -> dict[str, Any]:
    """The numbers of episodes by kind."""
    count = 0
    by: dict[str, dict[str, int]] = {"lang": {}, "structure": {}, "outcome": {}, "override": {}}
    for episode in episodes(store):
        count += 1
        signature = episode.signature
        kinds = [("lang", signature.lang), ("outcome", episode.outcome)]
        kinds += [("override", episode.override)]
        kinds += [("structure", s) for s in signature.structures]
        for kind, name in kinds:
            by[kind][name] = by[kind].get(name, 0) + 1
    return {"episodes": count, **by}


def prune(store: BaseStore, keep: int) -> int:
    """Delete all but the latest `keep` episodes; return the number of deleted ones."""
    latest = sorted(episodes(store), key=lambda episode: episode.at, reverse=True)
    old = [
        PutOp(item.namespace, item.key, None)
        for namespace in store.list_namespaces(prefix=(INDEX,), limit=_PAGE)
        for item in store.search(namespace, limit=_PAGE)
    ]
    store.batch([*old, *(forgetting(episode) for episode in latest[keep:])])
    # The index is rebuilt, which also repairs one with a missing entry.
    store.batch(index_of(latest[:keep]))
    return len(latest[keep:])
