"""A worker's side: one event loop and one graph per process, whatever chunks it is given."""

from __future__ import annotations

import asyncio
import signal
import ssl
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, wait
from dataclasses import asdict
from itertools import count
from typing import Any

from langgraph.store.memory import InMemoryStore

from absa.backends import make_backend
from absa.backends.cache import AnswerKeys, read_reply, write_reply
from absa.backends.meter import StopRun
from absa.backends.siblings import SiblingsFirst
from absa.runs.cluster.job import Item, Job, check_fingerprint, settings_of
from absa.runs.cluster.line import Line
from absa.runs.loop import run_in_quick_loop
from absa.runs.sample import analyse
from absa.schemas.backend import Ask, Backend, Reply, known_usage
from absa.schemas.errors import BackendError
from absa.schemas.settings import Settings
from absa.wired import wired

_CONNECT_S = 10.0
_GIVE_UP_S = 10.0
_LOOK_S = 1.0


class LineLost(StopRun):
    """The driver has ended or cannot be reached; samples under way are not to blame."""


def work_on(job: Job, items: Sequence[Item]) -> None:
    """A Dask task: a chunk of samples. Their records go to the desk, so nothing is returned."""
    from distributed import get_worker

    worker = get_worker()
    tls = worker.security.get_connection_args("worker").get("ssl_context")
    _station(job, str(worker.address), tls).work(items)


_stations: dict[str, Station] = {}
_lock = threading.Lock()


def _station(job: Job, name: str, tls: ssl.SSLContext | None) -> Station:
    """This process's station for a job: several chunks may be in work at a time."""
    with _lock:
        for token in [t for t, station in _stations.items() if station.closed]:
            del _stations[token]
        if job.token not in _stations:
            check_fingerprint(job, name)
            _stations[job.token] = Station(job, name, tls)
        return _stations[job.token]


