"""Answers from OpenAI or any server that speaks its chat protocol (vLLM, Ollama, llama.cpp …).

One question is a short conversation: ask, perhaps ask more simply because the server refused a
feature, perhaps ask once more because the answer could not be read. `_converse` holds that logic
once, without I/O; `ask` and `aask` carry it out, each in its own way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)
from typing_extensions import override

from absa.backends import wire
from schemas.answers import Answer
from schemas.backend import Ask, Reply
from schemas.errors import AnswerError, BackendError
from schemas.settings import BackendSettings

logger = logging.getLogger(__name__)

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "no-key-needed"
_PATH = "/chat/completions"

Mode = Literal["json_schema", "tool", "text"]

_NEXT_MODE: Mapping[Mode, Mode] = {"json_schema": "tool", "tool": "text"}
_REFUSALS = frozenset({400, 404, 415, 422, 501})
"""Statuses by which servers say that they do not know a parameter or a feature."""

_UNUSABLE = frozenset({401, 402, 403})
_BUSY = frozenset({408, 409, 425, 429})
_PARAMETERS = ("temperature", "seed")
_LONGEST_WAIT_S = 60.0
_SHOWN = 300
"""Characters of a server's own words in an error message."""

_REPAIR = (
    "Your last answer could not be read: {why}. "
    "Give the whole answer again, as one JSON object in the format you were asked for."
)
_REMEDIES: Mapping[int, str] = {
    401: "set OPENAI_API_KEY to a key this server accepts",
    402: "check the account's credit",
    403: "the key in OPENAI_API_KEY may not use this model; check backend.model",
    404: "check backend.model, and that backend.base_url ends where the API begins (often /v1)",
    429: "lower backend.max_concurrency or raise backend.max_retries; finished samples are kept",
}
_QUOTA_REMEDY = "the account's quota is used up; check its plan and billing"
_CONTEXT_REMEDY = "the text is too long for this model; use one with a larger context"
_REFUSAL_REMEDY = "the server did not accept the request in any form; see its own words"
_SERVER_REMEDY = "the server is in trouble; try again later, finished samples are kept"
_TIMEOUT_REMEDY = "raise backend.timeout_s or lower backend.max_concurrency"
_CONNECTION_REMEDY = "check backend.base_url and that the server is running"
_FILTER_REMEDY = "the text cannot be analysed by this model"
_NOT_OPENAI_REMEDY = (
    "check that backend.base_url is an OpenAI-compatible API (often it ends in /v1)"
)
_UNREADABLE_REMEDY = "a larger or better instructed model may help; the answer is in the record"


@dataclass(frozen=True)
class _Dialect:
    """How one server wants to be asked for one model."""

    mode: Mode = "json_schema"
    unsent: frozenset[str] = frozenset()

    def simpler(self, refusal: Exception) -> _Dialect | None:
        """What to try after a refusal: without the parameter it names, else a simpler mode."""
        words = str(refusal).lower()
        for name in _PARAMETERS:
            if name in words and name not in self.unsent:
                return replace(self, unsent=self.unsent | {name})
        mode = _NEXT_MODE.get(self.mode)
        return replace(self, mode=mode) if mode else None


@dataclass(frozen=True)
class _Role:
    """Whom one node asks, with the backend's values where its own are not set."""

    model: str
    base_url: str
    temperature: float
    seed: int

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]


@dataclass
class _Tally:
    """What a question has cost so far, failures included."""

    attempts: int = 0
    seconds: float = 0.0
    usage: dict[str, int] = field(default_factory=dict)
    unsent: set[str] = field(default_factory=set)
    """Parameters that the client library itself keeps back from this model."""

    def add_usage(self, prompt: int, completion: int) -> None:
        for name, count in (("prompt_tokens", prompt), ("completion_tokens", completion)):
            self.usage[name] = self.usage.get(name, 0) + count


@dataclass(frozen=True)
class _Call:
    """One request: the same however often it has to be repeated."""

    role: _Role
    dialect: _Dialect
    messages: tuple[BaseMessage, ...]
    answer: type[Answer]
    tally: _Tally

    @property
    def options(self) -> dict[str, Any]:
        """What asks for structure, in this dialect."""
        if self.dialect.mode == "json_schema":
            return {"response_format": wire.response_format(self.answer)}
        if self.dialect.mode == "tool":
            choice = {"type": "function", "function": {"name": self.answer.__name__}}
            return {"tools": [wire.tool(self.answer)], "tool_choice": choice}
        return {}


