"""The HTTP clients: `ChatOpenAI` with less overhead and with limits on size and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from typing_extensions import override

from absa.backends.faults import NoAnswer
from absa.backends.keys import OPENAI_URL, Key
from absa.backends.redaction import hide_in
from absa.backends.servers import Dialect
from absa.schemas.backend import known_usage
from absa.schemas.json_text import parse_json
from absa.schemas.settings import BackendSettings

NO_KEY = "no-key-needed"
_PATH = "/chat/completions"
BODY = "body"
"""The attribute of an error that holds the response it was raised for."""
HOST = "host"
"""The key of a message's metadata that holds the server that answered."""
_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")

LARGEST_BODY = 16 * 2**20
"""Largest accepted response in bytes. 40,000 tokens with their probabilities fit."""
_MOST_REDIRECTS = 5
# They describe the body as it was sent, which is decoded and may be shortened.
_OF_RAW_BODY = ("content-length", "content-encoding", "transfer-encoding")


@dataclass(frozen=True)
class Role:
    """The model and server of one node; values that the node does not set are the backend's."""

    model: str
    base_url: str
    temperature: float
    seed: int
    max_tokens: int | None
    key: Key

    @property
    def host(self) -> str:
        """The server's host, for messages."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]


@dataclass
class Tally:
    """The cost of one question so far, including failed attempts."""

    attempts: int = 0
    failures: int = 0
    """The number of failed attempts that may be retried. The whole question has one budget."""
    seconds: float = 0.0
    usage: dict[str, int] | None = field(default_factory=dict)
    """None if an answer came without token counts, because the sum is then unknown."""
    unsent: set[str] = field(default_factory=set)
    """Parameters that the client library does not send to this model."""

    def add_usage(self, usage: Mapping[str, int] | None) -> None:
        """Count the tokens of one answer."""
        if usage is None or self.usage is None:
            self.usage = None
        else:
            self.usage = {name: self.usage.get(name, 0) + usage[name] for name in usage}

    def add_failure(self, error: BaseException, *, passes: bool) -> None:
        """Count a failed attempt and its cost."""
        self.failures += passes
        body = vars(error).get(BODY)
        if isinstance(body, Mapping) and "usage" in body:
            self.add_usage(known_usage(body["usage"]))


class _Chat(ChatOpenAI):
    """`ChatOpenAI` that posts its request unchanged and reads the JSON of the answer.

    The SDK's typed methods try every message type on the request. They build a typed object, which
    LangChain converts back in a thread. That takes two thirds of the CPU time of a call.
    """

    timeout_s: float
    limit_name: str | None = None
    """This server's name for the maximum answer length; None if it must not be sent."""

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
            # The client's own timeout applies to each read, so a slow stream would never time out.
            async with asyncio.timeout(self.timeout_s):
                response = await self.root_async_client.post(
                    _PATH, cast_to=httpx2.Response, body=body
                )
        except TimeoutError as error:
            url = httpx2.URL(self.openai_api_base or OPENAI_URL)
            raise openai.APITimeoutError(httpx2.Request("POST", url)) from error
        return self._result(response)

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

    def _result(self, response: httpx2.Response) -> ChatResult:
        try:
            body = parse_json(response.content)
        except ValueError:
            raise NoAnswer.undecodable(response.content) from None
        try:
            if not body["choices"] or body.get("error"):
                raise NoAnswer.without_choices(body)
            # An invalid token count must not make the answer fail.
            result = self._create_chat_result({**body, "usage": known_usage(body.get("usage"))})
            refusal = body["choices"][0]["message"].get("refusal")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise NoAnswer.without_choices(body) from error
        for generation in result.generations:
            if (generation.generation_info or {}).get("finish_reason") == "content_filter":
                filtered = openai.ContentFilterFinishReasonError()
                # The answer counts even if it is invalid: it was perhaps paid for.
                vars(filtered)[BODY] = body
                raise filtered
            if isinstance(message := generation.message, AIMessage):
                message.response_metadata[HOST] = response.url.netloc.decode()
                if isinstance(refusal, str):
                    message.additional_kwargs["refusal"] = refusal
        return result


