"""Wraps nodes for LangGraph: passes the current settings and supports sync and async runs.

In async runs LangGraph sends a plain function to a thread. These steps run in the event loop,
because rules take microseconds.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, cast, get_args, get_origin, get_type_hints

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.runtime import Runtime, get_runtime
from pydantic import BaseModel, TypeAdapter

from absa.graph.table import Rule
from absa.nodes.agent import Agent, Update, Variants
from absa.nodes.assets import OwnFiles, override_profiles, using
from absa.schemas.backend import Ask, Backend
from absa.schemas.context import RunContext
from absa.schemas.errors import InputError, WiringError
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import STATE_KEYS, State

_HINTS = get_type_hints(State)
_ADAPTERS = {key: TypeAdapter(hint) for key, hint in _HINTS.items()}


def _holds_model(hint: Any) -> bool:
    return any(isinstance(t, type) and issubclass(t, BaseModel) for t in (hint, *get_args(hint)))


# The state keys that hold models: directly or optional, in lists, in dictionaries.
_LISTS = [k for k, hint in _HINTS.items() if get_origin(hint) is list and _holds_model(hint)]
_MAPPINGS = [k for k, hint in _HINTS.items() if get_origin(hint) is dict and _holds_model(hint)]
_MODELS = [
    k for k, hint in _HINTS.items() if get_origin(hint) not in (list, dict) and _holds_model(hint)
]


class SettingsInForce:
    """The settings of the graph or, in a switchable graph, those of the run's context."""

    def __init__(
        self, pipeline: PipelineSettings, *, switchable: bool, editable: bool = True
    ) -> None:
        """Take the settings. `editable`: the state can be edited between steps (Studio)."""
        self.switchable = switchable
        # A batch skips the parsing, because each of 20 nodes per sample would check every key.
        self.state: Callable[[Any], State] = typed if editable else lambda state: state
        self._pipeline = pipeline
        self._applied = lru_cache(maxsize=256)(
            lambda context, fields_set: context.applied_to(pipeline, override_profiles())
        )

    def __call__(self) -> PipelineSettings:
        """The settings of the current run."""
        if not self.switchable:
            return self._pipeline
        return self.under(get_runtime(RunContext).context)

    def under(self, context: RunContext | None) -> PipelineSettings:
        """The settings under a context."""
        if context is None:
            return self._pipeline
        # The set of given fields is part of a context, but is not compared by its equality.
        pipeline: PipelineSettings = self._applied(context, frozenset(context.model_fields_set))
        return pipeline

    def check_context(self) -> None:
        """Reject a context that a graph of fixed settings would ignore."""
        if not self.switchable and get_runtime().context:
            raise InputError(
                "this graph was built for fixed settings and takes no context: "
                "change the settings and build it again, or use the switchable graph"
            )


def typed(state: Mapping[str, Any]) -> State:
    """Parse plain JSON in the state to models. An edit in Studio arrives as plain JSON.

    Every node of every sample calls this function, so it uses fast type checks.
    """
    get = state.get
    if not (
        dict in map(type, map(get, _MODELS))
        or dict in [type(items[0]) for items in map(get, _LISTS) if items]
        # All values are checked, because an edit of one key is merged with models under other keys.
        or any(dict in map(type, items.values()) for items in map(get, _MAPPINGS) if items)
    ):
        return cast(State, state)
    edited = (key for key in (*_MODELS, *_LISTS, *_MAPPINGS) if key in state)
    read = {key: _ADAPTERS[key].validate_python(state[key]) for key in edited}
    return cast(State, {**state, **read})


