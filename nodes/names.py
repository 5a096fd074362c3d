"""The names of things: what an answer calls an aspect, without the judgement of it.

These rules hold for every answer that names aspects, joint (`extract`) or separate (`ate`, `atsa`):

- "great service", which its tuple quotes as "really great", is the service.
- "tasty" names nothing, and neither does a word that is its own evidence.

Aspects that the user gave keep the user's words.
"""

from __future__ import annotations

from collections.abc import Mapping

from absa.nodes.language import Language
from absa.nodes.polarity import PolarityCounter, read
from absa.schemas.answers import (
    AspectItem,
    AteAnswer,
    AtsaAnswer,
    ExtractAnswer,
    ExtractedTuple,
    SentimentItem,
)


def thing_named(item: ExtractedTuple, lang: Language) -> str | None:
    """The thing a tuple names, without the judgement of it that the tuple itself quotes.

    "great service", judged by "really great", is the service. "tasty" names nothing, and neither
    does a word that is judged by itself; what is only mentioned may be its own evidence.
    """
    return name_of_thing(item.aspect_term, item.polarity, item.evidence, lang)


def name_of_thing(
    name: str | None, polarity: str | None, evidence: str | None, lang: Language
) -> str | None:
    """As `thing_named`, for a name with its polarity and evidence."""
    if name and not lang.can_name(name):
        return None
    words, quoted = (name or "").split(), (evidence or "").lower().split()
    lowered = [word.lower() for word in words]
    if read(polarity).value == "neutral":
        return name
    if len(words) == 1 and lowered == quoted:
        return None
    for size in range(len(words) - 1, 0, -1):
        rest = (name or "").split(None, size)[size]
        if (
            quoted[-size:] == lowered[:size]
            and lang.judges(" ".join(words[:size]))
            and lang.can_name(rest)
        ):
            return rest
    return name


def joint_answers(
    answer: ExtractAnswer, lang: Language, counter: PolarityCounter, *, given: bool = False
) -> tuple[AteAnswer, AtsaAnswer]:
    """A joint answer as the answers of ATE and ATSA that it stands for."""
    names = [t.aspect_term if given else thing_named(t, lang) for t in answer.tuples]
    for name, t in zip(names, answer.tuples, strict=True):
        counter.named(t.aspect_term, name)
    ate = AteAnswer(
        aspects=[
            AspectItem(
                term=name,
                category=t.category,
                span=t.span,
                confidence=t.confidence,
                # It belongs to the name as it was written, and says nothing about a part of it.
                name_probability=t.name_probability if name == t.aspect_term else None,
            )
            for name, t in zip(names, answer.tuples, strict=True)
            if name or t.aspect_term is None
        ]
    )
    atsa = AtsaAnswer(
        aspect_sentiments=[
            # What has only an adjective for a name is no unnamed aspect: it is set apart.
            SentimentItem(
                aspect_ref=name or t.aspect_term, **t.model_dump(exclude={"aspect_term", "span"})
            )
            for name, t in zip(names, answer.tuples, strict=True)
        ]
    )
    return ate, atsa


def separate_answers(
    ate: AteAnswer, atsa: AtsaAnswer, lang: Language, counter: PolarityCounter
) -> tuple[AteAnswer, AtsaAnswer]:
    """The answers of ATE and ATSA with the names of things.

    An ATE name has no evidence of its own: the sentiments of the same aspect key judge it.
    """
    things: dict[str, str | None] = {}
    for item in atsa.aspect_sentiments:
        key = lang.key(item.aspect_ref or "")
        thing = name_of_thing(item.aspect_ref, item.polarity, item.evidence, lang)
        # Of several sentiments one is enough to show what the name is made of.
        if things.setdefault(key, thing) is None or thing not in (None, item.aspect_ref):
            things[key] = thing
    aspects = []
    for aspect in ate.aspects:
        counter.category(aspect.category)
        name = _of(aspect.term, things, lang)
        counter.named(aspect.term, name)
        if name == aspect.term:
            aspects.append(aspect)
        elif name:
            aspects.append(aspect.model_copy(update={"term": name, "name_probability": None}))
    sentiments = [
        item.model_copy(
            update={"aspect_ref": _of(item.aspect_ref, things, lang) or item.aspect_ref}
        )
        for item in atsa.aspect_sentiments
    ]
    return AteAnswer(aspects=aspects), AtsaAnswer(aspect_sentiments=sentiments)


def _of(name: str | None, things: Mapping[str, str | None], lang: Language) -> str | None:
    """The name of the thing, by what the sentiments of its key show."""
    key = lang.key(name or "")
    if not name or not key:
        return name
    if key not in things:
        return name_of_thing(name, None, None, lang)
    thing = things[key]
    # A name in other letters, such as "Service" for "service", keeps them.
    return name if thing is not None and lang.key(thing) == key else thing
