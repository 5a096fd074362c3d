"""Names of aspects: removes opinion words from them.

These rules apply to all answers with aspects, joint (`extract`) or separate (`ate`, `atsa`):

- "great service" with the evidence "really great" becomes "service".
- "tasty" names nothing, and neither does a word that is its own evidence.

Given aspects keep the user's words.
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


def cleaned_name(item: ExtractedTuple, lang: Language) -> str | None:
    """The name of a tuple's aspect, without opinion words that are in its evidence.

    "great service" with the evidence "really great" becomes "service". "tasty" names nothing, and
    neither does a word that is its own evidence, unless it is neutral.
    """
    return clean_name(item.aspect_term, item.polarity, item.evidence, lang)


def clean_name(
    name: str | None, polarity: str | None, evidence: str | None, lang: Language
) -> str | None:
    """As `cleaned_name`, for a name with its polarity and evidence."""
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
    """Split a joint answer into the answers of ATE and ATSA."""
    names = [t.aspect_term if given else cleaned_name(t, lang) for t in answer.tuples]
    for name, t in zip(names, answer.tuples, strict=True):
        counter.named(t.aspect_term, name)
    ate = AteAnswer(
        aspects=[
            AspectItem(
                term=name,
                category=t.category,
                span=t.span,
                confidence=t.confidence,
                # The probability belongs to the full name, not to a part of it.
                name_probability=t.name_probability if name == t.aspect_term else None,
            )
            for name, t in zip(names, answer.tuples, strict=True)
            if name or t.aspect_term is None
        ]
    )
    atsa = AtsaAnswer(
        aspect_sentiments=[
            # A name that is only an adjective is not an unnamed aspect, so it is removed.
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
    """The answers of ATE and ATSA with cleaned names.

    A name from ATE has no evidence, so the sentiments with the same aspect key are used.
    """
    cleaned_names: dict[str, str | None] = {}
    for item in atsa.aspect_sentiments:
        key = lang.key(item.aspect_ref or "")
        cleaned = clean_name(item.aspect_ref, item.polarity, item.evidence, lang)
        # One of several sentiments is enough.
        if cleaned_names.setdefault(key, cleaned) is None or cleaned not in (None, item.aspect_ref):
            cleaned_names[key] = cleaned
    aspects = []
    for aspect in ate.aspects:
        counter.category(aspect.category)
        name = _cleaned(aspect.term, cleaned_names, lang)
        counter.named(aspect.term, name)
        if name == aspect.term:
            aspects.append(aspect)
        elif name:
            aspects.append(aspect.model_copy(update={"term": name, "name_probability": None}))
    sentiments = [
        item.model_copy(
            update={"aspect_ref": _cleaned(item.aspect_ref, cleaned_names, lang) or item.aspect_ref}
        )
        for item in atsa.aspect_sentiments
    ]
    return AteAnswer(aspects=aspects), AtsaAnswer(aspect_sentiments=sentiments)


def _cleaned(
    name: str | None, cleaned_names: Mapping[str, str | None], lang: Language
) -> str | None:
    """The cleaned name, from the sentiments with its key."""
    key = lang.key(name or "")
    if not name or not key:
        return name
    if key not in cleaned_names:
        return clean_name(name, None, None, lang)
    cleaned = cleaned_names[key]
    # A name in another spelling, such as "Service" for "service", keeps it.
    return name if cleaned is not None and lang.key(cleaned) == key else cleaned
