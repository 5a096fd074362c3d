"""A run that is changed afterwards is seen: single values (a sample of them) and planned changes.

All single values: `python -m benchmarks.verify_mutations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from absa.runs.verify import verify
from benchmarks.verify_coordinated import COORDINATED, evaluate_again, score_again
from benchmarks.verify_mutations import (
    LINES,
    SCRIPTS,
    UNIMPORTANT,
    Bench,
    changes_with_journal,
    make_run,
    read_lines,
    single_changes,
    sync_journal,
    write_lines,
)

# Both take a different part of the values in each run of a protocol.
EVERY = 120
EVERY_WITH_JOURNAL = 40
SEEN_AT_LEAST = 0.97


@pytest.fixture(scope="module", params=SCRIPTS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def bench(protocol: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    yield Bench(make_run(tmp_path_factory.mktemp("mutations") / protocol, protocol))


def test_writing_everything_again_without_a_change_passes(bench: Bench) -> None:
    """Else the changes below would be seen by how they are written."""
    for name in LINES:
        write_lines(bench.directory / name, read_lines(bench.directory / name))
    score_again(bench.directory)
    evaluate_again(bench.directory)
    sync_journal(bench.directory)
    report = verify(bench.directory)
    assert report.ok, [c.violations for c in report.checks]
    bench.restore()


def test_single_changes_to_what_matters_are_seen(bench: Bench) -> None:
    important = [c for c in single_changes(bench.directory) if c.reason_to_ignore is None]
    tried = important[::EVERY]
    missed = [str(change) for change in tried if not bench.catches(change)]
    assert len(tried) >= 40
    assert 1 - len(missed) / len(tried) >= SEEN_AT_LEAST, missed


def test_single_changes_are_seen_even_if_the_journal_was_changed_alike(bench: Bench) -> None:
    important = [c for c in changes_with_journal(bench.directory) if c.reason_to_ignore is None]
    tried = important[::EVERY_WITH_JOURNAL]
    missed = [str(change) for change in tried if not bench.catches(change)]
    assert 1 - len(missed) / len(tried) >= SEEN_AT_LEAST, missed


def test_all_coordinated_changes_are_seen(bench: Bench, protocol: str) -> None:
    assert len(COORDINATED) >= 40
    named = [change for change in COORDINATED if protocol in change.protocols]
    assert [change.name for change in named if not bench.catches(change)] == []


def test_what_does_not_matter_is_little_and_has_a_reason(bench: Bench) -> None:
    everything = list(single_changes(bench.directory))
    ignored = [change for change in everything if change.reason_to_ignore is not None]
    assert all(UNIMPORTANT.values())
    assert len(ignored) < 0.01 * len(everything)


def test_a_run_that_was_rewritten_whole_has_another_fingerprint(
    protocol: str, tmp_path: Path
) -> None:
    """The one thing that nothing in the directory can show."""
    first = verify(make_run(tmp_path / "one", protocol))
    other = make_run(tmp_path / "two", protocol, better=True)
    assert verify(other).ok
    assert verify(other, expect=first.fingerprint).exit_code == 1
    assert verify(tmp_path / "one" / "run", expect=first.fingerprint).ok
