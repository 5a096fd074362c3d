"""Nodes as LangGraph runs them: with the settings in force, in both worlds, sync and async.

A plain function given to LangGraph would be sent to a thread in every async run; these run in
the loop, since rules take microseconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast, get_args, get_origin, get_type_hints

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, Item
from langgraph.types import interrupt
from pydantic import BaseModel, TypeAdapter

from nodes import human_review, memory
from nodes.agent import Agent, Update
from nodes.human_answer import read_answer
from schemas.backend import Backend
from schemas.context import RunContext
from schemas.errors import InputError
from schemas.human import HumanAnswer
from schemas.memory import Recall
from schemas.settings import MemorySettings, PipelineSettings
from schemas.state import FinishUpdate, State

_HINTS = get_type_hints(State)
_ADAPTERS = {key: TypeAdapter(hint) for key, hint in _HINTS.items()}


def _holds_model(hint: Any) -> bool:
    return any(isinstance(t, type) and issubclass(t, BaseModel) for t in (hint, *get_args(hint)))


# The keys that hold models: bare or optional, in lists, in dictionaries.
_LISTS = [k for k, hint in _HINTS.items() if get_origin(hint) is list and _holds_model(hint)]
_MAPPINGS = [k for k, hint in _HINTS.items() if get_origin(hint) is dict and _holds_model(hint)]
_MODELS = [
    k for k, hint in _HINTS.items() if get_origin(hint) not in (list, dict) and _holds_model(hint)
]


class SettingsInForce:
    """The settings as built or, in a switchable graph, as the run's context asks for them."""

    def __init__(self, pipeline: PipelineSettings, *, switchable: bool) -> None:
        """Take the settings as built."""
        self.switchable = switchable
        self._pipeline = pipeline
        self._applied = lru_cache(maxsize=256)(lambda context, given: context.applied_to(pipeline))

    def __call__(self) -> PipelineSettings:
        """The settings of the run that is going on."""
        if not self.switchable:
            return self._pipeline
        return self.under(get_runtime(RunContext).context)

    def under(self, context: RunContext | None) -> PipelineSettings:
        """The settings under a context."""
        if context is None:
            return self._pipeline
        # Which fields were given is part of a context, but not of its equality.
        pipeline: PipelineSettings = self._applied(context, frozenset(context.model_fields_set))
        return pipeline

    def check_context(self) -> None:
        """Refuse a context that a graph of fixed settings would ignore."""
        if not self.switchable and get_runtime().context:
            raise InputError(
                "this graph was built for fixed settings and takes no context: "
                "change the settings and build it again, or use the switchable graph"
            )


def typed(state: Mapping[str, Any]) -> State:
    """The state with its models as models: an edit from outside (Studio) arrives as plain JSON.

    Every node of every sample passes here, hence the bare type checks.
    """
    plain = [key for key in _MODELS if type(state.get(key)) is dict]
    plain += [key for key in _LISTS if (found := state.get(key)) and type(found[0]) is dict]
    # All values: an edit of one key is merged with models under the others.
    plain += [
        key for key in _MAPPINGS if (found := state.get(key)) and dict in map(type, found.values())
    ]
    if not plain:
        return cast(State, state)
    read = {key: _ADAPTERS[key].validate_python(state[key]) for key in plain}
    return cast(State, {**state, **read})


class RuleStep(Runnable[State, Any]):
    """A rule: a pure function of the state and the settings."""

    def __init__(self, rule: Callable[..., Any], settings: SettingsInForce | None = None) -> None:
        """Wrap `rule(state)`, or `rule(state, pipeline)` where settings are given."""
        self.name = rule.__name__
        self._rule = rule
        self._settings = settings

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the rule."""
        state = typed(input)
        return self._rule(state, self._settings()) if self._settings else self._rule(state)

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Run the rule in the loop: it does no I/O."""
        return self.invoke(input)


class RouteStep(Runnable[State, Any]):
    """A router: reads fields, names the next node or nodes."""

    def __init__(self, router: Callable[[State], Any]) -> None:
        """Wrap `router(state)`."""
        self.name = getattr(router, "__name__", "route")
        self._router = router

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Choose."""
        return self._router(typed(input))

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Choose in the loop."""
        return self.invoke(input)