_Outcome = AIMessage | Exception
_Conversation = Generator[_Call, _Outcome, Reply]
_ClientKey = tuple[str, str, float | None, int | None]


class _Chat(ChatOpenAI):
    """`ChatOpenAI` that posts its request as it stands and reads the answer's JSON.

    The SDK's typed methods walk the request along every message type there is, and build a typed
    object that LangChain takes apart again, in a thread: two thirds of the time of a call.
    """

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        body = self._body(messages, stop, kwargs)
        if self._use_responses_api(body):
            return super()._generate(messages, stop, run_manager, **kwargs)
        return self._result(self.root_client.post(_PATH, cast_to=object, body=body))

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        body = self._body(messages, stop, kwargs)
        if self._use_responses_api(body):
            return await super()._agenerate(messages, stop, run_manager, **kwargs)
        return self._result(await self.root_async_client.post(_PATH, cast_to=object, body=body))

    def _body(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> dict[str, Any]:
        payload = self._get_request_payload(messages, stop=stop, **options)
        return {name: value for name, value in payload.items() if name != "stream"}

    def _result(self, response: Any) -> ChatResult:
        result = self._create_chat_result(response)
        for generation in result.generations:
            if (generation.generation_info or {}).get("finish_reason") == "content_filter":
                raise openai.ContentFilterFinishReasonError
        return result


async def _kept_open(client: openai.DefaultAioHttpClient) -> AsyncGenerator[None]:
    """Close a client's connections with its event loop, which ends its generators first."""
    try:
        yield
    finally:
        await client.aclose()


class _Clients:
    """The clients of one event loop, or of all threads: connections do not cross loops."""

    def __init__(self, settings: BackendSettings, *, threads: bool) -> None:
        self._settings = settings
        self._chats: dict[_ClientKey, _Chat] = {}
        self._lock = threading.Lock()
        # Left to itself, ChatOpenAI shares one cached async client among all event loops.
        timeout = settings.timeout_s
        self.http = openai.DefaultHttpxClient(timeout=timeout) if threads else None
        # aiohttp: httpx's own pool polls every open connection for every request.
        self.ahttp = None if threads else openai.DefaultAioHttpClient(timeout=timeout)
        self.slots = asyncio.Semaphore(settings.max_concurrency)
        rate = settings.requests_per_second
        # One for all chats: a limit is about the server, whatever model is asked.
        self._limiter = (
            InMemoryRateLimiter(
                requests_per_second=rate, check_every_n_seconds=min(0.1, 0.1 / rate)
            )
            if rate
            else None
        )
        self.keeper = _kept_open(self.ahttp) if self.ahttp else None

    def chat(self, call: _Call) -> _Chat:
        role, unsent = call.role, call.dialect.unsent
        temperature = None if "temperature" in unsent else role.temperature
        seed = None if "seed" in unsent else role.seed
        key = (role.model, role.base_url, temperature, seed)
        with self._lock:
            if key not in self._chats:
                self._chats[key] = _Chat(
                    model=role.model,
                    base_url=role.base_url,
                    # Always explicit, so that no other key of the environment is sent instead.
                    api_key=SecretStr(_key() or NO_KEY),
                    temperature=temperature,
                    seed=seed,
                    timeout=self._settings.timeout_s,
                    max_retries=0,
                    rate_limiter=self._limiter,
                    # Answers are cached by what they depend on, elsewhere; never in here.
                    cache=False,
                    # A streamed answer has no token counts on many servers.
                    disable_streaming=True,
                    # Compatible servers are compatible with chat completions.
                    use_responses_api=None if role.base_url == OPENAI_URL else False,
                    http_client=self.http,
                    http_async_client=self.ahttp,
                )
            chat = self._chats[key]
        if temperature is not None and chat.temperature is None:
            call.tally.unsent.add("temperature")
        return chat


class OpenAIBackend:
    """A backend over `ChatOpenAI`.

    Structured output is asked for by JSON schema, else by tool call, else as JSON text; what a
    server refused is remembered per server and model, not guessed from names. Busy and failing
    servers are asked again with growing, jittered waits. At most `max_concurrency` requests are
    under way at a time per event loop, and as many from threads.

    `Reply.attempts` counts every request sent, `Reply.latency_ms` is the time they took, without
    waiting for a free slot or between retries. Tracing is LangChain's own: off unless the user
    switched it on in the environment.
    """

    name = "openai"

    def __init__(self, settings: BackendSettings, *, backoff_s: float = 0.5) -> None:
        """Take the settings; no connection is made before the first question."""
        self._settings = settings
        self._backoff_s = backoff_s
        self._dialects: dict[tuple[str, str], _Dialect] = {}
        self._threads: _Clients | None = None
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(settings.max_concurrency)

    def ask(self, question: Ask) -> Reply:
        """Answer now."""
        talk = self._converse(question)
        call = next(talk)
        while True:
            outcome = self._send(call)
            try:
                call = talk.send(outcome)
            except StopIteration as done:
                reply: Reply = done.value
                return reply

    async def aask(self, question: Ask) -> Reply:
        """Answer without blocking the event loop."""
        talk = self._converse(question)
        call = next(talk)
        while True:
            outcome = await self._asend(call)
            try:
                call = talk.send(outcome)
            except StopIteration as done:
                reply: Reply = done.value
                return reply

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

    def _converse(self, question: Ask) -> _Conversation:
        role = self._role(question)
        if role.base_url == OPENAI_URL and not _key():
            raise BackendError(
                f"{question.node}: no key for {role.host}: set OPENAI_API_KEY, or "
                "backend.base_url to a server of your own",
                node=question.node,
                turn=question.turn,
                attempts=0,
            )
        tally, notes = _Tally(), list[str]()
        messages = (SystemMessage(question.system), HumanMessage(question.user))
        first = _Call(role, self._dialect(role), messages, question.answer, tally)
        call, text = yield from self._agree(question, first, notes)

        output, why, missing = _read(text, question.answer)
        if why is not None:
            shown = (AIMessage(text[:4000]),) if text.strip() else ()
            again = (*messages, *shown, HumanMessage(_REPAIR.format(why=why)))
            outcome = yield replace(call, messages=again)
            second = _said(outcome, tally)
            repaired, still, still_missing = _read(second or "", question.answer)
            if repaired is not None and (output is None or still_missing <= missing):
                output = repaired
                notes.append(f"repaired: {why}")
            elif output is None and second is None and isinstance(outcome, Exception):
                raise self._failure(question, call, outcome, raw=text)
            elif output is None:
                raise BackendError(
                    f"{question.node}: the answer of {role.model} could not be read, not even "
                    f"after a repair round: {still}; {_UNREADABLE_REMEDY}",
                    node=question.node,
                    turn=question.turn,
                    raw=_without_key(second or text),
                    attempts=tally.attempts,
                    details={"host": role.host, "model": role.model, "usage": tally.usage},
                )
            else:
                notes.append(f"not repaired: {why}")
        unsent = call.dialect.unsent | tally.unsent
        notes += [f"{name} not sent: {role.model} does not take it" for name in sorted(unsent)]
        return Reply(
            output=output or {},
            backend=self.name,
            model=role.model,
            seed=None if "seed" in unsent else role.seed,
            usage=tally.usage or None,
            latency_ms=round(tally.seconds * 1000, 3),
            attempts=tally.attempts,
            notes=tuple(notes),
        )

    def _agree(
        self, question: Ask, call: _Call, notes: list[str]
    ) -> Generator[_Call, _Outcome, tuple[_Call, str]]:
        """Ask ever more simply until the server takes the request; give its text.

        A simpler way is remembered only once it worked: a request that is refused in every form
        was not refused for its form.
        """
        start, refusal = call.dialect, None
        while True:
            outcome = yield call
            text = _said(outcome, call.tally)
            if text is not None or isinstance(outcome, AIMessage):
                break
            if not _is_refusal(outcome):
                raise self._failure(question, call, outcome)
            refusal = refusal or outcome
            simpler = call.dialect.simpler(outcome)
            if simpler is None:
                raise self._failure(question, call, refusal)
            call = replace(call, dialect=simpler)
        if call.dialect != start:
            self._learn(call.role, call.dialect)
        if call.dialect.mode != "json_schema":
            notes.append(f"asked by {call.dialect.mode}: response_format was refused")
        return call, text or ""

    def _failure(
        self, question: Ask, call: _Call, error: Exception, *, raw: str | None = None
    ) -> BackendError:
        what, remedy = _explain(error)
        role, tally = call.role, call.tally
        times = f" after {tally.attempts} attempts" if tally.attempts > 1 else ""
        body = _without_key(str(error))
        words = f" ({body[:_SHOWN]})" if _status(error) else ""
        return BackendError(
            f"{question.node}: {role.model} at {role.host}: {what}{times}{words}; {remedy}",
            node=question.node,
            turn=question.turn,
            raw=_without_key(raw) if raw else body,
            attempts=tally.attempts,
            unreachable=_is_transient(error) or _is_hopeless(error),
            details={
                "status": _status(error),
                "host": role.host,
                "model": role.model,
                "usage": tally.usage,
            },
        )

    # What is known about roles and servers.

    def _role(self, question: Ask) -> _Role:
        asked = self._settings.role(question.node)
        if asked.model is None:
            raise BackendError(
                f"{question.node}: no model is set; set backend.model or "
                f"backend.roles.{question.node}.model",
                node=question.node,
                turn=question.turn,
                attempts=0,
            )
        assert asked.temperature is not None and asked.seed is not None, "the backend has both"
        temperature = asked.temperature if question.temperature is None else question.temperature
        return _Role(
            asked.model,
            (asked.base_url or OPENAI_URL).rstrip("/"),
            temperature,
            asked.seed + question.seed_offset,
        )

    def _dialect(self, role: _Role) -> _Dialect:
        with self._lock:
            return self._dialects.get((role.base_url, role.model), _Dialect())

    def _learn(self, role: _Role, dialect: _Dialect) -> None:
        with self._lock:
            self._dialects[role.base_url, role.model] = dialect
        logger.info("%s at %s is asked by %s from now on", role.model, role.host, dialect)

    # Sending, in threads and in event loops.

    def _send(self, call: _Call) -> _Outcome:
        with self._lock:
            if self._threads is None:
                self._threads = _Clients(self._settings, threads=True)
                if self._threads.http:
                    weakref.finalize(self, self._threads.http.close)
            clients = self._threads

        chat = clients.chat(call)

        def once() -> AIMessage:
            with self._slots, _Clock(call.tally):
                return chat.invoke(list(call.messages), **call.options)

        try:
            return Retrying(**self._policy())(once)
        except _EXPECTED as error:
            return error

    async def _asend(self, call: _Call) -> _Outcome:
        loop = asyncio.get_running_loop()
        with self._lock:
            clients = self._loops.get(loop)
        if clients is None:
            # Outside the lock, which other loops must never have to wait for: it reads files.
            clients = _Clients(self._settings, threads=False)
            with self._lock:
                # Open connections keep their loop alive, so weak keys alone would not do.
                for closed in [other for other in self._loops if other.is_closed()]:
                    del self._loops[closed]
                self._loops[loop] = clients
            if clients.keeper:
                await anext(clients.keeper)

        chat = clients.chat(call)

        async def once() -> AIMessage:
            async with clients.slots:
                with _Clock(call.tally):
                    return await chat.ainvoke(list(call.messages), **call.options)

        try:
            return await AsyncRetrying(**self._policy())(once)
        except _EXPECTED as error:
            return error

    def _policy(self) -> dict[str, Any]:
        return {
            "stop": stop_after_attempt(self._settings.max_retries + 1),
            "wait": _Wait(self._backoff_s),
            "retry": retry_if_exception(_is_transient),
            "reraise": True,
        }


# A server's 200 that is no chat completion surfaces as one of the builtin ones.
_EXPECTED = (openai.OpenAIError, ValueError, TypeError, LookupError, AttributeError)


class _Clock:
    """Counts one request and its time into a tally, whatever comes of it."""

    def __init__(self, tally: _Tally) -> None:
        self._tally = tally

    def __enter__(self) -> None:
        self._tally.attempts += 1
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._tally.seconds += time.perf_counter() - self._start


class _Wait:
    """What the server asks for by `Retry-After`, else jittered exponential backoff."""

    def __init__(self, backoff_s: float) -> None:
        growing = wait_exponential(multiplier=backoff_s, max=_LONGEST_WAIT_S)
        self._backoff = growing + wait_random(0, backoff_s)

    def __call__(self, state: RetryCallState) -> float:
        asked = _retry_after(state.outcome.exception() if state.outcome else None)
        return self._backoff(state) if asked is None else min(asked, _LONGEST_WAIT_S)


def _retry_after(error: BaseException | None) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers else None
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error, also where it came in the body of a 200."""
    status = getattr(error, "status_code", None)
    if status is None and error.args and isinstance(error.args[0], Mapping):
        status = error.args[0].get("code")
    return status if isinstance(status, int) else None


def _quota_used_up(error: BaseException) -> bool:
    return getattr(error, "code", None) == "insufficient_quota"


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, openai.APIConnectionError):  # timeouts are among them
        return True
    status = _status(error)
    if status is None or status in _REFUSALS or _quota_used_up(error):
        return False
    return status in _BUSY or status >= 500


def _is_hopeless(error: BaseException) -> bool:
    """Whether the next call would fare no better, whatever it asks."""
    return _status(error) in _UNUSABLE or _quota_used_up(error)


def _is_too_long(error: BaseException) -> bool:
    said = f"{getattr(error, 'code', '')} {getattr(error, 'type', '')} {error}".lower()
    return bool(re.search(r"context.?(length|size|window)|exceed_context", said))


def _is_refusal(error: Exception) -> bool:
    if _is_too_long(error):
        return False
    if isinstance(error, TypeError):  # the SDK refuses arguments an endpoint does not have
        return any(f"'{name}'" in str(error) for name in _PARAMETERS)
    return _status(error) in _REFUSALS


def _was_cut_off(error: BaseException) -> bool:
    """Whether there was no connection: over aiohttp the SDK reports that as a timeout too."""
    while (cause := error.__cause__) is not None:
        error = cause
        if isinstance(cause, aiohttp.ClientConnectionError):
            return not isinstance(cause, TimeoutError)
    return False


def _explain(error: Exception) -> tuple[str, str]:
    """What happened, and what the user can do about it."""
    if isinstance(error, openai.APITimeoutError) and not _was_cut_off(error):
        return "no answer in time", _TIMEOUT_REMEDY
    if isinstance(error, openai.APIConnectionError):
        return "no connection", _CONNECTION_REMEDY
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return "the answer was withheld by a content filter", _FILTER_REMEDY
    status = _status(error)
    if status is None:
        return f"not a chat completion [{type(error).__name__}]", _NOT_OPENAI_REMEDY
    if _quota_used_up(error):
        remedy = _QUOTA_REMEDY
    elif _is_too_long(error):
        remedy = _CONTEXT_REMEDY
    else:
        remedy = _REMEDIES.get(status, _SERVER_REMEDY if status >= 500 else _REFUSAL_REMEDY)
    return f"HTTP {status}", remedy


def _key() -> str | None:
    return os.environ.get("OPENAI_API_KEY") or None


def _without_key(text: str) -> str:
    """A server may repeat the key it was sent; nobody else shall."""
    key = _key()
    return text.replace(key, "***") if key else text


def _said(outcome: _Outcome, tally: _Tally) -> str | None:
    """What the model said, as text, whichever way it was asked; its tokens are counted."""
    if not isinstance(outcome, AIMessage):
        return None
    if usage := outcome.usage_metadata:
        tally.add_usage(usage["input_tokens"], usage["output_tokens"])
    for tool_call in outcome.tool_calls:
        return json.dumps(tool_call["args"], ensure_ascii=False)
    for broken in outcome.invalid_tool_calls:
        return broken["args"] or ""
    return str(outcome.text) or outcome.additional_kwargs.get("refusal") or ""


def _read(text: str, answer: type[Answer]) -> tuple[dict[str, Any] | None, str | None, int]:
    """The answer if it can be read, why it should be asked for again, how much is left out."""
    try:
        output = wire.parse(text, answer)
        missing = wire.left_out(output, answer)
    except AnswerError as error:
        return None, str(error), 0
    return output, "; ".join(missing) or None, len(missing)
