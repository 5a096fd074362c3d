"""Training of the Korean models beside the encoder: polarity, tagger, readers, decisions.

``python -m training.korean DATA EARLIER --out MODELS`` makes ``polarity_ko.npz`` and
``tagger_ko.crf`` from ``DATA/train`` and the everyday sentences of `training/data`, once without
the later ones (in the folder EARLIER, where ``training.korean_encoder`` has left its encoder) and
once with them. What the former say of the later sentences, which other people wrote, is what the
readers and the decisions are fitted to. The text model also learns from the statements of single
aspects and from the expressions of the lexicon, since it reads statements.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from absa.data import BadLine, read_samples
from absa.offline.models import loading, readers
from absa.offline.models.decision import Decision
from absa.offline.models.features import features
from absa.offline.models.folder import ModelFolder, record
from absa.offline.models.hashing import Table, added
from absa.offline.models.morpheme_encoder import MorphemeEncoder
from absa.offline.models.morpheme_inputs import DOMAINS
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
#: How much the sources count for labels.
_LABEL_SHARES = {"everyday": 0.45, "films": 0.4, "translated": 0.15}
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


def statements(places: Sequence[Place]) -> Iterator[Labelled]:
    """The statements of aspects as texts of their own."""
    for place in places:
        view = part(place.view, place.scope.own)
        weight = _EVERYDAY_STATEMENT if place.everyday else _STATEMENT
        if not place.scope.shared or place.everyday:
            yield Labelled(view, ((0, 0, place.polarity),), place.polarity, weight)


def text_model(cases: Cases, judged: Any) -> PolarityModel:
    """A model of texts alone."""
    everything = np.ones(len(judged), bool)
    weights, bias = polarity_model._text_regression(cases, everything, judged)
    table = Table(cases.keys, weights.astype(np.float32))
    whole = added([table, bias_table(bias)]).without(TINY)
    return PolarityModel("ko", Table.empty(len(LABELS)), whole)


def measures_of(
    place: Place, model: PolarityModel, encoder: MorphemeEncoder
) -> tuple[Measures, ...]:
    """What the three readers look at: models, rules, models with the encoder."""
    rules = readers.rule_measures(place.view, place.span, place.scope)
    scores = model.aspect_scores(place.view, place.start, place.end, place.others).tolist()
    whole = model.text_scores(place.view).tolist()
    learned = readers.learned_measures(place.view, place.scope, scores, whole, model, place.alone)
    encoded = encoder.encoded(place.view)
    more = readers.encoder_measures(encoded, place.start, place.end, place.alone)
    return learned, rules, {**learned, **more}


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


def label_texts(
    own: Sequence[Labelled], translated: Sequence[Labelled], data: Path, every: int
) -> list[tuple[View, str, str]]:
    """Texts with one of four labels that no model has seen, and the source of each."""
    everyday_labels = {row["text"]: row["label"] for row in everyday_data.rows("ko")}
    texts = [(s.view, everyday_labels[s.view.text], "everyday") for s in own]
    for sample in [
        *translated,
        *(labelled(row) for row in read_rows(data / "dev" / "korsemeval.jsonl")),
    ]:
        polarities = {polarity for _, _, polarity in sample.aspects}
        both = {POSITIVE, NEGATIVE} <= polarities
        texts.append((sample.view, MIXED if both else sample.label or "", "translated"))
    for number, row in enumerate(read_rows(data / "train" / "nsmc_raw.jsonl.gz")):
        if number % every and row["label"] != NEUTRAL and texts_.kept(row["text"]):
            texts.append((view_of(row["text"], "ko"), row["label"], "films"))
    return [(view, label, source) for view, label, source in texts if label]


def right(reader: Reader, rows: Sequence[Measures], labels: Sequence[str]) -> Any:
    """Which of the answers are right."""
    answers = [READ_LABELS[int(np.argmax(reader.shares(row)))] for row in rows]
    return np.array([a == b for a, b in zip(answers, labels, strict=True)])


def tagged(data: Path, own: Sequence[Sample]) -> Iterator[Any]:
    """Features and labels of texts for the tagger."""
    texts = texts_.texts_of(data, "train", ("mabsa_ko",))
    # M-ABSA always with its domain: what it leaves unmarked (prices) says nothing of others.
    for sample, view in texts:
        yield features(view), tagger.labels(view, sample.aspects or ())
    for sample in own:
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


def fit_domain_readers(
    samples: Sequence[tuple[Labelled, str, bool]], polarity: PolarityModel, encoder: MorphemeEncoder
) -> dict[str, Reader]:
    """The readers where the encoder knows the domain: of polarity, and of labels.

    Args:
        samples: Texts with their domain, each with its label and whether it is an everyday one.
        polarity: What has not seen them.
        encoder: What has not seen them.
    """
    places = [p for sample, _, own in samples for p in places_of(sample, own)]
    rows = [measures_of(place, polarity, encoder)[-1] for place in places]
    labels = [place.polarity for place in places]
    weights = np.ones(len(rows))
    folds = np.array([fold_of(place.group) for place in places])
    hits = cross_fitted(rows, labels, weights, folds, LABELS)
    of_everyday = np.array([place.everyday for place in places])
    tell(
        "domain", f"everyday {hits[of_everyday].mean():.3f} others {hits[~of_everyday].mean():.3f}"
    )
    whole = [(sample.view, label) for sample, label, _ in samples if label]
    label_rows = [
        {
            **readers.label_measures(view, polarity),
            **readers.encoder_label_measures(encoder.encoded(view)),
        }
        for view, _ in whole
    ]
    wanted = [label for _, label in whole]
    label_weights = np.ones(len(wanted))
    label_folds = np.array([fold_of(view.text) for view, _ in whole])
    hits = cross_fitted(label_rows, wanted, label_weights, label_folds, READ_LABELS)
    tell("domain_label", f"{hits.mean():.3f}")
    return {
        "domain": fit_reader(rows, labels, weights),
        "domain_label": fit_reader(label_rows, wanted, label_weights, READ_LABELS),
    }


def fit_readers(
    measured: Sequence[tuple[Measures, ...]],
    places: Sequence[Place],
    label_rows: Sequence[tuple[Measures, Measures]],
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
    for which, name in enumerate(("learned", "rules", "encoded")):
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
    for which, name in enumerate(("label", "encoded_label")):
        rows = [row[which] for row in label_rows]
        hits = cross_fitted(rows, wanted, label_weights, label_folds, READ_LABELS)
        for source in _LABEL_SHARES:
            tell(f"{name}, {source}", f"{hits[[s == source for s in sources]].mean():.3f}")
        fitted[name] = fit_reader(rows, wanted, label_weights, READ_LABELS)
    return Readers(**fitted)


def tell(what: str, how: str) -> None:
    """Report on stderr."""
    sys.stderr.write(f"{what}: {how}\n")
    sys.stderr.flush()


def small_models(data: Path, every: int, own: Sequence[Labelled], out: Path) -> None:
    """Write the polarity model and the tagger that some of the everyday sentences make."""
    shipped = list(shipped_samples(data, "ko", every))
    places = [p for s in shipped if s.aspects for p in places_of(s, False)]
    places += [p for s in own for p in places_of(s, True)]
    texts = [*shipped, *kote(data), *own, *expressions(), *statements(places)]
    chosen, cases = text_cases([text for text in texts if text.label is not None])
    judged = np.array([bool(text.aspects) for text in chosen])
    valence = polarity_model._valence(shipped)
    aspect_texts = [*shipped, *(replace(s, weight=_EVERYDAY_ASPECT) for s in own)]
    _, aspects = aspect_cases(aspect_texts, valence)
    tell("texts", f"{len(chosen)}, aspects {len(aspects.labels)}")
    model = text_model(cases, judged)
    every_aspect = np.ones(len(aspects.labels), bool)
    table = polarity_model._solve(aspects, every_aspect, polarity_model._ASPECT_C, 1.0)
    model = replace(model, aspect_weights=table.without(TINY), valence=valence)
    model.save(loading.polarity_file(out, "ko"))
    tell("polarity", "made")
    texts_read = {sample.view.text for sample in own}
    path = loading.tagger_file(out, "ko")
    samples = [sample for sample in everyday_samples() if sample.text in texts_read]
    tagger.train(tagged(data, samples), path, l1=_L1, l2=_L2)
    tell("tagger", "made")
    record(out, [loading.polarity_file(out, "ko").name, path.name])


def models_of(folder: Path) -> tuple[Tagger, PolarityModel, MorphemeEncoder]:
    """The models of a folder."""
    made = ModelFolder(folder)
    encoder = loading.encoder(made, "ko")
    if not isinstance(encoder, MorphemeEncoder):
        raise SystemExit(f"{folder} has no Korean encoder: run training.korean_encoder first")
    return loading.tagger(made, "ko"), loading.polarity(made, "ko"), encoder


def fit_decision(
    data: Path,
    later: Sequence[Sample],
    models: tuple[Tagger, PolarityModel, MorphemeEncoder],
    reader: Readers,
    *,
    encoded: bool,
) -> Decision:
    """When to report an aspect: by the later everyday sentences, and by M-ABSA's dev part.

    With the encoder it is the decision of the debate, else that of Stage 1.
    """
    small, polarity, encoder = models
    texts = texts_.texts_of(data, "dev", ("mabsa_ko",))
    domains = {sample.domain for sample, _ in texts if sample.domain}

    def read(view: View, sample: Sample) -> decision.Judged:
        if encoded:
            view = encoder.encoded(view)
        return decision.judged(view, sample.aspects or (), small, polarity, reader)

    # By whether the domain is known.
    judged: dict[bool, list[decision.Judged]] = {True: [], False: []}
    for sample in later:
        for domain in {sample.domain, None}:
            view = view_of(sample.text, "ko", domain)
            judged[domain in domains].append(read(view, sample))
    judged[True] += [read(view, sample) for sample, view in texts if not sample.incomplete_gold]
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
    parser.add_argument("earlier", type=Path, help="folder for models without the later sentences")
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    parser.add_argument("--every", type=int, default=2, help="take one film review in N")
    options = parser.parse_args()
    own = everyday()
    early = everyday_data.EARLIER["ko"]
    for folder, sentences in ((options.earlier, own[:early]), (options.out, own)):
        if not loading.tagger_file(folder, "ko").exists() or folder == options.out:
            small_models(options.data, options.every, sentences, folder)
    fit(options.data, options.every, options.earlier, own[early:], options.out)


def fit(data: Path, every: int, earlier: Path, later: Sequence[Labelled], out: Path) -> None:
    """Fit readers and decisions to what the earlier models say of texts that they have not seen."""
    models = models_of(earlier)
    _, polarity, encoder = models
    rows = list(read_rows(data / "dev" / "mabsa_ko.jsonl"))
    translated = [labelled(row) for row in rows]
    domain_of = {row["text"]: row["domain"] for row in (*everyday_data.rows("ko"), *rows)}
    places = [p for s in translated for p in places_of(s, False)]
    places += [p for s in later for p in places_of(s, True)]
    whole = label_texts(later, translated, data, every)
    label_rows = []
    for view, _, _ in whole:
        plain = readers.label_measures(view, polarity)
        more = readers.encoder_label_measures(encoder.encoded(view))
        label_rows.append((plain, {**plain, **more}))
    measured = [measures_of(place, polarity, encoder) for place in places]
    reader = fit_readers(measured, places, label_rows, whole)
    labels = {view.text: label for view, label, _ in whole}
    of_domains = [
        (replace(sample, view=replace(sample.view, domain=domain)), labels.get(text, ""), own)
        for samples, own in ((translated, False), (later, True))
        for sample in samples
        if (domain := domain_of.get(text := sample.view.text)) in DOMAINS[1:]
    ]
    reader = replace(reader, **fit_domain_readers(of_domains, polarity, encoder))
    reader.save(loading.readers_file(out, "ko"))
    texts_later = {sample.view.text for sample in later}
    samples = [sample for sample in everyday_samples() if sample.text in texts_later]
    for path, encoded in (
        (loading.stage1_file(out, "ko"), False),
        (loading.decision_file(out, "ko"), True),
    ):
        fit_decision(data, samples, models, reader, encoded=encoded).save(path)
    files = (loading.readers_file, loading.stage1_file, loading.decision_file)
    record(out, [file(out, "ko").name for file in files])


if __name__ == "__main__":
    main()
