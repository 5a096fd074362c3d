"""A worker's side of a run: one event loop and one graph per process, for all its chunks."""

from __future__ import annotations

import asyncio
import signal
import ssl
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, wait
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from langgraph.store.memory import InMemoryStore

from absa.backends import make_backend
from absa.backends.cache import AnswerKeys, read_reply, write_reply
from absa.backends.meter import StopRun
from absa.backends.siblings import SiblingsFirst
from absa.backends.wrapper import Wrapper
from absa.runs.cluster.channel import Channel
from absa.runs.cluster.job import Item, Job, check_fingerprint, settings_of
from absa.runs.loop import run_in_quick_loop
from absa.runs.sample import analyse
from absa.schemas.backend import Ask, Reply, known_usage
from absa.schemas.errors import BackendError
from absa.schemas.settings import Settings
from absa.wired import wired

_CONNECT_S = 10.0
_GIVE_UP_S = 10.0
_LOOK_S = 1.0


class ConnectionLost(StopRun):
    """The driver ended or cannot be reached; this is not a failure of the samples in flight."""


def work_on(job: Job, items: Sequence[Item]) -> None:
    """Dask task: work on a chunk. The records go to the coordinator, so it returns nothing."""
    from distributed import get_worker

    worker = get_worker()
    tls = worker.security.get_connection_args("worker").get("ssl_context")
    _session(job, str(worker.address), tls).work(items)


_sessions: dict[str, WorkerSession] = {}
_lock = threading.Lock()


def _session(job: Job, name: str, tls: ssl.SSLContext | None) -> WorkerSession:
    """The session of this process for a job, shared by the chunks that run at the same time."""
    with _lock:
        for token in [t for t, session in _sessions.items() if session.closed]:
            del _sessions[token]
        if job.token not in _sessions:
            check_fingerprint(job, name)
            _sessions[job.token] = WorkerSession(job, name, tls)
        return _sessions[job.token]


class WorkerSession:
    """Works on the chunks of one job, in an event loop in a thread of its own.

    Dask's own event loop must stay free to send heartbeats.
    """

    def __init__(self, job: Job, name: str, tls: ssl.SSLContext | None) -> None:
        self._job = job
        self._name = name
        self._tls = tls
        self._settings = settings_of(job)
        self._numbers = count(1)
        self._expected: dict[int, asyncio.Future[list[Any]]] = {}
        self._chunks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._disconnected = False
        self._thread = threading.Thread(target=self._run, name="absa worker session", daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def closed(self) -> bool:
        """Whether the connection to the driver is closed."""
        return self._disconnected or not self._thread.is_alive()

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
        # A loop that is about to close may accept the chunk and never run it.
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
        """Receive messages until the coordinator closes the connection."""
        self._loop = asyncio.get_running_loop()
        job = self._job
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(job.host, job.port, ssl=self._tls)
        except OSError as error:
            raise ConnectionLost(
                f"{self._name} cannot reach the driver at {job.host}:{job.port}: {error}"
            ) from error
        self._channel = Channel(reader, writer)
        self._channel.send(0, "hello", job.token, self._name)
        backend = make_backend(self._settings.backend)
        if self._settings.backend.kind == "openai":
            keys = AnswerKeys(self._settings.backend, job.run_id, shared=job.shared)
            backend = SiblingsFirst(CoordinatedBackend(backend, keys, self))
        self._graph = wired(self._settings).compile(backend=backend, store=InMemoryStore())
        self._ready.set()
        async for number, *reply in self._channel.messages():
            expected = self._expected.pop(number, None)
            if expected is not None and not expected.done():
                expected.set_result(reply)
        await self._end_all_samples()

    async def _end_all_samples(self) -> None:
        """End every sample, because the coordinator has closed the connection."""
        self._disconnected = True
        self._channel.close()
        # Cancelling alone is not enough: a library may swallow the cancellation, and the sample
        # would go on to wait for a coordinator that no longer answers.
        for expected in self._expected.values():
            if not expected.done():
                expected.set_exception(self._lost())
        for chunk in self._chunks:
            chunk.cancel()
        if self._chunks:
            await asyncio.wait(self._chunks, timeout=_GIVE_UP_S)

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(f"{self._name}: the driver is gone")

    async def ask(self, number: int, *message: Any) -> list[Any]:
        """Send a request with this number and wait for the reply."""
        if self._disconnected:
            raise self._lost()
        reply: asyncio.Future[list[Any]] = self._loop.create_future()
        self._expected[number] = reply
        self._channel.send(number, *message)
        try:
            return await reply
        finally:
            self._expected.pop(number, None)

    def number(self) -> int:
        """A new request number."""
        return next(self._numbers)

    def notify(self, *message: Any) -> None:
        """Send a message that needs no reply."""
        self._channel.send(0, *message)

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
        """Work on one sample, once the coordinator grants it a slot."""
        uid = item.sample.uid
        decision, *_ = await self.ask(self.number(), "begin", uid)
        if decision != "go":
            return
        settings: Settings = self._settings
        try:
            record = await analyse(
                *(self._graph, item.sample, item.position, self._job.seed),
                *(item.demos, settings.aux_hf, {}),
            )
        except ConnectionLost:  # raised, so that Dask sees that the chunk was not finished
            raise
        except StopRun:
            self.notify("leave", uid)
            return
        except BaseException:
            self.notify("leave", uid)
            raise
        await self.ask(self.number(), "finish", uid, asdict(record))


@dataclass(eq=False)
class CoordinatedBackend(Wrapper):
    """A paid backend that asks the coordinator for a cached answer, or for permission to call."""

    keys: AnswerKeys
    session: WorkerSession

    async def aask(self, question: Ask) -> Reply:
        """The cached answer, or a new one, which is on the driver's disk when this returns."""
        session, keys = self.session, self.keys
        number = session.number()
        request = (keys.key(question), keys.owner(question), question.uid)
        try:
            reply_parts = await session.ask(number, "ask", *request)
            if reply_parts[0] == "cached":
                _, own, text = reply_parts
                if (reply := read_reply(question, text, own=own)) is not None:
                    return reply
                number = session.number()
                reply_parts = await session.ask(number, "ask_again", *request)
            if reply_parts[0] == "stop":
                raise StopRun(reply_parts[1])
            reply = await self.inner.aask(question)
        except BackendError as error:
            await session.ask(session.number(), "failure", number, _failure(error))
            raise
        except StopRun:
            raise
        except BaseException:
            # Cancelled because a sibling failed, or a bug: the coordinator must stop waiting.
            session.notify("dropped", number)
            raise
        await session.ask(session.number(), "answer", number, _answer(question, reply))
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
