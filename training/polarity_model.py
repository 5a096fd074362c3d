"""Training of the shipped polarity models.

``python -m training.polarity_model DATA --out MODELS`` makes them from a folder with
``train/*.jsonl[.gz]``. Same data, same bytes (on one machine, with one thread).
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.offline.models import cues, loading
from absa.offline.models.folder import ModelFolder, record
from absa.offline.models.hashing import Table, added
from absa.offline.models.polarity_model import LABELS, PolarityModel
from absa.offline.models.zone_network import ZoneNet
from absa.offline.text.annotations import NEGATIVE, NEUTRAL, POSITIVE
from absa.offline.text.views import view_of
from absa.offline.training.polarity_model import (
    FOLDS,
    TINY,
    Array,
    Cases,
    Index,
    Labelled,
    aspect_cases,
    bias_table,
    label_of,
    temperature,
    text_cases,
)
from absa.schemas.json_text import parse_json
from training import everyday_data, zone_network
from training.blend import blended
from training.texts import unseen_texts

#: What the shipped models are made of, and how much one text of each counts.
SOURCES: Mapping[str, Mapping[str, float]] = {
    "en": {"mams": 1.0, "mabsa_en": 1.5},
    "ko": {"mabsa_ko": 2.0, "korsemeval": 2.0, "nsmc_raw": 1.0},
}
#: How much an everyday sentence counts.
EVERYDAY = {"en": 2.0}
#: Neutral aspects are rare in M-ABSA and would never be answered: such texts count more.
RARE_NEUTRAL = {"mabsa_en": 3.0}
#: How far weights may go (inverse strength of the L2 penalty): aspects, texts.
_ASPECT_C = 0.04
_TEXT_C = 10.0
_NEUTRAL_C = 3.0
_VALENCE_C = 0.1
#: Languages in which the network helped on development data, and how many are averaged.
_NET_MEMBERS = {"en": 3}
_TOLERANCE = 1e-4
#: Words need this many labelled texts without aspects before their valence is worth learning.
_VALENCE_TEXTS = 1000
_VALENCE_COUNT = 5
_VALENCE_TINY = 0.1


def train(samples: Iterable[Labelled], lang: str) -> PolarityModel:
    """A model of ``samples``."""
    texts = list(samples)
    valence = _valence(texts)
    weights, net = _aspect_model(texts, valence, _NET_MEMBERS.get(lang, 0))
    return PolarityModel(lang, weights, _text_weights(texts), valence, net)


def _aspect_model(
    texts: Sequence[Labelled], valence: Mapping[str, float], members: int
) -> tuple[Table, ZoneNet | None]:
    places, cases = aspect_cases(texts, valence)
    named = np.array([end > start for _, start, end, _ in places], bool)
    placed = [cues.zone_words(*place) for place in places]

    def network(part: npt.NDArray[np.bool_], count: int) -> ZoneNet:
        chosen = np.flatnonzero(part & named)
        return zone_network.train(
            [placed[i] for i in chosen],
            cases.labels[chosen],
            cases.weights[chosen].astype(np.float32),
            count,
        )

    held_out = _held_out(cases, _ASPECT_C)
    if members:
        held_out /= 2
        for fold in range(FOLDS):
            net = network(cases.folds != fold, 1)
            for i in np.flatnonzero((cases.folds == fold) & named):
                held_out[i] += net.scores(placed[i]) / 2
    shift = _neutral_shift(held_out[named], cases.labels[named])
    divisor = temperature(held_out[named] + shift, cases.labels[named])
    everything = np.ones(len(places), bool)
    factor = 1 / (divisor * (2 if members else 1))
    weights = added([_solve(cases, everything, _ASPECT_C, factor), bias_table(shift / divisor)])
    final = network(everything, members).mixed(np.eye(len(LABELS)) * factor) if members else None
    return weights.without(TINY), final


def _text_weights(texts: Sequence[Labelled]) -> Table:
    chosen, cases = text_cases(texts)
    # Texts that are only labelled as a whole are never called neutral: ask those with aspects.
    judged = np.array([bool(text.aspects) for text in chosen], bool)
    scores = np.zeros((len(chosen), len(LABELS)))
    for fold in range(FOLDS):
        here = cases.folds == fold
        weights, bias = _text_regression(cases, ~here, judged)
        scores[here] = cases.matrix[here] @ weights + bias
    shift = _neutral_shift(scores, cases.labels)
    factor = 1 / temperature(scores + shift, cases.labels)
    weights, bias = _text_regression(cases, np.ones(len(chosen), bool), judged)
    table = Table(cases.keys, (weights * factor).astype(np.float32))
    return added([table, bias_table((bias + shift) * factor)]).without(TINY)


def _text_regression(
    cases: Cases, part: npt.NDArray[np.bool_], judged: npt.NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Two questions: positive or negative, with the scale of naive Bayes; and neutral or not."""
    neutral = cases.labels == LABELS.index(NEUTRAL)
    polar, whole = part & ~neutral, part & judged
    ratios = _log_count_ratios(cases, polar)
    slope, constant = _two_way(
        _scaled(cases.matrix[polar], ratios),
        cases.labels[polar] == LABELS.index(POSITIVE),
        cases.weights[polar],
        _TEXT_C,
    )
    slope, constant = slope * ratios / 2, constant / 2
    neutral_coef, neutral_intercept = _two_way(
        cases.matrix[whole], neutral[whole], cases.weights[whole], _NEUTRAL_C
    )
    return np.stack([slope, -slope, neutral_coef], axis=1), np.array(
        [constant, -constant, neutral_intercept]
    )


