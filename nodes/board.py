"""A mutable working copy of a stage result: aspects by key, with their renames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from absa.nodes.language import Language
from absa.nodes.text import locate
from absa.schemas.answers import Span, name_of
from absa.schemas.output import FinalAspect
from absa.schemas.records import AspectRecord, Sentiment, StageResult, Unanchored

BACKFILL_CONFIDENCE = 0.3
DEFAULT_CONFIDENCE = 0.5

Tuples = frozenset[tuple[str, str | None, str]]


def backfilled(category: str | None = None) -> Sentiment:
    """The backfilled neutral sentiment of an aspect without a sentiment."""
    return Sentiment(
        polarity="neutral", confidence=BACKFILL_CONFIDENCE, category=category, is_backfilled=True
    )


def snapshot_of(
    term: str | None,
    category: str | None,
    span: Span | None,
    sentiments: Iterable[Sentiment | FinalAspect],
) -> dict[str, Any]:
    """The form of an aspect for a log entry."""
    return {
        "aspect_term": term,
        **({"category": category} if category else {}),
        "span": span.model_dump() if span else None,
        "sentiments": [
            {
                "polarity": s.polarity,
                "confidence": s.confidence,
                "evidence": s.evidence,
                **({"category": s.category} if s.category else {}),
            }
            for s in sentiments
        ],
    }


def snapshot_name(snapshot: Mapping[str, Any]) -> str:
    """The name of the aspect in a log entry's `before` or `after`."""
    return name_of(snapshot.get("aspect_term"), snapshot.get("category"))


class Board:
    """A working copy of a stage result. The original is not changed."""

    def __init__(
        self, result: StageResult, text: str, lang: Language, *, given: bool = False
    ) -> None:
        """Copy `result`. `given` aspects cannot be added, dropped or renamed."""
        self.given = given
        self.text = text
        self.lang = lang
        self.aspects: dict[str, AspectRecord] = {lang.key(a.name): a for a in result.aspects}
        self.unanchored = list(result.unanchored)
        self.renamed = dict(result.renamed)

    def result(self) -> StageResult:
        """The current result."""
        return StageResult(
            aspects=tuple(self.aspects.values()),
            unanchored=tuple(self.unanchored),
            renamed=dict(self.renamed),
        )

    def resolve(self, term: str | None) -> str:
        """The current key of the aspect with this name. A revised span changes the key.

        A name means the aspect that had it first, even if another aspect has it now.
        """
        key = self.lang.key(name_of(term))
        return self.renamed.get(key, key)

    def find(self, term: str | None) -> AspectRecord | None:
        """The aspect with this old or new name."""
        return self.aspects.get(self.resolve(term))

    def saved(self) -> tuple[dict[str, AspectRecord], list[Unanchored], dict[str, str]]:
        """A copy of everything that an action can change."""
        return dict(self.aspects), list(self.unanchored), dict(self.renamed)

    def restore(
        self, saved: tuple[dict[str, AspectRecord], list[Unanchored], dict[str, str]]
    ) -> None:
        """Undo an action."""
        self.aspects, self.unanchored, self.renamed = saved

    def snapshot(self, key: str) -> dict[str, Any] | None:
        """The form of an aspect for a log entry."""
        aspect = self.aspects.get(key)
        if aspect is None:
            return None
        return snapshot_of(aspect.term, aspect.category, aspect.span, aspect.sentiments)

    def put(self, key: str, sentiments: Iterable[Sentiment]) -> None:
        """Replace the sentiments of an aspect."""
        aspect = self.aspects[key]
        self.aspects[key] = aspect.model_copy(update={"sentiments": tuple(sentiments)})

    def add_aspect(self, term: str, span: Span | None = None) -> str:
        """Add an aspect without sentiments; return its key."""
        key = self.lang.key(term)
        self.aspects[key] = AspectRecord(term=term, span=locate(self.text, term, span))
        return key

    def drop_aspect(self, key: str) -> None:
        """Remove an aspect and its sentiments."""
        del self.aspects[key]

    def take_unanchored(self, key: str) -> list[Sentiment]:
        """Remove and return the unanchored sentiments of an aspect, to anchor them."""
        taken = [s for s in self.unanchored if self.lang.key(s.name) == key]
        self.unanchored = [s for s in self.unanchored if self.lang.key(s.name) != key]
        return [Sentiment(**s.model_dump(exclude={"aspect_term"})) for s in taken]

    def revise_span(self, key: str, span: Span) -> str:
        """Change the span, and so the term, of an aspect; return its new key.

        If an aspect with the new key exists, the two are merged: it keeps its term and span, and
        gets the sentiments of both.
        """
        term = self.text[span.start : span.end]
        return self._replace(key, self.aspects[key].model_copy(update={"term": term, "span": span}))

    def set_category(self, key: str, category: str, polarity: str | None = None) -> str:
        """Change the category of an aspect's sentiments (of one polarity); return its new key.

        The key of an unnamed aspect is its category, so two unnamed aspects can be merged.
        """
        aspect = self.aspects[key]
        meant = [s for s in aspect.sentiments if polarity is None or s.polarity == polarity]
        sentiments = tuple(
            s.model_copy(update={"category": category}) if s in meant or not meant else s
            for s in aspect.sentiments
        )
        changed = aspect.model_copy(update={"sentiments": sentiments})
        if aspect.term is not None:
            self.aspects[key] = changed
            return key
        return self._replace(key, changed.model_copy(update={"category": category}))

    def _replace(self, key: str, revised: AspectRecord) -> str:
        """Replace an aspect, perhaps with another name; return its new key."""
        new_key = self.lang.key(revised.name)
        other = self.aspects.get(new_key) if new_key != key else None
        if other is not None:
            del self.aspects[key]
            self.put(new_key, (*other.sentiments, *revised.sentiments))
        else:
            self.aspects = {
                (new_key if k == key else k): (revised if k == key else a)
                for k, a in self.aspects.items()
            }
        if new_key != key:
            names = [name for name, now in self.renamed.items() if now == key]
            if key not in self.renamed:
                names.append(key)
            self.renamed.update(dict.fromkeys(names, new_key))
        return new_key


def tuples(result: StageResult, lang: Language) -> Tuples:
    """The (aspect key, category, polarity) set of a result; without a category set it is None."""
    return frozenset(
        (lang.key(a.name), s.category, s.polarity) for a in result.aspects for s in a.sentiments
    )
