"""What a verification says."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, computed_field

COUNTS = "Counts"
JOURNAL = "Journal"
METRICS = "Metrics"
CHECKS = {
    COUNTS: ("every sample once, in every file", "samples"),
    JOURNAL: ("files and manifest are the journal's", "records"),
    "S1": ("decisions follow from the answers", "samples"),
    "S2": ("tuples and aspects agree", "samples"),
    "S3": ("an overruled debate has a reason", "debates"),
    "S4": ("applied corrections are visible", "corrections"),
    "S5": ("aspects and evidence are in the text", "aspects"),
    "S6": ("no gold, key or secret leaked", "calls"),
    METRICS: ("the scores follow from outputs and gold", "files"),
}
"""The checks, what each says, and what it counts."""

NOT_COVERED = (
    "a change that rewrites the files, the journal and the manifest alike: compare the fingerprint "
    "with one that was kept elsewhere (--expect)",
    "whether a model really gave the recorded answers, and how long, how often and at what use of "
    "tokens it was asked: latency_ms, attempts, cached, usage and notes are only compared between "
    "traces, outputs, journal and metrics",
    "the temperature of a single call: it is not in a trace; the setting is compared with the "
    "journal",
    "times and transport: updated_at, timeouts, retries, concurrency, rate limits, names of keys",
    "versions, limit and data.path of the manifest: they describe the last start, and where the "
    "data was (its content is compared by its hash)",
    "columns of the data that travel into the outputs (extra): they are only compared with the "
    "journal",
    "the opinion of an auxiliary classifier (aux_signals): its label and score are not computed "
    "again",
    "decisions of people in reviews.jsonl, reports and other files that are made from a run later",
)
"""What a verification cannot or does not check."""


class Violation(BaseModel):
    """Something that does not hold, and for which sample; no uid if it is about the run."""

    model_config = ConfigDict(frozen=True)
    uid: str | None
    seed: int | None = None
    what: str


class Check(BaseModel):
    """One check: how much was looked at, and what does not hold."""

    name: str
    title: str
    unit: str
    checked: int = 0
    violations: list[Violation] = Field(default_factory=list)


class VerifyReport(BaseModel):
    """What a verification found."""

    directory: str
    run_id: str | None = None
    status: str
    samples: int = 0
    checks: list[Check]
    fingerprint: str | None = None
    """A hash of the journal's records; the same run has the same one for ever."""
    warnings: list[str] = Field(default_factory=list)
    """What could not be checked, though it should be."""
    notes: list[str] = Field(default_factory=list)
    not_covered: tuple[str, ...] = NOT_COVERED

    @computed_field  # type: ignore[prop-decorator]
    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.status == "finished"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether the run is finished and everything holds."""
        return self.finished and not any(check.violations for check in self.checks)

    @property
    def exit_code(self) -> int:
        """0 if everything holds, 1 if not or if the run is unfinished."""
        return 0 if self.ok else 1

    def check(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)
