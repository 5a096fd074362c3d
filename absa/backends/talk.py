"""One request and its answer, without I/O: structured output and parsing."""

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
"""Characters of a server's or model's text that a message or note quotes."""

_REPEATED = 4000
"""Characters of an answer that a repair request quotes."""
LONGEST_ANSWER = 1_000_000
"""Largest accepted answer in characters, thoughts included."""
_LONGEST_WHY = 2000

_REPAIR = (
    "Your last answer could not be read: {why}. "
    "Give the whole answer again, as one JSON object in the format you were asked for."
)

Outcome = AIMessage | Exception


@dataclass(frozen=True)
class Call:
    """One request. A retry sends the same request again."""

    role: Role
    dialect: Dialect
    messages: tuple[BaseMessage, ...]
    answer: type[Answer]
    tally: Tally

    @property
    def options(self) -> dict[str, Any]:
        """The request options for structured output and token probabilities in this dialect."""
        # One alternative per token is the minimum; llama.cpp's default is twenty.
        weighing = {"logprobs": True, "top_logprobs": 1}
        return {**self._structure(), **(weighing if self.is_weighed else {})}

    @property
    def has_names(self) -> bool:
        """Whether the answer lists names whose probability matters."""
        return likelihood.named(self.answer) is not None

    @property
    def is_weighed(self) -> bool:
        """Whether the request asks for token probabilities.

        Tool arguments have none, and the plainest request does not ask for them.
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
    """The parts of an answer that could be read."""

    output: dict[str, Any] | None = None
    why: str | None = None
    """Why it should be asked for again."""
    missing: int = 0
    """The number of parts that were left out."""
    notes: tuple[str, ...] = ()


def conversation(question: Ask) -> tuple[BaseMessage, ...]:
    """A question as messages. The part that is equal for all texts comes first (prompt caching)."""
    before = ((HumanMessage(asked), AIMessage(answered)) for asked, answered in question.examples)
    turns = (*chain.from_iterable(before), HumanMessage(question.user))
    return (SystemMessage(question.system), *turns)


@dataclass(frozen=True)
class ParsedAnswer:
    """An answer and its parsed parts."""

    message: AIMessage
    text: str
    reading: Reading

    @property
    def ran_out(self) -> bool:
        """Whether the answer reached the maximum length."""
        return self.message.response_metadata.get("finish_reason") == "length"

    @property
    def is_refusal(self) -> bool:
        """Whether the model says that it will not answer."""
        return bool(self.text) and self.message.additional_kwargs.get("refusal") == self.text

    def is_as_good_as(self, other: ParsedAnswer) -> bool:
        """Whether it leaves out at most as much as another answer."""
        return other.reading.output is None or self.reading.missing <= other.reading.missing

    def repair(self, call: Call) -> Call:
        """The request that shows the model its answer and the error in it."""
        shown = (AIMessage(self.text[:_REPEATED]),) if self.text.strip() else ()
        asked = HumanMessage(_REPAIR.format(why=self.reading.why))
        return replace(call, messages=(*call.messages, *shown, asked))


def parse_message(message: AIMessage, answer: type[Answer], tally: Tally) -> ParsedAnswer:
    """Read an answer; its tokens are counted."""
    counts: Mapping[str, Any] = message.usage_metadata or {}
    named = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    tally.add_usage(known_usage({name: counts.get(theirs) for name, theirs in named.items()}))
    text = _answer_text(message)
    return ParsedAnswer(message, text, read(text, answer))


def _answer_text(message: AIMessage) -> str:
    """The model's answer as text, in any mode of structured output."""
    for tool_call in message.tool_calls:
        return json.dumps(tool_call["args"], ensure_ascii=False)
    for broken in message.invalid_tool_calls:
        return broken["args"] or ""
    return str(message.text) or message.additional_kwargs.get("refusal") or ""


def weighed(parsed: ParsedAnswer, answer: type[Answer]) -> dict[str, Any]:
    """The parsed answer with the probabilities of its names, if the server returned them."""
    logprobs = parsed.message.response_metadata.get("logprobs")
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return likelihood.with_probabilities(parsed.reading.output or {}, answer, tokens)


def read(text: str, answer: type[Answer]) -> Reading:
    """Parse an answer. Valid items are kept; the reasons for the others are returned."""
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
    """Shorten a reason, because it can quote a long answer."""
    return why if len(why) <= _LONGEST_WHY else f"{why[:_LONGEST_WHY]} …"
