"""Human review in agent chat pages: their form of the question, and their answers.

LangChain's agent-chat-ui shows an interrupt as a form if its value is an `HITLRequest`
(`action_requests` and `review_configs`). Its answer is `{"decisions": [{"type": ...}]}` with the
type `approve`, `edit` or `reject`. Agent Inbox and older pages answer
`[{"type": ..., "args": ...}]` with `accept`, `edit`, `ignore` or `response`. Both become the
decisions of `absa.nodes.human_answer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from absa.nodes.human_answer import read_answer
from absa.nodes.language import language
from absa.nodes.polarity import exact
from absa.schemas.answers import LABELS, POLARITIES
from absa.schemas.human import HumanAnswer, HumanQuestion
from absa.schemas.json_text import parse_json
from absa.schemas.output import FinalOutput

ACTION = "review_result"
_TYPES = "approve, edit or reject (in Agent Inbox: accept, edit or ignore)"
_HELP = (
    "Approve keeps the result. To correct it, edit the JSON of `aspects`: change a polarity "
    f"({', '.join(POLARITIES)}), remove an aspect, or add one with evidence copied from the text; "
    f"or edit `label` ({', '.join(LABELS)}). Reject leaves the result as it is and marks it as "
    "pending, with your reason as a note."
)


class Postponed(NamedTuple):
    """The person did not decide."""

    note: str | None = None


class _Tuple(BaseModel):
    model_config = ConfigDict(extra="forbid")

    aspect: str
    polarity: str
    evidence: str | None = None


class _Edited(BaseModel):
    model_config = ConfigDict(extra="forbid")

    aspects: list[_Tuple] | None = None
    label: str | None = None


def request(question: HumanQuestion) -> dict[str, Any]:
    """The question as an `HITLRequest`."""
    aspects = [
        c.model_dump(include={"aspect", "polarity", "evidence"})
        for c in question.candidates
        if c.in_result
    ]
    why = "\n".join(f"- {doubt.detail}" for doubt in question.reasons)
    parts = [f"> {question.text}", f"Why you are asked:\n{why}", _HELP]
    if question.problems:
        problems = "\n".join(f"- {problem}" for problem in question.problems)
        parts.insert(0, f"The last answer could not be used:\n{problems}")
    return {
        "action_requests": [
            {
                "name": ACTION,
                "args": {"aspects": aspects, "label": question.label},
                "description": "\n\n".join(parts),
            }
        ],
        "review_configs": [
            {"action_name": ACTION, "allowed_decisions": ["approve", "edit", "reject"]}
        ],
    }


def read_reply(
    reply: object, output: FinalOutput
) -> tuple[HumanAnswer | Postponed | None, list[str]]:
    """The answer of a page or of anyone else, or its errors for the person."""
    replies = _of_a_page(reply)
    if replies is None:
        return read_answer(reply, output)
    if len(replies) != 1:
        return None, [f"{len(replies)} answers to one question: send one"]
    kind, sent = replies[0]["type"], replies[0]
    if kind in ("approve", "accept"):
        return read_answer({"decisions": list(_kept(output))}, output)
    if kind in ("reject", "ignore"):
        note = sent.get("message") or sent.get("args")
        return Postponed(note if isinstance(note, str) else None), []
    if kind == "edit":
        return _edited(sent, output)
    if kind in ("response", "respond"):
        answer, problems = read_answer(sent.get("args") or sent.get("message"), output)
        how = "a response must be decisions as JSON; to change the result, use edit"
        return answer, [*problems, how] if problems else []
    return None, [f"type {kind!r} is not known: use {_TYPES}"]


def _of_a_page(reply: object) -> Sequence[Mapping[str, Any]] | None:
    """The answers in the form of a page; None for every other form."""
    if isinstance(reply, str):
        try:
            reply = parse_json(reply)
        except ValueError:
            return None
    if isinstance(reply, Mapping):
        reply = reply["decisions"] if "decisions" in reply else [reply]
    if not isinstance(reply, Sequence) or not reply:
        return None
    is_typed = (isinstance(one, Mapping) and "type" in one and "action" not in one for one in reply)
    return reply if all(is_typed) else None


def _edited(sent: Mapping[str, Any], output: FinalOutput) -> tuple[HumanAnswer | None, list[str]]:
    action = sent.get("edited_action") or sent.get("args")
    args = action.get("args") if isinstance(action, Mapping) else None
    if not isinstance(args, Mapping):
        return None, ["an edit needs args with aspects and label"]
    args = dict(args)
    # A page sends a field that was edited as text.
    if isinstance(args.get("aspects"), str):
        try:
            args["aspects"] = parse_json(args["aspects"])
        except ValueError as error:
            return None, [f"aspects: the JSON cannot be read: {error}"]
    try:
        edited = _Edited.model_validate(args)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        return None, [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in mistakes]
    problems: list[str] = []
    decisions = list(_kept(output))
    if edited.aspects is not None:
        decisions = list(_decisions(edited.aspects, output, problems))
    if edited.label and edited.label != output.final_result.label:
        decisions.append({"action": "label", "label": edited.label})
    answer, more = read_answer({"decisions": decisions}, output)
    return (None, [*problems, *more]) if problems or more else (answer, [])


def _shown(output: FinalOutput) -> dict[tuple[str, str], str]:
    """The names of the tuples in the result, by the key of the aspect and the polarity."""
    key = language(output.lang).key
    return {(key(a.name), a.polarity): a.name for a in output.final_result.final_aspects}


def _kept(output: FinalOutput) -> Iterator[dict[str, str]]:
    for (_, polarity), name in _shown(output).items():
        yield {"action": "keep", "aspect": name, "of": polarity}


def _decisions(
    edited: Sequence[_Tuple], output: FinalOutput, problems: list[str]
) -> Iterator[dict[str, str]]:
    """What turns the result into the edited tuples."""
    key, shown = language(output.lang).key, _shown(output)
    left, changed = dict(shown), []
    for one in edited:
        pair = (key(one.aspect), exact(one.polarity) or one.polarity)
        if pair not in shown:
            changed.append(one)
            continue
        if left.pop(pair, None):
            yield {"action": "keep", "aspect": shown[pair], "of": pair[1]}
        own = [a for a in output.final_result.final_aspects if (key(a.name), a.polarity) == pair]
        if one.evidence and one.evidence not in {a.evidence for a in own}:
            problems.append(f"{one.aspect!r}: the evidence of a tuple in the result stays as it is")
    for one in changed:
        pair = next((pair for pair in left if pair[0] == key(one.aspect)), ("", ""))
        if name := left.pop(pair, None):
            flip = {"action": "flip", "aspect": name, "of": pair[1]}
            yield {**flip, "polarity": one.polarity}
        else:
            words = {"aspect": one.aspect, "polarity": one.polarity}
            yield {"action": "add", **words, "evidence": one.evidence or ""}
    for (_, polarity), name in left.items():
        yield {"action": "drop", "aspect": name, "of": polarity}
