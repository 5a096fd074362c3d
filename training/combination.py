"""Fits how all readings are weighed together: `python -m training.combination DATA --out MODELS`.

The models of the folder must not have seen the texts that this is fitted to. So the data sets are
cut in three; taggers and polarity models are trained on two parts and read the third (`--folds`
keeps them, a folder for each language and part). The shipped models read the everyday sentences,
if they were not trained on them. From where on the debate contradicts Stage 1 is chosen by
cross-validation; what it changes is printed for each source.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from absa.data import BadLine, read_samples
from absa.nodes.language import language
from absa.nodes.polarity import label_of
from absa.offline import drafts
from absa.offline.analysis import draft
from absa.offline.drafts import Draft
from absa.offline.models import loading
from absa.offline.models.combination import BIAS, Combination, Measures
from absa.offline.models.folder import ModelFolder, record, shipped
from absa.offline.models.loading import LanguageModels
from absa.offline.models.polarity_model import LABELS
from absa.offline.text.annotations import MIXED, Probabilities, View
from absa.offline.text.views import view_of
from absa.schemas.sample import Sample
from training import polarity_model
from training.shipped import NAMED, NETWORKS, texts_of, train_network, train_tagger

FOLDS = 3
_PARTS = 5
_ALL_LABELS = (*LABELS, MIXED)
#: Measures of the rules, and of the text model's reading of the clause.
_RULES = ("rules", "nearest", "silent", "conflict", "foreign rules", "foreign nearest")
_CLAUSE = ("clause", "clause: neutral", "foreign clause")
_POLARITY = (
    *("aspect", "aspect: neutral", "clause", "clause: neutral", "sentence", "sentence: neutral"),
    *("text", "text: neutral", "rules", "nearest", "silent", "conflict", "judged"),
    *("beside", "beside: neutral", "elsewhere", "elsewhere: neutral"),
    *("foreign", "foreign aspect", "foreign rules", "foreign nearest", "foreign clause"),
)
_FREEDOM = 0.3
#: How much of the fit the everyday sentences make up.
EVERYDAY_SHARE = 0.5
_EVERYDAY = Path(__file__).parent / "data"

Pairs = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Text:
    """A labelled text, with what the models say of it before other readings are heard."""

    source: str
    view: View
    gold: Mapping[str, frozenset[str]]
    label: str
    mood: Probabilities
    accepted: tuple[Draft, ...]
    drafts: tuple[Draft, ...]
    rows: tuple[Measures, ...]

    @property
    def part(self) -> int:
        """Which part of a cross-validation it belongs to."""
        return part_of(self.view.text, _PARTS, "cv")

    def key(self, number: int) -> str:
        """The aspect key of a draft."""
        return language(self.view.lang).key(self.drafts[number].finding.aspect.term)

    @property
    def pairs(self) -> Pairs:
        """The gold's pairs of aspect key and polarity."""
        return frozenset((key, word) for key, words in self.gold.items() for word in words)


def part_of(text: str, parts: int, salt: str = "") -> int:
    """One of so many parts, the same for equal texts."""
    content = (salt + text.strip().lower()).encode("utf-8", "surrogatepass")
    return zlib.crc32(content) % parts


def read(source: str, sample: Sample, models: LanguageModels) -> Text:
    """Let the models speak about a labelled text."""
    view = view_of(sample.text, sample.lang, sample.domain)
    key = language(sample.lang or view.lang).key
    gold: dict[str, set[str]] = {}
    for aspect in sample.aspects or ():
        if aspect.term and not aspect.implicit:
            gold.setdefault(key(aspect.term), set()).add(aspect.polarity)
    label = sample.label or label_of(a.polarity for a in sample.aspects or ())
    mood = models.polarity.text(view)
    accepted, reserve, _ = draft(view, models, None, mood)
    both = (*accepted, *reserve)
    rows = tuple(drafts.measures(view, models, mood, both))
    terms = {name: frozenset(words) for name, words in gold.items()}
    return Text(source, view, terms, label, mood, tuple(accepted), both, rows)