class Station:
    """Works on the chunks of one job, in an event loop in a thread of its own.

    Dask's own loop must stay free to say that this worker lives.
    """

    def __init__(self, job: Job, name: str, tls: ssl.SSLContext | None) -> None:
        """Sit down at the desk."""
        self._job = job
        self._name = name
        self._tls = tls
        self._settings = settings_of(job)
        self._numbers = count(1)
        self._expected: dict[int, asyncio.Future[list[Any]]] = {}
        self._chunks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._hung_up = False
        self._thread = threading.Thread(target=self._run, name="absa station", daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def closed(self) -> bool:
        """Whether the driver has hung up."""
        return self._hung_up or not self._thread.is_alive()

    def work(self, items: Sequence[Item]) -> None:
        """Work on a chunk, from another thread."""
        if self._failure is not None:
            raise self._failure
        chunk = self._chunk(items)
        try:
            future = asyncio.run_coroutine_threadsafe(chunk, self._loop)
        except RuntimeError:  # the loop was closed a moment ago
            chunk.close()
            raise self._lost() from None
        # A loop that is about to close may take the chunk and never come to it.
        while self._thread.is_alive() and not wait([future], timeout=_LOOK_S).done:
            pass
        if not future.done():
            raise self._lost()
        try:
            future.result()
        except CancelledError:
            raise self._lost() from None

    def _run(self) -> None:
        try:
            run_in_quick_loop(self._live())
        except BaseException as error:  # handed to the threads that wait for their chunks
            self._failure = error
        finally:
            self._ready.set()

    async def _live(self) -> None:
        """Listen to the desk until it hangs up."""
        self._loop = asyncio.get_running_loop()
        job = self._job
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(job.host, job.port, ssl=self._tls)
        except OSError as error:
            raise LineLost(
                f"{self._name} cannot reach the driver at {job.host}:{job.port}: {error}"
            ) from error
        self._line = Line(reader, writer)
        self._line.send(0, "hello", job.token, self._name)
        backend = make_backend(self._settings.backend)
        if self._settings.backend.kind == "openai":
            keys = AnswerKeys(self._settings.backend, job.run_id, shared=job.shared)
            backend = SiblingsFirst(DeskBackend(backend, keys, self))
        self._graph = wired(self._settings).compile(backend=backend, store=InMemoryStore())
        self._ready.set()
        async for number, *reply in self._line.messages():
            expected = self._expected.pop(number, None)
            if expected is not None and not expected.done():
                expected.set_result(reply)
        await self._give_up()

    async def _give_up(self) -> None:
        """The desk has hung up: end every sample, whatever it is waiting for."""
        self._hung_up = True
        self._line.hang_up()
        # Not by cancelling alone: a library on the way may take that for an error of its own, and
        # the sample would go on to ask a desk that is gone.
        for expected in self._expected.values():
            if not expected.done():
                expected.set_exception(self._lost())
        for chunk in self._chunks:
            chunk.cancel()
        if self._chunks:
            await asyncio.wait(self._chunks, timeout=_GIVE_UP_S)

    def _lost(self) -> LineLost:
        return LineLost(f"{self._name}: the driver is gone")

    async def ask(self, number: int, *message: Any) -> list[Any]:
        """Ask the desk under a number."""
        if self._hung_up:
            raise self._lost()
        reply: asyncio.Future[list[Any]] = self._loop.create_future()
        self._expected[number] = reply
        self._line.send(number, *message)
        try:
            return await reply
        finally:
            self._expected.pop(number, None)

    def number(self) -> int:
        """A number for a request."""
        return next(self._numbers)

    def tell(self, *message: Any) -> None:
        """Tell the desk something that needs no reply."""
        self._line.send(0, *message)

    async def _chunk(self, items: Sequence[Item]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._chunks.add(task)
        try:
            async with asyncio.TaskGroup() as group:
                for item in items:
                    group.create_task(self._one(item))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self._chunks.discard(task)

    async def _one(self, item: Item) -> None:
        """One sample, as soon as the desk has a place for it."""
        uid = item.sample.uid
        word, *_ = await self.ask(self.number(), "begin", uid)
        if word != "go":
            return
        settings: Settings = self._settings
        try:
            record = await analyse(
                *(self._graph, item.sample, item.position, self._job.seed),
                *(item.demos, settings.aux_hf, {}),
            )
        except LineLost:  # Dask has to know that the chunk was not finished
            raise
        except StopRun:
            self.tell("leave", uid)
            return
        except BaseException:
            self.tell("leave", uid)
            raise
        await self.ask(self.number(), "finish", uid, asdict(record))


class DeskBackend:
    """A paid backend that asks the desk first: for the answer, or for leave to call."""

    def __init__(self, inner: Backend, keys: AnswerKeys, station: Station) -> None:
        """Call `inner` with the desk's leave."""
        self._inner = inner
        self._keys = keys
        self._station = station

    def ask(self, question: Ask) -> Reply:
        """Not to be had: the desk answers the event loop."""
        raise RuntimeError("a worker asks from its event loop only")

    async def aask(self, question: Ask) -> Reply:
        """The remembered answer, or a new one that is safe when this returns."""
        station, keys = self._station, self._keys
        number = station.number()
        asked = (keys.key(question), keys.owner(question), question.uid)
        try:
            heard = await station.ask(number, "ask", *asked)
            if heard[0] == "known":
                _, own, text = heard
                if (reply := read_reply(question, text, own=own)) is not None:
                    return reply
                number = station.number()
                heard = await station.ask(number, "ask_again", *asked)
            if heard[0] == "stop":
                raise StopRun(heard[1])
            reply = await self._inner.aask(question)
        except BackendError as error:
            await station.ask(station.number(), "failure", number, _failure(error))
            raise
        except StopRun:
            raise
        except BaseException:
            # Cancelled because a sibling failed, or a bug: the desk must not wait for an answer.
            station.tell("dropped", number)
            raise
        await station.ask(station.number(), "answer", number, _answer(question, reply))
        return reply


def _answer(question: Ask, reply: Reply) -> dict[str, Any]:
    return {
        "text": write_reply(question, reply),
        "node": question.node,
        "model": reply.model,
        "usage": reply.usage,
        "attempts": reply.attempts,
    }


def _failure(error: BackendError) -> dict[str, Any]:
    return {
        "text": None,
        "message": str(error),
        "node": error.node,
        "details": {
            "model": error.details.get("model"),
            "usage": known_usage(error.details.get("usage")),
            "answered": error.details.get("answered"),
        },
        "attempts": error.attempts,
        "unreachable": error.unreachable,
    }


def dask_setup(worker: object) -> None:
    """Called by Dask when a worker of a local cluster starts.

    Ctrl-C reaches every process of the terminal: the driver drains, and needs its workers for it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
