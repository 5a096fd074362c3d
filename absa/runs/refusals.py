"""Why a run directory is refused or a run ends early. Each message names one remedy that works."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from absa.database import StorageError
from absa.runs.plan import RunError

GOES_ON = "what is finished is safe, the same command goes on from there"
_SHOWN = 10


class RunMismatch(ValueError):
    """The directory holds another run. Wrong use; the differences are named."""


def other_run(out: Path, differences: Sequence[str], remedy: str) -> RunMismatch:
    """The directory is used by a run that differs in these lines."""
    shown = [*differences[:_SHOWN]]
    if len(differences) > _SHOWN:
        shown.append(f"and {len(differences) - _SHOWN} more")
    return RunMismatch(
        "\n  ".join([f"{out} holds another run; it differs in", *shown])
        + f"\ngive another --out, or {remedy}"
    )


def no_journal(out: Path, result: str, journal: str, state: str) -> RunMismatch:
    """There are results, but nothing that they could be continued or made again from."""
    return RunMismatch(
        f"{out} has {result}, but its {journal} {state}: the results are kept as they are; "
        f"restore {journal} from a copy, or give another --out"
    )


def not_stored(error: StorageError) -> RunError:
    """Something could not be read or written; the same command helps unless the journal is lost."""
    return RunError(str(error) if error.is_final else f"{error}; {GOES_ON}")
