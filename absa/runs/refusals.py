"""Messages why a run directory is rejected or a run ends early, each with a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from absa.database import StorageError
from absa.runs.plan import RunError

GOES_ON = "finished samples are kept; repeat the command to continue"
_SHOWN = 10


class RunMismatch(ValueError):
    """The directory holds another run. A usage error; the message lists the differences."""


def other_run(out: Path, differences: Sequence[str], remedy: str) -> RunMismatch:
    """The error for a directory with a run that differs in these lines."""
    shown = [*differences[:_SHOWN]]
    if len(differences) > _SHOWN:
        shown.append(f"and {len(differences) - _SHOWN} more")
    return RunMismatch(
        "\n  ".join([f"{out} holds another run; it differs in", *shown])
        + f"\ngive another --out, or {remedy}"
    )


def no_journal(out: Path, result: str, journal: str, state: str) -> RunMismatch:
    """The error for results without a usable journal."""
    return RunMismatch(
        f"{out} has {result}, but its {journal} {state}. The results are not changed; "
        f"restore {journal} from a backup, or use another --out"
    )


def not_stored(error: StorageError) -> RunError:
    """The error for a failed read or write. The command can be repeated if the journal exists."""
    return RunError(str(error) if error.is_final else f"{error}; {GOES_ON}")
