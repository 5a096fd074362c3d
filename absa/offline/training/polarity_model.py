"""Training of the polarity models: the shipped ones, and on one's own labelled data.

``python -m absa.offline.training.polarity_model DATA --out MODELS`` makes the shipped models from a
folder with ``train/*.jsonl[.gz]``. Same data, same bytes (on one machine, with one thread).
"""

from __future__ import annotations

import argparse
import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.offline.models import cues
from absa.offline.models.folder import record
from absa.offline.models.hashing import Keys, Table, added, keys_of
from absa.offline.models.polarity_model import BIAS, LABELS, PolarityModel, unit
from absa.offline.models.zone_network import ZoneNet
from absa.offline.text.annotations import NEGATIVE, NEUTRAL, POSITIVE, View
from absa.offline.text.views import view_of
from absa.offline.training import zone_network
from absa.schemas.json_text import parse_json

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

#: What the shipped models are made of, and how much one text of each counts.
SOURCES: Mapping[str, Mapping[str, float]] = {
    "en": {"mams": 1.0, "mabsa_en": 1.5},
    "ko": {"mabsa_ko": 2.0, "korsemeval": 2.0, "nsmc_raw": 1.0},
}
#: Neutral aspects are rare in M-ABSA and would never be answered: such texts count more.
RARE_NEUTRAL = {"mabsa_en": 3.0}
_FOLDS = 3
#: How far weights may go (inverse strength of the L2 penalty): aspects, texts, on top of a base.
_ASPECT_FREEDOM = 0.04
_TEXT_FREEDOM = 10.0
_NEUTRAL_FREEDOM = 3.0
_OWN_ASPECT_FREEDOM = 0.02
_OWN_TEXT_FREEDOM = 1.0
_VALENCE_FREEDOM = 0.1
#: Languages in which the network helped on development data, and how many are averaged.
_NET_MEMBERS = {"en": 3}
#: A cue counts if it occurs this often, a weight if it can move an answer at all.
_MIN_COUNT = {"aspect": 2, "text": 3}
_TINY = 0.01
_TOLERANCE = 1e-4
#: Share of the other aspects hidden in training, because a tagger does not find all of them.
_HIDDEN_OTHERS = 0.2
#: Words need this many labelled texts without aspects before their valence is worth learning.
_VALENCE_TEXTS = 1000
_VALENCE_COUNT = 5
_VALENCE_TINY = 0.1


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
class _Cases:
    """Cues as a sparse matrix, the keys of its columns, labels, weights and folds of its rows."""

    matrix: Any
    keys: Keys
    labels: Index
    weights: Array
    folds: Index


def train(
    samples: Iterable[Labelled], lang: str, base: PolarityModel | None = None
) -> PolarityModel:
    """A model of ``samples``; with a ``base``, what the base knows plus what they add to it.

    What is added is linear in the same cues, so the result is a table of weights that stands
    alone.
    """
    texts = list(samples)
    valence = base.valence if base else _valence(texts)
    return replace(
        _aspect_model(texts, lang, valence, base),
        text_weights=_text_weights(texts, base),
    )


def label_of(polarities: Iterable[str]) -> str | None:
    """The label of a text by its aspects; None where they contradict each other."""
    found = set(polarities)
    if {POSITIVE, NEGATIVE} <= found or not found:
        return None
    return next(label for label in LABELS if label in found)


def _aspect_model(
    texts: Sequence[Labelled], lang: str, valence: Mapping[str, float], base: PolarityModel | None
) -> PolarityModel:
    places = [(text, span, _some_others(text, span)) for text in texts for span in text.aspects]
    spots = [(text.view, span[0], span[1], others) for text, span, others in places]
    cases = _cases(
        ((cues.aspect_cues(*spot, valence), 1.0) for spot in spots),
        [span[2] for _, span, _ in places],
        [text for text, _, _ in places],
        _MIN_COUNT["aspect"],
    )
    empty = Table.empty(len(LABELS))
    if base is not None:
        known = _stack([base.aspect_scores(*spot) for spot in spots])
        weights, factor = _on_top(cases, base.aspect_weights, known, _OWN_ASPECT_FREEDOM)
        own_net = base.net.mixed(np.eye(len(LABELS)) * factor) if base.net else None
        return PolarityModel(lang, weights, empty, valence, own_net)
    members = _NET_MEMBERS.get(lang, 0)
    named = np.array([span[1] > span[0] for _, span, _ in places], bool)
    placed = [cues.zone_words(*spot) for spot in spots]

    def network(part: npt.NDArray[np.bool_], count: int) -> ZoneNet:
        chosen = np.flatnonzero(part & named)
        return zone_network.train(
            [placed[i] for i in chosen],
            cases.labels[chosen],
            cases.weights[chosen].astype(np.float32),
            count,
        )

    held_out = _held_out(cases, _ASPECT_FREEDOM)
    if members:
        held_out /= 2
        for fold in range(_FOLDS):
            net = network(cases.folds != fold, 1)
            for i in np.flatnonzero((cases.folds == fold) & named):
                held_out[i] += net.scores(placed[i]) / 2
    shift = _neutral_shift(held_out[named], cases.labels[named])
    temperature = _temperature(held_out[named] + shift, cases.labels[named])
    everything = np.ones(len(spots), bool)
    factor = 1 / (temperature * (2 if members else 1))
    weights = added(
        [_solve(cases, everything, _ASPECT_FREEDOM, factor), _bias(shift / temperature)]
    )
    final = network(everything, members).mixed(np.eye(len(LABELS)) * factor) if members else None
    return PolarityModel(lang, weights.without(_TINY), empty, valence, final)


