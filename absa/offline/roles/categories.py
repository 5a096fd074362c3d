"""The category of each aspect, and what a text judges without a name, where a set is in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from absa.nodes.categories import spelling
from absa.offline.models import categories as model
from absa.offline.models.loading import LANGUAGES
from absa.offline.models.polarity_model import LABELS
from absa.offline.roles import lookup
from absa.offline.roles.inputs import RoleInputs
from absa.offline.text.annotations import Analysis, Finding


@dataclass(frozen=True)
class Unnamed:
    """A judgement of something that the text does not name."""

    polarity: str
    evidence: str
    confidence: float
    category: str | None = None


def category_of(analysis: Analysis, finding: Finding, inputs: RoleInputs) -> str | None:
    """The category of a named aspect; None without a set, or where no model knows the set."""
    found = _part(analysis.lang, inputs.domain, inputs.categories)
    if found is None:
        return None
    part, allowed = found
    place = finding.aspect.start, finding.aspect.end
    best = part.of_aspect(
        model.aspect_cues(analysis, *place), allowed, place, analysis.category_scores
    )
    return best[0] if best else None


def unnamed(analysis: Analysis, inputs: RoleInputs) -> list[Unnamed]:
    """What the text judges without a name.

    Without a category set, or a model that knows it, this is the text as a whole, and only where
    no aspect is named.
    """
    whole = analysis.overall if not analysis.findings else None
    found = _part(analysis.lang, inputs.domain, inputs.categories)
    if inputs.given_aspects is not None or analysis.mood is None:
        return []
    if found is None:
        return [_whole(analysis, None)] if whole is not None else []
    part, allowed = found
    likely = max(analysis.mood)
    polarity = LABELS[analysis.mood.index(likely)]
    reported = model.unnamed_judgements(part, analysis, allowed)
    evidence = lookup.evidence(analysis, analysis.overall) if analysis.overall else ""
    evidence = evidence or analysis.text.strip()[: lookup.EVIDENCE_LIMIT]
    return [Unnamed(polarity, evidence, round(p, 3), name) for name, p in reported]


def _whole(analysis: Analysis, category: str | None) -> Unnamed:
    reading = analysis.overall
    assert reading is not None, "asked only where the text is judged as a whole"
    confidence = round(reading.confidence - 0.05, 3)
    return Unnamed(reading.polarity, lookup.evidence(analysis, reading), confidence, category)


@lru_cache(maxsize=256)
def _part(
    lang: str, domain: str | None, categories: tuple[str, ...]
) -> tuple[model.DomainCategories, Mapping[str, str]] | None:
    """The model that knows the set, and the set's categories by spelling."""
    if not categories or lang not in LANGUAGES:
        return None
    part = model.shipped(lang).of(domain, categories)
    return (part, {spelling(name): name for name in reversed(categories)}) if part else None
