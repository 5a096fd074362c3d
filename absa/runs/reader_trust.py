"""How far the second reader is trusted in a run: measured on its first texts, without gold.

The first `selective.sample` texts of each language and domain are analysed under the default trust;
what the model and the analyser said about them gives the trust for all others. The order of the
data decides which texts these are, so the same data give the same trust at any concurrency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pydantic import TypeAdapter

from absa.nodes.language import detect, normalise_code
from absa.nodes.second_opinion import measured_trust
from absa.runs.journal import Journal
from absa.schemas.output import FinalOutput
from absa.schemas.sample import Sample
from absa.schemas.settings import PipelineSettings

Group = tuple[str, str | None]
_NOTED = TypeAdapter(list[tuple[str, str | None, float]])


class ReaderTrust:
    """The texts that the trust is measured on, and what was measured."""

    def __init__(
        self, pipeline: PipelineSettings, samples: Iterable[Sample], journal: Journal, seed: int
    ) -> None:
        """Choose the texts; take over what an earlier start of the run has measured."""
        self._settings = pipeline.selective
        self._journal = journal
        self._seed = seed
        self._key = f"reader_trust {seed}"
        self._chosen: dict[str, Group] = {}
        if not measures_trust(pipeline):
            samples = ()
        counts: Counter[Group] = Counter()
        for sample in samples:
            group = group_of(sample)
            if counts[group] < self._settings.sample:
                counts[group] += 1
                self._chosen[sample.uid] = group
        noted = _NOTED.validate_python(journal.recall(self._key, list) or [])
        self._trust: Mapping[Group, float] = {(lang, domain): t for lang, domain, t in noted}

    def is_measured_on(self, sample: Sample) -> bool:
        """Whether this text is one of those that the trust is measured on."""
        return sample.uid in self._chosen

    def measure(self) -> None:
        """Compute the trust of each group from the finished records of its texts."""
        if not self._chosen or self._trust:
            return
        texts: dict[Group, list[FinalOutput]] = {}
        for uid, line in self._journal.outputs(self._seed, self._chosen):
            texts.setdefault(self._chosen[uid], []).append(FinalOutput.model_validate_json(line))
        measured = {
            group: measured_trust(
                (o.meta.selective.agreement for o in outputs if o.meta.selective), self._settings
            )
            for group, outputs in texts.items()
        }
        self._trust = {group: trust for group, trust in measured.items() if trust is not None}
        noted = [[lang, domain, trust] for (lang, domain), trust in self._trust.items()]
        self._journal.note(self._key, noted)

    def of(self, sample: Sample) -> float | None:
        """The measured trust for a text, None for those that it is measured on."""
        return None if self.is_measured_on(sample) else self._trust.get(group_of(sample))

    def notes(self) -> list[str]:
        """What was measured, for the end of the run."""
        return [
            f"trust in the analyser ({lang}, {domain or 'no domain'}): "
            + (f"{trust:.2f}" if trust < 1 else "1, it decides alone: the model agrees too rarely")
            + f", measured on the first {self._settings.sample} texts"
            for (lang, domain), trust in self._trust.items()
        ]


def measures_trust(pipeline: PipelineSettings) -> bool:
    """Whether a run with these settings measures the trust."""
    selective = pipeline.selective
    return pipeline.protocol == "selective" and selective.trust is None and selective.sample > 0


def group_of(sample: Sample) -> Group:
    """The language and the domain of a text."""
    lang = normalise_code(sample.lang) if sample.lang else detect(sample.text)
    return lang, sample.domain