def _two_way(
    matrix: Any, labels: npt.NDArray[np.bool_], weights: Array, c: float
) -> tuple[Array, float]:
    """Coefficients and intercept of a logistic regression of a yes-or-no question."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    # One empty case of each answer, so that one that does not occur is unlikely, not unknown.
    model = LogisticRegression(C=c, max_iter=100, tol=_TOLERANCE)
    model.fit(
        sparse.vstack([matrix, sparse.csr_matrix((2, matrix.shape[1]))]).tocsr(),
        np.concatenate([labels, [False, True]]),
        sample_weight=np.concatenate([weights, np.ones(2)]),
    )
    return model.coef_[0], float(model.intercept_[0])


def _scaled(matrix: Any, factors: npt.NDArray[np.float32]) -> Any:
    """The matrix with its columns multiplied."""
    from scipy import sparse

    return (matrix @ sparse.diags(factors)).tocsr()


def _regression(matrix: Any, labels: Index, weights: Array, c: float) -> tuple[Array, Array]:
    """Coefficients (columns x labels) and intercepts of a logistic regression."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    # One empty case of each label, so that a label that does not occur is unlikely, not unknown.
    every = np.arange(len(LABELS))
    model = LogisticRegression(C=c, max_iter=100, tol=_TOLERANCE)
    model.fit(
        sparse.vstack([matrix, sparse.csr_matrix((len(LABELS), matrix.shape[1]))]).tocsr(),
        np.concatenate([labels, every]),
        sample_weight=np.concatenate([weights, np.ones(len(LABELS))]),
    )
    return model.coef_.T, model.intercept_


def _solve(cases: Cases, part: npt.NDArray[np.bool_], c: float, factor: float) -> Table:
    """A table for some of the cases, times a factor."""
    coefficients, intercepts = _regression(
        cases.matrix[part], cases.labels[part], cases.weights[part], c
    )
    weights = Table(cases.keys, (coefficients * factor).astype(np.float32))
    return added([weights, bias_table(intercepts * factor)])


def _held_out(cases: Cases, c: float) -> Array:
    """The score of each case by a model of the other folds."""
    scores = np.zeros((len(cases.labels), len(LABELS)))
    for fold in range(FOLDS):
        here = cases.folds == fold
        if here.any() and not here.all():
            coefficients, intercepts = _regression(
                cases.matrix[~here], cases.labels[~here], cases.weights[~here], c
            )
            scores[here] = cases.matrix[here] @ coefficients + intercepts
    return scores


