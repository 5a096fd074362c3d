"""Makes the shipped models from the data they were trained on.

``python -m training.shipped DATA_DIR --out resources/models`` reads
``DATA_DIR/train`` and ``DATA_DIR/dev``; ``resources/models/README.md`` describes them. Taggers,
networks and decisions are made here, after :mod:`training.polarity_model` has made
the polarity models. Equal data gives equal bytes, on one machine and with one thread: texts are
read in the order of their files, and what is drawn at random is drawn from fixed seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from absa.offline.models import loading
from absa.offline.models.decision import OTHER, Decision
from absa.offline.models.features import features
from absa.offline.models.folder import ModelFolder, record
from absa.offline.text.annotations import View
from absa.offline.training import decision, tagger
from training import network
from training.texts import (
    EVERYDAY,
    NAMED,
    Texts,
    domains_of,
    everyday_texts,
    texts_of,
    unseen_texts,
)

#: Data sets that judge texts without naming terms.
UNNAMED: dict[str, tuple[str, ...]] = {"en": (), "ko": ("korsemeval",)}
#: Languages in which a network beside the tagger helped on development data.
NETWORKS = frozenset({"en"})
#: Penalties on the tagger's weights.
_PENALTIES = {"en": (0.08, 1.0), "ko": (0.05, 1.0)}
#: Candidates that the decision's second fit leaves out: calibrates Korean, gives English nothing.
_WORTH = {"en": 0.0, "ko": 0.2}
#: How much the tagger's word counts in whether an aspect is neutral: in Korean it has seen few.
_MENTIONED = {"en": 0.5, "ko": 0.2}

#: Of this many texts one is read without its domain, so that the domain stays optional.
_WITHOUT_DOMAIN = 5


def with_optional_domain(views: Sequence[View]) -> list[View]:
    """The same texts, some of them without their domain."""
    return [
        replace(view, domain=None) if number % _WITHOUT_DOMAIN == 0 else view
        for number, view in enumerate(views)
    ]


def train_tagger(texts: Texts, lang: str, path: Path) -> None:
    """Train the tagger of a language."""
    views = with_optional_domain([view for _, view in texts])
    l1, l2 = _PENALTIES[lang]
    tagger.train(
        (
            (features(view), tagger.labels(view, sample.aspects or ()))
            for (sample, _), view in zip(texts, views, strict=True)
        ),
        path,
        l1=l1,
        l2=l2,
    )


def train_network(texts: Texts, path: Path) -> None:
    """Train the network that reads beside the tagger."""
    views = with_optional_domain([view for _, view in texts])
    network.train(
        [
            (view, tagger.labels(view, sample.aspects or ()))
            for (sample, _), view in zip(texts, views, strict=True)
        ]
    ).save(path)


def fit_decision(data: Path, lang: str, folder: Path) -> list[str]:
    """Fit the decision of a language to texts that the models have not read.

    Where an encoder reads beside the small models, Stage 1, which does not hear it, has a decision
    of its own. Returns the names of the files.
    """
    in_making = ModelFolder(folder, trusted=True)
    reader, polarity = loading.tagger(in_making, lang), loading.polarity(in_making, lang)
    texts = unseen_texts(data, lang, folder)
    named = domains_of(texts_of(data, "dev", NAMED[lang]))
    unnamed = domains_of(texts_of(data, "dev", UNNAMED[lang]))
    domains = named | ({OTHER} if lang in EVERYDAY else set())
    # What does not depend on the encoder is computed once for Stage 1 and for the debate.
    with_domain = [(sample, replace(view, memo={})) for sample, view in texts if view.domain]
    # Everyday sentences say how to decide where the domain is another one, or is not named.
    free = [
        (sample, replace(view, domain=None, memo={}))
        for sample, view in texts
        if sample.label is not None
    ]
    worth, mentioned = _WORTH[lang], _MENTIONED[lang]

    def fitted(texts: Texts) -> Decision:
        judged = [
            decision.judged(view, sample.aspects or (), reader, polarity, domains=named)
            for sample, view in texts
        ]
        return decision.fit(judged, domains, named - unnamed, worth=worth, mentioned=mentioned)

    made = {loading.decision_file(folder, lang): (with_domain, free)}
    if any(view.encoded for _, view in texts):
        made[loading.stage1_file(folder, lang)] = (
            without_encoder(with_domain),
            without_encoder(free),
        )
    for path, (inside, outside) in made.items():
        replace(fitted(inside), elsewhere=fitted(outside) if outside else None).save(path)
    return [path.name for path in made]


def without_encoder(texts: Texts) -> Texts:
    """The texts as Stage 1 reads them."""
    return [(sample, replace(view, encoded=None)) for sample, view in texts]


def main() -> None:
    """Train the taggers and fit the decisions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("resources/models"))
    parser.add_argument("--only-decision", action="store_true")
    parser.add_argument("--lang", choices=loading.LANGUAGES, action="append")
    asked = parser.parse_args()
    for lang in asked.lang or ("en",):
        if not asked.only_decision:
            texts = texts_of(asked.data, "train", NAMED[lang])
            if lang in EVERYDAY:
                texts += everyday_texts(lang, domains_of(texts)) * EVERYDAY[lang]
            train_tagger(texts, lang, loading.tagger_file(asked.out, lang))
            record(asked.out, [loading.tagger_file(asked.out, lang).name])
            if lang in NETWORKS:
                train_network(texts, loading.network_file(asked.out, lang))
                record(asked.out, [loading.network_file(asked.out, lang).name])
        record(asked.out, fit_decision(asked.data, lang, asked.out))


if __name__ == "__main__":
    main()
