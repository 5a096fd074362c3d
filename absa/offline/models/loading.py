"""The learned models of the analyzer: a folder with a tagger, a polarity model and a decision.

``tagger_<lang>.crf``, ``polarity_<lang>.npz`` and ``decision_<lang>.json`` for each language, and
``network_<lang>.npz`` where one reads beside the tagger. Both languages have an encoder besides,
which only the shipped folder holds (``encoder_en.onnx``, ``encoder_ko.npz``). A folder that
`absa train` made has those of its data, built on the shipped ones, which also answer
for a language that it lacks. ``manifest.json`` has the hashes of the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from absa.nodes.forks import ForkSafeLock
from absa.offline.models.decision import Decision
from absa.offline.models.encoder import Encoder
from absa.offline.models.folder import ModelFolder, read_as, record, shipped
from absa.offline.models.morpheme_encoder import MorphemeEncoder
from absa.offline.models.network import Network
from absa.offline.models.polarity_model import PolarityModel
from absa.offline.models.readers import Readers
from absa.offline.models.tagger import Tagger
from absa.offline.text.annotations import View

LANGUAGES = ("ko", "en")


@dataclass(frozen=True)
class LanguageModels:
    """The models of one language."""

    tagger: Tagger
    polarity: PolarityModel
    decision: Decision
    #: When Stage 1 reports a tuple, where it hears fewer readers than the debate.
    stage1: Decision | None = None
    encoder: Encoder | MorphemeEncoder | None = None
    #: The polarity of aspects in their own statement, where a language has readers of it.
    readers: Readers | None = None

    def read(self, view: View) -> View:
        """The text with what the encoder says of it, in a language that has one."""
        return self.encoder.encoded(view) if self.encoder else view

    def hears_encoder(self, view: View) -> bool:
        """Whether the encoder counts for aspects of this text, and not only for its label.

        Where the decision knows the domain, the Korean one has to know it as well, and the decision
        must have been fitted with it: not one that was trained on top of the shipped tagger.
        """
        if isinstance(self.encoder, MorphemeEncoder) and view.domain in self.decision.domains:
            return self.encoder.knows_domains and not self.decision.stacked
        return self.encoder is not None


class Models:
    """The models of a folder, each shipped language read when it is first met."""

    def __init__(self, folder: str | Path | None = None, *, trusted: bool = False) -> None:
        """Take the shipped folder, or another one, which is read at once: it may be damaged.

        `trusted` takes files that the other folder's manifest does not vouch for.

        Raises:
            ValueError: if the folder holds no models, or a damaged one.
        """
        self._loaded: dict[str, LanguageModels] = {}
        self._lock = ForkSafeLock()
        if folder is None:
            return
        own = ModelFolder(Path(folder), trusted)
        languages = [lang for lang in LANGUAGES if decision_file(own.path, lang).exists()]
        if not languages:
            raise ValueError(
                f"{folder} is not a model: make one with `absa train DATA --out MODEL`"
            )
        self._loaded = {lang: load(own, lang) for lang in languages}

    def of(self, lang: str) -> LanguageModels:
        """The models of ``ko`` or ``en``."""
        with self._lock:
            if lang not in self._loaded:
                self._loaded[lang] = load(shipped(), lang)
            return self._loaded[lang]


def load(folder: ModelFolder, lang: str) -> LanguageModels:
    """Read the models of one language.

    Raises:
        ValueError: if one of them is damaged or missing.
    """
    path = decision_file(folder.path, lang)
    decision = Decision.read(folder.read(path.name), path)
    base = tagger(shipped(), lang) if decision.stacked else None
    return LanguageModels(
        tagger(folder, lang, base),
        polarity(folder, lang),
        decision,
        stage1(folder, lang),
        _shipped_encoder(lang),
        readers(folder, lang),
    )


def readers(folder: ModelFolder, lang: str) -> Readers | None:
    """The readers of a language, if it has some; a folder without them has the shipped ones."""
    path = readers_file(folder.path, lang)
    if not folder.has(path.name):
        folder = shipped()
        path = readers_file(folder.path, lang)
    return Readers.read(folder.read(path.name), path) if folder.has(path.name) else None


def stage1(folder: ModelFolder, lang: str) -> Decision | None:
    """The decision of Stage 1, if a folder has one of its own."""
    path = stage1_file(folder.path, lang)
    return Decision.read(folder.read(path.name), path) if folder.has(path.name) else None


@cache
def _shipped_encoder(lang: str) -> Encoder | MorphemeEncoder | None:
    return encoder(shipped(), lang)


def encoder(folder: ModelFolder, lang: str) -> Encoder | MorphemeEncoder | None:
    """The encoder that a folder has for a language, if it has one."""
    path = encoder_file(folder.path, lang)
    if not folder.has(path.name):
        return None
    kind = MorphemeEncoder if lang == "ko" else Encoder
    return kind.read(folder.read(path.name), path)


def polarity(folder: ModelFolder, lang: str) -> PolarityModel:
    """The polarity model of a folder."""
    path = polarity_file(folder.path, lang)
    return PolarityModel.read(folder.read(path.name), path)


def tagger(folder: ModelFolder, lang: str, base: Tagger | None = None) -> Tagger:
    """The tagger of a folder, with the network beside it if there is one."""
    path, beside = tagger_file(folder.path, lang), network_file(folder.path, lang)
    network = Network.read(folder.read(beside.name), beside) if folder.has(beside.name) else None
    content = folder.read(path.name)
    with read_as("an aspect tagger", path):
        return Tagger(content, base, network)


def decision_file(folder: Path, lang: str) -> Path:
    """Where a folder has the decision of a language."""
    return folder / f"decision_{lang}.json"


def stage1_file(folder: Path, lang: str) -> Path:
    """Where a folder has the decision of Stage 1, if that is another one."""
    return folder / f"stage1_{lang}.json"


def readers_file(folder: Path, lang: str) -> Path:
    """Where a folder has the readers of a language, if it has some."""
    return folder / f"readers_{lang}.json"


def tagger_file(folder: Path, lang: str) -> Path:
    """Where a folder has the tagger of a language."""
    return folder / f"tagger_{lang}.crf"


def network_file(folder: Path, lang: str) -> Path:
    """Where a folder has the network of a language, if it has one."""
    return folder / f"network_{lang}.npz"


def encoder_file(folder: Path, lang: str) -> Path:
    """Where the shipped folder has the encoder of a language, if it has one."""
    return folder / f"encoder_{lang}.{'npz' if lang == 'ko' else 'onnx'}"


def polarity_file(folder: Path, lang: str) -> Path:
    """Where a folder has the polarity model of a language."""
    return folder / f"polarity_{lang}.npz"


def save(folder: Path, lang: str, crf: bytes, polarity: PolarityModel, decision: Decision) -> None:
    """Write the models of one language into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tagger_file(folder, lang).write_bytes(crf)
    polarity.save(polarity_file(folder, lang))
    decision.save(decision_file(folder, lang))
    files = (tagger_file, polarity_file, decision_file)
    record(folder, [file(folder, lang).name for file in files])
