"""Writes the report: one HTML file with overview, samples, style and script.

The page loads nothing from a network.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from absa.files import replacing
from absa.report import words
from absa.report.gold import compare
from absa.report.markup import Markup, asset, document, el
from absa.report.overview import RunSummary, overview
from absa.report.people import filters
from absa.report.reading import ReportedRun, read_runs
from absa.report.samples import detail, failed_detail, failed_row, index_row
from absa.report.scores import headline
from absa.scorecard import VERSION

CHUNK = 50
"""The number of samples that are compressed together; opening one unpacks them all."""

# `<`, `>` and `&` could end a script element or begin a comment; the two line separators end a
# line in old scripts.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


class Written(NamedTuple):
    """The written report."""

    path: Path
    runs: int
    samples: int
    size: int
    # What could not be read, one line each, and the number of samples missing because of it.
    problems: list[str]
    left_out: int


def write_report(directories: Sequence[Path], path: Path, by: str | None = None) -> Written:
    """Write one HTML file about one run directory or several.

    `by` is the column of the data that the first page of a run without gold compares.

    Raises:
        NoRun: If a directory is not a run.
        StorageError: If the file cannot be written.
    """
    runs = [
        RunSummary(number, directory, headline(directory.metrics), by=by)
        for number, directory in enumerate(read_runs(directories))
    ]
    for run in runs:
        _read_samples(run)
        run.drawing = _drawing(run.directory)
    _note_versions(runs)
    page = _page(runs).encode("utf-8", "replace")
    with replacing(path) as file:
        file.write(page)
    return Written(
        path,
        runs=len(runs),
        samples=sum(len(run.index) for run in runs),
        size=len(page),
        problems=[
            f"{run.directory.path}: {problem}" for run in runs for problem in run.directory.problems
        ],
        left_out=sum(run.directory.left_out for run in runs),
    )


def _read_samples(run: RunSummary) -> None:
    """Count the samples and compress them in chunks, in one pass."""
    stories = _stories(run)
    while chunk := list(islice(stories, CHUNK)):
        run.chunks.append(squeeze(chunk))
    if not run.tally.with_gold:
        for number, key, value in filters(run.insights, run.by):
            run.index[number].setdefault(key, []).append(value)


def _stories(run: RunSummary) -> Iterator[dict[str, Any]]:
    settings = run.directory.override
    for entry in run.directory.entries():
        comparison = compare(entry)
        run.tally.add(entry, comparison)
        run.insights.add(entry.output)
        run.index.append(index_row(entry, comparison))
        yield detail(entry, comparison, settings)
    for error in run.failed:
        run.index.append(failed_row(error))
        yield failed_detail(error)


def _note_versions(runs: Sequence[RunSummary]) -> None:
    """Warn if the runs have scorecards of different versions."""
    latest = max((v for run in runs for v in run.tally.versions), default=VERSION)
    for run in runs:
        if older := sorted(v for v in run.tally.versions if v < latest):
            run.directory.problems.append(
                f"its scorecards have version {older[0]}, others have version {latest}. Version 1 "
                "counts a raised confidence as an override: do not compare override counts"
            )


def _drawing(directory: ReportedRun) -> str | None:
    if directory.settings is None:
        return None
    from absa.api import build_graph
    from absa.drawing import draw_svg
    from absa.schemas.settings import Settings

    # The run's backend does not change the drawing, and may need a key. The copy is not validated,
    # because the protocol `selective` does not allow the default backend.
    settings = Settings().model_copy(update={"pipeline": directory.settings.pipeline})
    return draw_svg(build_graph(settings).get_graph())


# The page ---------------------------------------------------------------------------------------


def _page(runs: Sequence[RunSummary]) -> str:
    # A page in a file cannot import another file: both modules become one.
    shared = re.sub(r"^export ", "", asset("samples.js"), flags=re.MULTILINE)
    script = shared + re.sub(r"^import .*$", "", asset("page.js"), flags=re.MULTILINE)
    body = el(
        "body",
        _top(sum(len(run.index) for run in runs)),
        overview(runs),
        Markup(asset("samples.html")),
        el("script", embed(_about(runs)), type="application/json", id="about"),
        [
            el("script", Markup(text), type="text/plain", id=name)
            for run in runs
            for name, text in _data_blocks(run)
        ],
        el("script", Markup(script), type="module"),
    )
    return document(
        f"absa report: {', '.join(run.name for run in runs)}",
        asset("page.css"),
        body,
        scripts=[script],
        styles=[style for run in runs for style in _STYLE.findall(run.drawing or "")],
    )


def _data_blocks(run: RunSummary) -> Iterator[tuple[str, str]]:
    yield f"index-{run.number}", squeeze(run.index)
    for place, chunk in enumerate(run.chunks):
        yield f"chunk-{run.number}-{place}", chunk


def squeeze(value: object) -> str:
    """JSON as base64 of gzip, in which no character has a meaning in HTML."""
    # Without the time, equal runs give equal reports.
    data = gzip.compress(_json(value).encode("utf-8", "replace"), 9, mtime=0)
    return base64.b64encode(data).decode()


def embed(value: object) -> Markup:
    """JSON for a script element, with escapes for the characters that could end the element."""
    return Markup(_json(value).translate(_ESCAPES))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _top(total: int) -> Markup:
    mark = el(
        "svg",
        el("path", class_="bubble", d="M3 4h12a2 2 0 0 1 2 2v6a2 2 0 0 1-2 2H8l-4 3v-3H3z"),
        el("path", class_="bubble other", d="M19 9h2v9h-1v3l-4-3H9v-2h8a2 2 0 0 0 2-2z"),
        viewBox="0 0 24 24",
        aria_hidden="true",
    )
    return el(
        "header",
        el("a", "Skip to the content", href="#/", class_="skip", id="skip"),
        el("a", mark, el("span", "absa report"), href="#/", class_="brand"),
        el(
            "nav",
            el("a", "Overview", href="#/", data_to="home"),
            el("a", "Samples", el("span", f"{total:,}"), href="#/samples", data_to="samples"),
            aria_label="Parts of the report",
        ),
        class_="top",
    )


def _about(runs: Sequence[RunSummary]) -> dict[str, Any]:
    return {
        "chunk": CHUNK,
        "runs": [
            {
                "name": run.name,
                "count": len(run.index),
                "seeds": len(run.directory.manifest.get("seeds") or [0]),
                "steps": words.gate_steps(run.directory.override.allow_drop),
            }
            for run in runs
        ],
        **words.names(),
    }
