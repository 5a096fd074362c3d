"""One sample beside its gold: which tuples are right, and what became of them since Stage 1.

The scorer is `absa.metrics`'. Gold that is known to be incomplete is shown but decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from absa.metrics.quality import change, score_sample
from absa.nodes.language import language
from absa.report.reading import Entry
from absa.schemas.sample import GoldAspect

Pair = tuple[str, str]
_GOLD = TypeAdapter(tuple[GoldAspect, ...])


@dataclass(frozen=True)
class Comparison:
    """A sample beside its gold. `pairs` is None if there is no gold that could decide.

    Attributes:
        aspects: The gold tuples, None if there are none to be known.
        label: The gold label, given or added up from the aspects.
        pairs: Key and polarity of the gold tuples that have a term.
        pair_outcome: What became of the sample's tuples: fix, break, keep or still_wrong.
        label_outcome: What became of the sentence's label.
    """

    aspects: tuple[GoldAspect, ...] | None = None
    label: str | None = None
    pairs: frozenset[Pair] | None = None
    pair_outcome: str | None = None
    label_outcome: str | None = None


@dataclass
class Row:
    """One aspect and the polarities that gold, Stage 1 and the final result give it."""

    term: str | None
    note: str | None = None
    gold: list[str] = field(default_factory=list)
    stage1: list[str] = field(default_factory=list)
    final: list[str] = field(default_factory=list)


def compare(entry: Entry) -> Comparison:
    """Compare a sample with its gold."""
    output, gold = entry.output, entry.card.get("gold")
    if not isinstance(gold, dict):
        return Comparison()
    aspects = _gold_aspects(gold.get("aspects"))
    if gold.get("incomplete"):
        return Comparison(aspects=aspects)
    scored = score_sample(output, aspects, gold.get("label"), entry.card.get("domain"))
    label, lang = scored.gold_label, language(output.lang)
    return Comparison(
        aspects=aspects,
        label=label,
        pairs=None
        if aspects is None
        else frozenset((lang.key(a.term), a.polarity) for a in aspects if a.term),
        pair_outcome=scored.change("strict") if scored.final else None,
        label_outcome=None
        if label is None
        else change(output.stage1_ate.label == label, output.final_result.label == label),
    )


def side_by_side(entry: Entry, found: Comparison) -> list[Row]:
    """Gold, Stage 1 and final polarities, aspect by aspect."""
    lang, result = language(entry.output.lang), entry.output.final_result
    rows: dict[str, Row] = {}
    for number, gold in enumerate(found.aspects or ()):
        key = lang.key(gold.term) if gold.term else f"\0{number}"
        row = rows.setdefault(key, Row(gold.term, gold.category))
        _add(row.gold, gold.polarity)
    for predicted in result.stage1_tuples:
        row = rows.setdefault(
            lang.key(predicted.name), Row(predicted.aspect_term, predicted.category)
        )
        _add(row.stage1, predicted.polarity)
    for predicted in result.final_tuples:
        row = rows.setdefault(
            lang.key(predicted.name), Row(predicted.aspect_term, predicted.category)
        )
        _add(row.final, predicted.polarity)
    return list(rows.values())


def _add(polarities: list[str], polarity: str) -> None:
    if polarity not in polarities:
        polarities.append(polarity)


def _gold_aspects(given: Any) -> tuple[GoldAspect, ...] | None:
    try:
        return None if given is None else _GOLD.validate_python(given)
    except ValidationError:
        return None
