"""Training of the shipped category models.

``python -m training.categories DATA --out resources/models`` reads ``DATA/train/mabsa_*.jsonl``
(M-ABSA: four domains, categories, judgements without a name) and analyzes each text with the
shipped models: run it again after those changed (two minutes of one core for each language).

Three linear models learn from all domains together. The category of a named aspect, and the
category of an unnamed judgement: multinomial logistic regressions by stochastic gradient descent.
A step for ``LAPTOP#PRICE`` also moves the categories of one entity (``LAPTOP``) and those of one
attribute (``price``) in all domains, so that rare categories learn from others. Whether a text
judges something unnamed: a logistic regression. The threshold is the one with the best F1 of
unnamed judgements, predicted for texts that were left out. How much the encoder counts beside them
is fitted to texts that it has not read (`left_out`).
It prints how good the models are on texts of train that were left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from absa.nodes.categories import spelling
from absa.offline.analysis import Analyser
from absa.offline.models import categories as model
from absa.offline.models.encoder import category_scores
from absa.offline.models.folder import record
from absa.offline.models.hashing import Table, key_of
from absa.offline.models.loading import Models
from absa.offline.models.polarity_model import LABELS
from absa.offline.text.annotations import Analysis, CategoryScores
from absa.offline.text.views import view_of
from absa.schemas.json_text import parse_json

LANGUAGES = ("en", "ko")
#: Slips of the annotators: a category that no guideline has.
SLIPS = frozenset({"polarity positive"})
#: Inverse regularisation strength of `judged`, and how much a domain's own weights count.
C = 0.3
OWN_DOMAIN = 0.5
#: How far a step moves the category itself, those of its entity, and those of its attribute.
SELF, ENTITY, ATTRIBUTE = 0.3, 0.4, 0.3
DECAY = 1e-3
#: Epochs and the highest rate, chosen on texts of train left out.
ASPECTS, UNNAMED = (16, 2.0), (8, 1.0)
FOLDS = 4
TINY = 0.02
STEPS = (0.1, 0.4, 0.02)
#: How much the encoder may count.
WEIGHTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
#: One text in this number the encoders do not read: it shows how much they count.
LEFT_OUT = 10
#: Languages whose encoder has read M-ABSA so often that what it says of unnamed judgements in these
#: texts does not help with others.
LEARNED_BY_HEART = frozenset({"ko"})
#: On M-ABSA's dev part the Korean encoder is worth less than on the texts left out, and these are
#: too few for a threshold: half of its weight is taken, and the threshold of all texts.
HALF = 0.5
Row = dict[str, Any]
Array = npt.NDArray[np.float32]
#: Numbers and values of the cues of a case.
Sparse = tuple[npt.NDArray[np.int64], Array]


def left_out(number: int) -> bool:
    """Whether the encoders do not learn from the text of this number in a file of M-ABSA."""
    return number % LEFT_OUT == 0


@dataclass(frozen=True)
class Example:
    """A text with its annotated categories."""

    analysis: Analysis
    domain: str
    named: Mapping[tuple[int, int], frozenset[str]]
    unnamed: frozenset[tuple[str, str]]
    #: What the encoder says of the annotated aspects and of the text.
    encoder: CategoryScores | None = None
    #: Whether the encoder has not read it.
    is_new: bool = False

    @property
    def unnamed_categories(self) -> frozenset[str]:
        """The categories of what is judged without a name."""
        return frozenset(category for category, _ in self.unnamed)


@dataclass(frozen=True)
class Case:
    """Something to classify: its domain, its cues, and its categories."""

    domain: str
    cues: model.Cues
    categories: frozenset[str]


def example(row: Row, number: int, models: Models) -> Example:
    """A row of the data with its number in the file."""
    aspects = [a for a in row["aspects"] if spelling(a["category"]) not in SLIPS]
    named: dict[tuple[int, int], set[str]] = {}
    for aspect in aspects:
        if aspect["term"] is not None:
            named.setdefault((aspect["from"], aspect["to"]), set()).add(aspect["category"])
    text, lang, domain = row["text"], row["lang"], row["domain"]
    encoded = models.of(lang).read(view_of(text, lang, domain)).encoded
    analysis = Analyser(models)(text, lang, domain)
    if lang in LEARNED_BY_HEART:
        analysis = replace(analysis, unnamed=())
    return Example(
        analysis,
        domain,
        {span: frozenset(categories) for span, categories in named.items()},
        frozenset((a["category"], a["polarity"]) for a in aspects if a["term"] is None),
        category_scores(encoded, named),
        left_out(number),
    )


def parts_of(category: str) -> tuple[str, str]:
    """Entity and attribute: ``LAPTOP#PRICE`` and ``food prices`` share one."""
    entity, _, attribute = spelling(category).rpartition(" ")
    return entity, "prices" if attribute == "price" else attribute


