"""Training of the Korean polarity model and of the two readers.

``python -m training.korean DATA --out MODELS`` makes ``polarity_ko.npz`` and ``readers_ko.json``
from ``DATA/train`` and the everyday sentences of `training/data`. The text model also learns from
the statements of single aspects and from the expressions of the lexicon, since it reads statements.
The readers are fitted to what models of the other folds say.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from absa.data import BadLine, read_samples
from absa.offline.models import readers
from absa.offline.models.decision import Decision
from absa.offline.models.features import features
from absa.offline.models.folder import record
from absa.offline.models.hashing import Table, added
from absa.offline.models.polarity_model import LABELS, PolarityModel
from absa.offline.models.readers import READ_LABELS, Measures, Reader, Readers
from absa.offline.models.tagger import Tagger
from absa.offline.text.annotations import MIXED, NEGATIVE, NEUTRAL, POSITIVE, View
from absa.offline.text.scope import Scope, Span, part, scopes_at
from absa.offline.text.views import view_of
from absa.offline.training import decision, tagger
from absa.offline.training.polarity_model import (
    FOLDS,
    TINY,
    Cases,
    Labelled,
    aspect_cases,
    bias_table,
    text_cases,
)
from absa.schemas.sample import Sample
from training import everyday_data, polarity_model
from training import texts as texts_
from training.expressions import DATA as EXPRESSIONS
from training.expressions import sections
from training.polarity_model import labelled, read_rows, shipped_samples

#: How much one text of each counts in the text model.
_EVERYDAY, _EVERYDAY_STATEMENT, _STATEMENT, _EXPRESSION, _KOTE = 3.0, 3.0, 1.0, 1.0, 1.0
#: How much an everyday aspect counts in the aspect model, and in the readers.
_EVERYDAY_ASPECT = 3.0
_READER_SHARE = 0.75
_C = 0.3
#: How much the sources count for labels, and how many film reviews are taken.
_LABEL_SHARES = {"everyday": 0.55, "kote": 0.15, "films": 0.15, "translated": 0.15}
_FILMS = 4000
#: Of the film reviews the models of folds see one of so many.
_FILM_SHARE = 4
#: How often the tagger reads an everyday sentence, and the penalties on its weights.
_COPIES = 3
_L1, _L2 = 0.05, 1.0
#: What is tried for how much the tagger's word counts in whether an aspect is neutral.
_MENTIONED = (0.0, 0.2)


@dataclass(frozen=True)
class Place:
    """A labelled aspect with its scope; `group` is the text it is from."""

    view: View
    start: int
    end: int
    others: list[tuple[int, int]]
    span: Span
    scope: Scope
    polarity: str
    group: str
    everyday: bool
    alone: bool


def places_of(sample: Labelled, everyday: bool) -> Iterator[Place]:
    """The named aspects of a text."""
    named = sorted({a[:2] for a in sample.aspects if a[1] > a[0]})
    found = scopes_at(sample.view, named)
    scope_of = dict(zip(named, found, strict=True))
    for start, end, polarity in sample.aspects:
        if end > start:
            span, scope = scope_of[start, end]
            others = [place for place in named if place != (start, end)]
            text = sample.view.text
            yield Place(
                sample.view,
                start,
                end,
                others,
                span,
                scope,
                polarity,
                text,
                everyday,
                len(named) == 1,
            )


def fold_of(text: str) -> int:
    """The fold of a text, the same for all that comes from it."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % FOLDS


def everyday() -> list[Labelled]:
    """The everyday sentences."""
    samples = []
    for row in everyday_data.rows("ko"):
        sample = labelled(row, _EVERYDAY)
        label = row["label"] if row["label"] in LABELS else None
        samples.append(replace(sample, label=label))
    return samples


def kote(data: Path) -> Iterator[Labelled]:
    """Native comments with a label."""
    for row in read_rows(data / "train" / "kote.jsonl.gz"):
        if row["label"] in (POSITIVE, NEGATIVE, NEUTRAL):
            view = view_of(row["text"], "ko")
            # Marked as judged: KOTE's neutral texts are neutral.
            yield Labelled(view, ((0, 0, row["label"]),), row["label"], _KOTE)


