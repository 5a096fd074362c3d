"""Agents that say what a test writes down, and short ways to write it down.

    decide("가격이 비싸요.", said(ate=ate("가격"), atsa=atsa(("가격", "negative", "비싸요", 0.9))))

`said` fills in agents that have nothing to say, so that a test names only those that matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from absa.graph import build
from absa.nodes.board import Board
from absa.nodes.language import language
from absa.nodes.text import locate
from absa.schemas.answers import Span
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.output import FinalOutput
from absa.schemas.records import AspectRecord, Hint, Sentiment, StageResult, Unanchored
from absa.schemas.settings import PipelineSettings

Answers = Mapping[Any, Any]
Json = dict[str, Any]


class ScriptedBackend:
    """Answers from a dict by (node, turn), else by node; what is not there is an error."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[Ask] = []

    def ask(self, question: Ask) -> Reply:
        self.asked.append(question)
        for key in ((question.node, question.turn), question.node):
            if key in self.answers:
                return Reply(self.answers[key], backend="scripted", latency_ms=0.0)
        raise BackendError(
            f"{question.node}: nothing scripted for turn {question.turn}",
            node=question.node,
            turn=question.turn,
        )

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)

    def turns_of(self, node: str) -> list[int]:
        """The turns in which a node was asked."""
        return [q.turn for q in self.asked if q.node == node]

    def inputs_of(self, node: str, turn: int = 0) -> Mapping[str, Any]:
        """What a node was shown."""
        return next(q.inputs for q in self.asked if (q.node, q.turn) == (node, turn))


def decide(
    text: str,
    answers: Answers,
    pipeline: PipelineSettings | None = None,
    lang: str | None = "ko",
) -> FinalOutput:
    """Run the whole graph on scripted answers."""
    graph = build(pipeline or PipelineSettings(), ScriptedBackend(answers))
    output: FinalOutput = graph.invoke({"text": text, "lang": lang})["output"]
    return output


def pipeline(**changes: Any) -> PipelineSettings:
    """Settings with changes; `override` and `debate` take dicts, `rules` the Moderator's rules."""
    names = {"override": "debate_override", "rules": "moderator"}
    given = {names.get(key, key): value for key, value in changes.items()}
    if "moderator" in given:
        given["moderator"] = {"rules": tuple(given["moderator"])}
    return PipelineSettings.model_validate(given)


# Answers ---------------------------------------------------------------------------------------


def said(**answers: Any) -> dict[Any, Any]:
    """Answers for every agent of the default graph: silence where a test gives none."""
    silent = {
        "ate": ate(),
        "atsa": atsa(),
        "validator": validator(),
        "epm": turn(),
        "tan": turn(),
        "cj": turn(),
        "judge": judge(),
        "ate_review": ate_review(),
        "atsa_review": atsa_review(),
        "validator_review": validator(),
    }
    return {**silent, **answers}


def ate(*terms: str | Json) -> Json:
    return {"aspects": [{"term": t, "confidence": 0.9} if isinstance(t, str) else t for t in terms]}


def atsa(*sentiments: Sequence[Any] | Json) -> Json:
    """Sentiments as (aspect, polarity, evidence, confidence), the last two if they matter."""
    names = ("aspect_ref", "polarity", "evidence", "confidence", "is_implicit")
    return {
        "aspect_sentiments": [
            s if isinstance(s, dict) else dict(zip(names, s, strict=False)) for s in sentiments
        ]
    }


def risk(type_: str, severity: str = "mid") -> Json:
    return {"type": type_, "severity": severity}


def propose(type_: str, aspect: str | None, revised_span: Any = None) -> Json:
    return {
        "proposal_type": type_,
        "target_aspect": aspect,
        "rationale": "said the Validator",
        "revised_span": revised_span,
    }


def validator(
    *risks: Json | str,
    proposals: Sequence[Json] = (),
    label: str | None = None,
    confidence: float | None = None,
) -> Json:
    return {
        "structural_risks": [risk(r) if isinstance(r, str) else r for r in risks],
        "correction_proposals": list(proposals),
        "suggested_label": label,
        "confidence": confidence,
    }


def set_polarity(aspect: str, value: str | None, **more: Any) -> Json:
    return {"op": "set_polarity", "target": {"aspect_ref": aspect}, "value": value, **more}


