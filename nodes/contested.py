"""`compare_stage1`: compares Stage 1 with the embedded analyzer (`debate.when: contested`).

The debate and Stage 2 are skipped (edge `skip_agreed`) unless one of these reasons applies:

| reason for a debate  | condition                                                              |
|----------------------|------------------------------------------------------------------------|
| `language`           | the analyzer has no model of the text's language                       |
| `tuples`             | Stage 1's tuples differ from those that the analyzer reports           |
| `risks`, `proposals` | the Validator saw a structural risk, or proposed a correction          |
| `backfilled`         | Stage 1 has an aspect without a sentiment                              |
| `unanchored`         | Stage 1 has a sentiment without an aspect                              |

The speakers see the contested tuples of both readers in one list, in the order of the text. The
list does not show which reader found a tuple, because models tend to agree with a majority.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from absa.nodes.language import Language, language
from absa.nodes.polarity import read
from absa.nodes.text import locate
from absa.schemas.answers import ReaderTuple, SecondReaderAnswer, name_of
from absa.schemas.records import Contest, ContestedTuple, ContestReason
from absa.schemas.state import CompareStage1Update, ContestedUpdate, SkipUpdate, State

WITNESS = "witness"
"""The operation of a hint that comes from the second reader."""

Pair = tuple[str, str]


class Witnessed(NamedTuple):
    """A tuple of the second reader."""

    term: str | None
    polarity: str
    probability: float
    reported: bool
    evidence: str | None

    @property
    def name(self) -> str:
        """Its term, else what an unnamed aspect is called."""
        return name_of(self.term)


def witnessed(
    reader: SecondReaderAnswer, lang: Language, only: Container[str] | None = None
) -> dict[Pair, Witnessed]:
    """The second reader's tuples by (aspect key, polarity), each with its highest probability.

    With `only`, those of aspects with these keys.
    """
    tuples: dict[Pair, Witnessed] = {}
    for item in reader.tuples:
        polarity = read(item.polarity).value
        key = lang.key(name_of(item.aspect_term))
        if polarity is None or not key or (only is not None and key not in only):
            continue
        p, reported = probability_of(item), item.reported is not False
        one = Witnessed(item.aspect_term, polarity, p, reported, item.evidence)
        old = tuples.get((key, polarity))
        if old is None or old.probability < one.probability:
            tuples[key, polarity] = one
    return tuples


def probability_of(item: ReaderTuple) -> float:
    """The second reader's probability of a tuple, else its confidence."""
    return (item.confidence if item.probability is None else item.probability) or 0.0


def given_keys(state: State, lang: Language) -> set[str] | None:
    """The keys of the given aspects; None if aspects are extracted."""
    given_aspects = state.get("given_aspects")
    return None if given_aspects is None else {lang.key(term) for term in given_aspects}


def compare_stage1(state: State) -> CompareStage1Update:
    """List the contested tuples."""
    lang, text = language(state["lang"]), state["text"]
    stage1, reader = state["stage1_result"], state["second_reader_answer"]
    validation = state["stage1_validation"]
    seen = witnessed(reader, lang, given_keys(state, lang))
    reported = {pair: one for pair, one in seen.items() if one.reported}
    own = {
        (lang.key(a.name), s.polarity): ContestedTuple(
            aspect_term=a.term, category=a.category, polarity=s.polarity, evidence=s.evidence
        )
        for a in stage1.aspects
        for s in a.sentiments
    }
    differing = own.keys() ^ reported.keys()
    backfilled = {
        (lang.key(a.name), s.polarity)
        for a in stage1.aspects
        for s in a.sentiments
        if s.is_backfilled
    }
    reasons: dict[ContestReason, bool] = {
        "language": reader.reads_language is False,
        "tuples": bool(differing),
        "risks": bool(validation.structural_risks),
        "proposals": bool(validation.correction_proposals),
        "backfilled": bool(backfilled),
        "unanchored": bool(stage1.unanchored),
    }
    every = {**{pair: ContestedTuple(**_shown(one)) for pair, one in reported.items()}, **own}
    contested = [every[pair] for pair in differing | backfilled]
    return {
        "contest": Contest(
            reasons=tuple(reason for reason, holds in reasons.items() if holds),
            tuples=tuple(sorted(contested, key=lambda t: _place(t, text))),
        )
    }


def _shown(one: Witnessed) -> dict[str, Any]:
    return {"aspect_term": one.term, "polarity": one.polarity, "evidence": one.evidence}


def _place(t: ContestedTuple, text: str) -> tuple[int, str, str]:
    """The position of a tuple in the text, which is equal for both readers."""
    span = locate(text, t.aspect_term or "")
    return (span.start if span else len(text), t.name, t.polarity)


def skip_agreed(state: State) -> SkipUpdate:
    """Record that both readers agree, so the debate and Stage 2 are skipped."""
    return {"debate_skipped": "agreed"}


def contested(state: State) -> ContestedUpdate:
    """The contested tuples of the debate."""
    return {"contested_tuples": list(state["contest"].tuples)}


def without_contested(
    view: Mapping[str, Any], contested: list[ContestedTuple], lang: Language
) -> dict[str, Any]:
    """Stage 1 for the debate, with the contested tuples in a separate list."""
    pairs = {(lang.key(t.name), t.polarity) for t in contested}
    return {
        **view,
        "sentiments": [
            s
            for s in view["sentiments"]
            if (lang.key(name_of(s["aspect_term"], s.get("category"))), s["polarity"]) not in pairs
        ],
        "contested": [
            {"aspect_term": t.name, "polarity": t.polarity, "evidence": t.evidence}
            for t in contested
        ],
    }