class RuleStep(Runnable[State, Any]):
    """Runs a rule: a function of the state, or of the state and the settings."""

    def __init__(self, rule: Rule, settings: SettingsInForce, keys: Collection[str]) -> None:
        """Wrap `rule`. The update of a user's own rule may write only `keys`."""
        self.name: str = rule.name
        self._rule = rule
        self._settings = settings
        self._keys = keys
        self._is_async = inspect.iscoroutinefunction(rule.function)

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the rule."""
        if self._is_async:
            return asyncio.run(self._awaited(input))
        return self._checked(self._call(input))

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Run the rule in the loop, or in a thread if it can block."""
        if self._is_async:
            return await self._awaited(input)
        if self._rule.blocking:
            return await asyncio.to_thread(self.invoke, input)
        return self.invoke(input)

    async def _awaited(self, state: State) -> Any:
        return self._checked(await self._call(state))

    def _call(self, input: State) -> Any:
        state = self._settings.state(input)
        try:
            return self._rule(state, self._settings())
        except KeyError as error:
            raise _explained(error, self.name, state) from error

    def _checked(self, update: Any) -> Any:
        if not self._rule.own:
            return update
        if not isinstance(update, Mapping):
            raise WiringError(
                f"the node {self.name!r} returned {type(update).__name__}: a node must return a "
                "dictionary, the update of the state"
            )
        # LangGraph would drop unknown keys silently.
        if unknown := [key for key in update if key not in self._keys]:
            raise WiringError(
                f"the node {self.name!r} returned {', '.join(map(repr, unknown))}, which the state "
                f"does not have{nearest(unknown[0], self._keys)}; a new key is declared with "
                f"writes={{{unknown[0]!r}: type}}"
            )
        return update


class RouteStep(Runnable[State, Any]):
    """Runs a router, which returns the next node or nodes."""

    name = "route"

    def __init__(self, router: Callable[[State, PipelineSettings], Any], settings: Any) -> None:
        self._router = router
        self._settings = settings

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Choose."""
        if not self._settings.switchable:
            return self._router(self._settings.state(input), self._settings())
        # Not `get_runtime()`: there is no runtime when a user edits a state.
        with set_config_context(config or {}) as run:
            runtime: Runtime[RunContext] | None = run.run(get_runtime, RunContext)
        context = runtime.context if runtime else None
        return self._router(self._settings.state(input), self._settings.under(context))

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Run the router in the loop."""
        return self.invoke(input, config)


def _explained(error: KeyError, node: str, state: State) -> Exception:
    """The error for a state key that no node of a changed wiring has written."""
    (key,) = error.args
    if key not in STATE_KEYS or key in state:
        return error
    return WiringError(
        f"the node {node!r} reads {key!r} from the state, but no node before it wrote that "
        "key: insert the node that writes it, or move this one"
    )


def nearest(name: str, names: Iterable[str]) -> str:
    """A suggestion of a similar name, for the end of a sentence."""
    close = get_close_matches(name, list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


class AgentStep(Runnable[State, Any]):
    """Runs an agent: one question to the backend."""

    def __init__(
        self, agent: Agent[Any] | Variants, backend: Backend, settings: SettingsInForce
    ) -> None:
        self.name: str = agent.name
        self._agent = agent
        self._backend = backend
        self._settings = settings

    def _asked(self, input: State) -> tuple[State, Agent[Any], Ask]:
        state = self._settings.state(input)
        pipeline = self._settings()
        agent = self._agent.under(pipeline)
        try:
            return state, agent, agent.question(state, pipeline)
        except KeyError as error:
            raise _explained(error, self.name, state) from error

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Ask the backend and wait."""
        state, agent, question = self._asked(input)
        start = time.perf_counter()
        reply = self._backend.ask(question)
        return _streamed(agent.take(state, question, reply, _ms_since(start)))

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Ask the backend without blocking the event loop."""
        state, agent, question = self._asked(input)
        start = time.perf_counter()
        reply = await self._backend.aask(question)
        return _streamed(agent.take(state, question, reply, _ms_since(start)))


class WithOwnFiles(Runnable[State, Any]):
    """Runs another step with a user's prompts and resources."""

    def __init__(self, step: Runnable[Any, Any], files: OwnFiles) -> None:
        self.name: str = str(step.name)
        self._step = step
        self._files = files

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the step."""
        with using(self._files):
            return self._step.invoke(input, config)

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Run the step in the loop."""
        with using(self._files):
            return await self._step.ainvoke(input, config)


def _streamed(update: Update) -> Update:
    """Return the update, and write its answer to `stream_mode="custom"`.

    LangGraph's server streams only the keys of the output, so its `updates` have no answers.
    """
    for record in update["calls"].values():
        get_runtime().stream_writer(
            {"node": record.node, "turn": record.turn, "answer": record.output}
        )
    return update


def _ms_since(start: float) -> float:
    return (time.perf_counter() - start) * 1000
