"""Threads and memory of the LangGraph server in PostgreSQL; `langgraph.postgres.json` names both.

`ABSA_DATABASE_URL` is the address of the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from absa.api import checkpoint_serde
from absa.memory import reachable_postgres

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.store.postgres.aio import AsyncPostgresStore
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

URL = "ABSA_DATABASE_URL"
_CONNECTIONS = 10


@asynccontextmanager
async def checkpointer() -> AsyncIterator[AsyncPostgresSaver]:
    """The checkpointer for threads; it creates its tables.

    Raises:
        InputError: The database cannot be used.
    """
    async with _pool() as pool:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        saver = AsyncPostgresSaver(pool, serde=checkpoint_serde())
        await saver.setup()
        yield saver


@asynccontextmanager
async def store() -> AsyncIterator[AsyncPostgresStore]:
    """The store for episodes; it creates its tables.

    Raises:
        InputError: The database cannot be used.
    """
    async with _pool() as pool:
        from langgraph.store.postgres.aio import AsyncPostgresStore

        opened = AsyncPostgresStore(pool)
        await opened.setup()
        yield opened


@asynccontextmanager
async def _pool() -> AsyncIterator[AsyncConnectionPool[AsyncConnection[dict[str, Any]]]]:
    url = await asyncio.to_thread(reachable_postgres, URL, "langgraph.postgres.json")
    from psycopg import AsyncConnection
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    pool = AsyncConnectionPool(
        url,
        connection_class=AsyncConnection[dict[str, Any]],
        # The connection options that checkpointer and store require.
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        min_size=1,
        max_size=_CONNECTIONS,
        open=False,
    )
    async with pool:
        yield pool
