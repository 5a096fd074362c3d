"""Compares a sample with its gold, by the scorer of `absa.metrics`.

Incomplete gold is shown, but no tuple is counted as right or wrong by it.
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
    """A sample and its gold. `pairs` is None without complete gold.

    Attributes:
        aspects: The gold tuples; None if the data has none.
        label: The gold label, from the data or from the aspects.
        pairs: Key and polarity of the gold tuples that have a term.
        pair_outcome: The change of the tuples: fix, break, keep or still_wrong.
        label_outcome: The change of the label.
    """

    aspects: tuple[GoldAspect, ...] | None = None
    label: str | None = None
    pairs: frozenset[Pair] | None = None
    pair_outcome: str | None = None
    label_outcome: str | None = None


@dataclass
class Row:
    """The polarities of one aspect in the gold, in Stage 1 and in the final result."""

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


def side_by_side(entry: Entry, comparison: Comparison) -> list[Row]:
    """Gold, Stage 1 and final polarities, aspect by aspect."""
    lang, result = language(entry.output.lang), entry.output.final_result
    rows: dict[str, Row] = {}
    for number, gold in enumerate(comparison.aspects or ()):
        key = lang.key(gold.term) if gold.term else f"\0{number}"
        rows.setdefault(key, Row(gold.term, gold.category)).gold.append(gold.polarity)
    for stage, tuples in (("stage1", result.stage1_tuples), ("final", result.final_tuples)):
        for each in tuples:
            row = rows.setdefault(lang.key(each.name), Row(each.aspect_term, each.category))
            getattr(row, stage).append(each.polarity)
    for row in rows.values():
        for polarities in (row.gold, row.stage1, row.final):
            polarities[:] = dict.fromkeys(polarities)
    return list(rows.values())


def _gold_aspects(value: Any) -> tuple[GoldAspect, ...] | None:
    try:
        return None if value is None else _GOLD.validate_python(value)
    except ValidationError:
        return None
