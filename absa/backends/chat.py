"""The clients that requests go through: `ChatOpenAI`, quicker and with a time limit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from typing_extensions import override

from absa.backends.echo import without_key
from absa.backends.keys import OPENAI_URL, Key
from absa.backends.servers import Dialect
from schemas.settings import BackendSettings

NO_KEY = "no-key-needed"
_PATH = "/chat/completions"
ANSWER = "answer"
"""Under this name an error carries the response that it is about."""
_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True)
class Role:
    """Whom one node asks, with the backend's values where its own are not set."""

    model: str
    base_url: str
    temperature: float
    seed: int
    max_tokens: int | None
    key: Key

    @property
    def host(self) -> str:
        """The server as messages name it."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]


@dataclass
class Tally:
    """What a question has cost so far, failures included."""

    attempts: int = 0
    failures: int = 0
    """Attempts that may be made again: one budget for the whole question."""
    seconds: float = 0.0
    usage: dict[str, int] = field(default_factory=dict)
    unsent: set[str] = field(default_factory=set)
    """Parameters that the client library itself keeps back from this model."""

    def add_usage(self, prompt: int, completion: int) -> None:
        """Count the tokens of one answer."""
        for name, count in (("prompt_tokens", prompt), ("completion_tokens", completion)):
            self.usage[name] = self.usage.get(name, 0) + count

    def add_usage_of(self, response: Mapping[str, Any]) -> None:
        """Count the tokens of an answer that could not be used, if it says how many they are."""
        told = response.get("usage")
        if isinstance(told, Mapping):
            prompt, completion = told.get("prompt_tokens"), told.get("completion_tokens")
            if isinstance(prompt, int) and isinstance(completion, int):
                self.add_usage(prompt, completion)


class _Chat(ChatOpenAI):
    """`ChatOpenAI` that posts its request as it stands and reads the answer's JSON.

    The SDK's typed methods walk the request along every message type there is, and build a typed
    object that LangChain takes apart again, in a thread: two thirds of the time of a call.
    """

    timeout_s: float
    limit_name: str | None = None
    """What this server calls the longest answer; None where it must not be sent."""

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
        try:
            # The client's own timeout is about each wait: an answer that trickles has no end.
            async with asyncio.timeout(self.timeout_s):
                answer = await self.root_async_client.post(_PATH, cast_to=object, body=body)
        except TimeoutError as error:
            url = httpx2.URL(self.openai_api_base or OPENAI_URL)
            raise openai.APITimeoutError(httpx2.Request("POST", url)) from error
        return self._result(answer)

    def _body(
        self, messages: list[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> dict[str, Any]:
        payload = self._get_request_payload(messages, stop=stop, **options)
        body = {
            name: value
            for name, value in payload.items()
            if name != "stream" and name not in _LIMIT_NAMES
        }
        if self.limit_name and self.max_tokens:
            body[self.limit_name] = self.max_tokens
        return body

    def _result(self, response: Any) -> ChatResult:
        try:
            result = self._create_chat_result(response)
            if not result.generations:
                raise LookupError("no answer in it")
            for generation in result.generations:
                if (generation.generation_info or {}).get("finish_reason") == "content_filter":
                    raise openai.ContentFilterFinishReasonError
        except Exception as error:
            # Whatever is wrong with it, it was said, and perhaps paid for.
            vars(error)[ANSWER] = response
            raise
        return result


class _TimedStream(httpx2.SyncByteStream):
    """A response's bytes, for as long as an answer may take: httpx only limits each wait."""

    def __init__(self, stream: httpx2.SyncByteStream, until: float) -> None:
        self._stream = stream
        self._until = until

    @override
    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            if time.monotonic() > self._until:
                raise httpx2.ReadTimeout("the answer trickles")
            yield chunk

    @override
    def close(self) -> None:
        self._stream.close()


def _timed_client(timeout_s: float) -> httpx2.Client:
    def begin(request: httpx2.Request) -> None:
        request.extensions["until"] = time.monotonic() + timeout_s

    def limit(response: httpx2.Response) -> None:
        if isinstance(response.stream, httpx2.SyncByteStream):
            until = response.request.extensions["until"]
            response.stream = _TimedStream(response.stream, until)

    hooks: dict[str, list[Callable[..., Any]]] = {"request": [begin], "response": [limit]}
    return _ThreadClient(timeout=timeout_s, event_hooks=hooks)


class _ThreadClient(openai.DefaultHttpxClient):
    """No key gets past here: every response comes through this."""

    @override
    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return without_key(super().send(request, **options))


class _LoopClient(openai.DefaultAioHttpClient):
    """The same for event loops."""

    @override
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        return without_key(await super().send(request, **options))


async def _kept_open(client: openai.DefaultAioHttpClient) -> AsyncGenerator[None]:
    """Close a client's connections with its event loop, which ends its generators first."""
    try:
        yield
    finally:
        await client.aclose()


class Clients:
    """The clients of one event loop, or of all threads: connections do not cross loops."""

    def __init__(self, settings: BackendSettings, *, threads: bool) -> None:
        """Open no connection yet."""
        self._settings = settings
        self._chats: dict[tuple[Any, ...], _Chat] = {}
        self._lock = threading.Lock()
        # Left to itself, ChatOpenAI shares one cached async client among all event loops.
        timeout = settings.timeout_s
        self.http = _timed_client(timeout) if threads else None
        # aiohttp: httpx's own pool polls every open connection for every request.
        self.ahttp = None if threads else _LoopClient(timeout=timeout)
        self.slots = asyncio.Semaphore(settings.max_concurrency)
        rate = settings.requests_per_second
        # One for all chats: a limit is about the server, whatever model is asked.
        self.limiter = (
            InMemoryRateLimiter(
                requests_per_second=rate, check_every_n_seconds=min(0.1, 0.1 / rate)
            )
            if rate
            else None
        )
        self.keeper = _kept_open(self.ahttp) if self.ahttp else None

    def chat(self, role: Role, dialect: Dialect, tally: Tally) -> _Chat:
        """The client for one way of asking one model."""
        temperature = None if "temperature" in dialect.unsent else role.temperature
        seed = None if "seed" in dialect.unsent else role.seed
        key = (role, dialect.unsent, dialect.limit)
        with self._lock:
            if key not in self._chats:
                self._chats[key] = _Chat(
                    model=role.model,
                    base_url=role.base_url,
                    # Always explicit, so that no other key of the environment is sent instead.
                    api_key=SecretStr(role.key.value or NO_KEY),
                    temperature=temperature,
                    seed=seed,
                    # By its field's alias: the plugin of the type checker knows no other.
                    max_completion_tokens=role.max_tokens,
                    limit_name=dialect.limit,
                    timeout_s=self._settings.timeout_s,
                    timeout=self._settings.timeout_s,
                    max_retries=0,
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
            tally.unsent.add("temperature")
        return chat
