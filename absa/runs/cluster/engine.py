"""The Dask engine: chunks of samples as tasks, on a running cluster or on one started here."""

from __future__ import annotations

import asyncio
import logging
import secrets
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack
from itertools import islice

import dask
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from distributed.comm import get_address_host
from distributed.utils import silence_logging_cmgr

from absa.runs.cluster.coordinator import Coordinator
from absa.runs.cluster.job import Item, Job, VersionMismatch, job_of
from absa.runs.cluster.worker_session import work_on
from absa.runs.plan import GOES_ON, RunError, RunPlan
from absa.runs.pool import Batch, Worker
from absa.schemas.errors import InputError

CHUNK = 100
_PATIENCE_S = 8
# While the last samples of one chunk finish, the next chunk fills the free slots.
_THREADS = 2
_RETRIES = 3
# Dask's own monitoring takes processor time from the driver and is not used here.
_LOCAL = {
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.profile.enabled": False,
    # How many workers may die while they run a chunk before Dask marks the chunk as failed.
    "distributed.scheduler.allowed-failures": 10,
}
# Silenced: they log tracebacks about a lost connection, which the run reports in one line.
_DASK_LOGGERS = ("distributed", "distributed.client")
_LOOPBACK = "127.0.0.1"


class ClusterEngine:
    """Runs batches on the workers of a Dask cluster."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._opened = AsyncExitStack()
        self._client: Client | None = None
        self._coordinator: Coordinator | None = None

    def workers(self) -> list[Worker]:
        """The connected workers."""
        return self._coordinator.workers() if self._coordinator else []

    async def close(self) -> None:
        """Disconnect from the cluster; stop it if it was started here."""
        await self._opened.aclose()

    async def work(self, batch: Batch) -> None:
        """Distribute the batch in chunks until every sample has its record."""
        client = self._client = self._client or await self._open()
        token = secrets.token_hex(16)
        coordinator = self._coordinator = Coordinator(batch, token)
        # The address under which the machines of the cluster reach this process.
        host = str(get_address_host(client.scheduler_comm.comm.local_address))
        tls = client.security.get_listen_args("client").get("ssl_context")
        try:
            port = await coordinator.open(host, tls)
            job = job_of(batch, host, port, token)
            handing_out = asyncio.create_task(_Chunks(client, batch, job).hand_out())
            batch.control.tasks = {handing_out}
            await asyncio.wait([handing_out, coordinator.broken], return_when="FIRST_COMPLETED")
            handing_out.cancel()
            await asyncio.wait([handing_out])
            if coordinator.broken.done():
                coordinator.broken.result()
            if not handing_out.cancelled():
                handing_out.result()
        finally:
            await coordinator.close()
            self._coordinator = None

    async def _open(self) -> Client:
        plan = self._plan
        if plan.scheduler is None:
            return await self._open_local()
        for logger in _DASK_LOGGERS:
            self._opened.enter_context(silence_logging_cmgr(logging.CRITICAL, logger))
        try:
            client = await self._opened.enter_async_context(
                Client(plan.scheduler, asynchronous=True, timeout=_PATIENCE_S)
            )
        except (OSError, ValueError, ImportError) as error:
            raise InputError(
                f"--scheduler {plan.scheduler} cannot be reached ({error}); it is an address such "
                "as tcp://127.0.0.1:8786, which 'dask scheduler' prints when it starts"
            ) from error
        try:
            await client.wait_for_workers(1, timeout=_PATIENCE_S)
        except TimeoutError:
            raise InputError(
                f"the scheduler {plan.scheduler} has no workers; start some: "
                f"dask worker {plan.scheduler} --nthreads {_THREADS}"
            ) from None
        return client

    async def _open_local(self) -> Client:
        """Worker processes on this machine, on loopback and without a dashboard."""
        self._opened.enter_context(dask.config.set(_LOCAL))
        cluster = await self._opened.enter_async_context(
            LocalCluster(
                n_workers=self._plan.workers or CPU_COUNT,
                threads_per_worker=_THREADS,
                processes=True,
                host=_LOOPBACK,
                dashboard_address=f"{_LOOPBACK}:0",
                worker_dashboard_address=None,
                memory_limit=0,
                preload="absa.runs.cluster.worker_session",
                silence_logs=logging.CRITICAL,
                asynchronous=True,
            )
        )
        return await self._opened.enter_async_context(Client(cluster, asynchronous=True))


class _Chunks:
    """Distributes the samples of a batch."""

    def __init__(self, client: Client, batch: Batch, job: Job) -> None:
        self._client, self._batch, self._job = client, batch, job
        self._remaining = batch.size

    async def hand_out(self) -> None:
        """Keep every thread of the cluster busy, and one chunk waiting for each."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                threads = max(1, await self._count_threads())
                while len(under_way) < 2 * threads and (items := self._next(threads)):
                    under_way.add(asyncio.create_task(self._outcome(items)))
                if not under_way:
                    return
                done, under_way = await asyncio.wait(under_way, return_when="FIRST_COMPLETED")
                # Every exception is retrieved, also when several chunks fail at once.
                for failure in [task.exception() for task in done]:
                    if failure is not None:
                        raise failure
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _count_threads(self) -> int:
        try:
            return sum((await self._client.nthreads()).values())
        except OSError:
            raise self._scheduler_gone() from None

    def _scheduler_gone(self) -> RunError:
        address = self._batch.plan.scheduler or "of this run"
        return RunError(
            f"the Dask scheduler {address} is gone: start it again, or leave out --engine dask; "
            f"{GOES_ON}"
        )

    def _next(self, threads: int) -> list[Item]:
        """The next chunk; chunks get smaller at the end, so that all workers finish together."""
        largest = max(CHUNK, -(-2 * self._batch.plan.width // threads))
        size = min(largest, max(1, -(-self._remaining // (2 * threads))))
        items = [
            Item(position, sample, self._batch.demos.for_text(sample.text))
            for position, sample in islice(iter(self._batch.take, None), size)
        ]
        self._remaining -= len(items)
        return items

    async def _outcome(self, items: list[Item]) -> None:
        """Run one chunk on a worker, or on another one if that worker dies."""
        future = self._client.submit(work_on, self._job, items, pure=False, retries=_RETRIES)
        try:
            await future
        except VersionMismatch as error:
            raise InputError(str(error)) from error
        except asyncio.CancelledError:
            await future.cancel()
            raise
        except CancelledError:
            raise self._scheduler_gone() from None
        except Exception as error:
            raise RunError(f"a worker failed: {error}; {GOES_ON}") from error