def fold_models(data: Path, lang: str, fold: int, folder: Path) -> LanguageModels:
    """Models of all texts but one part, trained if the folder does not have them yet."""
    if not loading.polarity_file(folder, lang).exists():
        folder.mkdir(parents=True, exist_ok=True)
        kept = [
            (sample, view)
            for sample, view in texts_of(data, "train", NAMED[lang])
            if part_of(sample.text, FOLDS) != fold
        ]
        train_tagger(kept, lang, loading.tagger_file(folder, lang))
        if lang in NETWORKS:
            train_network(kept, loading.network_file(folder, lang))
        polarity_model.train(
            (
                sample
                for sample in polarity_model.shipped_samples(data, lang)
                if part_of(sample.view.text, FOLDS) != fold
            ),
            lang,
        ).save(loading.polarity_file(folder, lang))
    own = ModelFolder(folder, trusted=True)
    whole = loading.load(shipped(), lang)
    return LanguageModels(loading.tagger(own, lang), loading.polarity(own, lang), whole.decision)


def texts(data: Path, lang: str, folds: Path, models: LanguageModels) -> Iterator[Text]:
    """All texts of a language, read by models that have not seen them."""
    for fold in range(FOLDS):
        unseen = fold_models(data, lang, fold, folds / f"{lang}{fold}")
        for name in NAMED[lang]:
            for sample in _samples(data / "train" / f"{name}.jsonl"):
                if part_of(sample.text, FOLDS) == fold:
                    yield read(name, sample, unseen)
    for sample in _samples(_EVERYDAY / f"everyday_{lang}.jsonl"):
        yield read("everyday", sample, models)


def _samples(path: Path) -> Iterator[Sample]:
    for sample in read_samples(path):
        if not isinstance(sample, BadLine) and not sample.incomplete_gold:
            yield sample


Weights = dict[str, tuple[float, ...]]


def regression(
    rows: Sequence[Measures],
    answers: Sequence[int],
    weights: npt.NDArray[np.float64],
    names: Sequence[str] | None = None,
    classes: int = 2,
) -> Weights:
    """A logistic regression over measures; a yes-or-no question has one weight for each."""
    from sklearn.linear_model import LogisticRegression

    chosen = sorted({name for row in rows for name in row} if names is None else names)
    matrix = np.array([[row.get(name, 0.0) for name in chosen] for row in rows])
    # One empty row of each answer: an answer that does not occur is unlikely, not unknown.
    matrix = np.vstack([matrix, np.zeros((classes, len(chosen)))])
    model = LogisticRegression(C=_FREEDOM, max_iter=1000)
    model.fit(
        matrix, [*answers, *range(classes)], sample_weight=np.append(weights, np.ones(classes))
    )
    columns = zip(chosen, model.coef_.T.tolist(), strict=True)
    found = {name: tuple(round(w, 4) for w in column) for name, column in columns if any(column)}
    found[BIAS] = tuple(round(w, 4) for w in model.intercept_.tolist())
    return found


def fit(found: Sequence[Text], share: float = EVERYDAY_SHARE) -> Combination:
    """The regressions, with bars that change nothing yet."""
    own = np.array([text.source == "everyday" for text in found])
    factor = np.where(own, share / max(1, own.sum()), (1 - share) / max(1, (~own).sum()))
    factor *= len(found)
    rows, is_aspect, existence = [], [], []
    named, polarities, weights = [], [], []
    for text, weight in zip(found, factor.tolist(), strict=True):
        for number, row in enumerate(text.rows):
            words = text.gold.get(text.key(number))
            rows.append(row)
            is_aspect.append(int(words is not None))
            existence.append(weight)
            if words is not None and len(words) == 1:
                named.append(row)
                polarities.append(LABELS.index(next(iter(words))))
                weights.append(weight)
    of_aspects, of_named = np.array(existence), np.array(weights)
    without = sorted({name for row in rows for name in row if ":" not in name} - set(_POLARITY))
    exists = [*without, "judged", "foreign", "silent"]
    made = Combination(
        aspect=regression(rows, is_aspect, of_aspects, exists),
        polarity=regression(named, polarities, of_named, _POLARITY, len(LABELS)),
        rules=regression(named, polarities, of_named, _RULES, len(LABELS)),
        clause=regression(named, polarities, of_named, _CLAUSE, len(LABELS)),
        label={BIAS: (0.0,) * len(_ALL_LABELS)},
        add=0.5,
        drop=0.2,
        flip=0.1,
    )
    label_rows = [label_row(text, made) for text in found]
    labels = [_ALL_LABELS.index(text.label) for text in found]
    return replace(made, label=regression(label_rows, labels, factor, None, len(_ALL_LABELS)))


def heard(text: Text, made: Combination) -> drafts.Weighed:
    """What all readings together make of a text."""
    split = len(text.accepted)
    return drafts.weigh_rows(text.view, made, text.mood, text.drafts, text.rows, split, given=False)


