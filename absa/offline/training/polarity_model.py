"""Training of a polarity model on one's own labelled data, on top of a base model."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.offline.models import cues
from absa.offline.models.hashing import Keys, Table, added, keys_of
from absa.offline.models.polarity_model import BIAS, LABELS, PolarityModel, unit
from absa.offline.text.annotations import NEGATIVE, POSITIVE, View

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]
#: An aspect in its text: view, start, end, and the other aspects.
Place = tuple[View, int, int, list[cues.Span]]

FOLDS = 3
#: A weight counts if it can move an answer at all.
TINY = 0.01
#: How far weights may go from the base's (inverse strength of the L2 penalty): aspects, texts.
_ASPECT_C = 0.02
_TEXT_C = 1.0
#: A cue counts if it occurs this often.
_MIN_ASPECT_COUNT, _MIN_TEXT_COUNT = 2, 3
#: Share of the other aspects hidden in training, because a tagger does not find all of them.
_HIDDEN_OTHERS = 0.2


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text whose polarities are known.

    Attributes:
        view: The text.
        aspects: (start, end, polarity), in characters; an empty span is an aspect that is not
            named.
        label: The polarity of the text as a whole, if it has one.
        weight: How much the text counts.
    """

    view: View
    aspects: tuple[tuple[int, int, str], ...] = ()
    label: str | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Cases:
    """Cues as a sparse matrix, the keys of its columns, labels, weights and folds of its rows."""

    matrix: Any
    keys: Keys
    labels: Index
    weights: Array
    folds: Index


def train(samples: Iterable[Labelled], lang: str, base: PolarityModel) -> PolarityModel:
    """What the base knows plus what ``samples`` add to it.

    What is added is linear in the same cues, so the result is a table of weights that stands
    alone.
    """
    texts = list(samples)
    places, cases = aspect_cases(texts, base.valence)
    base_scores = _stack([base.aspect_scores(*place) for place in places])
    weights, factor = _on_top(cases, base.aspect_weights, base_scores, _ASPECT_C)
    net = base.net.mixed(np.eye(len(LABELS)) * factor) if base.net else None
    chosen, cases = text_cases(texts)
    base_scores = _stack([base.text_scores(text.view) for text in chosen])
    text_weights, of_texts = _on_top(cases, base.text_weights, base_scores, _TEXT_C)
    encoder = base.encoder[0] * factor, base.encoder[1] * of_texts
    return PolarityModel(lang, weights, text_weights, base.valence, net, encoder)


def label_of(polarities: Iterable[str]) -> str | None:
    """The label of a text by its aspects; None where they contradict each other."""
    distinct = set(polarities)
    if {POSITIVE, NEGATIVE} <= distinct or not distinct:
        return None
    return next(label for label in LABELS if label in distinct)


def aspect_cases(
    texts: Sequence[Labelled], valence: Mapping[str, float]
) -> tuple[list[Place], Cases]:
    """The aspects of all texts, and their cues."""
    spans = [(text, span) for text in texts for span in text.aspects]
    places = [(text.view, span[0], span[1], _some_others(text, span)) for text, span in spans]
    features = ((cues.aspect_cues(*place, valence), 1.0) for place in places)
    labels, labelled_texts = [span[2] for _, span in spans], [text for text, _ in spans]
    return places, _cases(features, labels, labelled_texts, _MIN_ASPECT_COUNT)


def text_cases(texts: Sequence[Labelled]) -> tuple[list[Labelled], Cases]:
    """The texts that have a label as a whole, and their cues."""
    chosen = [text for text in texts if text.label is not None]
    features = (cues.text_cues(text.view) for text in chosen)
    labels = [text.label or "" for text in chosen]
    return chosen, _cases(
        ((item, unit(item)) for item in features), labels, chosen, _MIN_TEXT_COUNT
    )


def _stack(scores: Sequence[npt.NDArray[np.float32]]) -> Array:
    return np.array(scores, float).reshape(-1, len(LABELS))


