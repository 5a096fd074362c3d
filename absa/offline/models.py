"""The learned models of the analyser: a folder with a tagger, a polarity model and a decision.

``tagger_<lang>.crf``, ``polarity_<lang>.npz`` and ``decision_<lang>.json`` for each language, and
``network_<lang>.npz`` where one reads beside the tagger. The shipped folder has both languages; a
folder that `absa train` made has those of its data, built on the shipped ones, which also answer
for a language that it lacks. ``manifest.json`` has the hashes of the files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Self

from pydantic import ConfigDict, TypeAdapter

from absa.nodes.forks import ForkSafeLock
from absa.offline.folder import ModelFolder, read_as, record, shipped
from absa.offline.model import NEUTRAL, Aspect, View
from absa.offline.network import Network
from absa.offline.sentiment import LABELS, PolarityModel, Probabilities
from absa.offline.tagger import Candidate, Tagger, disjoint
from absa.offline.windows import Windows

LANGUAGES = ("ko", "en")
_CLIP = 1e-4
#: From this probability on a candidate counts as one of those that share a text's opinions.
_LIKELY = 0.3
#: Beyond so many other aspects one more makes no difference.
_COMPANY = 3.0
#: The places among a text's candidates that count for themselves.
_RANKS = (0, 1, 2)
#: Weights of a decision beside those of domains: see :func:`evidence_of`.
_WEIGHTS = 2 * 5 + 2 + len(_RANKS)
#: A text has no more aspects than this.
MOST = 100


@dataclass(frozen=True, slots=True)
class Candidacy:
    """A candidate in its text.

    Attributes:
        candidate: What the tagger says.
        start: Where it begins, in characters.
        end: Where it ends.
        said: P(positive), P(negative), P(neutral), if it is an aspect.
        others: How many other aspects the text probably has.
        rank: How many other candidates of the text are likelier.
        rule: How surely the rules take the same words for an aspect; 0 where they do not.
        domain: What the text is about, where that is known.
    """

    candidate: Candidate
    start: int
    end: int
    said: Probabilities
    others: float
    rank: int
    rule: float
    domain: str | None


def candidacies(
    view: View, tagger: Tagger, polarity: PolarityModel, noun_phrases: Sequence[Aspect]
) -> list[Candidacy]:
    """The likeliest candidates that do not overlap, in order of the text.

    `noun_phrases` is what the rules see: a candidate that they see too is likelier to be right.

    What a text says as a whole, it says of its only aspect: there the two probabilities meet in
    the middle.
    """
    found = _most_likely(disjoint(tagger.candidates(view)))
    places = [(view.tokens[c.first].start, view.tokens[c.last - 1].end) for c in found]
    likely = [place for place, c in zip(places, found, strict=True) if c.probability >= _LIKELY]
    whole = polarity.text(view) if found and len(likely) <= 1 else None
    expected = sum(candidate.probability for candidate in found)
    likelier = sorted(-candidate.probability for candidate in found)
    by_rule = {(aspect.start, aspect.end): aspect.termness for aspect in noun_phrases}
    windows = Windows(view)
    made = []
    for (start, end), candidate in zip(places, found, strict=True):
        near = windows.at(candidate.first)
        others = [place for place in likely if place != (start, end) and _inside(near, place)]
        said = polarity.aspect(near, start, end, others)
        if whole is not None:
            said = _between(said, whole)
        company = min(expected - candidate.probability, _COMPANY)
        rank = likelier.index(-candidate.probability)
        rule = by_rule.get((start, end), 0.0)
        made.append(Candidacy(candidate, start, end, said, company, rank, rule, view.domain))
    return made


def _inside(view: View, place: tuple[int, int]) -> bool:
    return view.tokens[0].start <= place[0] and place[1] <= view.tokens[-1].end


def _most_likely(candidates: list[Candidate]) -> list[Candidate]:
    """At most so many of them, in their order: the work per text is bounded."""
    if len(candidates) <= MOST:
        return candidates
    bar = sorted((c.probability for c in candidates), reverse=True)[MOST - 1]
    return [c for c in candidates if c.probability >= bar][:MOST]


def _between(one: Probabilities, other: Probabilities) -> Probabilities:
    """The normalised geometric mean."""
    positive, negative, neutral = (math.sqrt(a * b) for a, b in zip(one, other, strict=True))
    total = max(positive + negative + neutral, _CLIP)
    return positive / total, negative / total, neutral / total


@dataclass(frozen=True)
class Decision:
    """When a candidate with its polarity is reported, and how sure one may be of it.

    Attributes:
        weights: Weights of :func:`evidence_of`.
        mentioned: How much the tagger's word counts in whether an aspect is neutral (0 to 1).
        accept: How likely a tuple must be right to be reported.
        reserve: How likely it must be to be kept for a second look.
        domains: Domains that the tagger has been trained on; elsewhere rules count for more.
        quiet: Those of them where only what is named counts: nothing unnamed is reported there.
        stacked: Whether the tagger reads what the shipped one says.
    """

    weights: tuple[float, ...]
    mentioned: float
    accept: float
    reserve: float
    domains: tuple[str, ...]
    quiet: tuple[str, ...]
    stacked: bool = False
    #: The `bars` of single domains, which earlier versions had, are left aside.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False, extra="ignore")

    @classmethod
    def read(cls, content: bytes, path: Path) -> Self:
        """Take a decision file's content.

        Raises:
            ValueError: if it is none.
        """
        with read_as("a decision file", path):
            decision = TypeAdapter(cls).validate_json(content, strict=True)
            expected = _WEIGHTS + len(decision.domains)
            if len(decision.weights) != expected:
                raise ValueError(f"weights has {len(decision.weights)} numbers, not {expected}")
            return decision

    def save(self, path: Path) -> None:
        """Write the file."""
        path.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", "utf-8")

    def polarity(self, made: Candidacy) -> tuple[str, float]:
        """The likeliest polarity and its probability, tagger and polarity model taken together."""
        positive, negative, neutral = made.said
        mixed = (1 - self.mentioned) * neutral + self.mentioned * (1 - made.candidate.judged)
        share = (1 - mixed) / max(1 - neutral, _CLIP)
        options = (positive * share, negative * share, mixed)
        best = max(range(len(LABELS)), key=options.__getitem__)
        return LABELS[best], options[best]

    def confidence(self, made: Candidacy, polarity: str, likely: float) -> float:
        """How likely the tuple of a candidate and a polarity is right."""
        evidence = evidence_of(made, polarity, likely, self.domains)
        score = sum(w * x for w, x in zip(self.weights, evidence, strict=True))
        return 1 / (1 + math.exp(-score))


def _logit(probability: float) -> float:
    clipped = min(max(probability, _CLIP), 1 - _CLIP)
    return math.log(clipped / (1 - clipped))


def evidence_of(
    made: Candidacy, polarity: str, likely: float, domains: Sequence[str]
) -> list[float]:
    """What speaks for a tuple: the span, the polarity, the company it keeps (apart for neutral).

    And how often a candidate of its rank, of the rules, of its domain is right; where the domain
    is not known, it is a little of each.
    """
    span, judged = _logit(made.candidate.probability), _logit(made.candidate.judged)
    facts = [span, _logit(likely), judged, made.others, 1.0]
    nothing = [0.0] * len(facts)
    return [
        *([*nothing, *facts] if polarity == NEUTRAL else [*facts, *nothing]),
        made.rule,
        float(made.rule > 0),
        *(float(made.rank == rank) for rank in _RANKS),
        *(
            float(made.domain == domain) if made.domain in domains else 1 / len(domains)
            for domain in domains
        ),
    ]


@dataclass(frozen=True)
class LanguageModels:
    """The models of one language."""

    tagger: Tagger
    polarity: PolarityModel
    decision: Decision


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
    return LanguageModels(tagger(folder, lang, base), polarity(folder, lang), decision)


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


def tagger_file(folder: Path, lang: str) -> Path:
    """Where a folder has the tagger of a language."""
    return folder / f"tagger_{lang}.crf"


def network_file(folder: Path, lang: str) -> Path:
    """Where a folder has the network of a language, if it has one."""
    return folder / f"network_{lang}.npz"


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