def expressions() -> Iterator[Labelled]:
    """The expressions of the lexicon as texts."""
    for score, line in sections(EXPRESSIONS / "ko_expressions.txt"):
        if abs(score) > 0.3:
            for expression in filter(None, map(str.strip, line.split(","))):
                label = POSITIVE if score > 0 else NEGATIVE
                yield Labelled(view_of(expression, "ko"), (), label, _EXPRESSION)


def statements(places: Sequence[Place]) -> Iterator[tuple[Labelled, str]]:
    """The statements of aspects as texts of their own, each with the text it is from."""
    for place in places:
        view = part(place.view, place.scope.own)
        weight = _EVERYDAY_STATEMENT if place.everyday else _STATEMENT
        if not place.scope.shared or place.everyday:
            yield Labelled(view, ((0, 0, place.polarity),), place.polarity, weight), place.group


def text_model(cases: Cases, judged: Any, part_: Any) -> PolarityModel:
    """A model of texts alone, made of some of the cases."""
    weights, bias = polarity_model._text_regression(cases, part_, judged)
    table = Table(cases.keys, weights.astype(np.float32))
    whole = added([table, bias_table(bias)]).without(TINY)
    return PolarityModel("ko", Table.empty(len(LABELS)), whole)


def measures_of(place: Place, model: PolarityModel) -> tuple[Measures, ...]:
    """What the two readers look at."""
    rules = readers.rule_measures(place.view, place.span, place.scope)
    scores = model.aspect_scores(place.view, place.start, place.end, place.others).tolist()
    whole = model.text_scores(place.view).tolist()
    learned = readers.learned_measures(place.view, place.scope, scores, whole, model, place.alone)
    return learned, rules


def fit_reader(
    rows: Sequence[Measures], labels: Sequence[str], weights: Any, names_of: Sequence[str] = LABELS
) -> Reader:
    """A logistic regression over measures."""
    from sklearn.linear_model import LogisticRegression

    names = sorted({name for row in rows for name in row})
    matrix = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    model = LogisticRegression(C=_C, max_iter=2000)
    model.fit(matrix, [names_of.index(label) for label in labels], sample_weight=weights)
    table = {
        name: tuple(round(float(w), 4) for w in column)
        for name, column in zip(names, model.coef_.T, strict=True)
    }
    table["bias"] = tuple(round(float(w), 4) for w in model.intercept_)
    return Reader(table)


def label_texts(shipped: Sequence[Labelled], own: Sequence[Labelled], data: Path) -> list[Any]:
    """Texts with one of four labels, and how much each source counts."""
    everyday_labels = {row["text"]: row["label"] for row in everyday_data.rows("ko")}
    texts = [(s.view, everyday_labels[s.view.text], "everyday") for s in own]
    films = 0
    for sample in shipped:
        if sample.aspects:
            polarities = {polarity for _, _, polarity in sample.aspects}
            both = {POSITIVE, NEGATIVE} <= polarities
            texts.append((sample.view, MIXED if both else sample.label, "translated"))
        elif films < _FILMS:
            films += 1
            texts.append((sample.view, sample.label, "films"))
    for row in read_rows(data / "train" / "kote.jsonl.gz"):
        texts.append((view_of(row["text"], "ko"), row["label"], "kote"))
    return [(view, label, source) for view, label, source in texts if label]


def right(reader: Reader, rows: Sequence[Measures], labels: Sequence[str]) -> Any:
    """Which of the answers are right."""
    answers = [READ_LABELS[int(np.argmax(reader.shares(row)))] for row in rows]
    return np.array([a == b for a, b in zip(answers, labels, strict=True)])


def tagged(data: Path, skip: int | None = None) -> Iterator[Any]:
    """Features and labels of texts for the tagger; everyday ones of fold ``skip`` are left out."""
    texts = texts_.texts_of(data, "train", ("mabsa_ko",))
    # M-ABSA always with its domain: what it leaves unmarked (prices) is no guide for other texts.
    for sample, view in texts:
        yield features(view), tagger.labels(view, sample.aspects or ())
    for sample in everyday_samples():
        if fold_of(sample.text) != skip:
            domain = sample.domain if sample.domain in ("restaurant", "hotel", "food") else None
            for number in range(_COPIES):
                view = view_of(sample.text, "ko", None if number else domain)
                yield features(view), tagger.labels(view, sample.aspects or ())


