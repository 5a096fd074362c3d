"""Training of the shipped category models.

``python -m training.categories DATA --out resources/models`` reads ``DATA/train/mabsa_*.jsonl``
(M-ABSA: four domains, categories, judgements without a name). Named aspects: a multinomial
logistic regression per domain. Unnamed judgements: one logistic regression per category. The
threshold of a domain is the one with the best F1 of unnamed judgements, predicted for texts that
were left out (5 folds), among those that find at least `LEAST_RECALL` of them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from absa.nodes.categories import spelling
from absa.offline.models import categories as model
from absa.offline.models import loading
from absa.offline.models.folder import record, shipped
from absa.offline.models.hashing import Table, key_of
from absa.offline.text.views import view_of
from absa.schemas.json_text import parse_json

LANGUAGES = ("en", "ko")
C = {"aspects": 1.0, "unnamed": 3.0}
#: A category needs this many unnamed judgements to be learned; annotators' slips have fewer.
RARE = 4
LEAST_RECALL = 0.26
FOLDS = 5
TINY = 0.02
Row = dict[str, Any]
Matrix = npt.NDArray[np.float32]


def matrix(cues: Sequence[model.Cues], columns: dict[str, int]) -> Any:
    """The cues as a sparse matrix."""
    from scipy.sparse import csr_matrix

    found = [
        (row, columns[name], value)
        for row, one in enumerate(cues)
        for name, value in one.items()
        if name in columns
    ]
    rows, places, values = zip(*found, strict=True) if found else ((), (), ())
    return csr_matrix((values, (rows, places)), shape=(len(cues), len(columns)))


def columns_of(cues: Sequence[model.Cues]) -> dict[str, int]:
    """Cues with their columns."""
    return {name: i for i, name in enumerate(dict.fromkeys(name for one in cues for name in one))}


def table(columns: dict[str, int], weights: npt.NDArray[Any], bias: npt.NDArray[Any]) -> Table:
    """Weights by hashed cue, the bias among them."""
    keys = np.array([key_of(name) for name in [*columns, model.BIAS]], np.uint32)
    rows = np.vstack([weights.T, bias]).astype(np.float32)
    keys, first = np.unique(keys, return_index=True)
    return Table(keys, rows[first]).without(TINY)


def fit_aspects(cues: Sequence[model.Cues], names: Sequence[str]) -> tuple[tuple[str, ...], Table]:
    """The categories of named aspects and their weights."""
    columns = columns_of(cues)
    fitted = LogisticRegression(C=C["aspects"], max_iter=500)
    fitted.fit(matrix(cues, columns), names)
    weights, bias = fitted.coef_, fitted.intercept_
    if len(fitted.classes_) == 2:
        weights, bias = np.vstack([-weights, weights]) / 2, np.array([-bias[0], bias[0]]) / 2
    return tuple(map(str, fitted.classes_)), table(columns, weights, bias)


def fit_unnamed(
    cues: Sequence[model.Cues], labels: npt.NDArray[np.bool_], columns: dict[str, int]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Weights and biases, one row for each category."""
    rows = matrix(cues, columns)
    fits = [
        LogisticRegression(C=C["unnamed"], max_iter=500).fit(rows, labels[:, j])
        if labels[:, j].any()
        else None
        for j in range(labels.shape[1])
    ]
    weights = [np.zeros(len(columns)) if f is None else f.coef_[0] for f in fits]
    bias = [-9.0 if f is None else float(f.intercept_[0]) for f in fits]
    return np.array(weights), np.array(bias)


def threshold(
    cues: Sequence[model.Cues], labels: npt.NDArray[np.bool_], certainty: npt.NDArray[Any]
) -> float:
    """The threshold of the best F1 on texts left out, with the least recall."""
    probability = np.zeros(labels.shape)
    for learned, left in KFold(FOLDS, shuffle=True, random_state=0).split(labels):
        chosen = [cues[i] for i in learned]
        columns = columns_of(chosen)
        weights, bias = fit_unnamed(chosen, labels[learned], columns)
        scores = matrix([cues[i] for i in left], columns) @ weights.T + bias
        probability[left] = 1 / (1 + np.exp(-scores))
    probability *= certainty[:, None]
    best = (0.0, 0.5)
    for step in np.arange(0.05, 0.6, 0.01):
        reported = probability >= step
        right = (reported & labels).sum()
        f1 = 2 * right / (reported.sum() + labels.sum())
        if right / labels.sum() >= LEAST_RECALL:
            best = max(best, (float(f1), float(step)))
    return best[1]


def train_domain(rows: Sequence[Row], lang: str) -> model.DomainCategories:
    """The models of one domain."""
    polarity = loading.polarity(shipped(), lang)
    views = [view_of(row["text"], lang, row["domain"]) for row in rows]
    named = [
        (model.aspect_cues(view.text, view.tokens, a["from"], a["to"]), a["category"])
        for row, view in zip(rows, views, strict=True)
        for a in row["aspects"]
        if a["term"] is not None
    ]
    names, aspects = fit_aspects([c for c, _ in named], [n for _, n in named])
    unnamed = [{a["category"] for a in row["aspects"] if a["term"] is None} for row in rows]
    counts = Counter(name for found in unnamed for name in found)
    kept = tuple(sorted(name for name, count in counts.items() if count >= RARE))
    cues = [model.text_cues(view.tokens) for view in views]
    labels = np.array([[name in found for name in kept] for found in unnamed], bool)
    certainty = np.array([max(polarity.text(view)) for view in views])
    columns = columns_of(cues)
    weights, bias = fit_unnamed(cues, labels, columns)
    return model.DomainCategories(
        names,
        aspects,
        kept,
        table(columns, weights, bias),
        threshold(cues, labels, certainty),
    )


def train(data: Path, lang: str) -> model.CategoryModel:
    """The model of a language."""
    lines = (data / "train" / f"mabsa_{lang}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(parse_json, lines) if not row.get("dropped_aspects")]
    for row in rows:
        # Slips of the annotators: a category that no guideline has.
        row["aspects"] = [a for a in row["aspects"] if spelling(a["category"]) not in SLIPS]
    domains = sorted({row["domain"] for row in rows})
    return model.CategoryModel(
        {name: train_domain([r for r in rows if r["domain"] == name], lang) for name in domains}
    )


SLIPS = frozenset({"polarity positive"})


def main() -> None:
    """Train the models of both languages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    parser.add_argument("--lang", choices=LANGUAGES, action="append")
    asked = parser.parse_args()
    for lang in asked.lang or LANGUAGES:
        path = asked.out / f"categories_{lang}.npz"
        train(asked.data, lang).save(path)
        record(asked.out, [path.name])


if __name__ == "__main__":
    main()