class Softmax:
    """Multinomial logistic regressions, one for each domain, that share steps."""

    def __init__(self, cases: Sequence[Case]) -> None:
        classes = sorted({(case.domain, name) for case in cases for name in case.categories})
        self.columns = {name: i for i, name in enumerate(_names(case.cues for case in cases))}
        self.domains = {
            domain: np.array([i for i, (own, _) in enumerate(classes) if own == domain])
            for domain in sorted({domain for domain, _ in classes})
        }
        self.names = [name for _, name in classes]
        parts = [parts_of(name) for name in self.names]
        shared = np.array(
            [
                [
                    SELF * (i == j)
                    + ENTITY * (one[0] == other[0] and parts[i][0] == parts[j][0])
                    + ATTRIBUTE * (parts[i][1] == parts[j][1])
                    for j, other in enumerate(classes)
                ]
                for i, one in enumerate(classes)
            ],
            np.float32,
        )
        self._shared = {domain: shared[:, own] for domain, own in self.domains.items()}
        self.weights: Array = np.zeros((len(self.columns), len(classes)), np.float32)

    def fit(self, cases: Sequence[Case], epochs: int, highest: float) -> Softmax:
        """Descend; the rate falls linearly from the highest to zero."""
        rows = [sparse(case.cues, self.columns) for case in cases]
        targets = [self._target(case) for case in cases]
        rng = np.random.default_rng(0)
        plan = np.concatenate([rng.permutation(len(cases)) for _ in range(epochs)])
        for step, i in enumerate(plan):
            columns, values = rows[i]
            rate = highest * (1 - step / len(plan))
            weights, domain = self.weights[columns], cases[i].domain
            shares = softmax(values @ weights[:, self.domains[domain]])
            gradient = self._shared[domain] @ (shares - targets[i])
            self.weights[columns] = weights * (1 - rate * DECAY) - rate * np.outer(values, gradient)
        return self

    def _target(self, case: Case) -> Array:
        names = self.names_of(case.domain)
        target = np.array([name in case.categories for name in names], np.float32)
        return np.asarray(target / target.sum(), np.float32)

    def names_of(self, domain: str) -> tuple[str, ...]:
        """The categories of a domain."""
        return tuple(self.names[i] for i in self.domains[domain])

    def shares(self, domain: str, cues: model.Cues) -> Array:
        """The probabilities of a domain's categories."""
        columns, values = sparse(cues, self.columns)
        return softmax(values @ self.weights[columns][:, self.domains[domain]])

    def table(self, domain: str) -> Table:
        """The weights of a domain by hashed cue."""
        return table(self.columns, self.weights[:, self.domains[domain]])


def _names(cues: Any) -> dict[str, None]:
    return dict.fromkeys(name for one in cues for name in one)


def softmax(scores: Array) -> Array:
    """Probabilities that add up to 1."""
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum(), np.float32)


def sparse(cues: model.Cues, columns: Mapping[str, int]) -> Sparse:
    """The cues that have a column."""
    features = [(columns[name], value) for name, value in cues.items() if name in columns]
    numbers, values = zip(*features, strict=True) if features else ((), ())
    return np.array(numbers, np.int64), np.array(values, np.float32)


def table(columns: Mapping[str, int], weights: npt.NDArray[Any]) -> Table:
    """Weights by hashed cue."""
    keys, first = np.unique(np.array([key_of(name) for name in columns], np.uint32), True)
    return Table(keys, weights[first].astype(np.float32)).without(TINY)


def with_bias(cues: model.Cues) -> model.Cues:
    """The cues as the analyzer scores them: the bias is one of them."""
    return {**cues, model.BIAS: 1.0}


