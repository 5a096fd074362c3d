"""`constant`: a baseline that predicts the most frequent tuples of a training file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absa.ablate.configurations import AblationError
from absa.data import read_samples
from absa.metrics.normalise import AbsaTuple, Normaliser
from absa.nodes.language import detect, normalise_code
from absa.nodes.polarity import label_of
from absa.schemas.sample import Sample


@dataclass(frozen=True)
class Constant:
    """A constant prediction: the most frequent tuples, in the number with the best F1."""

    tuples: tuple[tuple[str, str], ...]
    label: str

    def predict(self, text: str, lang: str) -> list[AbsaTuple]:
        """The prediction in the form for the scorer."""
        normaliser = Normaliser(text, lang)
        return [normaliser.tuple(term, polarity) for term, polarity in self.tuples]

    def as_json(self) -> dict[str, Any]:
        """The prediction as JSON."""
        return {
            "tuples": [{"aspect_term": t, "polarity": p} for t, p in self.tuples],
            "label": self.label,
        }


def learn(path: Path) -> Constant:
    """Count the tuples and labels of a training file.

    The number of predicted tuples is the one with the best F1 on that file, which makes this the
    strongest baseline of its kind.

    Raises:
        AblationError: The file has no gold aspects.
        DataError: The file cannot be read.
    """
    named: Counter[tuple[str, str]] = Counter()
    spelt: dict[tuple[str, str], Counter[str]] = {}
    labels: Counter[str] = Counter()
    samples = gold = 0
    for sample in read_samples(path):
        if not isinstance(sample, Sample) or sample.aspects is None or sample.incomplete_gold:
            continue
        samples += 1
        labels[sample.label or label_of(a.polarity for a in sample.aspects)] += 1
        lang = normalise_code(sample.lang) if sample.lang else detect(sample.text)
        normaliser = Normaliser(sample.text, lang)
        terms: dict[tuple[str, str], str] = {}
        for aspect in sample.aspects:
            if aspect.term and (key := normaliser.key(aspect.term)):
                terms.setdefault((key, aspect.polarity), aspect.term)
        gold += len(terms)
        for unit, term in terms.items():
            named[unit] += 1
            spelt.setdefault(unit, Counter())[term] += 1
    if not named:
        raise AblationError(f"--train {path}: no sample has gold aspects with a term")
    ranked = named.most_common()
    right = best = 0
    best_f1 = 0.0
    for size, (_, count) in enumerate(ranked, 1):
        right += count
        f1 = 2 * right / (size * samples + gold)
        if f1 > best_f1:
            best, best_f1 = size, f1
    chosen = tuple((spelt[unit].most_common(1)[0][0], unit[1]) for unit, _ in ranked[:best])
    return Constant(chosen, labels.most_common(1)[0][0])
