"""The desk: where the workers of a run ask for a place, for answers and for leave to call a model.

Everything that must be one for the whole run is on this side: the journal, the answer cache, the
meter, the rate of requests and the number of samples under way. A sample is under way in one place
at a time, so it has one record, however often Dask hands out its chunk.
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
from absa.runs.cluster.line import Line
from absa.runs.journal import Finished
from absa.runs.loop import Spread
from absa.runs.pool import Batch, Worker
from absa.schemas.errors import BackendError

Told = tuple[Literal["answer", "failure", "dropped"], int, dict[str, Any]]
_DROPPED: Told = ("dropped", 0, {})


@dataclass
class _Peer:
    """A worker at the desk."""

    name: str
    line: Line
    here: bool = True
    done: int = 0
    # Samples it would begin, in its order.
    waiting: deque[tuple[int, str]] = field(default_factory=deque)
    # Samples it has begun; true when the record is written.
    begun: dict[str, asyncio.Future[bool]] = field(default_factory=dict)
    # Records that are being written: they count, whatever becomes of the worker.
    written: set[str] = field(default_factory=set)
    # Calls it wants to make or makes, by the number it asked under; done when it has ended.
    calling: dict[int, asyncio.Future[Told]] = field(default_factory=dict)


class Desk:
    """Serves the workers of one batch."""

    def __init__(self, batch: Batch, token: str) -> None:
        """For whoever knows the token."""
        self._batch = batch
        self._token = token
        self._peers: list[_Peer] = []
        self._begun: dict[str, asyncio.Future[bool]] = {}
        self._wishes: asyncio.Queue[None] = asyncio.Queue()
        self._spread = Spread(batch.plan.width)
        self._pace = Pace(batch.backend.requests_per_second)
        self._slots = asyncio.Semaphore(batch.backend.max_concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing: set[asyncio.Task[None]] = set()
        # Every connection with who serves it, also those that have not said hello.
        self._lines: dict[asyncio.Task[Any], Line] = {}
        self._server: asyncio.Server | None = None
        # Set when the desk itself cannot go on: a full disk.
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, host: str, tls: ssl.SSLContext | None) -> int:
        """Listen on a free port, which is returned."""
        self._server = await asyncio.start_server(self._serve, host, 0, ssl=tls)
        for _ in range(self._batch.plan.width):
            self._spawn(self._place)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Send everyone away; records that are being written are finished first."""
        if self._server is not None:
            self._server.close()
        for line in self._lines.values():
            line.hang_up()
        await asyncio.gather(*self._lines, return_exceptions=True)
        await asyncio.gather(*self._writing, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def workers(self) -> list[Worker]:
        """Who is at the desk."""
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
        except Exception as error:  # the run's error: whoever waits for the batch is told
            if not self.broken.done():
                self.broken.set_exception(error)

    # What workers say.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        peer: _Peer | None = None
        serving = asyncio.current_task()
        assert serving is not None, "asyncio serves each connection in a task"
        self._lines[serving] = line
        try:
            async for message in line.messages():
                if peer is None:
                    peer = self._admit(line, message)
                    if peer is None:
                        return
                else:
                    self._hear(peer, message)
        except Exception as error:  # a message that is none must not take the desk down
            if peer is not None and not self.broken.done():
                self.broken.set_exception(error)
        finally:
            del self._lines[serving]
            line.hang_up()
            if peer is not None:
                self._lose(peer)

    def _admit(self, line: Line, message: Any) -> _Peer | None:
        match message:
            case [0, "hello", str(token), str(name)] if hmac.compare_digest(token, self._token):
                peer = _Peer(name, line)
                self._peers.append(peer)
                return peer
        return None

    def _hear(self, peer: _Peer, message: list[Any]) -> None:
        match message:
            case [number, "begin", uid]:
                peer.waiting.append((number, uid))
                self._wishes.put_nowait(None)
            case [number, "finish", uid, record]:
                self._spawn(self._finish, peer, number, uid, record, must_end=True)
            case [0, "leave", uid]:
                self._end(peer, uid, recorded=False)
            case [number, "ask" | "ask_again" as word, key, owner, uid]:
                # At once: it may be dropped while it waits for its turn.
                peer.calling[number] = asyncio.get_running_loop().create_future()
                asked = (key, owner, uid)
                self._spawn(self._ask, peer, number, asked, word == "ask_again")
            case [number, "answer" | "failure" as what, asked, facts]:
                self._tell(peer, asked, (what, number, facts))
            case [0, "dropped", asked]:
                self._tell(peer, asked, _DROPPED)
            case _:
                raise ValueError(f"a worker said {message!r:.100}")

    def _tell(self, peer: _Peer, asked: int, told: Told) -> None:
        calling = peer.calling.pop(asked, None)
        if calling is not None and not calling.done():
            calling.set_result(told)

    def _lose(self, peer: _Peer) -> None:
        """What it had begun is free for others; what it was asking is not waited for."""
        peer.here = False
        self._peers.remove(peer)
        for asked in list(peer.calling):
            self._tell(peer, asked, _DROPPED)
        for uid in list(peer.begun):
            if uid not in peer.written:
                self._end(peer, uid, recorded=False)

    # Places: so many samples at a time, wherever they are.

    async def _place(self) -> None:
        """One of the places: given to a worker for one sample after another."""
        while True:
            await self._wishes.get()
            wish = self._next_wish()
            if wish is not None:
                await self._fulfil(*wish)

    def _next_wish(self) -> tuple[_Peer, int, str] | None:
        """Of the worker with the fewest samples under way, so that all have as many."""
        waiting = [peer for peer in self._peers if peer.waiting]
        if not waiting:  # who wished has left
            return None
        peer = min(waiting, key=lambda peer: len(peer.begun))
        return peer, *peer.waiting.popleft()

    async def _fulfil(self, peer: _Peer, number: int, uid: str) -> None:
        """Let a sample begin, unless it is done or none may; wait for its end."""
        # Dask may give up on a worker that is only slow, and hand its chunk to another.
        while (elsewhere := self._begun.get(uid)) is not None:
            await asyncio.wait([elsewhere])
        if not peer.here:
            return
        if self._batch.has_record(uid):
            peer.line.send(number, "skip")
            return
        # Taken before the wait, so that nobody else begins it meanwhile.
        begun = self._begun[uid] = peer.begun[uid] = asyncio.get_running_loop().create_future()
        began = 0.0
        if not self._batch.control.draining:
            began = await self._spread.wait()
        if self._batch.control.draining:
            self._end(peer, uid, recorded=False)
            peer.line.send(number, "stop")
            return
        peer.line.send(number, "go")
        if await begun:
            self._spread.note(began)

    def _end(self, peer: _Peer, uid: str, *, recorded: bool) -> None:
        begun = peer.begun.pop(uid, None)
        if begun is not None:
            del self._begun[uid]
            if not begun.done():
                begun.set_result(recorded)

    async def _finish(self, peer: _Peer, number: int, uid: str, record: dict[str, Any]) -> None:
        """Write a record, once."""
        if uid not in peer.begun or uid in peer.written:
            return
        peer.written.add(uid)
        try:
            await self._batch.save(Finished(**record))
            peer.done += 1
        finally:
            peer.written.discard(uid)
            self._end(peer, uid, recorded=True)
        peer.line.send(number, "ok")

    # Answers: remembered, or paid for within the limits.

    async def _ask(
        self, peer: _Peer, number: int, asked: tuple[str, str, str], again: bool
    ) -> None:
        """Give the remembered answer, or leave to ask a model and remember what it says.

        Asked `again` by a worker that could not use the remembered one.
        """
        key, owner, uid = asked
        answers = self._batch.answers
        assert answers is not None, "workers ask about paid models only"
        calling = peer.calling[number]
        try:
            async with answers.under_way(key):
                if calling.done():  # nobody waits for it any more
                    return
                with answers.claim(key) as claim:
                    if not again and self._give(peer, number, asked):
                        return
                    if not claim.is_held:
                        await claim.wait()
                        if not again and self._give(peer, number, asked):
                            return
                    async with self._slots:
                        what, reply_to, facts = await self._call(peer, number, calling)
                    if what == "dropped":
                        return
                    self._count(uid, what, facts)
                    if facts["text"] is not None:
                        # The next agent is asked only when this answer is safe.
                        await asyncio.wrap_future(answers.put(key, owner, facts["text"]))
        finally:
            peer.calling.pop(number, None)
        peer.line.send(reply_to, "ok")

    def _give(self, peer: _Peer, number: int, asked: tuple[str, str, str]) -> bool:
        """Send the remembered answer, if there is one."""
        assert self._batch.answers is not None, "workers ask about paid models only"
        stored = self._batch.answers.get(*asked)
        if stored is not None:
            peer.line.send(number, "known", *stored)
        return stored is not None

    async def _call(self, peer: _Peer, number: int, calling: asyncio.Future[Told]) -> Told:
        """Let a worker call, if the budget and the rate allow; what came of it."""
        if not calling.done():
            await self._pace.wait()
        if calling.done():
            return _DROPPED
        meter = self._batch.meter
        assert meter is not None, "paid models are metered"
        try:
            meter.check()
        except StopRun as stop:
            self._batch.control.drain(str(stop), stop.remedy)
            peer.line.send(number, "stop", str(stop))
            return _DROPPED
        peer.line.send(number, "go")
        return await calling

    def _count(self, uid: str, what: str, facts: dict[str, Any]) -> None:
        meter = self._batch.meter
        assert meter is not None, "paid models are metered"
        self._pace.charge(facts["attempts"] - 1)
        if what == "answer":
            meter.answered(uid, facts["node"], facts["model"], facts["usage"])
            return
        error = BackendError(
            facts["message"],
            node=facts["node"],
            attempts=facts["attempts"],
            unreachable=facts["unreachable"],
            details=facts["details"],
        )
        meter.failed(uid, error)


class Pace:
    """So many requests a second, over all workers."""

    def __init__(self, per_second: float | None) -> None:
        """None is no limit."""
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
        """A call took so many requests more than its turn: the next ones come later."""
        self._next += max(0, requests) * self._gap
