"""`protocol: selective` on recorded answers: what it reaches, and the choice of its defaults.

    python -m benchmarks.second_opinion DATA [--out table.json]

DATA holds data files with gold (`SET.jsonl`) and recorded joint answers of several turns
(`SET.MODEL.kN.jsonl`, perhaps gzip-compressed: node `extract`, N demos). Each cell (set, model,
demos) is decided with each turn as the first call; scores are means over these rotations:

- `single`: the first call; `vote`: all recorded calls; `analyser`: no call.
- `equal`: a vote of as many calls as `selective` made on average.
- `shipped`: `selective` as it is shipped, measured trust included (`selective.sample`).
- `left out`: `selective` with the trust and the threshold that are best on the other sets, so that
  a set's gold has no say in its own score. Trust is a factor times the analyzer's expected F1 on
  the set, which its probabilities tell without gold.

The score is strict pair F1 of explicit tuples; intervals are paired bootstraps.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, floor
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from absa.backends.offline import OfflineBackend
from absa.data import read_samples
from absa.nodes.language import detect, language
from absa.nodes.polarity import PolarityCounter
from absa.nodes.second_opinion import DEFAULT_TRUST, explicit, is_too_weak, seen_by
from absa.nodes.second_reader import second_reader
from absa.nodes.thresholds import TOLERANCE
from absa.nodes.vote import forms_of, read_extraction
from absa.schemas.answers import ExtractAnswer, SecondReaderAnswer, read_answer
from absa.schemas.records import Agreement
from absa.schemas.sample import Sample
from absa.schemas.settings import PipelineSettings
from absa.schemas.state import State

CELL = re.compile(r"(?P<data>.+?)\.(?P<model>.+)\.k(?P<demos>\d+)\.jsonl(\.gz)?")
PIPELINE = PipelineSettings(protocol="selective")
SHIPPED = PIPELINE.selective
FACTORS = (0.6, 0.7, 0.8, 0.9, 1.0)
THRESHOLDS = (0.35, 0.4, 0.45)
ALONE_BELOW = (0.0, 0.7)

Counts = NDArray[np.float64]
"""Right, predicted and gold tuples; per text, or summed."""
Bools = NDArray[np.bool_]


@dataclass
class Text:
    """The explicit tuples of one text that a call or the analyzer sees, a row each."""

    calls: Bools  # tuples x turns
    p: NDArray[np.float64]
    reported: Bools
    is_gold: Bools
    gold: int

    def counts(self, kept: Bools) -> tuple[int, int, int]:
        """What is right, predicted and gold if these are kept."""
        return int((kept & self.is_gold).sum()), int(kept.sum()), self.gold

    def votes(self, turn: int, size: int) -> NDArray[np.float64]:
        """The share of a number of calls, from this turn on, that has each tuple."""
        turns = np.arange(turn, turn + size) % self.calls.shape[1]
        share: NDArray[np.float64] = self.calls[:, turns].mean(axis=1)
        return share

    def agreement(self, turn: int) -> Agreement:
        """The call of a turn beside the analyzer."""
        first = self.calls[:, turn]
        return Agreement(
            matched=int((first & self.reported).sum()),
            called=int(first.sum()),
            reported=int(self.reported.sum()),
            p_reported=float(self.p[self.reported].sum()),
            p_seen=float(self.p.sum()),
        )


class Cell(NamedTuple):
    """The recorded answers of one model, with a number of demos, to one set."""

    data: str
    model: str
    demos: int
    knows_domain: bool
    texts: Sequence[Text]

    @property
    def turns(self) -> range:
        """The recorded turns."""
        return range(self.texts[0].calls.shape[1])

    @property
    def expected(self) -> float:
        """The F1 that the analyzer expects of itself, from its probabilities."""
        every = [t.agreement(0) for t in self.texts]
        reported = sum(a.reported for a in every) + sum(a.p_seen for a in every)
        return 2 * sum(a.p_reported for a in every) / reported if reported else 0.0


class Choice(NamedTuple):
    """What decides a contested text."""

    trust: float
    threshold: float
    alone_below: float


def read_cells(folder: Path) -> Iterator[Cell]:
    """All cells of a folder, set by set."""
    backend = OfflineBackend()
    files = sorted(p for p in folder.iterdir() if CELL.fullmatch(p.name))
    for data in sorted({str(CELL.fullmatch(p.name)["data"]) for p in files}):  # type: ignore[index]
        samples = [s for s in read_samples(folder / f"{data}.jsonl") if isinstance(s, Sample)]
        readers = {s.uid: _reader(backend, s) for s in samples}
        for path in files:
            name = CELL.fullmatch(path.name)
            assert name is not None
            if name["data"] != data:
                continue
            answers = _answers(path)
            texts = [_text(s, readers[s.uid], answers[s.uid]) for s in samples]
            knows = any(r.knows_domain for r in readers.values())
            yield Cell(data, name["model"], int(name["demos"]), knows, texts)


def _reader(backend: OfflineBackend, sample: Sample) -> SecondReaderAnswer:
    state: State = {
        "text": sample.text,
        "uid": sample.uid,
        "lang": sample.lang or detect(sample.text),
        "domain": sample.domain,
        "demos": [],
        "given_aspects": None,
    }
    reply = backend.ask(second_reader.question(state, PIPELINE))
    return read_answer(SecondReaderAnswer, reply.output)[0]


def _answers(path: Path) -> dict[str, dict[int, Any]]:
    found: dict[str, dict[int, Any]] = {}
    opened: Any = gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as lines:
        for record in map(json.loads, lines):
            found.setdefault(record["uid"], {})[record["turn"]] = record["output"]
    return found


def _text(sample: Sample, reader: SecondReaderAnswer, answers: Mapping[int, Any]) -> Text:
    lang, text = language(sample.lang or detect(sample.text)), sample.text
    calls = []
    for turn in sorted(answers):
        answer = read_answer(ExtractAnswer, answers[turn])[0]
        result = read_extraction(answer, text, lang, PolarityCounter())
        calls.append(explicit(forms_of(result, text, lang)).keys())
    seen = seen_by(reader, text, lang)
    # No category set is in force.
    gold = {
        (lang.key(a.term or ""), None, a.polarity) for a in sample.aspects or () if not a.implicit
    }
    pairs = list(seen.keys() | set().union(*calls))
    return Text(
        calls=np.array([[pair in call for call in calls] for pair in pairs], bool).reshape(
            len(pairs), len(calls)
        ),
        p=np.array([seen[pair].probability if pair in seen else 0.0 for pair in pairs]),
        reported=np.array([pair in seen and seen[pair].reported for pair in pairs], bool),
        is_gold=np.array([pair in gold for pair in pairs], bool),
        gold=len(gold),
    )


# Deciding ----------------------------------------------------------------------------------------


def selective(cell: Cell, choice: Choice) -> tuple[Counts, float]:
    """Counts per text, and the mean number of calls."""
    found, calls = [], 0
    size = 1 + SHIPPED.extra_calls
    settings = SHIPPED.model_copy(update={"alone_below": choice.alone_below})
    for turn in cell.turns:
        first = [t.agreement(turn) for t in cell.texts[: SHIPPED.sample]]
        weak = choice.alone_below > 0 and is_too_weak(first, settings)
        rows = []
        for number, text in enumerate(cell.texts):
            own = text.calls[:, turn]
            # The texts that the trust is measured on are decided under the trust of before.
            alone = weak and number >= SHIPPED.sample
            if (own == text.reported).all():
                kept = own
            elif alone:
                kept = text.p >= choice.threshold - TOLERANCE
            else:
                score = (1 - choice.trust) * text.votes(turn, size) + choice.trust * text.p
                kept = score >= choice.threshold - TOLERANCE
                calls += SHIPPED.extra_calls
            calls += 1
            rows.append(text.counts(kept))
        found.append(rows)
    return np.mean(found, axis=0), calls / len(cell.turns) / len(cell.texts)


def vote(cell: Cell, size: int) -> Counts:
    """Counts per text of a vote of a number of calls."""
    least = PIPELINE.vote.threshold - TOLERANCE
    return np.mean(
        [[t.counts(t.votes(turn, size) >= least) for t in cell.texts] for turn in cell.turns],
        axis=0,
    )


def vote_of_mean(cell: Cell, calls: float) -> Counts:
    """Counts of a vote of a broken number of calls: shares of the two votes beside it."""
    share = calls - floor(calls)
    return (1 - share) * vote(cell, floor(calls)) + share * vote(cell, ceil(calls))


def analyser(cell: Cell) -> Counts:
    """Counts per text of the analyzer alone."""
    return np.array([t.counts(t.reported) for t in cell.texts], float)


def f1(counts: Counts) -> float:
    """Strict F1 in per cent, of counts per text."""
    right, predicted, gold = counts.sum(axis=0)
    return float(200 * right / (predicted + gold)) if predicted + gold else 0.0


def interval(one: Counts, other: Counts, resamples: int = 2_000) -> tuple[float, float]:
    """The 95 % interval of a difference of F1, by paired bootstrap over texts."""
    rng = np.random.default_rng(0)
    weights = rng.multinomial(len(one), np.full(len(one), 1 / len(one)), resamples)

    def scores(counts: Counts) -> NDArray[np.float64]:
        right, predicted, gold = (weights @ counts).T
        score: NDArray[np.float64] = 200 * right / np.maximum(predicted + gold, 1)
        return score

    low, high = np.percentile(scores(one) - scores(other), [2.5, 97.5])
    return float(low), float(high)


# Choosing ----------------------------------------------------------------------------------------


def shipped(cell: Cell) -> Choice:
    """What a user gets."""
    return Choice(DEFAULT_TRUST[cell.knows_domain], SHIPPED.threshold, SHIPPED.alone_below)


def scaled(cell: Cell, factor: float, threshold: float, alone_below: float) -> Choice:
    """Trust that follows from what the analyzer expects of itself on this set."""
    return Choice(min(1.0, factor * cell.expected), threshold, alone_below)


def best(cells: Sequence[Cell]) -> tuple[float, float, float]:
    """The factor, threshold and `alone_below` with the best mean F1 over these cells."""
    return max(
        product(FACTORS, THRESHOLDS, ALONE_BELOW),
        key=lambda chosen: fmean(f1(selective(c, scaled(c, *chosen))[0]) for c in cells),
    )


# The table ---------------------------------------------------------------------------------------


def rows(cells: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    """A row for each cell."""
    for data in dict.fromkeys(c.data for c in cells):
        chosen = best([c for c in cells if c.data != data])
        for cell in (c for c in cells if c.data == data):
            most = len(cell.turns)
            whole, alone = vote(cell, most), analyser(cell)
            row: dict[str, Any] = {
                "set": data,
                "model": cell.model,
                "demos": cell.demos,
                "single": f1(vote(cell, 1)),
                "vote": f1(whole),
                "vote_calls": most,
                "analyser": f1(alone),
            }
            for name, choice in (
                ("shipped", shipped(cell)),
                ("left_out", scaled(cell, *chosen)),
            ):
                counts, calls = selective(cell, choice)
                equal = vote_of_mean(cell, calls)
                row[name] = {
                    **choice._asdict(),
                    "f1": f1(counts),
                    "calls": calls,
                    "equal": f1(equal),
                    "less_vote": f1(counts) - f1(whole),
                    "less_vote_interval": interval(counts, whole),
                    "less_equal_interval": interval(counts, equal),
                    "less_analyser": f1(counts) - f1(alone),
                    "less_analyser_interval": interval(counts, alone),
                }
            yield row


def table(found: Sequence[Mapping[str, Any]], which: str) -> Iterator[str]:
    """The rows as Markdown."""
    yield f"`{which}`: trust, threshold and when the analyzer decides alone"
    yield ""
    yield (
        "| set | model | demos | single | vote of 5 | analyzer | selective | calls | equal vote "
        "| less vote of 5 | less analyzer |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---|---|"
    for row in found:
        own = row[which]
        cells = (
            *(row["set"], row["model"], str(row["demos"])),
            *(f"{row[name]:.1f}" for name in ("single", "vote", "analyser")),
            *(f"{own['f1']:.1f}", f"{own['calls']:.1f}", f"{own['equal']:.1f}"),
            *(
                _moved(own[f"less_{name}"], own[f"less_{name}_interval"])
                for name in ("vote", "analyser")
            ),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from means(found, which)


def _moved(value: float, limits: Iterable[float]) -> str:
    low, high = limits
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"


def means(found: Sequence[Mapping[str, Any]], which: str) -> Iterator[str]:
    """Means over the numbers of demos."""
    yield "| set | model | calls | less vote of 5 | less a vote of equal calls | less analyzer |"
    yield "|---|---|---:|---:|---:|---:|"
    for data, model in dict.fromkeys((r["set"], r["model"]) for r in found):
        mine = [r for r in found if (r["set"], r["model"]) == (data, model)]
        calls = fmean(r[which]["calls"] for r in mine)
        less = [
            fmean(r[which]["f1"] - other for r, other in zip(mine, others, strict=True))
            for others in (
                [r["vote"] for r in mine],
                [r[which]["equal"] for r in mine],
                [r["analyser"] for r in mine],
            )
        ]
        cells = (data, model, f"{calls:.1f}", *(f"{value:+.1f}" for value in less))
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="folder with data files and recorded answers")
    parser.add_argument("--out", type=Path, help="write all numbers as JSON")
    args = parser.parse_args()
    found = list(rows(list(read_cells(args.data))))
    for which in ("shipped", "left_out"):
        print("\n".join(table(found, which)), end="\n\n")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
