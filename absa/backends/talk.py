"""One request and its answer, without I/O: how structure is asked for, what can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from absa.backends import likelihood, wire
from absa.backends.chat import Role, Tally
from absa.backends.servers import Dialect
from absa.schemas.answers import Answer
from absa.schemas.backend import Ask, known_usage
from absa.schemas.errors import AnswerError

SHOWN = 300
"""Characters of a server's or a model's own words in a message or a note."""

_REPEATED = 4000
"""Characters of an answer that its model is shown again."""
LONGEST_ANSWER = 1_000_000
"""Characters of an answer, thoughts included: more than any model writes at once."""
_LONGEST_WHY = 2000

_REPAIR = (
    "Your last answer could not be read: {why}. "
    "Give the whole answer again, as one JSON object in the format you were asked for."
)

Outcome = AIMessage | Exception


@dataclass(frozen=True)
class Call:
    """One request: the same however often it has to be repeated."""

    role: Role
    dialect: Dialect
    messages: tuple[BaseMessage, ...]
    answer: type[Answer]
    tally: Tally

    @property
    def options(self) -> dict[str, Any]:
        """What asks for structure, in this dialect, and for the probabilities of names."""
        # One alternative per token, the least there is: llama.cpp tells twenty unless asked.
        weighing = {"logprobs": True, "top_logprobs": 1}
        return {**self._structure(), **(weighing if self.is_weighed else {})}

    @property
    def has_names(self) -> bool:
        """Whether the answer lists names whose probability matters."""
        return likelihood.named(self.answer) is not None

    @property
    def is_weighed(self) -> bool:
        """Whether the server is asked for the probabilities of tokens.

        Not with a tool, whose arguments have none, and not in the plainest of requests.
        """
        asked = self.dialect.mode in ("json_schema", "json_object")
        return asked and self.has_names and "logprobs" not in self.dialect.unsent

    def _structure(self) -> dict[str, Any]:
        match self.dialect.mode:
            case "json_schema":
                return {"response_format": wire.response_format(self.answer)}
            case "tool":
                choice = {"type": "function", "function": {"name": self.answer.__name__}}
                return {"tools": [wire.tool(self.answer)], "tool_choice": choice}
            case "json_object":
                return {"response_format": {"type": "json_object"}}
            case "text":
                return {}


@dataclass(frozen=True)
class Reading:
    """What could be read of an answer."""

    output: dict[str, Any] | None = None
    why: str | None = None
    """Why it should be asked for again."""
    missing: int = 0
    """How many parts of it are left out."""
    notes: tuple[str, ...] = ()


def conversation(question: Ask) -> tuple[BaseMessage, ...]:
    """A question as messages. What is the same for every text comes first, for prompt caches."""
    before = ((HumanMessage(asked), AIMessage(told)) for asked, told in question.examples)
    turns = (*chain.from_iterable(before), HumanMessage(question.user))
    return (SystemMessage(question.system), *turns)


@dataclass(frozen=True)
class Heard:
    """An answer and what could be read of it."""

    message: AIMessage
    text: str
    reading: Reading

    @property
    def ran_out(self) -> bool:
        """Whether it reached the longest answer that is allowed."""
        return self.message.response_metadata.get("finish_reason") == "length"

    @property
    def is_refusal(self) -> bool:
        """Whether the model says that it will not answer."""
        return bool(self.text) and self.message.additional_kwargs.get("refusal") == self.text

    def is_as_good_as(self, other: Heard) -> bool:
        """Whether no more is left out than of another answer."""
        return other.reading.output is None or self.reading.missing <= other.reading.missing

    def repair(self, call: Call) -> Call:
        """The request that shows the model this answer, and what is wrong with it."""
        shown = (AIMessage(self.text[:_REPEATED]),) if self.text.strip() else ()
        asked = HumanMessage(_REPAIR.format(why=self.reading.why))
        return replace(call, messages=(*call.messages, *shown, asked))


def hear(message: AIMessage, answer: type[Answer], tally: Tally) -> Heard:
    """Read an answer; its tokens are counted."""
    counts: Mapping[str, Any] = message.usage_metadata or {}
    named = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    tally.add_usage(known_usage({name: counts.get(theirs) for name, theirs in named.items()}))
    text = _said(message)
    return Heard(message, text, read(text, answer))


def _said(message: AIMessage) -> str:
    """What the model said, as text, whichever way it was asked."""
    for tool_call in message.tool_calls:
        return json.dumps(tool_call["args"], ensure_ascii=False)
    for broken in message.invalid_tool_calls:
        return broken["args"] or ""
    return str(message.text) or message.additional_kwargs.get("refusal") or ""


def weighed(heard: Heard, answer: type[Answer]) -> dict[str, Any]:
    """What was read, with how likely the model held the names in it, if the server told."""
    told = heard.message.response_metadata.get("logprobs")
    tokens = told.get("content") if isinstance(told, Mapping) else None
    return likelihood.with_probabilities(heard.reading.output or {}, answer, tokens)


def read(text: str, answer: type[Answer]) -> Reading:
    """What can be read of an answer: valid items are kept, the rest is told."""
    if len(text) > LONGEST_ANSWER:
        length = f"{len(text):,} characters, more than {LONGEST_ANSWER:,}"
        return Reading(why=f"the answer has {length}")
    try:
        parsed = wire.parse(text, answer)
        missing = wire.left_out(parsed.output, answer)
    except AnswerError as error:
        return Reading(why=_short(str(error)))
    if parsed.cut is not None:
        missing = [*missing, f"it breaks off, left out: {parsed.cut.strip()[:SHOWN]}"]
    why = _short("; ".join(missing)) or None
    return Reading(parsed.output, why, len(missing), parsed.notes)


def _short(why: str) -> str:
    """A reason quotes the answer, which may be long."""
    return why if len(why) <= _LONGEST_WHY else f"{why[:_LONGEST_WHY]} …"