class _Client(openai.DefaultAioHttpClient):
    """HTTP client that does not follow redirects to other servers, and limits the response size."""

    def __init__(self, settings: BackendSettings) -> None:
        # aiohttp: httpx's own pool polls every open connection for every request.
        super().__init__(timeout=settings.timeout_s)
        self._may_leave = settings.allow_redirects

    @override
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        options |= {"stream": True, "follow_redirects": False}
        response = await super().send(request, **options)
        for _ in range(_MOST_REDIRECTS):
            if response.next_request is None:
                break
            await response.aclose()
            onward = response.next_request
            if not self._may_leave and _origin(onward.url) != _origin(request.url):
                raise NoAnswer.elsewhere(_origin(onward.url))
            response = await super().send(onward, **options)
        try:
            content = await _read_limited(response)
        finally:
            await response.aclose()
        # Every response comes through here, so no key gets past this line.
        content = hide_in(content, request.headers.get("authorization", "").removeprefix("Bearer "))
        headers = response.headers.multi_items()
        return httpx2.Response(
            response.status_code,
            headers=[(name, value) for name, value in headers if name.lower() not in _OF_RAW_BODY],
            content=content,
            request=response.request,
            extensions=response.extensions,
        )


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode()}"


async def _read_limited(response: httpx2.Response) -> bytes:
    """All decompressed bytes of a response; raises an error if they are too many."""
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > LARGEST_BODY:
            raise NoAnswer.too_large(LARGEST_BODY)
        chunks.append(chunk)
    return b"".join(chunks)


async def _kept_open(client: _Client) -> AsyncGenerator[None]:
    """Close a client's connections when its event loop closes its async generators."""
    try:
        yield
    finally:
        await client.aclose()


class Clients:
    """The clients of one event loop. Connections cannot be used from another loop."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._chats: dict[tuple[Any, ...], _Chat] = {}
        # By default, ChatOpenAI shares one cached async client among all event loops.
        self._http = _Client(settings)
        self.slots = asyncio.Semaphore(settings.max_concurrency)
        rate = settings.requests_per_second
        # One limiter for all models, because the limit belongs to the server.
        self.limiter = (
            InMemoryRateLimiter(
                requests_per_second=rate, check_every_n_seconds=min(0.1, 0.1 / rate)
            )
            if rate
            else None
        )
        self.keeper = _kept_open(self._http)

    def chat(self, role: Role, dialect: Dialect, tally: Tally) -> _Chat:
        """The client for one way of asking one model."""
        temperature = None if "temperature" in dialect.unsent else role.temperature
        seed = None if "seed" in dialect.unsent else role.seed
        key = (role, dialect.unsent, dialect.limit)
        if key not in self._chats:
            self._chats[key] = _Chat(
                model=role.model,
                base_url=role.base_url,
                # Always explicit, else ChatOpenAI takes a key from the environment.
                api_key=SecretStr(role.key.value or NO_KEY),
                temperature=temperature,
                seed=seed,
                # By the field's alias: mypy's plugin accepts only that name.
                max_completion_tokens=role.max_tokens,
                limit_name=dialect.limit,
                timeout_s=self._settings.timeout_s,
                timeout=self._settings.timeout_s,
                max_retries=0,
                # `cache.py` caches answers; LangChain's own cache stays off.
                cache=False,
                # A streamed answer has no token counts on many servers.
                disable_streaming=True,
                # Compatible servers offer the chat completions API, often not the responses API.
                use_responses_api=None if role.base_url == OPENAI_URL else False,
                http_async_client=self._http,
            )
        chat = self._chats[key]
        if temperature is not None and chat.temperature is None:
            tally.unsent.add("temperature")
        return chat