def everyday_samples() -> list[Sample]:
    """The everyday sentences as samples."""
    return [
        sample
        for sample in read_samples(everyday_data.DATA / "everyday_ko.jsonl")
        if not isinstance(sample, BadLine)
    ]


def fold_models(
    cases: Cases, judged_: Any, aspects: Cases, valence: Mapping[str, float], films: Any
) -> Iterator[PolarityModel]:
    """For each fold the model of the other ones, with some of the film reviews."""
    for fold in range(FOLDS):
        model = text_model(cases, judged_, (cases.folds != fold) & films)
        table = polarity_model._solve(aspects, aspects.folds != fold, polarity_model._ASPECT_C, 1.0)
        yield replace(model, aspect_weights=table, valence=valence)


def cross_fitted(
    rows: Sequence[Measures], labels: Sequence[str], weights: Any, folds: Any, names: Sequence[str]
) -> Any:
    """Which answers are right by readers of the other folds."""
    hits = np.zeros(len(rows), bool)
    for fold in range(FOLDS):
        train = np.flatnonzero(folds != fold).tolist()
        test = np.flatnonzero(folds == fold).tolist()
        reader = fit_reader(
            [rows[i] for i in train], [labels[i] for i in train], weights[train], names
        )
        hits[test] = right(reader, [rows[i] for i in test], [labels[i] for i in test])
    return hits


def fit_readers(
    measured: Sequence[tuple[Measures, ...]],
    places: Sequence[Place],
    label_rows: Sequence[Measures],
    whole: Sequence[tuple[View, str, str]],
) -> Readers:
    """The readers, and a report of how often they are right."""
    labels = [place.polarity for place in places]
    of_everyday = np.array([place.everyday for place in places])
    weights = np.where(
        of_everyday,
        _READER_SHARE / of_everyday.sum(),
        (1 - _READER_SHARE) / (~of_everyday).sum(),
    ) * len(places)
    folds = np.array([fold_of(place.group) for place in places])
    fitted = {}
    for which, name in enumerate(("learned", "rules")):
        rows = [row[which] for row in measured]
        hits = cross_fitted(rows, labels, weights, folds, LABELS)
        tell(
            name, f"everyday {hits[of_everyday].mean():.3f} others {hits[~of_everyday].mean():.3f}"
        )
        fitted[name] = fit_reader(rows, labels, weights)
    sources = [source for _, _, source in whole]
    wanted = [label for _, label, _ in whole]
    label_weights = np.array(
        [_LABEL_SHARES[source] / sources.count(source) * len(whole) for source in sources]
    )
    label_folds = np.array([fold_of(view.text) for view, _, _ in whole])
    hits = cross_fitted(label_rows, wanted, label_weights, label_folds, READ_LABELS)
    for source in _LABEL_SHARES:
        tell(f"label, {source}", f"{hits[[s == source for s in sources]].mean():.3f}")
    fitted["label"] = fit_reader(label_rows, wanted, label_weights, READ_LABELS)
    return Readers(**fitted)


def tell(what: str, how: str) -> None:
    """Report on stderr."""
    sys.stderr.write(f"{what}: {how}\n")
    sys.stderr.flush()


def train_tagger(data: Path, path: Path, skip: int | None = None) -> Tagger:
    """A tagger without the everyday sentences of a fold."""
    tagger.train(tagged(data, skip), path, l1=_L1, l2=_L2)
    return Tagger(path.read_bytes())


