"""Answers from OpenAI or any server that speaks its chat protocol (vLLM, Ollama, llama.cpp …).

One question is a short conversation: ask, perhaps ask more simply because the server refused a
feature, perhaps ask once more because the answer could not be read. `_converse` holds that logic
once, without I/O; `ask` and `aask` carry it out, each in its own way.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import weakref
from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
from langchain_core.messages import AIMessage, HumanMessage
from tenacity import AsyncRetrying, RetryCallState, Retrying, retry_if_exception

from absa.backends.chat import ANSWER, Clients, Role, Tally
from absa.backends.faults import Wait, explain, is_hopeless, is_refusal, is_transient, status_of
from absa.backends.keys import OPENAI_URL, Key, Keys
from absa.backends.servers import Servers
from absa.backends.talk import SHOWN, Call, Outcome, conversation, ran_out, read, said, weighed
from schemas.backend import Ask, Reply
from schemas.errors import BackendError
from schemas.settings import BackendSettings, RoleSettings

_IGNORED_AFTER = 3
"""So many answers in a row without any JSON: the server ignores what it was asked for."""

_REPAIR = (
    "Your last answer could not be read: {why}. "
    "Give the whole answer again, as one JSON object in the format you were asked for."
)
_UNREADABLE_REMEDY = "a larger or better instructed model may help; the answer is in the record"
_TOO_SHORT_REMEDY = (
    "raise backend.max_tokens, or the server's own limit; the answer is in the record"
)


_Conversation = Generator[Call, Outcome, Reply]


class OpenAIBackend:
    """A backend over `ChatOpenAI`.

    Structured output is asked for by JSON schema, else by tool call, else as a JSON object, else
    as text. Where to begin is known (`servers`) or found out, and remembered in `memory`. Busy and
    failing servers are asked again with growing, jittered waits, `max_retries` times in all for one
    question. At most `max_concurrency` requests are under way at a time per event loop, and as
    many from threads.

    `Reply.attempts` counts every request sent, `Reply.latency_ms` is the time they took, without
    waiting for a free slot or between retries. Tracing is LangChain's own: off unless the user
    switched it on in the environment.
    """

    name = "openai"

    def __init__(
        self, settings: BackendSettings, *, backoff_s: float = 0.5, memory: Path | None = None
    ) -> None:
        """Take the settings; no connection is made before the first question."""
        self._settings = settings
        self._backoff_s = backoff_s
        self._servers = Servers(memory)
        self._keys = Keys()
        self._ignored: Counter[tuple[str, str]] = Counter()
        self._threads: Clients | None = None
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Clients] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(settings.max_concurrency)

    def ask(self, question: Ask) -> Reply:
        """Answer now."""
        if not self._servers.is_loaded:
            self._servers.load()
        asked = self._settings.role(question.node)
        talk = self._converse(question, asked, self._keys.find(asked))
        try:
            call = next(talk)
            while True:
                call = talk.send(self._send(call))
        except StopIteration as done:
            reply: Reply = done.value
            return reply
        finally:
            if self._servers.is_changed:
                self._servers.save()

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        if not self._servers.is_loaded:
            await asyncio.to_thread(self._servers.load)
        asked = self._settings.role(question.node)
        if not self._keys.is_at_hand(asked):
            await asyncio.to_thread(self._keys.find, asked)
        talk = self._converse(question, asked, self._keys.find(asked))
        try:
            call = next(talk)
            while True:
                outcome = await self._asend(call)
                try:
                    call = talk.send(outcome)
                except StopIteration as done:
                    reply: Reply = done.value
                    return reply
        finally:
            if self._servers.is_changed:
                await asyncio.to_thread(self._servers.save)

    def close(self) -> None:
        """Close the connections of the synchronous side; the next question opens new ones."""
        with self._lock:
            clients, self._threads = self._threads, None
        if clients and clients.http:
            clients.http.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        with self._lock:
            clients = self._loops.pop(asyncio.get_running_loop(), None)
        if clients and clients.keeper:
            await clients.keeper.aclose()

    # One question, without I/O.

    def _converse(self, question: Ask, asked: RoleSettings, key: Key) -> _Conversation:
        role = self._role(question, asked, key)
        tally, notes = Tally(), list[str]()
        messages = conversation(question)
        dialect = self._servers.dialect(role.base_url, role.model)
        first = Call(role, dialect, messages, question.answer, tally)
        call, message = yield from self._agree(question, first)
        text = said(message, tally) or ""
        self._watch(call, text, message)

        reading = read(text, question.answer)
        read_from: Outcome = message
        if reading.why is not None:
            why = self._keys.hide(reading.why)
            shown = (AIMessage(text[:4000]),) if text.strip() else ()
            again = (*messages, *shown, HumanMessage(_REPAIR.format(why=reading.why)))
            outcome = yield replace(call, messages=again)
            second = said(outcome, tally)
            repaired = read(second or "", question.answer)
            if repaired.output is not None and (
                reading.output is None or repaired.missing <= reading.missing
            ):
                before = self._keys.hide(text)[:SHOWN]
                notes.append(f"repaired: {why}; the first answer was: {before}")
                if repaired.why:
                    notes.append(f"not repaired: {self._keys.hide(repaired.why)}")
                reading, read_from = repaired, outcome
            elif reading.output is not None:
                notes.append(f"not repaired: {why}")
            elif second is None and isinstance(outcome, Exception):
                raise self._failure(question, call, outcome, raw=text)
            else:
                raise self._unreadable(question, call, repaired.why, second or text, outcome)
        notes += reading.notes
        if call.dialect.mode != "json_schema":
            notes.append(f"asked by {call.dialect.mode}: the server takes no JSON schema")
        unsent = call.dialect.unsent | tally.unsent
        if not call.has_names:
            unsent -= {"logprobs"}
        if role.max_tokens and call.dialect.limit is None:
            unsent |= {"max_tokens"}
        notes += [f"{name} not sent: {role.model} does not take it" for name in sorted(unsent)]
        return Reply(
            output=weighed(reading, question.answer, read_from),
            backend=self.name,
            model=role.model,
            seed=None if "seed" in unsent else role.seed,
            usage=tally.usage or None,
            latency_ms=round(tally.seconds * 1000, 3),
            attempts=tally.attempts,
            notes=tuple(notes),
        )

    def _agree(self, question: Ask, call: Call) -> Generator[Call, Outcome, tuple[Call, AIMessage]]:
        """Ask ever more simply until the server takes the request; give its answer.

        A simpler way is remembered only once it worked: a request that is refused in every form
        was not refused for its form. What was remembered and is refused is forgotten.
        """
        role, start, refusal = call.role, call.dialect, None
        while True:
            outcome = yield call
            if isinstance(outcome, AIMessage):
                break
            if not is_refusal(outcome):
                raise self._failure(question, call, outcome)
            refusal = refusal or outcome
            simpler = call.dialect.after_refusal(str(outcome))
            # Once: others may learn meanwhile what this question is refused for.
            if call.dialect == start and self._servers.forget(role.base_url, role.model):
                table = self._servers.dialect(role.base_url, role.model)
                simpler = table if table != start else simpler
            if simpler is None:
                raise self._failure(question, call, refusal)
            call = replace(call, dialect=simpler)
        if call.dialect != start:
            self._servers.learn(role.base_url, role.model, call.dialect)
        return call, outcome

    def _watch(self, call: Call, text: str, answer: AIMessage) -> None:
        """Notice a server that takes a request for structure and does not keep to it."""
        server = call.role.base_url, call.role.model
        if "{" in text or not text.strip() or ran_out(answer):
            self._ignored[server] = 0
            return
        self._ignored[server] += 1
        simpler = call.dialect.simpler()
        if self._ignored[server] >= _IGNORED_AFTER and simpler:
            self._ignored[server] = 0
            self._servers.learn(*server, simpler)

    def _unreadable(
        self, question: Ask, call: Call, why: str | None, raw: str, outcome: Outcome
    ) -> BackendError:
        role, tally = call.role, call.tally
        remedy = _TOO_SHORT_REMEDY if ran_out(outcome) else _UNREADABLE_REMEDY
        return BackendError(
            f"{question.node}: the answer of {role.model} could not be read, not even "
            f"after a repair round: {self._keys.hide(why or '')}; {remedy}",
            node=question.node,
            turn=question.turn,
            raw=self._keys.hide(raw),
            attempts=tally.attempts,
            details={
                "host": role.host,
                "model": role.model,
                "usage": tally.usage,
                "answered": True,
            },
        )

    def _failure(
        self, question: Ask, call: Call, error: Exception, *, raw: str | None = None
    ) -> BackendError:
        role, tally = call.role, call.tally
        what, remedy = explain(error, role.key.where)
        times = f" after {tally.attempts} attempts" if tally.attempts > 1 else ""
        body = self._keys.hide(str(error))
        answered = raw is not None
        if isinstance(response := vars(error).get(ANSWER), dict):
            answered |= bool(response.get("choices"))
            tally.add_usage_of(response)
            raw = raw or json.dumps(response, ensure_ascii=False, default=str)
        words = f" ({body[:SHOWN]})" if status_of(error) else ""
        return BackendError(
            f"{question.node}: {role.model} at {role.host}: {what}{times}{words}; {remedy}",
            node=question.node,
            turn=question.turn,
            raw=self._keys.hide(raw) if raw else body,
            attempts=tally.attempts,
            unreachable=is_transient(error) or is_hopeless(error),
            details={
                "status": status_of(error),
                "host": role.host,
                "model": role.model,
                "usage": tally.usage,
                "answered": answered,
            },
        )

    def _role(self, question: Ask, asked: RoleSettings, key: Key) -> Role:
        def missing(what: str) -> BackendError:
            return BackendError(
                f"{question.node}: {what}",
                node=question.node,
                turn=question.turn,
                attempts=0,
                # The next call would fare no better.
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
                f"no key for {role.host}, looked in {key.where}: {key.remedy}, or set "
                "backend.base_url to a server that needs none"
            )
        return role

    # Sending, in threads and in event loops.

    def _send(self, call: Call) -> Outcome:
        with self._lock:
            if self._threads is None:
                self._threads = Clients(self._settings, threads=True)
                if self._threads.http:
                    weakref.finalize(self, self._threads.http.close)
            clients = self._threads

        chat = clients.chat(call.role, call.dialect, call.tally)

        def once() -> AIMessage:
            with self._slots:
                # In the slot: those who wait for one must not save up what the rate allows.
                if clients.limiter:
                    clients.limiter.acquire()
                with _Clock(call.tally):
                    return chat.invoke(list(call.messages), **call.options)

        try:
            return Retrying(**self._policy(call.tally))(once)
        except _EXPECTED as error:
            return error

    async def _asend(self, call: Call) -> Outcome:
        loop = asyncio.get_running_loop()
        with self._lock:
            clients = self._loops.get(loop)
        if clients is None:
            # Outside the lock, which other loops must never have to wait for: it reads files.
            clients = Clients(self._settings, threads=False)
            with self._lock:
                # Open connections keep their loop alive, so weak keys alone would not do.
                for closed in [other for other in self._loops if other.is_closed()]:
                    del self._loops[closed]
                self._loops[loop] = clients
            if clients.keeper:
                await anext(clients.keeper)

        chat = clients.chat(call.role, call.dialect, call.tally)

        async def once() -> AIMessage:
            async with clients.slots:
                if clients.limiter:
                    await clients.limiter.aacquire()
                with _Clock(call.tally):
                    return await chat.ainvoke(list(call.messages), **call.options)

        try:
            return await AsyncRetrying(**self._policy(call.tally))(once)
        except _EXPECTED as error:
            return error

    def _policy(self, tally: Tally) -> dict[str, Any]:
        def budget_is_spent(_: RetryCallState) -> bool:
            return tally.failures > self._settings.max_retries

        return {
            "stop": budget_is_spent,
            "wait": Wait(self._backoff_s),
            "retry": retry_if_exception(is_transient),
            "reraise": True,
        }


# A server's 200 that is no chat completion surfaces as one of the builtin ones.
_EXPECTED = (openai.OpenAIError, ValueError, TypeError, LookupError, AttributeError)


class _Clock:
    """Counts one request and its time into a tally, whatever comes of it."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def __enter__(self) -> None:
        self._tally.attempts += 1
        self._start = time.perf_counter()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._tally.seconds += time.perf_counter() - self._start
        self._tally.failures += error is not None and is_transient(error)