def _some_others(text: Labelled, span: tuple[int, int, str]) -> list[cues.Span]:
    """The other aspects of a text, some of them hidden, always the same ones."""
    return [
        other[:2]
        for other in text.aspects
        if other[:2] != span[:2]
        and other[0] < other[1]
        and zlib.crc32(_bytes(f"{text.view.text}{span}{other}")) % 1000 >= 1000 * _HIDDEN_OTHERS
    ]


def _cases(
    found: Iterable[tuple[cues.Cues, float]],
    labels: Sequence[str],
    texts: Sequence[Labelled],
    min_count: int,
) -> Cases:
    """A matrix of cues, each with the factor of its row; rare cues are left out."""
    from scipy import sparse

    rows, values = [np.zeros(0, np.uint32)], [np.zeros(0, np.float32)]
    for item, factor in found:
        rows.append(keys_of(item))
        values.append(np.fromiter(item.values(), np.float32, len(item)) * np.float32(factor))
    every, column, counts = np.unique(np.concatenate(rows), return_inverse=True, return_counts=True)
    matrix = sparse.csr_matrix(
        (np.concatenate(values), column, np.cumsum([len(row) for row in rows])),
        shape=(len(rows) - 1, len(every)),
    )
    frequent = counts >= min_count
    return Cases(
        matrix[:, frequent],
        every[frequent],
        np.array([LABELS.index(label) for label in labels], np.int64),
        np.array([text.weight for text in texts]),
        np.array([zlib.crc32(_bytes(text.view.text)) % FOLDS for text in texts], np.int64),
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def bias_table(scores: Array) -> Table:
    """A table that adds the same scores to everything."""
    return Table(keys_of([BIAS]), scores[None, :].astype(np.float32))


def _on_top(cases: Cases, base: Table, known: Array, c: float) -> tuple[Table, float]:
    """The base's table plus what its scores do not explain, and the factor of the base's scores."""
    scores = known.copy()
    for fold in range(FOLDS):
        here = cases.folds == fold
        learnt, intercepts = _residual(cases, ~here, known, c)
        scores[here] += cases.matrix[here] @ learnt + intercepts
    # A few sentences may be perfectly explained by chance: never surer than base and residual.
    factor = 1 / max(1.0, temperature(scores, cases.labels))
    learnt, intercepts = _residual(cases, np.ones(len(known), bool), known, c)
    own = Table(cases.keys, (learnt * factor).astype(np.float32))
    parts = [base.mixed(np.eye(len(LABELS)) * factor), own, bias_table(intercepts * factor)]
    return added(parts).without(TINY), factor


def _residual(
    cases: Cases, part: npt.NDArray[np.bool_], known: Array, c: float
) -> tuple[Array, Array]:
    """Logistic regression on top of known scores: what has to be added to them."""
    from scipy.optimize import minimize

    matrix, weights = cases.matrix[part], cases.weights[part][:, None]
    gold = np.eye(len(LABELS))[cases.labels[part]]
    shape = (matrix.shape[1] + 1, len(LABELS))

    def loss(flat: Array) -> tuple[float, Array]:
        table = flat.reshape(shape)
        scores = known[part] + matrix @ table[:-1] + table[-1]
        scores -= scores.max(axis=1, keepdims=True)
        powers = np.exp(scores)
        totals = powers.sum(axis=1, keepdims=True)
        error = weights * (powers / totals - gold)
        misfit = np.sum(weights * gold * (np.log(totals) - scores))
        slope = np.vstack([matrix.T @ error, error.sum(axis=0)]) + table / c
        return float(misfit + np.sum(table * table) / (2 * c)), slope.ravel()

    fit = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    table = fit.x.reshape(shape)
    return table[:-1], table[-1]


def temperature(scores: Array, labels: Index) -> float:
    """By what to divide scores so that they are as sure as they are right."""
    options = np.exp(np.linspace(-1.5, 1.5, 61)).tolist()
    return float(min(options, key=lambda t: _loss(scores / t, labels)))


def _loss(scores: Array, labels: Index) -> float:
    scores = scores - scores.max(axis=1, keepdims=True)
    chosen = scores[np.arange(len(labels)), labels]
    return float(np.sum(np.log(np.exp(scores).sum(axis=1)) - chosen))
