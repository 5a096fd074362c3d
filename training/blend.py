"""How much the encoder counts beside the small polarity model: fitted to texts neither has read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from absa.offline.models.encoder import aspect_scores, text_scores
from absa.offline.models.hashing import Table, added
from absa.offline.models.polarity_model import LABELS, PolarityModel
from absa.offline.training.polarity_model import bias_table
from absa.schemas.sample import Sample
from training.texts import Texts

Array = npt.NDArray[np.float64]
#: How much an everyday sentence counts; the other data sets have more texts.
_EVERYDAY_WEIGHT = 3.0


def blended(model: PolarityModel, texts: Texts) -> PolarityModel:
    """The model with the encoder's scores added, calibrated for both together."""
    aspects, whole = _aspect_rows(model, texts), _text_rows(model, texts)
    of_aspects, aspect_encoder, aspect_bias = _fit(*aspects)
    of_texts, text_encoder, text_bias = _fit(*whole)
    return replace(
        model,
        aspect_weights=_scaled(model.aspect_weights, of_aspects, aspect_bias),
        text_weights=_scaled(model.text_weights, of_texts, text_bias),
        net=model.net.mixed(np.eye(len(LABELS)) * of_aspects) if model.net else None,
        encoder=(round(aspect_encoder, 3), round(text_encoder, 3)),
    )


def _weight(sample: Sample) -> float:
    return 1.0 if sample.label is None else _EVERYDAY_WEIGHT


def _scaled(table: Table, factor: float, bias: Array) -> Table:
    return added([table.mixed(np.eye(len(LABELS)) * factor), bias_table(bias)])


Rows = tuple[Array, Array, npt.NDArray[np.int64], Array]


def _aspect_rows(model: PolarityModel, texts: Texts) -> Rows:
    small, encoded, gold, weights = [], [], [], []
    for sample, view in texts:
        places = [
            (a.from_, a.to, a.polarity)
            for a in sample.aspects or ()
            if a.from_ is not None and a.to is not None
        ]
        for start, end, polarity in places:
            others = [(s, e) for s, e, _ in places if (s, e) != (start, end)]
            scores = aspect_scores(view, start, end)
            if scores is not None and polarity in LABELS:
                small.append(model.aspect_scores(replace(view, encoded=None), start, end, others))
                encoded.append(scores)
                gold.append(LABELS.index(polarity))
                weights.append(_weight(sample))
    return np.array(small, float), np.array(encoded, float), np.array(gold), np.array(weights)


def _text_rows(model: PolarityModel, texts: Texts) -> Rows:
    small, encoded, gold, weights = [], [], [], []
    for sample, view in texts:
        scores = text_scores(view)
        if scores is not None and sample.label in LABELS:
            small.append(model.text_scores(replace(view, encoded=None)))
            encoded.append(scores)
            gold.append(LABELS.index(sample.label))
            weights.append(_weight(sample))
    return np.array(small, float), np.array(encoded, float), np.array(gold), np.array(weights)


def _fit(
    small: Array, encoded: Array, gold: npt.NDArray[np.int64], weights: Array
) -> tuple[float, float, Array]:
    """Factors of both scores and a bias that make the sum as sure as it is right."""
    from scipy.optimize import minimize

    rows = np.arange(len(gold))

    def loss(x: Array) -> float:
        scores = x[0] * small + x[1] * encoded + np.array([0.0, x[2], x[3]])
        scores = scores - scores.max(axis=1, keepdims=True)
        misfit = np.log(np.exp(scores).sum(axis=1)) - scores[rows, gold]
        return float((weights * misfit).sum() / weights.sum() + 1e-3 * (x[2:] ** 2).sum())

    best = minimize(loss, np.array([0.3, 0.7, 0.0, 0.0]), bounds=[(0, 3)] * 2 + [(-2, 2)] * 2).x
    return float(best[0]), float(best[1]), np.array([0.0, *best[2:]])
