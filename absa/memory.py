"""Where episodes are kept: a LangGraph store in this process, in a SQLite file, in PostgreSQL."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore

from absa.database import use_wal
from nodes.memory import EPISODES, INDEX, forgetting, index_of
from schemas.errors import InputError
from schemas.memory import Episode
from schemas.settings import MemorySettings

FILE = "memory.sqlite"
URL = "ABSA_MEMORY_URL"
_PAGE = 1000
# Seconds to wait for a database.
_PATIENCE = 10


@contextmanager
def open_memory(settings: MemorySettings) -> Iterator[BaseStore | None]:
    """The store of the settings, None without memory. It is closed in the end.

    Raises:
        InputError: It cannot be opened.
    """
    if settings.condition == "off":
        yield None
    elif settings.store == "sqlite":
        with _sqlite(Path(str(settings.path)), create=True) as store:
            yield store
    elif settings.store == "postgres":
        with _postgres() as store:
            yield store
    else:
        yield InMemoryStore()


@contextmanager
def open_folder(folder: Path) -> Iterator[BaseStore]:
    """The memory in a folder, which must be there.

    Raises:
        InputError: It is not there, or damaged; also while it is being read.
    """
    try:
        with _sqlite(folder, create=False) as store:
            yield store
    except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{folder / FILE} is damaged ({reason}); restore it from a copy, or remove it to start "
            "with an empty memory"
        ) from error


@contextmanager
def _sqlite(folder: Path, *, create: bool) -> Iterator[BaseStore]:
    from langgraph.store.sqlite import SqliteStore

    file = folder / FILE
    if not create and not file.is_file():
        raise InputError(f"{folder} holds no memory: there is no {FILE} in it")
    with ExitStack() as opened:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            connection = opened.enter_context(
                closing(sqlite3.connect(file, check_same_thread=False, isolation_level=None))
            )
            use_wal(connection)
            store = SqliteStore(connection)
            store.setup()
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{file} cannot be used as a memory: {error}") from error
        yield store


@contextmanager
def _postgres() -> Iterator[BaseStore]:
    url = answering_postgres(URL, "memory.store: postgres")
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


def answering_postgres(name: str, wanted_by: str) -> str:
    """The address of a database that the environment variable `name` holds, once it answers.

    Raises:
        InputError: There is none, or it does not let us in.
    """
    try:
        import psycopg
    except ImportError as error:
        raise InputError(
            f"{wanted_by} needs more packages: pip install 'absa-debate-graph[postgres]'"
        ) from error
    url = os.environ.get(name)
    if not url:
        raise InputError(f"{wanted_by} needs a database, but {name} names none")
    try:
        # A pool would try again and again, and in the end not say why.
        psycopg.connect(url, connect_timeout=_PATIENCE).close()
    except psycopg.Error as error:
        raise _unusable(name, url, error) from None
    return url


def _unusable(name: str, url: str, error: Exception) -> InputError:
    """What is wrong; to be raised `from None`, since a traceback would repeat what is left out."""
    why = _without_secrets(str(error), url)
    return InputError(f"the database that {name} names cannot be used: {why}")


def _without_secrets(words: str, url: str) -> str:
    """The driver's words, unless they repeat a part of the address that may be a password."""
    hidden = re.split(r"[:/@?#&]", url.partition("://")[2].rpartition("@")[0].partition(":")[2])
    hidden += re.findall(r"password\s*=\s*'?([^\s'&]+)", url)
    if any(part and part in words for part in hidden) or url in words:
        return "its address cannot be read; characters such as @ : / in a password are written %40"
    return words.strip()


# What `absa memory` does ------------------------------------------------------------------------


def episodes(store: BaseStore) -> Iterator[Episode]:
    """Everything that is remembered, page by page."""
    for namespace in store.list_namespaces(prefix=(EPISODES,), limit=_PAGE):
        offset = 0
        while page := store.search(namespace, limit=_PAGE, offset=offset):
            for item in page:
                yield Episode.model_validate(item.value)
            offset += len(page)


def stats(store: BaseStore) -> dict[str, Any]:
    """How much is remembered, of what kind."""
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
    """Forget all but the latest `keep` episodes; how many were forgotten."""
    latest = sorted(episodes(store), key=lambda episode: episode.at, reverse=True)
    old = [
        PutOp(item.namespace, item.key, None)
        for namespace in store.list_namespaces(prefix=(INDEX,), limit=_PAGE)
        for item in store.search(namespace, limit=_PAGE)
    ]
    store.batch([*old, *(forgetting(episode) for episode in latest[keep:])])
    # The index is made anew, which also mends one that lost an entry.
    store.batch(index_of(latest[:keep]))
    return len(latest[keep:])