def fit_decision(
    data: Path,
    taggers: Sequence[Tagger],
    models: Sequence[PolarityModel],
    final: tuple[Tagger, PolarityModel],
    reader: Readers,
) -> Decision:
    """When to report an aspect: by everyday sentences of other folds, and by M-ABSA's dev part."""
    texts = texts_.texts_of(data, "dev", ("mabsa_ko",))
    domains = {sample.domain for sample, _ in texts if sample.domain}
    judged: dict[bool, list[decision.Judged]] = {
        True: [],
        False: [],
    }  # by whether the domain is known
    for sample in everyday_samples():
        fold = fold_of(sample.text)
        for domain in {sample.domain, None}:
            view = view_of(sample.text, "ko", domain)
            judged[domain in domains].append(
                decision.judged(view, sample.aspects or (), taggers[fold], models[fold], reader)
            )
    for sample, view in texts:
        if not sample.incomplete_gold:
            judged[True].append(decision.judged(view, sample.aspects or (), *final, reader))
    made = {}
    for known, cases in judged.items():
        options = [
            decision.fit(cases, domains, (), worth=0.2, mentioned=mentioned)
            for mentioned in _MENTIONED
        ]
        best = made[known] = max(options, key=lambda option: decision.pair_f1(cases, option))
        tell(f"pair F1, domain known: {known}", f"{decision.pair_f1(cases, best):.3f}")
    return replace(made[True], elsewhere=made[False])


def main() -> None:
    """Make the Korean models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    parser.add_argument("--every", type=int, default=1, help="take one of so many film reviews")
    parser.add_argument("--keep-taggers", type=Path, help="folder with taggers made before")
    options = parser.parse_args()

    shipped = list(shipped_samples(options.data, "ko", options.every))
    own = everyday()
    places = [p for s in shipped if s.aspects for p in places_of(s, False)]
    places += [p for s in own for p in places_of(s, True)]
    texts = [(s, s.view.text) for s in [*shipped, *kote(options.data), *own, *expressions()]]
    texts += statements(places)
    texts = [(s, group) for s, group in texts if s.label is not None]
    chosen, cases = text_cases([sample for sample, _ in texts])
    cases = replace(cases, folds=np.array([fold_of(group) for _, group in texts]))
    judged = np.array([bool(text.aspects) for text in chosen])
    films = np.array([bool(t.aspects) or n % _FILM_SHARE == 0 for n, t in enumerate(chosen)])
    valence = polarity_model._valence(shipped)
    aspect_texts = [*shipped, *(replace(s, weight=_EVERYDAY_ASPECT) for s in own)]
    _, aspects = aspect_cases(aspect_texts, valence)
    tell("texts", f"{len(chosen)}, aspects {len(aspects.labels)}")

    whole = label_texts(shipped, own, options.data)
    measured: list[tuple[Measures, ...]] = [()] * len(places)
    label_rows: list[Measures] = [{}] * len(whole)
    models = []
    for fold, model in enumerate(fold_models(cases, judged, aspects, valence, films)):
        models.append(model)
        for number, place in enumerate(places):
            if fold_of(place.group) == fold:
                measured[number] = measures_of(place, model)
        for number, (view, _, _) in enumerate(whole):
            if fold_of(view.text) == fold:
                label_rows[number] = readers.label_measures(view, model)
    reader = fit_readers(measured, places, label_rows, whole)
    reader.save(options.out / "readers_ko.json")

    final = text_model(cases, judged, np.ones(len(chosen), bool))
    table = polarity_model._solve(
        aspects, np.ones(len(aspects.labels), bool), polarity_model._ASPECT_C, 1.0
    )
    final = replace(final, aspect_weights=table.without(TINY), valence=valence)
    final.save(options.out / "polarity_ko.npz")

    path = options.out / "tagger_ko.crf"
    if options.keep_taggers:
        taggers = [
            Tagger((options.keep_taggers / f"tagger_{n}.crf").read_bytes()) for n in range(FOLDS)
        ]
        path.write_bytes((options.keep_taggers / "tagger_all.crf").read_bytes())
        last = Tagger(path.read_bytes())
    else:
        taggers = [train_tagger(options.data, path, fold) for fold in range(FOLDS)]
        last = train_tagger(options.data, path)
    made = fit_decision(options.data, taggers, models, (last, final), reader)
    made.save(options.out / "decision_ko.json")
    record(options.out, ["polarity_ko.npz", "readers_ko.json", "tagger_ko.crf", "decision_ko.json"])


if __name__ == "__main__":
    main()