class HumanStep(Runnable[State, Any]):
    """`human_review`: a person is shown what the last rule would give, and asked about it."""

    name = "human_review"

    def __init__(
        self,
        last: Callable[[State, PipelineSettings], FinishUpdate],
        settings: SettingsInForce,
        *,
        interactive: bool,
    ) -> None:
        """Ask about the output of `last`; without a person at hand, leave it pending."""
        self._last = last
        self._settings = settings
        self._interactive = interactive

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Ask until the answer can be used: every try is an interrupt of its own."""
        state, pipeline = typed(input), self._settings()
        if not self._interactive:
            return human_review.pending(state, pipeline)
        draft = self._last(state, pipeline)["output"]
        question = human_review.question(state, pipeline, draft)
        while True:
            said = interrupt(question.model_dump(mode="json"), response_schema=_ANSWER_SCHEMA)
            answer, problems = read_answer(said, draft)
            if answer is not None:
                return {"persons_word": human_review.answered(answer, question.reasons)}
            question = question.model_copy(update={"problems": tuple(problems)})

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Ask in the loop: waiting is done by the graph, not here."""
        return self.invoke(input)


# Plain JSON schema, not the model: LangGraph would raise for an answer that does not fit it.
_ANSWER_SCHEMA = HumanAnswer.model_json_schema()


class _StoreStep(Runnable[State, Any]):
    """A node that speaks with LangGraph's store; in async runs from a thread, as stores allow."""

    def __init__(self, settings: SettingsInForce) -> None:
        """Take the settings in force."""
        self._settings = settings

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Read and write now."""
        store = get_runtime().store
        assert store is not None, "a graph with memory is compiled with a store"
        return self._act(typed(input), self._settings().memory, store)

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Read and write in a thread."""
        return await asyncio.to_thread(self.invoke, input)

    @abstractmethod
    def _act(self, state: State, settings: MemorySettings, store: BaseStore) -> Any:
        """The update of the state."""


class RecallStep(_StoreStep):
    """`recall`: what memory holds for a case like this one."""

    name = "recall"

    def _act(self, state: State, settings: MemorySettings, store: BaseStore) -> Any:
        assert settings.condition != "off", "without memory there is no such node"
        if (recorded := state.get("memory_recall")) is not None:
            # A recorded run that is decided again: what memory holds by now is another matter.
            return {"memory_recall": recorded.model_copy(update={"condition": settings.condition})}
        signature, sample = memory.signature_of_state(state), memory.sample_id(state["text"])
        places = memory.best(
            cast("list[Item | None]", store.batch(memory.index_reads(signature))),
            signature,
            sample=sample,
            split=state["split"],
            any_split=settings.allow_eval_writes,
        )
        episodes = memory.episodes_in(cast("list[Item | None]", store.batch(places)))
        recall = Recall(
            condition=settings.condition,
            sample=sample,
            signature=signature,
            episodes=episodes,
            advice=tuple(memory.advice_of(e) for e in episodes),
        )
        return {"memory_recall": recall}


class RememberStep(_StoreStep):
    """`remember`: the finished case becomes an episode."""

    name = "remember"
    # The index is read, changed and written: one at a time.
    _lock = threading.Lock()

    def _act(self, state: State, settings: MemorySettings, store: BaseStore) -> Any:
        split, recall = state["split"], state.get("memory_recall")
        # What was recalled for this text is not kept for the next one on the thread.
        done = {"memory_recall": None, "split": None}
        if recall is None or not memory.may_write(split, any_split=settings.allow_eval_writes):
            return done
        episode = memory.episode_of(state["output"], recall.signature, split, time.time_ns())
        with self._lock:
            known, indexed = cast("list[Item | None]", store.batch(memory.reads(episode)))
            store.batch(memory.writes(episode, known, indexed))
        return done


class AgentStep(Runnable[State, Any]):
    """An agent: one question to the backend."""

    def __init__(self, agent: Agent[Any], backend: Backend, settings: SettingsInForce) -> None:
        """Let `backend` answer for `agent`."""
        self.name = agent.name
        self._agent = agent
        self._backend = backend
        self._settings = settings

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Ask and wait."""
        state = typed(input)
        question = self._agent.question(state, self._settings())
        start = time.perf_counter()
        reply = self._backend.ask(question)
        return _told(self._agent.take(state, question, reply, _ms_since(start)))

    async def ainvoke(
        self, input: State, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Any:
        """Ask and let others go on."""
        state = typed(input)
        question = self._agent.question(state, self._settings())
        start = time.perf_counter()
        reply = await self._backend.aask(question)
        return _told(self._agent.take(state, question, reply, _ms_since(start)))


def _told(update: Update) -> Update:
    """The update, its answer told to whoever listens with `stream_mode="custom"`.

    LangGraph's server streams the keys of the output only: its `updates` hold no agent's answer.
    """
    for record in update["calls"].values():
        get_runtime().stream_writer(
            {"node": record.node, "turn": record.turn, "answer": record.output}
        )
    return update


def _ms_since(start: float) -> float:
    return (time.perf_counter() - start) * 1000
