"""Trust and threshold of `selective`, fitted on a labelled run by cross-validation.

No model is called. The outputs of a run have the inputs of `fuse`: the votes and the analyzer's
probability of each tuple of a contested text. So other values of `pipeline.selective.trust` and
`.threshold` can be applied to these texts. Each fold is scored with the values that are best on the
other folds, so that no text influences its own score.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from absa import statistics
from absa.ablate.configurations import AblationError
from absa.metrics.evaluation import records
from absa.nodes.language import Language, language
from absa.nodes.thresholds import TOLERANCE
from absa.runs.artefacts import write_json
from absa.runs.directory import RunDirectory
from absa.schemas.output import FinalOutput
from absa.schemas.settings import Settings
from absa.statistics import Floats

CONFIG = "fitted.yaml"
NUMBERS = "fit.json"
FOLDS = 5
FEWEST = 20
TRUSTS = [round(0.05 * n, 2) for n in range(20)]
THRESHOLDS = [round(0.25 + 0.05 * n, 2) for n in range(9)]
Values = tuple[float, float]


@dataclass(frozen=True)
class _Text:
    """A text with the counts of its result, and the tuples to decide again."""

    uid: str
    decided: tuple[int, int, int]
    """Correct, predicted and gold tuples with a term, without the tuples in `votes`."""
    votes: NDArray[np.float64]
    p: NDArray[np.float64]
    is_gold: NDArray[np.bool_]

    def counts(self, trust: float, threshold: float) -> tuple[float, float]:
        """Numerator and denominator of F1 with these values."""
        right, predicted, gold = self.decided
        kept = (1 - trust) * self.votes + trust * self.p >= threshold - TOLERANCE
        right += int((kept & self.is_gold).sum())
        return 2.0 * right, float(predicted + int(kept.sum()) + gold)


def fit(run: Path, *, seed: int = 0) -> dict[str, Any]:
    """Fit the values on a finished run of `protocol: selective` with gold.

    Raises:
        AblationError: The run has another protocol, or too few contested texts.
        NoRun: It is not a run directory.
    """
    settings = RunDirectory(run).settings
    if settings is None or settings.pipeline.protocol != "selective":
        raise AblationError(
            f"--fit: {run} is not a run of protocol selective; make one on labelled texts: "
            "absa run train.jsonl --config selective --out DIR"
        )
    texts = list(_texts(run))
    contested = sum(text.votes.size > 0 for text in texts)
    if contested < FEWEST:
        raise AblationError(
            f"--fit: {run} has {contested} contested texts with gold, and at least {FEWEST} are "
            "needed"
        )
    own = settings.pipeline.selective
    numbers = {
        (trust, threshold): np.array([t.counts(trust, threshold) for t in texts])
        for trust in TRUSTS
        for threshold in THRESHOLDS
    }
    digests = (hashlib.sha256(text.uid.encode()).digest()[:4] for text in texts)
    folds = np.array([int.from_bytes(digest, "big") % FOLDS for digest in digests])
    chosen, held_out = [], np.zeros((len(texts), 2))
    for fold in range(FOLDS):
        values = _best(numbers, folds != fold)
        chosen.append(values)
        held_out[folds == fold] = numbers[values][folds == fold]
    values = _best(numbers, np.ones(len(texts), bool))
    before = np.array([_as_decided(output) for output in _judged(run)])
    both = np.stack([held_out, before], axis=1)[:, :, None]
    scores, differences = statistics.bootstrap(both, 0, seed=seed)
    return {
        "run": str(run),
        "texts": len(texts),
        "contested": contested,
        "values": {"trust": values[0], "threshold": values[1]},
        "values_of_folds": [{"trust": t, "threshold": h} for t, h in chosen],
        "before": {"trust": own.trust, "threshold": own.threshold, **scores.at(1, 0)},
        "cross_validated": scores.at(0, 0),
        "difference": differences.at(1, 0),
    }


def _best(numbers: Mapping[Values, Floats], among: NDArray[np.bool_]) -> Values:
    """The values with the best F1 on these texts.

    Each value is averaged with its neighbours, because a single peak is probably chance.
    """
    f1 = {values: float(statistics.ratios(n[among].sum(axis=0))) for values, n in numbers.items()}

    def smooth(values: Values) -> float:
        trust, threshold = TRUSTS.index(values[0]), THRESHOLDS.index(values[1])
        near = [
            f1[TRUSTS[a], THRESHOLDS[b]]
            for a in range(trust - 1, trust + 2)
            for b in range(threshold - 1, threshold + 2)
            if 0 <= a < len(TRUSTS) and 0 <= b < len(THRESHOLDS)
        ]
        return f1[values] + sum(near) / len(near)

    return max(f1, key=smooth)


Judged = tuple[FinalOutput, set[tuple[str, str]], Language]


def _judged(run: Path) -> Iterator[Judged]:
    """The outputs with gold, and their gold tuples with a term."""
    for output, card in records(run):
        gold = card["gold"]
        if gold is None or gold["incomplete"] or gold["aspects"] is None:
            continue
        lang = language(output.lang)
        pairs = {(lang.key(a["term"]), a["polarity"]) for a in gold["aspects"] if a.get("term")}
        yield output, pairs, lang


def _pairs(output: FinalOutput, lang: Language) -> set[tuple[str, str]]:
    tuples = output.final_result.final_tuples
    return {(lang.key(t.aspect_term), t.polarity) for t in tuples if t.aspect_term}


def _as_decided(judged: Judged) -> tuple[float, float]:
    output, gold, lang = judged
    pairs = _pairs(output, lang)
    return 2.0 * len(pairs & gold), float(len(pairs) + len(gold))


def _texts(run: Path) -> Iterator[_Text]:
    for output, gold, lang in _judged(run):
        opinion, pairs = output.meta.selective, _pairs(output, lang)
        again = [
            t
            for t in (opinion.tuples if opinion else ())
            # Texts without a disagreement or with only one call are not fitted.
            if opinion and opinion.outcome == "contested" and opinion.reads_language
            if not t.is_implicit and t.aspect_term and output.meta.given_aspects is None
        ]
        keys = [(lang.key(t.aspect_term or ""), t.polarity) for t in again]
        fixed = pairs - set(keys)
        calls = opinion.calls if opinion else 1
        yield _Text(
            uid=output.uid,
            decided=(len(fixed & gold), len(fixed), len(gold)),
            votes=np.array([t.votes / calls for t in again]),
            p=np.array([t.p for t in again]),
            is_gold=np.array([key in gold for key in keys], bool),
        )


def write_fit(out: Path, fitted: Mapping[str, Any], settings: Settings) -> list[Path]:
    """Write the numbers, and a config with the run's settings and the fitted values."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / NUMBERS, dict(fitted))
    selective = settings.pipeline.selective.model_dump(mode="json") | fitted["values"]
    backend = settings.backend.model_dump(mode="json", include={"kind", "model", "base_url"})
    config: dict[str, Any] = {"pipeline": {"protocol": "selective", "selective": selective}}
    if backend["kind"] == "openai":
        config["backend"] = {name: value for name, value in backend.items() if value is not None}
    text = (
        f"# Trust and threshold fitted on {fitted['texts']} texts of {Path(fitted['run']).name}.\n"
    )
    text += yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    (out / CONFIG).write_text(text, encoding="utf-8")
    return [out / NUMBERS, out / CONFIG]


def sentences(fitted: Mapping[str, Any]) -> Sequence[str]:
    """The fit in sentences."""
    values, before, own = fitted["values"], fitted["before"], fitted["cross_validated"]
    gain = fitted["difference"]
    shown = "" if gain["low"] > 0 else "; no gain shown at this size"
    trust = "by the domain" if before["trust"] is None else before["trust"]
    return (
        f"trust {values['trust']}, threshold {values['threshold']} "
        f"(were: trust {trust}, threshold {before['threshold']})",
        f"pair F1 by {FOLDS}-fold cross-validation {100 * own['value']:.1f}, as decided "
        f"{100 * before['value']:.1f}: {100 * gain['value']:+.1f} points, 95 % interval "
        f"{100 * gain['low']:+.1f} to {100 * gain['high']:+.1f}{shown} "
        f"({fitted['texts']} texts, {fitted['contested']} contested)",
    )
