"""The coordinator holds all shared state of a cluster run and answers the workers' requests.

Shared are the journal, the answer cache, the meter (budgets), the request rate and the number of
samples in flight. A worker asks before it begins a sample and before it calls a model. Only one
worker at a time may work on a sample, so each sample has one record even if Dask runs its chunk
twice.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from absa.backends.meter import StopRun
from absa.runs.cluster.channel import Channel
from absa.runs.journal import Finished
from absa.runs.loop import Spread
from absa.runs.pool import Batch, Worker
from absa.schemas.errors import BackendError

Outcome = tuple[Literal["answer", "failure", "dropped"], int, dict[str, Any]]
_DROPPED: Outcome = ("dropped", 0, {})


@dataclass
class _Peer:
    """A connected worker."""

    name: str
    channel: Channel
    connected: bool = True
    done: int = 0
    # Samples that it asked to begin, in the order of its requests.
    waiting: deque[tuple[int, str]] = field(default_factory=deque)
    # Samples that it has begun; the result is true when the record is written.
    begun: dict[str, asyncio.Future[bool]] = field(default_factory=dict)
    # Samples whose record is being written; the record counts even if the worker is lost.
    written: set[str] = field(default_factory=set)
    # Model calls that it waits for or makes, by request number; set when the call has ended.
    pending: dict[int, asyncio.Future[Outcome]] = field(default_factory=dict)


class Coordinator:
    """Serves the workers of one batch."""

    def __init__(self, batch: Batch, token: str) -> None:
        self._batch = batch
        self._token = token
        self._peers: list[_Peer] = []
        self._begun: dict[str, asyncio.Future[bool]] = {}
        self._requests: asyncio.Queue[None] = asyncio.Queue()
        self._spread = Spread(batch.plan.width)
        self._pace = Pace(batch.backend.requests_per_second)
        self._slots = asyncio.Semaphore(batch.backend.max_concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing: set[asyncio.Task[None]] = set()
        # Every connection by the task that serves it, including those not yet admitted.
        self._channels: dict[asyncio.Task[Any], Channel] = {}
        self._server: asyncio.Server | None = None
        # Set when the coordinator itself fails, for example because the disk is full.
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, host: str, tls: ssl.SSLContext | None) -> int:
        """Listen on a free port; return the port."""
        self._server = await asyncio.start_server(self._serve, host, 0, ssl=tls)
        for _ in range(self._batch.plan.width):
            self._spawn(self._run_slot)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Close all connections, after records that are being written are finished."""
        if self._server is not None:
            self._server.close()
        for channel in self._channels.values():
            channel.close()
        await asyncio.gather(*self._channels, return_exceptions=True)
        await asyncio.gather(*self._writing, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def workers(self) -> list[Worker]:
        """The connected workers."""
        return [Worker(peer.name, len(peer.begun), peer.done) for peer in self._peers]

    def _spawn(
        self, work: Callable[..., Awaitable[None]], *args: Any, must_end: bool = False
    ) -> None:
        among = self._writing if must_end else self._tasks
        task = asyncio.create_task(self._or_break(work, *args))
        among.add(task)
        task.add_done_callback(among.discard)

    async def _or_break(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        try:
            await work(*args)
        except Exception as error:  # ends the run: the engine waits on `broken`
            if not self.broken.done():
                self.broken.set_exception(error)

    # Messages of the workers.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        peer: _Peer | None = None
        serving = asyncio.current_task()
        assert serving is not None, "asyncio serves each connection in a task"
        self._channels[serving] = channel
        try:
            async for message in channel.messages():
                if peer is None:
                    peer = self._admit(channel, message)
                    if peer is None:
                        return
                else:
                    self._handle(peer, message)
        except Exception as error:  # before admission a malformed message must not end the run
            if peer is not None and not self.broken.done():
                self.broken.set_exception(error)
        finally:
            del self._channels[serving]
            channel.close()
            if peer is not None:
                self._lose(peer)

    def _admit(self, channel: Channel, message: Any) -> _Peer | None:
        match message:
            case [0, "hello", str(token), str(name)] if hmac.compare_digest(token, self._token):
                peer = _Peer(name, channel)
                self._peers.append(peer)
                return peer
        return None

    def _handle(self, peer: _Peer, message: list[Any]) -> None:
        match message:
            case [number, "begin", uid]:
                peer.waiting.append((number, uid))
                self._requests.put_nowait(None)
            case [number, "finish", uid, record]:
                self._spawn(self._finish, peer, number, uid, record, must_end=True)
            case [0, "leave", uid]:
                self._end(peer, uid, recorded=False)
            case [number, "ask" | "ask_again" as kind, key, owner, uid]:
                # Registered at once: the worker may drop it while it waits for its turn.
                peer.pending[number] = asyncio.get_running_loop().create_future()
                question = (key, owner, uid)
                self._spawn(self._ask, peer, number, question, kind == "ask_again")
            case [number, "answer" | "failure" as kind, request, facts]:
                self._resolve(peer, request, (kind, number, facts))
            case [0, "dropped", request]:
                self._resolve(peer, request, _DROPPED)
            case _:
                raise ValueError(f"unexpected message from a worker: {message!r:.100}")

    def _resolve(self, peer: _Peer, request: int, outcome: Outcome) -> None:
        pending = peer.pending.pop(request, None)
        if pending is not None and not pending.done():
            pending.set_result(outcome)

    def _lose(self, peer: _Peer) -> None:
        """Release the samples of a lost worker for others, and stop waiting for its calls."""
        peer.connected = False
        self._peers.remove(peer)
        for request in list(peer.pending):
            self._resolve(peer, request, _DROPPED)
        for uid in list(peer.begun):
            if uid not in peer.written:
                self._end(peer, uid, recorded=False)

    # The in-flight limit: `width` slots, each for one sample at a time on any worker.

    async def _run_slot(self) -> None:
        """Run one slot: grant it to one sample after another."""
        while True:
            await self._requests.get()
            request = self._next_request()
            if request is not None:
                await self._begin(*request)

    def _next_request(self) -> tuple[_Peer, int, str] | None:
        """The next request of the worker with the fewest samples in flight, to share evenly."""
        waiting = [peer for peer in self._peers if peer.waiting]
        if not waiting:  # the worker that asked has disconnected
            return None
        peer = min(waiting, key=lambda peer: len(peer.begun))
        return peer, *peer.waiting.popleft()

    async def _begin(self, peer: _Peer, number: int, uid: str) -> None:
        """Let a worker begin a sample, unless it is recorded or the run stops; wait for its end."""
        # Dask may give up on a worker that is only slow, and give its chunk to another.
        while (elsewhere := self._begun.get(uid)) is not None:
            await asyncio.wait([elsewhere])
        if not peer.connected:
            return
        if self._batch.has_record(uid):
            peer.channel.send(number, "skip")
            return
        # Registered before the wait, so that no other worker begins it meanwhile.
        begun = self._begun[uid] = peer.begun[uid] = asyncio.get_running_loop().create_future()
        began = 0.0
        if not self._batch.control.draining:
            began = await self._spread.wait()
        if self._batch.control.draining:
            self._end(peer, uid, recorded=False)
            peer.channel.send(number, "stop")
            return
        peer.channel.send(number, "go")
        if await begun:
            self._spread.note(began)

    def _end(self, peer: _Peer, uid: str, *, recorded: bool) -> None:
        begun = peer.begun.pop(uid, None)
        if begun is not None:
            del self._begun[uid]
            if not begun.done():
                begun.set_result(recorded)

    async def _finish(self, peer: _Peer, number: int, uid: str, record: dict[str, Any]) -> None:
        """Write the record of a sample, once."""
        if uid not in peer.begun or uid in peer.written:
            return
        peer.written.add(uid)
        try:
            await self._batch.save(Finished(**record))
            peer.done += 1
        finally:
            peer.written.discard(uid)
            self._end(peer, uid, recorded=True)
        peer.channel.send(number, "ok")

    # Answers: from the cache, or from a call within the limits.

    async def _ask(
        self, peer: _Peer, number: int, question: tuple[str, str, str], again: bool
    ) -> None:
        """Send the cached answer, or let the worker call the model and cache its answer.

        `again` is set when the worker could not use the cached answer.
        """
        key, owner, uid = question
        answers = self._batch.answers
        assert answers is not None, "workers ask about paid models only"
        pending = peer.pending[number]
        try:
            async with answers.under_way(key):
                if pending.done():  # the worker no longer waits for it
                    return
                with answers.claim(key) as claim:
                    if not again and self._send_cached(peer, number, question):
                        return
                    if not claim.is_held:
                        await claim.wait()
                        if not again and self._send_cached(peer, number, question):
                            return
                    async with self._slots:
                        kind, reply_to, facts = await self._call(peer, number, pending)
                    if kind == "dropped":
                        return
                    self._count(uid, kind, facts)
                    if facts["text"] is not None:
                        # The worker goes on only when this answer is on the disk.
                        await asyncio.wrap_future(answers.put(key, owner, facts["text"]))
        finally:
            peer.pending.pop(number, None)
        peer.channel.send(reply_to, "ok")

    def _send_cached(self, peer: _Peer, number: int, question: tuple[str, str, str]) -> bool:
        assert self._batch.answers is not None, "workers ask about paid models only"
        stored = self._batch.answers.get(*question)
        if stored is not None:
            peer.channel.send(number, "cached", *stored)
        return stored is not None

    async def _call(self, peer: _Peer, number: int, pending: asyncio.Future[Outcome]) -> Outcome:
        """Let a worker call the model if budget and rate allow; return the outcome."""
        if not pending.done():
            await self._pace.wait()
        if pending.done():
            return _DROPPED
        meter = self._batch.meter
        assert meter is not None, "paid models are metered"
        try:
            meter.check()
        except StopRun as stop:
            self._batch.control.drain(str(stop), stop.remedy)
            peer.channel.send(number, "stop", str(stop))
            return _DROPPED
        peer.channel.send(number, "go")
        return await pending

    def _count(self, uid: str, kind: str, facts: dict[str, Any]) -> None:
        meter = self._batch.meter
        assert meter is not None, "paid models are metered"
        self._pace.charge(facts["attempts"] - 1)
        if kind == "answer":
            meter.answered(uid, facts["node"], facts["model"], facts["usage"])
            return
        details = ("node", "attempts", "unreachable", "details")
        meter.failed(uid, BackendError(facts["message"], **{name: facts[name] for name in details}))


class Pace:
    """Limits the requests per second over all workers."""

    def __init__(self, per_second: float | None) -> None:
        self._gap = 1 / per_second if per_second else 0.0
        self._next = 0.0

    async def wait(self) -> None:
        """Wait for a turn."""
        if not self._gap:
            return
        now = asyncio.get_running_loop().time()
        turn = max(now, self._next)
        self._next = turn + self._gap
        await asyncio.sleep(turn - now)

    def charge(self, requests: int) -> None:
        """Delay later calls, because a call made this many requests beyond its first."""
        self._next += max(0, requests) * self._gap