def _log_count_ratios(cases: Cases, part: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """How strongly each cue tells positive from negative texts; the scale of naive Bayes."""
    counts = []
    for label in (POSITIVE, NEGATIVE):
        rows = cases.matrix[part & (cases.labels == LABELS.index(label))]
        found = 1.0 + np.bincount(rows.indices, minlength=len(cases.keys))
        counts.append(found / found.sum())
    return np.asarray(np.abs(np.log(counts[0] / counts[1])), np.float32)


def _neutral_shift(scores: Array, labels: Index) -> Array:
    """What to add to the scores of the rare neutral for accuracy and macro-F1 together."""
    shifts = [np.array([0.0, 0.0, shift]) for shift in np.arange(0.0, 2.01, 0.1)]
    return max(shifts, key=lambda shift: _merit((scores + shift).argmax(axis=1), labels))


def _merit(answers: Index, labels: Index) -> float:
    shares = []
    for label in range(len(LABELS)):
        hits = np.sum((answers == label) & (labels == label))
        shares.append(2 * hits / max(1, np.sum(answers == label) + np.sum(labels == label)))
    return float(np.sum(answers == labels) / max(1, len(labels)) + np.mean(shares) / 2)


def _valence(texts: Sequence[Labelled]) -> dict[str, float]:
    """What single words say about texts that are labelled as a whole and name no aspects."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    whole = [text for text in texts if text.label in (POSITIVE, NEGATIVE) and not text.aspects]
    if len(whole) < _VALENCE_TEXTS:
        return {}
    bags = [sorted(set(cues.scene_of(text.view).words)) for text in whole]
    counts = Counter(word for bag in bags for word in bag)
    words = sorted(word for word, count in counts.items() if count >= _VALENCE_COUNT)
    column = {word: number for number, word in enumerate(words)}
    rows = [[column[word] for word in bag if word in column] for bag in bags]
    indices = np.array([index for row in rows for index in row])
    matrix = sparse.csr_matrix(
        (np.ones(len(indices)), indices, np.cumsum([0, *map(len, rows)])), (len(rows), len(words))
    )
    model = LogisticRegression(C=_VALENCE_C, max_iter=100, tol=1e-3)
    model.fit(matrix, [text.label == POSITIVE for text in whole])
    values = model.coef_[0].astype(np.float16).astype(float)
    return {
        word: value
        for word, value in zip(words, values.tolist(), strict=True)
        if abs(value) >= _VALENCE_TINY and "\n" not in word
    }


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, packed or not."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    yield from map(parse_json, text.splitlines())


def labelled(row: Mapping[str, Any], weight: float = 1.0) -> Labelled:
    """A row of the form ``{"text", "lang", "aspects": [{"from", "to", "polarity"}], "label"?}``."""
    named = tuple(
        (aspect["from"], aspect["to"], aspect["polarity"])
        for aspect in row["aspects"]
        if aspect.get("term")
    )
    polarities = [aspect["polarity"] for aspect in row["aspects"]]
    alone = () if named or len(set(polarities)) != 1 else ((0, 0, polarities[0]),)
    label = row.get("label") or label_of(polarities)
    label = label if label in LABELS else None
    return Labelled(view_of(row["text"], row["lang"]), named or alone, label, weight)


def shipped_samples(data: Path, lang: str, every: int = 1) -> Iterator[Labelled]:
    """The training texts of the shipped model of a language; of film reviews one of ``every``."""
    for source, weight in SOURCES[lang].items():
        path = data / "train" / f"{source}.jsonl"
        rows = read_rows(path if path.exists() else path.with_suffix(".jsonl.gz"))
        for row in islice(rows, 0, None, every if source == "nsmc_raw" else 1):
            # Films rated in the middle are as often praised or blamed as they are neither.
            if not (row.get("label") == NEUTRAL and not row["aspects"]):
                neutral = any(aspect["polarity"] == NEUTRAL for aspect in row["aspects"])
                yield labelled(row, weight * (RARE_NEUTRAL.get(source, 1.0) if neutral else 1.0))
    for number, row in enumerate(everyday_data.rows(lang)):
        if lang in EVERYDAY and everyday_data.learned_from(number):
            yield labelled(row, EVERYDAY[lang])


def main() -> None:
    """Make the shipped models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lang", choices=sorted(SOURCES), action="append")
    parser.add_argument("--only-share", action="store_true", help="fit the encoder's share only")
    options = parser.parse_args()
    for lang in options.lang or ("en",):
        if options.only_share:
            model = loading.polarity(ModelFolder(options.out, trusted=True), lang)
        else:
            model = train(shipped_samples(options.data, lang), lang)
        if loading.encoder_file(options.out, lang).exists():
            model = blended(model, unseen_texts(options.data, lang, options.out))
        model.save(options.out / f"polarity_{lang}.npz")
        record(options.out, [f"polarity_{lang}.npz"])


if __name__ == "__main__":
    main()