def _text_weights(texts: Sequence[Labelled], base: PolarityModel | None) -> Table:
    chosen = [text for text in texts if text.label is not None]
    found = (cues.text_cues(text.view) for text in chosen)
    cases = _cases(
        ((item, unit(item)) for item in found),
        [text.label or "" for text in chosen],
        chosen,
        _MIN_COUNT["text"],
    )
    if base is not None:
        known = _stack([base.text_scores(text.view) for text in chosen])
        return _on_top(cases, base.text_weights, known, _OWN_TEXT_FREEDOM)[0]
    # Texts that are only labelled as a whole are never called neutral: ask those with aspects.
    judged = np.array([bool(text.aspects) for text in chosen], bool)
    scores = np.zeros((len(chosen), len(LABELS)))
    for fold in range(_FOLDS):
        here = cases.folds == fold
        weights, bias = _text_regression(cases, ~here, judged)
        scores[here] = cases.matrix[here] @ weights + bias
    shift = _neutral_shift(scores, cases.labels)
    factor = 1 / _temperature(scores + shift, cases.labels)
    weights, bias = _text_regression(cases, np.ones(len(chosen), bool), judged)
    table = Table(cases.keys, (weights * factor).astype(np.float32))
    return added([table, _bias((bias + shift) * factor)]).without(_TINY)