def label_row(text: Text, made: Combination) -> Measures:
    """The measures of a text's label."""
    weighed = heard(text, made)
    return drafts.label_measures(text.view, text.mood, [*weighed.findings, *weighed.reserve])


def stage1_pairs(text: Text) -> Pairs:
    """What Stage 1 reports."""
    return frozenset(
        (text.key(number), each.finding.clause_reading.polarity)
        for number, each in enumerate(text.accepted)
    )


def final_pairs(text: Text, weighed: drafts.Weighed) -> Pairs:
    """What the debate makes of it."""
    found = [*weighed.findings, *weighed.reserve]
    return frozenset(
        (text.key(number), finding.verdict)
        for number, finding in enumerate(found)
        if finding.verdict
    )


@dataclass(frozen=True)
class Gain:
    """What the debate changes in the texts of a source."""

    texts: int
    changed: int
    fix: int
    broken: int
    f1_before: float
    f1_after: float
    label: float

    @property
    def net(self) -> int:
        """Texts that became exactly right less those that stopped being so."""
        return self.fix - self.broken


def gain(found: Sequence[tuple[Text, Pairs, Pairs, bool]]) -> Gain:
    """Count what changed."""
    fix = sum(after == t.pairs != before for t, before, after, _ in found)
    broken = sum(before == t.pairs != after for t, before, after, _ in found)
    golds = [t.pairs for t, *_ in found]
    return Gain(
        len(found),
        sum(before != after for _, before, after, _ in found),
        fix,
        broken,
        _f1([before for _, before, *_ in found], golds),
        _f1([after for _, _, after, _ in found], golds),
        sum(label for *_, label in found) / max(1, len(found)),
    )


def _f1(said: Sequence[Pairs], golds: Sequence[Pairs]) -> float:
    hits = sum(len(a & b) for a, b in zip(said, golds, strict=True))
    total = sum(map(len, said)) + sum(map(len, golds))
    return round(200 * hits / max(1, total), 2)


def gains(found: Sequence[Text], made: Mapping[int, Combination]) -> dict[str, Gain]:
    """What the debate changes, by source; each text is read by the combination of its part."""
    by_source: dict[str, list[tuple[Text, Pairs, Pairs, bool]]] = {}
    for text in found:
        weighed = heard(text, made[text.part])
        label = weighed.label is not None and weighed.label[0] == text.label
        entry = (text, stage1_pairs(text), final_pairs(text, weighed), label)
        by_source.setdefault(text.source, []).append(entry)
    return {source: gain(entries) for source, entries in by_source.items()}


_ADDS = (0.4, 0.45, 0.5, 0.55, 0.6)
_DROPS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
_FLIPS = (0.0, 0.05, 0.1)


def worth(by_source: Mapping[str, Gain]) -> float:
    """Each source counts alike: net gain and F1, both as shares."""
    return sum(
        100 * each.net / each.texts + 2 * min(each.f1_after - each.f1_before, 3)
        for each in by_source.values()
    )


def with_bars(found: Sequence[Text], parts: Mapping[int, Combination]) -> Any:
    """The bars that are worth most in cross-validation."""
    best: Any = None
    for add, drop, flip in product(_ADDS, _DROPS, _FLIPS):
        made = {n: replace(each, add=add, drop=drop, flip=flip) for n, each in parts.items()}
        value = worth(gains(found, made))
        if best is None or value > best[0]:
            best = (value, {"add": add, "drop": drop, "flip": flip}, made)
    return best


def main() -> None:
    """Fit the combination of a language."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    parser.add_argument("--folds", type=Path, default=Path("folds"))
    parser.add_argument("--lang", choices=loading.LANGUAGES, action="append")
    options = parser.parse_args()
    for lang in options.lang or loading.LANGUAGES:
        models = loading.load(ModelFolder(options.out, trusted=True), lang)
        found = list(texts(options.data, lang, options.folds, models))
        parts = {part: fit([text for text in found if text.part != part]) for part in range(_PARTS)}
        _, bars, parts = with_bars(found, parts)
        sys.stdout.write(f"{lang} {bars}\n")
        for source, each in gains(found, parts).items():
            sys.stdout.write(f"  {source}: {each}, net gain {each.net}\n")
        path = loading.combination_file(options.out, lang)
        replace(fit(found), **bars).save(path)
        record(options.out, [path.name])


if __name__ == "__main__":
    main()
