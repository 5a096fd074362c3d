"""Models of one's own labelled data, built on the shipped ones."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from absa.nodes.language import language
from absa.offline.analysis import Analyser
from absa.offline.models import loading
from absa.offline.models.features import features
from absa.offline.models.loading import LANGUAGES, LanguageModels, Models
from absa.offline.models.polarity_model import PolarityModel
from absa.offline.models.readers import Readers
from absa.offline.models.tagger import Tagger
from absa.offline.text.annotations import View
from absa.offline.text.views import view_of
from absa.offline.training import decision, polarity_model, tagger
from absa.offline.training.decision import Judged, TooLittleData
from absa.schemas.sample import Sample

#: With fewer texts that name an aspect, what is learned is chance.
FEWEST = 30
_FOLDS = 3
#: With a few hundred texts a weight is worth less and a rare feature as much as a common one.
_L1, _L2, _SEEN = 0.0, 0.3, 1

Tell = Callable[[str, float], None]


@dataclass(frozen=True)
class Case:
    """A labelled text, read."""

    sample: Sample
    view: View


@dataclass(frozen=True)
class Score:
    """Pair F1 on texts that were not trained on, of the shipped models and of the new ones."""

    lang: str
    texts: int
    shipped: float
    trained: float


def read(samples: Iterable[Sample]) -> list[Case]:
    """The samples that can be learned from or scored: with complete gold."""
    shipped = Models()
    cases = []
    for sample in samples:
        if sample.aspects is not None and not sample.incomplete_gold:
            view = view_of(sample.text, sample.lang, sample.domain)
            cases.append(Case(sample, shipped.of(view.lang).read(view)))
    return cases


def hold_out(cases: Sequence[Case], parts: int = 10) -> tuple[list[Case], list[Case]]:
    """What to train on and, chosen by the text alone, one part of it to score with."""
    kept = [case for case in cases if _part(case, parts)]
    return kept, [case for case in cases if not _part(case, parts)]


def train(cases: Sequence[Case], folder: Path, tell: Tell = lambda what, share: None) -> list[str]:
    """Train a model for each language of the data and write it to a folder.

    Args:
        cases: The labelled texts.
        folder: Where the model is written.
        tell: Called with the present step and the share of it that is done.

    Returns:
        The languages that were trained.

    Raises:
        TooLittleData: too few texts name an aspect, or all are alike.
    """
    shipped = Models()
    by_language = {lang: [c for c in cases if c.view.lang == lang] for lang in LANGUAGES}
    learnable = [lang for lang, own in by_language.items() if _naming(own) >= FEWEST]
    if not learnable:
        most = max(_naming(own) for own in by_language.values())
        raise TooLittleData(
            f"{most} texts name an aspect at a place in the text; at least {FEWEST} are needed"
        )
    for lang in learnable:
        _train_language(by_language[lang], lang, shipped.of(lang), folder, tell)
    return learnable


def score(cases: Sequence[Case], folder: Path) -> list[Score]:
    """Compare a trained model with the shipped one, both as they are used."""
    trained, shipped = Analyser(Models(folder)), Analyser()
    scores = []
    for lang in LANGUAGES:
        own = [case for case in cases if case.view.lang == lang]
        if own:
            before, after = (_pair_f1(own, analyser) for analyser in (shipped, trained))
            scores.append(Score(lang, len(own), before, after))
    return scores


def _pair_f1(cases: Sequence[Case], analyser: Analyser) -> float:
    hits = predicted = wanted = 0
    for case in cases:
        key = language(case.view.lang).key
        findings = analyser(case.sample.text, case.view.lang, case.sample.domain).findings
        pairs = {(key(f.aspect.term), f.clause_reading.polarity) for f in findings}
        gold = {(key(a.term), a.polarity) for a in case.sample.aspects or () if a.term}
        hits += len(pairs & gold)
        predicted += len(pairs)
        wanted += len(gold)
    return 2 * hits / (predicted + wanted) if predicted + wanted else 0.0


def _train_language(
    cases: Sequence[Case], lang: str, base: LanguageModels, folder: Path, tell: Tell
) -> None:
    rows = [
        base.tagger.with_hints(case.view, features(case.view)) if case.view.tokens else []
        for case in cases
    ]
    wanted = [tagger.labels(case.view, case.sample.aspects or ()) for case in cases]
    folds = [_part(case, _FOLDS) for case in cases]
    judged: list[Judged] = []

    def fit(numbers: Sequence[int], what: str) -> tuple[bytes, PolarityModel]:
        part = [cases[number] for number in numbers]
        content = _fit_tagger(
            [(rows[number], wanted[number]) for number in numbers],
            lambda done, total: tell(what, done / total),
        )
        return content, polarity_model.train(_labelled(part), lang, base.polarity)

    # How far the models may be trusted is seen on texts that they were not trained on.
    for fold in range(_FOLDS):
        content, polarity = fit(
            [n for n, own in enumerate(folds) if own != fold],
            f"{lang}: trial {fold + 1} of {_FOLDS}",
        )
        unseen = [case for case, own in zip(cases, folds, strict=True) if own == fold]
        judged += _judged(unseen, Tagger(content, base.tagger), polarity, base.readers)
    domains = {case.sample.domain for case in cases if case.sample.domain}
    decided = decision.fit(judged, domains, domains, stacked=True)
    content, polarity = fit(range(len(cases)), f"{lang}: all texts")
    loading.save(folder, lang, content, polarity, decided)


def _fit_tagger(
    texts: Sequence[tuple[tagger.Rows, list[str]]], tell: Callable[[int, int], None]
) -> bytes:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "tagger.crf"
        tagger.train(texts, path, tell, l1=_L1, l2=_L2, seen=_SEEN)
        return path.read_bytes()


def _judged(
    cases: Sequence[Case],
    parts_tagger: Tagger,
    parts_polarity: PolarityModel,
    readers: Readers | None,
) -> list[Judged]:
    return [
        decision.judged(case.view, case.sample.aspects or (), parts_tagger, parts_polarity, readers)
        for case in cases
    ]


def _labelled(cases: Sequence[Case]) -> list[polarity_model.Labelled]:
    labelled = []
    for case in cases:
        aspects = tuple(
            (aspect.from_, aspect.to, aspect.polarity)
            for aspect in case.sample.aspects or ()
            if aspect.from_ is not None and aspect.to is not None
        )
        label = polarity_model.label_of(aspect.polarity for aspect in case.sample.aspects or ())
        labelled.append(polarity_model.Labelled(case.view, aspects, label))
    return labelled


def _naming(cases: Sequence[Case]) -> int:
    return sum(any(not aspect.implicit for aspect in case.sample.aspects or ()) for case in cases)


def _part(case: Case, parts: int) -> int:
    digest = hashlib.sha256(case.sample.text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") % parts