def _text_regression(
    cases: _Cases, part: npt.NDArray[np.bool_], judged: npt.NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Two questions: positive or negative, with the scale of naive Bayes; and neutral or not."""
    neutral = cases.labels == LABELS.index(NEUTRAL)
    polar, whole = part & ~neutral, part & judged
    ratios = _log_count_ratios(cases, polar)
    slope, constant = _two_way(
        _scaled(cases.matrix[polar], ratios),
        cases.labels[polar] == LABELS.index(POSITIVE),
        cases.weights[polar],
        _TEXT_FREEDOM,
    )
    slope, constant = slope * ratios / 2, constant / 2
    calm, level = _two_way(
        cases.matrix[whole], neutral[whole], cases.weights[whole], _NEUTRAL_FREEDOM
    )
    return np.stack([slope, -slope, calm], axis=1), np.array([constant, -constant, level])


def _two_way(
    matrix: Any, labels: npt.NDArray[np.bool_], weights: Array, freedom: float
) -> tuple[Array, float]:
    """Coefficients and intercept of a logistic regression of a yes-or-no question."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    # One empty case of each answer, so that one that does not occur is unlikely, not unknown.
    model = LogisticRegression(C=freedom, max_iter=100, tol=_TOLERANCE)
    model.fit(
        sparse.vstack([matrix, sparse.csr_matrix((2, matrix.shape[1]))]).tocsr(),
        np.concatenate([labels, [False, True]]),
        sample_weight=np.concatenate([weights, np.ones(2)]),
    )
    return model.coef_[0], float(model.intercept_[0])


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
) -> _Cases:
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
    return _Cases(
        matrix[:, frequent],
        every[frequent],
        np.array([LABELS.index(label) for label in labels], np.int64),
        np.array([text.weight for text in texts]),
        np.array([zlib.crc32(_bytes(text.view.text)) % _FOLDS for text in texts], np.int64),
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _scaled(matrix: Any, factors: npt.NDArray[np.float32]) -> Any:
    """The matrix with its columns multiplied."""
    from scipy import sparse

    return (matrix @ sparse.diags(factors)).tocsr()


def _regression(matrix: Any, labels: Index, weights: Array, freedom: float) -> tuple[Array, Array]:
    """Coefficients (columns x labels) and intercepts of a logistic regression."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    # One empty case of each label, so that a label that does not occur is unlikely, not unknown.
    every = np.arange(len(LABELS))
    model = LogisticRegression(C=freedom, max_iter=100, tol=_TOLERANCE)
    model.fit(
        sparse.vstack([matrix, sparse.csr_matrix((len(LABELS), matrix.shape[1]))]).tocsr(),
        np.concatenate([labels, every]),
        sample_weight=np.concatenate([weights, np.ones(len(LABELS))]),
    )
    return model.coef_.T, model.intercept_


def _bias(scores: Array) -> Table:
    """A table that adds the same scores to everything."""
    return Table(keys_of([BIAS]), scores[None, :].astype(np.float32))


def _solve(cases: _Cases, part: npt.NDArray[np.bool_], freedom: float, factor: float) -> Table:
    """A table for some of the cases, times a factor."""
    coefficients, intercepts = _regression(
        cases.matrix[part], cases.labels[part], cases.weights[part], freedom
    )
    weights = Table(cases.keys, (coefficients * factor).astype(np.float32))
    return added([weights, _bias(intercepts * factor)])


def _held_out(cases: _Cases, freedom: float) -> Array:
    """The score of each case by a model of the other folds."""
    scores = np.zeros((len(cases.labels), len(LABELS)))
    for fold in range(_FOLDS):
        here = cases.folds == fold
        if here.any() and not here.all():
            coefficients, intercepts = _regression(
                cases.matrix[~here], cases.labels[~here], cases.weights[~here], freedom
            )
            scores[here] = cases.matrix[here] @ coefficients + intercepts
    return scores


def _on_top(cases: _Cases, base: Table, known: Array, freedom: float) -> tuple[Table, float]:
    """The base's table plus what its scores do not explain, and the factor of the base's scores."""
    scores = known.copy()
    for fold in range(_FOLDS):
        here = cases.folds == fold
        learnt, intercepts = _residual(cases, ~here, known, freedom)
        scores[here] += cases.matrix[here] @ learnt + intercepts
    # A few sentences may be perfectly explained by chance: never surer than base and residual.
    factor = 1 / max(1.0, _temperature(scores, cases.labels))
    learnt, intercepts = _residual(cases, np.ones(len(known), bool), known, freedom)
    own = Table(cases.keys, (learnt * factor).astype(np.float32))
    parts = [base.mixed(np.eye(len(LABELS)) * factor), own, _bias(intercepts * factor)]
    return added(parts).without(_TINY), factor


def _residual(
    cases: _Cases, part: npt.NDArray[np.bool_], known: Array, freedom: float
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
        slope = np.vstack([matrix.T @ error, error.sum(axis=0)]) + table / freedom
        return float(misfit + np.sum(table * table) / (2 * freedom)), slope.ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    table = found.x.reshape(shape)
    return table[:-1], table[-1]


def _log_count_ratios(cases: _Cases, part: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
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


def _temperature(scores: Array, labels: Index) -> float:
    """By what to divide scores so that they are as sure as they are right."""
    options = np.exp(np.linspace(-1.5, 1.5, 61)).tolist()
    return float(min(options, key=lambda t: _loss(scores / t, labels)))


def _merit(answers: Index, labels: Index) -> float:
    shares = []
    for label in range(len(LABELS)):
        hits = np.sum((answers == label) & (labels == label))
        shares.append(2 * hits / max(1, np.sum(answers == label) + np.sum(labels == label)))
    return float(np.sum(answers == labels) / max(1, len(labels)) + np.mean(shares) / 2)


def _loss(scores: Array, labels: Index) -> float:
    scores = scores - scores.max(axis=1, keepdims=True)
    chosen = scores[np.arange(len(labels)), labels]
    return float(np.sum(np.log(np.exp(scores).sum(axis=1)) - chosen))


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
    model = LogisticRegression(C=_VALENCE_FREEDOM, max_iter=100, tol=1e-3)
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
    return Labelled(view_of(row["text"], row["lang"]), named or alone, label, weight)


def shipped_samples(data: Path, lang: str) -> Iterator[Labelled]:
    """The training texts of the shipped model of a language."""
    for source, weight in SOURCES[lang].items():
        path = data / "train" / f"{source}.jsonl"
        for row in read_rows(path if path.exists() else path.with_suffix(".jsonl.gz")):
            # Films rated in the middle are as often praised or blamed as they are neither.
            if not (row.get("label") == NEUTRAL and not row["aspects"]):
                neutral = any(aspect["polarity"] == NEUTRAL for aspect in row["aspects"])
                yield labelled(row, weight * (RARE_NEUTRAL.get(source, 1.0) if neutral else 1.0))


def main() -> None:
    """Make the shipped models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lang", choices=sorted(SOURCES), action="append")
    options = parser.parse_args()
    for lang in options.lang or sorted(SOURCES):
        model = train(shipped_samples(options.data, lang), lang)
        model.save(options.out / f"polarity_{lang}.npz")
        record(options.out, [f"polarity_{lang}.npz"])


if __name__ == "__main__":
    main()
