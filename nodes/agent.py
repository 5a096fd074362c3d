"""The base of all agents: makes the question, parses the answer, records the call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from absa.nodes import assets
from absa.nodes.categories import CategorySet, categories_of
from absa.nodes.contested import without_contested
from absa.nodes.language import language
from absa.schemas.answers import as_answer, has_categories, read_answer, with_categories
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import AnswerError, BackendError
from absa.schemas.records import CallRecord
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import State

A = TypeVar("A", bound=BaseModel)
Update = dict[str, Any]


@dataclass(frozen=True)
class Agent(Generic[A]):
    """An agent: a node that asks the backend one question.

    `Agent("sarcasm", prompt="Say whether …", sees=("stage1_result",), answer=Sarcasm)` is a whole
    agent of your own. Its answer, a pydantic model, is stored in `state["answers"]` under its name
    and in the output's `meta.answers`. With `shared=True`, the debate's later speakers see it.

    `prompt` is the text of the prompt, a `Path` to a Markdown file, or the name of a shipped prompt
    (default: the agent's name). `sees` names the state keys that the agent gets besides the text;
    shipped agents use a function instead. `writes` is the state key for the answer. `update`
    computes another update from the answer.
    """

    name: str
    answer: type[A]
    sees: Sequence[str] | Callable[[State, PipelineSettings], Mapping[str, Any]] = ()
    prompt: str | Path | None = None
    shared: bool = False
    writes: str | None = None
    update: Callable[[State, A], Update] | None = None
    turn: Callable[[State], int] = lambda state: 0
    temperature: Callable[[PipelineSettings], float | None] = lambda pipeline: None
    repeats: bool = False
    # A second prompt, which is appended to `prompt`.
    note: str | None = None
    # The name in prompts, traces and settings, if it differs from the node's name.
    asks_as: str | None = None

    @property
    def role(self) -> str:
        """The name of the agent in questions and traces."""
        return self.asks_as or self.name

    def under(self, pipeline: PipelineSettings) -> Agent[A]:
        """The agent under these settings, which is always this one."""
        return self

    def question(self, state: State, pipeline: PipelineSettings) -> Ask:
        """The question for this state. The constant part, prompt and examples, comes first."""
        inputs = {
            "text": state["text"],
            "lang": state["lang"],
            "domain": state["domain"],
            "demos": state["demos"],
            "given_aspects": state.get("given_aspects"),
            **self._view(state, pipeline),
        }
        sources = [self.prompt or self.role, *([self.note] if self.note else [])]
        system = "\n\n".join(map(assets.prompt, sources))
        examples = tuple(chain.from_iterable(map(assets.examples, sources)))
        answer = as_answer(self.answer)
        categories = categories_of(pipeline) if has_categories(answer) else None
        if categories is not None:
            answer = with_categories(answer, categories.names)
            inputs["categories"] = categories.names
            section = "sections/categories_debate" if answer.in_debate else "sections/categories"
            system = f"{system}\n\n{category_section(section, categories, state['lang'])}"
        else:
            inputs["demos"] = without_categories(state["demos"])
        user = render(inputs)
        turn = (
            self.turn(state)
            if self.writes
            else sum(record.node == self.role for record in state["calls"].values())
        )
        return Ask(
            node=self.role,
            turn=turn,
            uid=state["uid"],
            system=system,
            user=user,
            prompt_sha256=_sha256(system, examples, user),
            inputs=inputs,
            answer=answer,
            examples=examples,
            seed_offset=turn if self.repeats else 0,
            temperature=self.temperature(pipeline),
        )

    def _view(self, state: State, pipeline: PipelineSettings) -> Mapping[str, Any]:
        if callable(self.sees):
            return self.sees(state, pipeline)
        values = cast("Mapping[str, Any]", state)
        return {key: _PLAIN.dump_python(values.get(key), mode="json") for key in self.sees}

    def take(self, state: State, question: Ask, reply: Reply, elapsed_ms: float) -> Update:
        """The state update from a reply. An unreadable reply becomes a recorded failure."""
        output = encodable(dict(reply.output))
        try:
            answer, notes = read_answer(question.answer, output)
        except AnswerError as error:
            raise BackendError(
                f"{self.role}: {error}",
                node=self.role,
                turn=question.turn,
                raw=json.dumps(output, ensure_ascii=False, default=str),
                attempts=reply.attempts,
            ) from error
        record = CallRecord(
            node=self.role,
            turn=question.turn,
            seed=reply.seed,
            backend=reply.backend,
            model=reply.model,
            host=reply.host,
            prompt_sha256=question.prompt_sha256,
            output=output,
            notes=(*reply.notes, *notes),
            usage=reply.usage,
            latency_ms=round(elapsed_ms if reply.latency_ms is None else reply.latency_ms, 3),
            cached=reply.cached,
            attempts=reply.attempts,
        )
        key = f"{self.role}#{question.turn}"
        own: BaseModel = answer
        if type(answer) is not self.answer:
            # The user's own class, so that a checkpoint can find it again.
            own = self.answer.model_validate(answer.model_dump(by_alias=True))
        update = {"calls": {key: record}, **self._own_update(state, cast(A, own))}
        if "memory" in question.inputs:
            update["memory_injections"] = [*state["memory_injections"], key]
        return update

    def _own_update(self, state: State, answer: A) -> Update:
        if self.update is not None:
            return self.update(state, answer)
        if self.writes is not None:
            return {self.writes: answer}
        shared = {"shared_answers": {self.name: answer}} if self.shared else {}
        return {"answers": {self.name: answer}, **shared}


@dataclass(frozen=True)
class Variants:
    """A node whose agent depends on the settings."""

    name: str
    writes: str
    under: Callable[[PipelineSettings], Agent[Any]]


# Converts any value of the state, models included, to plain JSON values.
_PLAIN: TypeAdapter[Any] = TypeAdapter(Any)


def _sha256(system: str, examples: assets.Examples, user: str) -> str:
    words = _hashed(system, examples).copy()
    words.update(user.encode())
    return words.hexdigest()


@cache
def _hashed(system: str, examples: assets.Examples) -> hashlib._Hash:
    """The hash state of the constant part, which has thousands of words, cached."""
    words = (system, *chain.from_iterable(examples), "")
    return hashlib.sha256("\0".join(words).encode())


def encodable(output: dict[str, Any]) -> dict[str, Any]:
    """The output in a form that can be encoded: half a surrogate pair becomes `?`."""
    try:
        to_json(output)  # five times as fast as `json`, and it rejects half surrogate pairs
        return output
    except PydanticSerializationError:
        text = json.dumps(output, ensure_ascii=False)
        decoded: dict[str, Any] = json.loads(text.encode("utf-8", "replace"))
        return decoded


# Not shown to models: spans, which are computed from the words; confidences, which mean little to
# another model; and the judge's edits, which are among the hints.
_UNSHOWN = frozenset(
    {"span", "confidence", "weight", "provenance_hint", "final_patch"}
    # The token probabilities of an answer.
    | {"name_probability", "word_probability"}
)
# The weight of an argument, which reviewers see, too.
_SHOWN_IN: Mapping[str, frozenset[str]] = {"rebuttal_points": frozenset({"weight"})}
# Keyed by aspect terms, which can be any word.
_BY_TERM = frozenset({"aspect_hints"})
_CONTAINERS = (dict, list, tuple)


def render(inputs: Mapping[str, Any]) -> str:
    """The user message: one JSON object, so that a text cannot be mistaken for an instruction.

    JSON quotes every text safely; a text could imitate a delimiter made of words. Because every
    token costs in every call, the message has no spaces, no empty values, and only useful fields.
    The language is visible from the text. The domain is left out because small models take it for
    an aspect ("restaurant" is good).
    """
    context = {}
    for key, value in inputs.items():
        if key in ("lang", "domain", "categories"):
            continue
        # In an example an empty list is a valid answer.
        shown = value if key == "demos" else _shown(value)
        if shown:
            context["review" if key == "text" else key] = shown
    return _to_json(context)


# `json.dumps` makes an encoder at every call.
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _shown(value: Any, *, by_term: bool = False, unshown: frozenset[str] = _UNSHOWN) -> Any:
    kind = type(value)
    if kind is dict:
        parts = {}
        for key, part in value.items():
            if not part or (key in unshown and not by_term):
                continue
            # Most values are words and numbers.
            if type(part) in _CONTAINERS:
                left = unshown - _SHOWN_IN[key] if key in _SHOWN_IN else unshown
                part = _shown(part, by_term=key in _BY_TERM, unshown=left)
            if part:
                parts[key] = part
        return parts
    if kind not in _CONTAINERS:
        return value
    return [_shown(p, unshown=unshown) if type(p) in _CONTAINERS else p for p in value]


def without_categories(demos: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Solved examples as agents see them where no category set is in force."""
    return [
        {
            **demo,
            "aspects": [
                {name: value for name, value in aspect.items() if name != "category"}
                for aspect in demo["aspects"]
            ],
        }
        if any("category" in aspect for aspect in demo.get("aspects", ()))
        else dict(demo)
        for demo in demos
    ]


def category_section(section: str, categories: CategorySet, lang: str) -> str:
    """The section about categories in a prompt, with their list."""
    listed = categories.glosses(lang).items()
    lines = (f"{name}: {gloss}" if gloss else name for name, gloss in listed)
    return "\n".join((assets.prompt(section), "", *lines))


def shared_view(state: State) -> dict[str, Any]:
    """Answers that a user's own agents share with the speakers; empty without any."""
    shared = state.get("shared_answers")
    return {"shared": _PLAIN.dump_python(shared, mode="json")} if shared else {}


def stage1_view(state: State) -> dict[str, Any]:
    """Stage 1 for the debate: the sentiments, which name all aspects."""
    view = atsa_view(state)
    validation = state["stage1_validation"]
    view |= {
        "structural_risks": [risk.model_dump() for risk in validation.structural_risks],
        "correction_proposals": [p.model_dump() for p in validation.correction_proposals],
    }
    contested = state.get("contested_tuples")
    return without_contested(view, contested, language(state["lang"])) if contested else view


def ate_view(state: State) -> dict[str, Any]:
    """ATE's Stage 1 result."""
    return {
        "aspects": [
            {"term": a.name, "span": a.span and a.span.model_dump()}
            for a in state["stage1_result"].aspects
        ]
    }


def atsa_view(state: State) -> dict[str, Any]:
    """ATSA's Stage 1 result."""
    result = state["stage1_result"]
    return {
        "sentiments": [
            {
                "aspect_term": aspect.name,
                "category": s.category,
                "polarity": s.polarity,
                "evidence": s.evidence,
                "confidence": s.confidence,
                "is_implicit": aspect.is_implicit(s),
                "is_backfilled": s.is_backfilled,
            }
            for aspect in result.aspects
            for s in aspect.sentiments
        ],
        "unanchored": [
            {"aspect_term": u.name, **u.model_dump(include={"polarity", "evidence", "confidence"})}
            for u in result.unanchored
        ],
    }