class Judged:
    """Whether a text judges something without a name: weights of all domains and of each one."""

    def __init__(self, examples: Sequence[Example]) -> None:
        from scipy.sparse import csr_matrix, diags, hstack

        cues = [with_bias(model.judged_cues(one.analysis)) for one in examples]
        self.columns = {name: i for i, name in enumerate(_names(cues))}
        self.domains = sorted({one.domain for one in examples})
        rows = [sparse(one, self.columns) for one in cues]
        numbers = np.repeat(np.arange(len(rows)), [len(columns) for columns, _ in rows])
        columns, values = (np.concatenate(part) for part in zip(*rows, strict=True))
        matrix = csr_matrix((values, (numbers, columns)), shape=(len(rows), len(self.columns)))
        own = [
            diags([OWN_DOMAIN * (one.domain == domain) for one in examples]) @ matrix
            for domain in self.domains
        ]
        fitted = LogisticRegression(C=C, max_iter=300, fit_intercept=False)
        fitted.fit(hstack([matrix, *own]).tocsr(), [bool(one.unnamed) for one in examples])
        shared, *others = fitted.coef_[0].reshape(1 + len(own), -1)
        self.weights = {
            domain: (shared + OWN_DOMAIN * weights)[:, None]
            for domain, weights in zip(self.domains, others, strict=True)
        }

    def table(self, domain: str) -> Table:
        """The weights of a domain by hashed cue."""
        return table(self.columns, self.weights[domain])


def fit(
    examples: Sequence[Example], threshold: float, encoder: tuple[float, float] = (0.0, 0.0)
) -> model.CategoryModel:
    """The models of all domains; `encoder` is how much the encoder counts."""
    aspects = [case for one in examples for case in aspect_cases(one)]
    unnamed = [case for one in examples for case in unnamed_cases(one)]
    of_aspects = Softmax(aspects).fit(aspects, *ASPECTS)
    of_texts = Softmax(unnamed).fit(unnamed, *UNNAMED)
    judged = Judged(examples)
    return model.CategoryModel(
        {
            domain: model.DomainCategories(
                of_aspects.names_of(domain),
                of_aspects.table(domain),
                of_texts.names_of(domain),
                of_texts.table(domain),
                judged.table(domain),
                threshold,
                domain,
                encoder,
            )
            for domain in of_aspects.domains
        }
    )


def aspect_cases(one: Example) -> list[Case]:
    """The named aspects of a text."""
    return [
        Case(one.domain, with_bias(model.aspect_cues(one.analysis, *span)), categories)
        for span, categories in one.named.items()
    ]


def unnamed_cases(one: Example) -> list[Case]:
    """What a text judges without a name, if it does."""
    cues = with_bias(model.text_cues(one.analysis.tokens))
    return [Case(one.domain, cues, one.unnamed_categories)] if one.unnamed else []


@dataclass(frozen=True)
class Guess:
    """An unnamed judgement of a text left out: its probability, and whether it is right."""

    domain: str
    probability: float
    is_right: bool


def likelihood(
    made: model.CategoryModel, examples: Sequence[Example]
) -> tuple[list[float], list[float]]:
    """How likely the annotated categories are: of named aspects, and of unnamed judgements."""
    named, unnamed = [], []
    for one in examples:
        part = made.domains[one.domain]
        for span, categories in one.named.items():
            cues = model.aspect_cues(one.analysis, *span)
            shares = part.aspect_shares(cues, span, one.encoder)
            named.append(_share_of(categories, part.names, shares))
        if one.unnamed:
            shares = part.text_shares(model.text_cues(one.analysis.tokens), one.encoder)
            unnamed.append(_share_of(one.unnamed_categories, part.unnamed_names, shares))
    return named, unnamed


def _share_of(categories: frozenset[str], names: Sequence[str], shares: Array) -> float:
    return float(sum(p for name, p in zip(names, shares, strict=True) if name in categories))


def encoder_weights(examples: Sequence[Example]) -> tuple[tuple[float, float], dict[str, Any]]:
    """How much the encoder counts: what makes the categories of texts new to both likeliest."""
    new = [one for one in examples if one.is_new]
    if not any(one.encoder for one in new):
        return (0.0, 0.0), {}
    made = fit([one for one in examples if not one.is_new], 0.0)
    by_weight = {}
    for weight in WEIGHTS:
        weighed = model.CategoryModel(
            {name: replace(part, encoder=(weight, weight)) for name, part in made.domains.items()}
        )
        by_weight[weight] = [
            float(np.mean(np.log(np.array(shares) + 1e-4))) for shares in likelihood(weighed, new)
        ] + [accuracy(weighed, new)["all"]]
    named, unnamed = (max(by_weight, key=lambda w: by_weight[w][kind]) for kind in (0, 1))
    return (named, unnamed), {str(weight): values for weight, values in by_weight.items()}


