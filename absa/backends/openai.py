"""Answers from OpenAI or any compatible server (vLLM, Ollama, llama.cpp …).

One question can take several requests: the first, a simpler one if the server rejected a feature,
and a repair round if the answer could not be read. `ask` runs `aask` in its own event loop.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any

import openai
from langchain_core.messages import AIMessage
from tenacity import AsyncRetrying, retry_if_exception

from absa.backends.chat import BODY, HOST, Clients, Role, Tally
from absa.backends.faults import (
    Wait,
    explain,
    is_in_its_words,
    is_refusal,
    is_transient,
    is_unreachable,
    status_of,
)
from absa.backends.keys import OPENAI_URL, Key, Keys
from absa.backends.loop_thread import LoopThread
from absa.backends.servers import Servers
from absa.backends.talk import (
    SHOWN,
    Call,
    Outcome,
    ParsedAnswer,
    conversation,
    parse_message,
    weighed,
)
from absa.nodes.forks import abandon, renew_after_fork
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.settings import BackendSettings, RoleSettings

_IGNORED_AFTER = 3
"""After this many answers in a row without JSON, the server ignores structured output."""

LONGEST_RAW = 100_000
"""Characters of an unreadable answer that a failure record keeps."""
_REFUSED_REMEDY = "the text cannot be analyzed by this model"
_UNREADABLE_REMEDY = "a larger or better instructed model may help; the answer is in the record"
_TOO_SHORT_REMEDY = (
    "raise backend.max_tokens, or the server's own limit; the answer is in the record"
)


class OpenAIBackend:
    """A backend over `ChatOpenAI`.

    Structured output is requested by JSON schema, else by tool call, else as a JSON object, else as
    text. `servers` knows the mode of a server or finds it by trying, and stores it in `memory`.
    Requests to busy and failing servers are retried with exponential backoff, at most `max_retries`
    times for one question. Each event loop sends at most `max_concurrency` requests at a time; all
    threads that call `ask` share one loop. A forked process opens its own connections.

    `Reply.attempts` counts every request. `Reply.latency_ms` is the time of the requests, without
    the waits for a free slot and between retries. Tracing is LangChain's: it is off unless the
    environment switches it on.
    """

    name = "openai"

    def __init__(
        self, settings: BackendSettings, *, backoff_s: float = 0.5, memory: Path | None = None
    ) -> None:
        self._settings = settings
        self._backoff_s = backoff_s
        self._servers = Servers(memory)
        self._keys = Keys()
        self._ignored: Counter[tuple[str, str]] = Counter()
        renew_after_fork(self)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._asking: LoopThread | None = None
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Clients] = (
            weakref.WeakKeyDictionary()
        )

    def renew(self) -> None:
        """Start with new connections in a forked process."""
        abandon(self._asking, self._loops, *self._loops.items())
        self._servers.renew()
        self._begin()

    def ask(self, question: Ask) -> Reply:
        """Answer now."""
        with self._lock:
            if self._asking is None:
                self._asking = LoopThread(at_end=partial(_close_clients, self._loops))
                weakref.finalize(self, self._asking.stop)
            asking = self._asking
        return asking.run(self.aask(question))

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        if not self._servers.is_loaded:
            await asyncio.to_thread(self._servers.load)
        asked = self._settings.role(question.node)
        if not self._keys.is_at_hand(asked):
            await asyncio.to_thread(self._keys.find, asked)
        role = self._role(question, asked, self._keys.find(asked))
        try:
            return await self._answer(question, role)
        finally:
            if self._servers.is_changed:
                await asyncio.to_thread(self._servers.save)

    def close(self) -> None:
        """Close the connections of the synchronous side; the next question opens new ones."""
        with self._lock:
            asking, self._asking = self._asking, None
        if asking:
            asking.stop()
            asking.join()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await _close_clients(self._loops)

    # The requests of one question.

    async def _answer(self, question: Ask, role: Role) -> Reply:
        tally = Tally()
        dialect = self._servers.dialect(role.base_url, role.model)
        first = Call(role, dialect, conversation(question), question.answer, tally)
        call, message = await self._find_mode(question, first)
        parsed, notes = await self._parse_or_repair(question, call, message)
        notes += parsed.reading.notes
        if call.dialect.mode != "json_schema":
            notes.append(f"asked by {call.dialect.mode}: the server takes no JSON schema")
        unsent = call.dialect.unsent | tally.unsent
        if not call.has_names:
            unsent -= {"logprobs"}
        if role.max_tokens and call.dialect.limit is None:
            unsent |= {"max_tokens"}
        notes += [f"{name} not sent: {role.model} does not take it" for name in sorted(unsent)]
        return Reply(
            output=weighed(parsed, question.answer),
            backend=self.name,
            model=role.model,
            seed=None if "seed" in unsent else role.seed,
            usage=tally.usage or None,
            latency_ms=round(tally.seconds * 1000, 3),
            attempts=tally.attempts,
            notes=tuple(notes),
            host=parsed.message.response_metadata.get(HOST, role.host),
        )

    async def _find_mode(self, question: Ask, call: Call) -> tuple[Call, AIMessage]:
        """Simplify the request until the server accepts it, and return the answer.

        A simpler mode is stored only after it worked: if every form is rejected, the form was not
        the reason. A stored mode that is rejected is deleted.
        """
        role, start, refusal = call.role, call.dialect, None
        while True:
            outcome = await self._send(call)
            if isinstance(outcome, AIMessage):
                break
            if not is_refusal(outcome):
                raise self._failure(question, call, outcome)
            refusal = refusal or outcome
            simpler = call.dialect.after_refusal(str(outcome))
            # Once only: another question may store a new mode meanwhile.
            if call.dialect == start and self._servers.forget(role.base_url, role.model):
                table = self._servers.dialect(role.base_url, role.model)
                simpler = table if table != start else simpler
            if simpler is None:
                raise self._failure(question, call, refusal)
            call = replace(call, dialect=simpler)
        if call.dialect != start:
            self._servers.learn(role.base_url, role.model, call.dialect)
        return call, outcome

    async def _parse_or_repair(
        self, question: Ask, call: Call, message: AIMessage
    ) -> tuple[ParsedAnswer, list[str]]:
        """Read the model's answer, with a repair round if something is missing; also returns notes.

        Each question may use one repair round. If nothing at all can be read, a gateway may be the
        cause: the question and its repair are then retried, until the same request gives the same
        text.
        """
        tally, failure = call.tally, None
        first = best = latest = parse_message(message, question.answer, tally)
        self._count_ignored_schema(call, first)
        if first.reading.why is None:
            return first, []
        for is_repair, is_extra in zip(cycle((True, False)), chain([False], repeat(True))):
            if is_extra:
                if tally.failures >= self._settings.max_retries:
                    break
                tally.failures += 1
            outcome = await self._send(latest.repair(call) if is_repair else call)
            if not isinstance(outcome, AIMessage):
                failure = outcome
                break
            latest = parse_message(outcome, question.answer, tally)
            if latest.reading.output is not None:
                best = latest if latest.is_as_good_as(best) else best
                if is_repair or latest.reading.why is None:
                    break
            if not is_repair and latest.text == first.text != "":
                break
        if best.reading.output is None:
            if failure is not None:
                raise self._failure(question, call, failure, raw=latest.text)
            raise self._unreadable(question, call, latest)
        notes = [f"not repaired: {self._keys.hide(best.reading.why)}"] if best.reading.why else []
        if best is not first:
            why, before = (self._keys.hide(words) for words in (first.reading.why, first.text))
            notes.insert(0, f"repaired: {why}; the first answer was: {before[:SHOWN]}")
        return best, notes

    def _count_ignored_schema(self, call: Call, parsed: ParsedAnswer) -> None:
        """Detect a server that accepts a request for structured output and ignores it."""
        server = call.role.base_url, call.role.model
        if "{" in parsed.text or not parsed.text.strip() or parsed.ran_out:
            self._ignored[server] = 0
            return
        self._ignored[server] += 1
        simpler = call.dialect.simpler()
        if self._ignored[server] >= _IGNORED_AFTER and simpler:
            self._ignored[server] = 0
            self._servers.learn(*server, simpler)

    def _unreadable(self, question: Ask, call: Call, parsed: ParsedAnswer) -> BackendError:
        role, tally = call.role, call.tally
        if parsed.is_refusal:
            what = f"{role.model} refused to answer: {parsed.text[:SHOWN]}; {_REFUSED_REMEDY}"
        else:
            remedy = _TOO_SHORT_REMEDY if parsed.ran_out else _UNREADABLE_REMEDY
            what = (
                f"the answer of {role.model} could not be read, not even after a repair round: "
                f"{parsed.reading.why}; {remedy}"
            )
        return BackendError(
            self._keys.hide(f"{question.node}: {what}"),
            node=question.node,
            turn=question.turn,
            raw=self._keys.hide(parsed.text)[:LONGEST_RAW],
            attempts=tally.attempts,
            details=_details(call, answered=True),
        )

    def _failure(
        self, question: Ask, call: Call, error: Exception, *, raw: str | None = None
    ) -> BackendError:
        role, tally = call.role, call.tally
        what, remedy = explain(error, role.key.where)
        times = f" after {tally.attempts} attempts" if tally.attempts > 1 else ""
        message = self._keys.hide(str(error))
        answered = raw is not None
        body = vars(error).get(BODY)
        if isinstance(body, dict):
            answered |= bool(body.get("choices"))
        if isinstance(body, dict | str):
            written = json.dumps(body, ensure_ascii=False) if isinstance(body, dict) else body
            raw = raw or written
        words = f" ({message[:SHOWN]})" if message and is_in_its_words(error) else ""
        return BackendError(
            f"{question.node}: {role.model} at {role.host}: {what}{times}{words}; {remedy}",
            node=question.node,
            turn=question.turn,
            raw=self._keys.hide(raw or str(error))[:LONGEST_RAW],
            attempts=tally.attempts,
            unreachable=is_unreachable(error),
            details={"status": status_of(error), **_details(call, answered=answered)},
        )

    def _role(self, question: Ask, asked: RoleSettings, key: Key) -> Role:
        def missing(what: str) -> BackendError:
            return BackendError(
                f"{question.node}: {what}",
                node=question.node,
                turn=question.turn,
                attempts=0,
                # Every later call would fail as well.
                unreachable=True,
                details={"model": asked.model},
            )

        if asked.model is None:
            raise missing(
                f"no model is set; set backend.model or backend.roles.{question.node}.model"
            )
        assert asked.temperature is not None and asked.seed is not None, "the backend has both"
        temperature = asked.temperature if question.temperature is None else question.temperature
        role = Role(
            asked.model,
            (asked.base_url or OPENAI_URL).rstrip("/"),
            temperature,
            # A vote counts up from the seed; servers keep it in 64 bits.
            (asked.seed + question.seed_offset) % 2**63,
            asked.max_tokens,
            key,
        )
        if key.value is None and (key.is_needed or role.base_url == OPENAI_URL):
            raise missing(
                f"no API key for {role.host}, looked in {key.where}: {key.remedy}, or set "
                "backend.base_url to a server that needs none"
            )
        return role

    # Sending.

    async def _send(self, call: Call) -> Outcome:
        loop = asyncio.get_running_loop()
        with self._lock:
            clients = self._loops.get(loop)
        if clients is None:
            # Outside the lock: this reads files, and other loops must not wait for it.
            clients = Clients(self._settings)
            with self._lock:
                # Open connections keep their loop alive, so weak references alone do not free it.
                for closed in [other for other in self._loops if other.is_closed()]:
                    del self._loops[closed]
                self._loops[loop] = clients
            await anext(clients.keeper)

        chat = clients.chat(call.role, call.dialect, call.tally)

        async def once() -> AIMessage:
            async with clients.slots:
                if clients.limiter:
                    await clients.limiter.aacquire()
                with _timed(call.tally):
                    return await chat.ainvoke(list(call.messages), **call.options)

        retrying = AsyncRetrying(
            stop=lambda _: call.tally.failures > self._settings.max_retries,
            wait=Wait(self._backoff_s),
            retry=retry_if_exception(is_transient),
            reraise=True,
        )
        try:
            return await retrying(once)
        except _EXPECTED as error:
            return error


def _details(call: Call, *, answered: bool) -> dict[str, Any]:
    role = call.role
    return {
        "host": role.host,
        "model": role.model,
        "usage": call.tally.usage,
        "answered": answered,
    }


async def _close_clients(loops: MutableMapping[asyncio.AbstractEventLoop, Clients]) -> None:
    clients = loops.pop(asyncio.get_running_loop(), None)
    if clients:
        await clients.keeper.aclose()


# The client library raises builtin errors for requests it cannot send and answers it cannot read.
_EXPECTED = (openai.OpenAIError, ValueError, TypeError, LookupError, AttributeError)


@contextmanager
def _timed(tally: Tally) -> Iterator[None]:
    """Add one request and its duration to a tally, also if the request fails."""
    tally.attempts += 1
    start = time.perf_counter()
    try:
        yield
    except BaseException as error:
        tally.add_failure(error, passes=is_transient(error))
        raise
    finally:
        tally.seconds += time.perf_counter() - start
