"""One request and its answer, without I/O: how structure is asked for, what can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from absa.backends import likelihood, wire
from absa.backends.chat import Role, Tally
from absa.backends.servers import Dialect
from schemas.answers import Answer
from schemas.backend import Ask
from schemas.errors import AnswerError

SHOWN = 300
"""Characters of a server's or a model's own words in a message or a note."""

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


def said(outcome: Outcome, tally: Tally) -> str | None:
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


def weighed(reading: Reading, answer: type[Answer], outcome: Outcome) -> dict[str, Any]:
    """What was read, with how likely the model held the names in it, if the server told."""
    told = outcome.response_metadata.get("logprobs") if isinstance(outcome, AIMessage) else None
    tokens = told.get("content") if isinstance(told, Mapping) else None
    return likelihood.with_probabilities(reading.output or {}, answer, tokens)


def ran_out(outcome: Outcome) -> bool:
    """Whether the answer reached the longest one that is allowed."""
    if not isinstance(outcome, AIMessage):
        return False
    return outcome.response_metadata.get("finish_reason") == "length"


def read(text: str, answer: type[Answer]) -> Reading:
    """What can be read of an answer: valid items are kept, the rest is told."""
    try:
        parsed = wire.parse(text, answer)
        missing = wire.left_out(parsed.output, answer)
    except AnswerError as error:
        return Reading(why=str(error))
    if parsed.cut is not None:
        missing = [*missing, f"it breaks off, left out: {parsed.cut.strip()[:SHOWN]}"]
    return Reading(parsed.output, "; ".join(missing) or None, len(missing), parsed.notes)
