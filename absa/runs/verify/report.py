"""The report of a verification."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, computed_field

COUNTS = "Counts"
JOURNAL = "Journal"
METRICS = "Metrics"
CHECKS = {
    COUNTS: ("every sample once, in every file", "samples"),
    JOURNAL: ("files and manifest match the journal", "records"),
    "S1": ("decisions follow from the answers", "samples"),
    "S2": ("tuples and aspects agree", "samples"),
    "S3": ("an overruled debate has an allowed reason", "debates"),
    "S4": ("applied corrections are visible", "corrections"),
    "S5": ("aspects and evidence are in the text", "aspects"),
    "S6": ("no gold, key or secret leaked", "calls"),
    METRICS: ("the scores follow from outputs and gold", "files"),
}
"""The checks: what each verifies, and what it counts."""

NOT_COVERED = (
    "a manipulation of files, journal and manifest together: compare the fingerprint with one "
    "that was kept elsewhere (--expect)",
    "whether a model really gave the recorded answers, with these times, attempts and tokens: "
    "latency_ms, attempts, cached, usage and notes are only compared between traces, outputs, "
    "journal and metrics",
    "the temperature of a single call: it is not in a trace; the setting is compared with the "
    "journal",
    "times and transport: updated_at, timeouts, retries, concurrency, rate limits, names of keys",
    "versions, limit and data.path of the manifest: they describe the last start, and where the "
    "data was (its content is compared by its hash)",
    "columns of the data that are copied to the outputs (extra): they are only compared with the "
    "journal",
    "the opinion of an auxiliary classifier (aux_signals): its label and score are not computed "
    "again",
    "decisions of people in reviews.jsonl, reports and other files that are made from a run later",
)
"""What a verification does not check."""


class Violation(BaseModel):
    """A failed check with its sample; the uid is None if it is about the run."""

    model_config = ConfigDict(frozen=True)
    uid: str | None
    seed: int | None = None
    what: str


class Check(BaseModel):
    """One check: the number of checked items, and the violations."""

    name: str
    title: str
    unit: str
    checked: int = 0
    violations: list[Violation] = Field(default_factory=list)


class VerifyReport(BaseModel):
    """The result of a verification."""

    directory: str
    run_id: str | None = None
    status: str
    samples: int = 0
    checks: list[Check]
    fingerprint: str | None = None
    """A hash of the journal's records. It never changes for the same run."""
    warnings: list[str] = Field(default_factory=list)
    """Checks that should have been made but were not possible."""
    notes: list[str] = Field(default_factory=list)
    not_covered: tuple[str, ...] = NOT_COVERED

    @computed_field  # type: ignore[prop-decorator]
    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
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