def guesses(made: model.CategoryModel, examples: Sequence[Example]) -> list[Guess]:
    """What a model that may report everything says of texts."""
    guesses = []
    for one in examples:
        part = made.domains[one.domain]
        allowed = {spelling(name): name for name in part.unnamed_names}
        mood = one.analysis.mood
        if mood is None:
            continue
        polarity = LABELS[mood.index(max(mood))]
        for name, probability in model.unnamed_judgements(part, one.analysis, allowed):
            guesses.append(Guess(one.domain, probability, (name, polarity) in one.unnamed))
    return guesses


def f1_of_unnamed(reported: Sequence[Guess], gold: int) -> float:
    """F1 of unnamed judgements (category and polarity)."""
    right = sum(guess.is_right for guess in reported)
    return 2 * right / max(1, len(reported) + gold)


def accuracy(made: model.CategoryModel, examples: Sequence[Example]) -> dict[str, float]:
    """How many of the named aspects get a category of theirs, by domain."""
    right: dict[str, list[bool]] = {}
    for one in examples:
        part = made.domains[one.domain]
        allowed = {spelling(name): name for name in part.names}
        for span, categories in one.named.items():
            cues = model.aspect_cues(one.analysis, *span)
            best = part.of_aspect(cues, allowed, span, one.encoder)
            for each in (one.domain, "all"):
                right.setdefault(each, []).append(best is not None and best[0] in categories)
    return {name: round(100 * float(np.mean(flags)), 1) for name, flags in sorted(right.items())}


def cross_validated(
    examples: Sequence[Example], encoder: tuple[float, float], *, by_heart: bool = False
) -> tuple[float, dict[str, Any]]:
    """The threshold, and how good the models are on texts left out.

    Where an encoder counts these are the texts that it has not read, else, and where it has learned
    the others by heart, each fourth in turn.
    """
    folds = [[i % FOLDS == fold for i in range(len(examples))] for fold in range(FOLDS)]
    if any(encoder) and not by_heart:
        folds = [[one.is_new for one in examples]]
    predicted: list[Guess] = []
    accuracies = []
    for fold in folds:
        rest = list(compress(examples, fold))
        made = fit([one for one, out in zip(examples, fold, strict=True) if not out], 0.0, encoder)
        predicted += guesses(made, rest)
        accuracies.append(accuracy(made, rest))
    gold = sum(len(one.unnamed) for fold in folds for one in compress(examples, fold))
    f1 = {
        float(step): f1_of_unnamed([g for g in predicted if g.probability >= step], gold)
        for step in np.arange(*STEPS).round(2)
    }
    best = max(f1, key=lambda step: f1[step])
    report = {
        "category of named aspects": {
            name: round(float(np.mean([each[name] for each in accuracies])), 1)
            for name in accuracies[0]
        },
        "F1 of unnamed judgements by threshold": {s: round(100 * v, 1) for s, v in f1.items()},
        "threshold": best,
    }
    return best, report


def examples_of(path: Path) -> list[Example]:
    """The analyzed texts of a file."""
    models = Models()
    rows = map(parse_json, path.read_text(encoding="utf-8").splitlines())
    return [
        example(row, number, models)
        for number, row in enumerate(rows)
        if not row.get("dropped_aspects")
    ]


def main() -> None:
    """Train the models of both languages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    parser.add_argument("--lang", choices=LANGUAGES, action="append")
    options = parser.parse_args()
    for lang in options.lang or LANGUAGES:
        examples = examples_of(options.data / "train" / f"mabsa_{lang}.jsonl")
        weights, by_weight = encoder_weights(examples)
        by_heart = lang in LEARNED_BY_HEART
        if by_heart:
            weights = HALF * weights[0], HALF * weights[1]
        threshold, report = cross_validated(examples, weights, by_heart=by_heart)
        report |= {"share of the encoder": weights, "log-likelihoods, accuracy": by_weight}
        sys.stdout.write(f"{lang} {json.dumps(report, indent=1)}\n")
        path = options.out / f"categories_{lang}.npz"
        fit(examples, threshold, weights).save(path)
        record(options.out, [path.name])


if __name__ == "__main__":
    main()
