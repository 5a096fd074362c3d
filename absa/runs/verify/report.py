"""What a verification says."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, computed_field

COUNTS = "Counts"
CHECKS = {
    COUNTS: ("every sample once, in every file", "samples"),
    "S1": ("decisions follow from the answers", "samples"),
    "S2": ("tuples and aspects agree", "samples"),
    "S3": ("an overruled debate has a reason", "debates"),
    "S4": ("applied corrections are visible", "corrections"),
    "S5": ("aspects and evidence are in the text", "aspects"),
    "S6": ("no gold, key or secret leaked", "calls"),
}
"""The checks, what each says, and what it counts."""


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
    notes: list[str] = Field(default_factory=list)

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
