"""The labelled texts that the shipped models are made of, read."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from pathlib import Path

from absa.data import BadLine, read_samples
from absa.offline.models import loading
from absa.offline.models.folder import ModelFolder
from absa.offline.text.annotations import View
from absa.offline.text.views import view_of
from absa.schemas.sample import Sample
from training import everyday_data

#: Data sets whose gold names terms, by language.
NAMED = {"en": ("mams", "mabsa_en"), "ko": ("mabsa_ko",)}

Texts = list[tuple[Sample, View]]
#: Languages whose models also learn from everyday sentences, and how often those are read.
EVERYDAY = {"en": 2}


def texts_of(data: Path, split: str, names: Sequence[str]) -> Texts:
    """The labelled texts of data sets, read."""
    texts = []
    for name in names:
        for sample in read_samples(data / split / f"{name}.jsonl"):
            if not isinstance(sample, BadLine):
                texts.append((sample, view_of(sample.text, sample.lang, sample.domain)))
    return texts


def everyday_texts(lang: str, domains: Collection[str], *, calibration: bool = False) -> Texts:
    """The everyday sentences that are trained on, or those kept to calibrate with.

    They stand without their domain unless other data sets have it, too.
    """
    texts = []
    path = everyday_data.DATA / f"everyday_{lang}.jsonl"
    for number, sample in enumerate(read_samples(path)):
        if not isinstance(sample, BadLine) and everyday_data.learned_from(number) != calibration:
            domain = sample.domain if sample.domain in domains else None
            texts.append((sample, view_of(sample.text, sample.lang, domain)))
    return texts


def unseen_texts(data: Path, lang: str, folder: Path) -> Texts:
    """Labelled texts that no model was trained on, with what the encoder says of them."""
    texts = texts_of(data, "dev", NAMED[lang])
    if lang in EVERYDAY:
        texts += everyday_texts(lang, domains_of(texts), calibration=True)
    encoder = loading.encoder(ModelFolder(folder, trusted=True), lang)
    return [
        (sample, encoder.encoded(view) if encoder else view)
        for sample, view in texts
        if not sample.incomplete_gold
    ]


def domains_of(texts: Texts) -> set[str]:
    """The domains that the texts name."""
    return {sample.domain for sample, _ in texts if sample.domain}


#: One film review in this number is kept from the Korean encoder, for the reader of labels.
_KEPT = 14


def kept(text: str) -> bool:
    """Whether a film review is kept from the Korean encoder."""
    return zlib.crc32(text[::-1].encode("utf-8", "surrogatepass")) % _KEPT == 0
