"""Whether the model is too weak beside the second reader: measured on a run's first texts.

The first `selective.sample` texts of each language and domain are analyzed under the default trust.
If the model and the analyzer agree too rarely on them (`is_too_weak`), the trust is 1 for all later
texts: the analyzer decides alone. Gold is not used. The order of the data decides which texts these
are, so the same data give the same trust at any concurrency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pydantic import TypeAdapter

from absa.nodes.language import detect, normalise_code
from absa.nodes.second_opinion import is_too_weak
from absa.runs.journal import Journal
from absa.schemas.output import FinalOutput
from absa.schemas.sample import Sample
from absa.schemas.settings import PipelineSettings

Group = tuple[str, str | None]
_NOTED = TypeAdapter(list[tuple[str, str | None, float]])


class ReaderTrust:
    """The texts that the trust is measured on, and the results."""

    def __init__(
        self, pipeline: PipelineSettings, samples: Iterable[Sample], journal: Journal, seed: int
    ) -> None:
        """Choose the texts; reuse the results of an earlier start of the run."""
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
        noted = journal.recall(self._key, list)
        self._is_measured = noted is not None
        self._trust: Mapping[Group, float] = {
            (lang, domain): trust for lang, domain, trust in _NOTED.validate_python(noted or [])
        }

    def is_measured_on(self, sample: Sample) -> bool:
        """Whether this text is one of those that the trust is measured on."""
        return sample.uid in self._chosen

    def measure(self) -> None:
        """Measure each group on the finished records of its texts, once for the whole run."""
        if not self._chosen or self._is_measured:
            return
        texts: dict[Group, list[FinalOutput]] = {}
        for uid, line in self._journal.outputs(self._seed, self._chosen):
            texts.setdefault(self._chosen[uid], []).append(FinalOutput.model_validate_json(line))
        self._trust = {
            group: 1.0
            for group, outputs in texts.items()
            if is_too_weak(
                (o.meta.selective.agreement for o in outputs if o.meta.selective), self._settings
            )
        }
        noted = [[lang, domain, trust] for (lang, domain), trust in self._trust.items()]
        self._journal.note(self._key, noted)

    def of(self, sample: Sample) -> float | None:
        """The measured trust for a text; None for the texts of the measurement."""
        return None if self.is_measured_on(sample) else self._trust.get(group_of(sample))

    def notes(self) -> list[str]:
        """Notes with the results, for the end of the run."""
        return [
            f"{lang}, {domain or 'no domain'}: the analyzer decides alone, with one model call per "
            f"text, because the model agreed with it too rarely on the first "
            f"{self._settings.sample} texts (pipeline.selective.alone_below)"
            for lang, domain in self._trust
        ]


def measures_trust(pipeline: PipelineSettings) -> bool:
    """Whether a run with these settings measures the trust."""
    selective = pipeline.selective
    return pipeline.protocol == "selective" and selective.trust is None and selective.sample > 0


def group_of(sample: Sample) -> Group:
    """The language and the domain of a text."""
    lang = normalise_code(sample.lang) if sample.lang else detect(sample.text)
    return lang, sample.domain