def confirm(aspect: str, polarity: str | None = None, **more: Any) -> Json:
    return {
        "op": "confirm_tuple",
        "target": {"aspect_ref": aspect, "polarity": polarity},
        **more,
    }


def drop(aspect: str, **more: Any) -> Json:
    return {"op": "drop_tuple", "target": {"aspect_ref": aspect}, **more}


def edit(op: str, aspect_ref: str | None = None, aspect_term: str | None = None) -> Json:
    return {"op": op, "target": {"aspect_ref": aspect_ref, "aspect_term": aspect_term}}


def turn(*edits: Json, agent: str = "x") -> Json:
    return {"agent": agent, "proposed_edits": list(edits)}


def judge(
    *patch: Json,
    tuples: Sequence[tuple[str, str]] = (),
    label: str | None = None,
    spans: Sequence[str] = (),
    evidence: Mapping[str, str | None] | None = None,
    rationale: str | None = None,
) -> Json:
    return {
        "final_patch": list(patch),
        "final_tuples": [{"aspect_term": a, "polarity": p} for a, p in tuples],
        "sentence_polarity": label,
        "sentence_evidence_spans": list(spans),
        "aspect_evidence": [{"aspect_ref": a, "evidence": e} for a, e in (evidence or {}).items()],
        "rationale": rationale,
    }


def ate_review(*reviews: Sequence[Any]) -> Json:
    """Reviews as (term, action) or (term, action, revised span)."""
    names = ("term", "action", "revised_span")
    return {"aspect_review": [dict(zip(names, r, strict=False)) for r in reviews]}


def atsa_review(*reviews: Sequence[Any]) -> Json:
    """Reviews as (aspect, action, polarity, confidence, evidence), the last three if needed."""
    names = ("aspect_ref", "action", "revised_polarity", "confidence", "evidence")
    return {"sentiment_review": [dict(zip(names, r, strict=False)) for r in reviews]}


def all_say(aspect: str, polarity: str) -> dict[str, Json]:
    """Three speakers and the judge's patch for one polarity: a total of 0.5 * 3 + 0.8 = 2.3."""
    spoken = turn(set_polarity(aspect, polarity))
    return {"epm": spoken, "tan": spoken, "cj": spoken}


# Records ---------------------------------------------------------------------------------------


def felt(
    polarity: str, confidence: float = 0.9, evidence: str | None = None, **more: Any
) -> Sentiment:
    return Sentiment(polarity=polarity, confidence=confidence, evidence=evidence, **more)


def aspect(text: str, term: str, *sentiments: Sentiment, at: Span | None = None) -> AspectRecord:
    """An aspect where the text has it; nowhere if the text does not."""
    return AspectRecord(term=term, span=at or locate(text, term), sentiments=sentiments)


def stage(
    *aspects: AspectRecord, unanchored: Sequence[Unanchored] = (), **renamed: str
) -> StageResult:
    return StageResult(aspects=aspects, unanchored=tuple(unanchored), renamed=renamed)


def board(text: str, *aspects: AspectRecord, unanchored: Sequence[Unanchored] = ()) -> Board:
    return Board(stage(*aspects, unanchored=unanchored), text, language("ko"))


def hint(
    polarity: str | None, weight: float = 0.5, op: str = "set_polarity", speaker: str = "epm"
) -> Hint:
    return Hint(
        speaker=speaker,
        op=op,
        weight=weight,
        polarity_hint=polarity,
        provenance_hint=f"source:{speaker}/patch",
    )


# Output ----------------------------------------------------------------------------------------


def pairs(tuples: Sequence[Any]) -> set[tuple[str, str]]:
    """Tuples of an output as plain pairs."""
    return {(t.aspect_term, t.polarity) for t in tuples}


def polarities(result: StageResult) -> dict[str, list[str]]:
    """The polarities of each aspect of a result."""
    return {a.term: [s.polarity for s in a.sentiments] for a in result.aspects}


def without_latency(output: FinalOutput) -> Json:
    """The output as plain values, less what a clock wrote into it."""
    plain = output.model_dump(mode="json")
    plain["meta"]["usage"].pop("latency_ms")
    for call in plain["process_trace"]:
        call.pop("latency_ms")
    # Agents that run in parallel finish in any order.
    plain["process_trace"].sort(key=lambda call: (call["node"], call["turn"]))
    return plain
