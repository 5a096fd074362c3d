"""`absa train --from-run` on recorded answers: what an analyzer learns from a model's answers.

    python -m benchmarks.distill DATA [--teachers gemma3_27b.k50 gemma3_4b.k50] [--folds 3]

DATA is the folder of `benchmarks.second_opinion`. Of each set a part is kept out; the answers of a
teacher to the other parts label the training texts, and no gold does. Every part is kept out once.
The score is strict pair F1 of explicit tuples on the parts that were kept out:

- `shipped`: the analyzer as it is.
- a teacher's protocol and the least certainty of a text (0: every text), such as `selective 0.6`;
  in brackets how many texts were sure enough.
- `gold`: trained on gold, what annotating the same texts by hand would bring.
- `teacher`: the teacher's own answers under `selective`, at its price.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from absa.backends.replay import ReplayBackend
from absa.backends.second_reader import WithSecondReader
from absa.data import read_samples
from absa.graph import wiring
from absa.nodes.language import detect, language
from absa.offline.analysis import Analyser
from absa.offline.models.loading import Models
from absa.offline.training import own_data
from absa.offline.training.decision import TooLittleData
from absa.offline.training.teacher import as_sample, is_sure
from absa.schemas.output import FinalOutput
from absa.schemas.sample import Sample
from absa.schemas.settings import BackendSettings, PipelineSettings, VoteSettings

PROTOCOLS = {
    "vote": PipelineSettings(protocol="vote", vote=VoteSettings(n=5)),
    "selective": PipelineSettings(protocol="selective"),
}
LABELS = (("vote", 0.0), ("vote", 0.8), ("selective", 0.6))
Pairs = set[tuple[str, str]]


class Counts(NamedTuple):
    """Right, predicted and gold tuples."""

    right: int = 0
    predicted: int = 0
    gold: int = 0

    def plus(self, found: Pairs, gold: Pairs) -> Counts:
        """With another text."""
        return Counts(
            self.right + len(found & gold), self.predicted + len(found), self.gold + len(gold)
        )

    @property
    def f1(self) -> float:
        """In per cent."""
        both = self.predicted + self.gold
        return 200 * self.right / both if both else 0.0


def answered(path: Path, samples: Sequence[Sample], protocol: str) -> list[FinalOutput]:
    """The outputs of a protocol over recorded answers."""
    backend = WithSecondReader(
        ReplayBackend(str(path)), BackendSettings(kind="replay", path=str(path))
    )
    graph = wiring(PROTOCOLS[protocol]).direct(backend)
    return [
        graph.invoke({"text": s.text, "uid": s.uid, "lang": s.lang, "domain": s.domain})["output"]
        for s in samples
    ]


def gold_pairs(sample: Sample) -> Pairs:
    """The explicit gold tuples."""
    key = language(sample.lang or detect(sample.text)).key
    return {(key(a.term or ""), a.polarity) for a in sample.aspects or () if not a.implicit}


def found_by(analyser: Analyser, samples: Sequence[Sample], counts: Counts) -> Counts:
    """The counts with an analyzer's tuples of these texts."""
    for s in samples:
        lang = s.lang or detect(s.text)
        found = analyser(s.text, lang, s.domain).findings
        key = language(lang).key
        pairs = {(key(f.aspect.term), f.clause_reading.polarity) for f in found}
        counts = counts.plus(pairs, gold_pairs(s))
    return counts


def trained(samples: Sequence[Sample]) -> Analyser | None:
    """An analyzer trained on these texts; None if they are too few."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            own_data.train(own_data.read(samples), Path(folder))
        except TooLittleData:
            return None
        return Analyser(Models(folder))


def rows(data: Path, name: str, teachers: Sequence[str], folds: int) -> Iterator[str]:
    """The table of one set."""
    samples = [s for s in read_samples(data / f"{name}.jsonl") if isinstance(s, Sample)]
    parts = [samples[fold::folds] for fold in range(folds)]
    shipped, by_hand = Counts(), Counts()
    for part in parts:
        unseen = {s.uid for s in part}
        shipped = found_by(Analyser(), part, shipped)
        gold = trained([s for s in samples if s.uid not in unseen])
        by_hand = found_by(gold or Analyser(), part, by_hand)
    for teacher in teachers:
        path = next(iter(data.glob(f"{name}.{teacher}.jsonl*")))
        outputs = {p: answered(path, samples, p) for p in PROTOCOLS}
        cells = [name, teacher, f"{shipped.f1:.1f}"]
        for protocol, least in LABELS:
            labelled = [
                as_sample(o, s.domain)
                for o, s in zip(outputs[protocol], samples, strict=True)
                if is_sure(o, least)
            ]
            counts = Counts()
            for part in parts:
                unseen = {s.uid for s in part}
                analyser = trained([s for s in labelled if s.uid not in unseen])
                counts = found_by(analyser or Analyser(), part, counts)
            cells.append(f"{counts.f1:.1f} ({len(labelled)})")
        own = Counts()
        for output, s in zip(outputs["selective"], samples, strict=True):
            key = language(output.lang).key
            found = {
                (key(a.name), a.polarity)
                for a in output.final_result.final_aspects
                if not a.is_implicit
            }
            own = own.plus(found, gold_pairs(s))
        yield f"| {' | '.join([*cells, f'{by_hand.f1:.1f} ({len(samples)})', f'{own.f1:.1f}'])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="folder with data files and recorded answers")
    parser.add_argument("--sets", nargs="+", help="data files by stem; default: all")
    parser.add_argument("--teachers", nargs="+", default=["gemma3_27b.k50", "gemma3_4b.k50"])
    parser.add_argument("--folds", type=int, default=3)
    args = parser.parse_args()
    names = args.sets or sorted(p.stem for p in args.data.glob("*.jsonl") if "." not in p.stem)
    labels = [f"{protocol} {least:g}" for protocol, least in LABELS]
    head = ["set", "teacher", "shipped", *labels, "gold", "teacher itself"]
    print(f"| {' | '.join(head)} |")
    print(f"|---|---|{'---:|' * (len(head) - 2)}")
    for name in names:
        for row in rows(args.data, name, args.teachers, args.folds):
            print(row, flush=True)


if __name__ == "__main__":
    main()
