"""The file: overview, samples, style and script in one page that asks nobody for anything."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from absa.files import replacing
from absa.report import words
from absa.report.gold import compare
from absa.report.markup import Markup, el
from absa.report.overview import Shown, overview
from absa.report.people import filters
from absa.report.reading import ReportedRun, read_runs
from absa.report.samples import detail, failed_detail, failed_row, index_row
from absa.report.scores import headline
from absa.schemas.verdicts import CONFIRMS, OVERRIDES, SKIPS
from absa.scorecard import VERSION

CHUNK = 50
"""So many samples are unpacked together when one of them is opened."""

# `<`, `>` and `&` could end a script element or begin a comment; the two line separators end a
# line in old scripts.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


class Written(NamedTuple):
    """What was written."""

    path: Path
    runs: int
    samples: int
    size: int
    # What could not be read, a line each, and how many samples are missing because of it.
    problems: list[str]
    left_out: int


@dataclass(frozen=True)
class _Packed:
    """The samples of one run, ready for the page."""

    index: list[dict[str, Any]]
    chunks: list[str]


def write_report(directories: Sequence[Path], path: Path, by: str | None = None) -> Written:
    """Write one HTML file about one run directory or several.

    `by` is the column of the data that the first page of a run without gold compares.

    Raises:
        NoRun: If a directory is not a run.
        StorageError: If the file cannot be written.
    """
    runs = [
        Shown(number, directory, headline(directory.metrics), by=by)
        for number, directory in enumerate(read_runs(directories))
    ]
    packed = [_pack(run) for run in runs]
    _note_versions(runs)
    for run in runs:
        run.drawing = _drawing(run.directory)
    page = _page(runs, packed).encode("utf-8", "replace")
    with replacing(path) as file:
        file.write(page)
    return Written(
        path,
        runs=len(runs),
        samples=sum(len(p.index) for p in packed),
        size=len(page),
        problems=[
            f"{run.directory.path}: {what}" for run in runs for what in run.directory.problems
        ],
        left_out=sum(run.directory.left_out for run in runs),
    )


def _note_versions(runs: Sequence[Shown]) -> None:
    """Warn where scorecards of several versions stand side by side."""
    latest = max((v for run in runs for v in run.tally.versions), default=VERSION)
    for run in runs:
        if older := sorted(v for v in run.tally.versions if v < latest):
            run.directory.problems.append(
                f"its scorecards are of version {older[0]} and others of version {latest}: version "
                "1 counts a raised confidence as an override, so override counts do not compare"
            )


def _pack(run: Shown) -> _Packed:
    """Go through the samples once: count them and put them into chunks."""
    index: list[dict[str, Any]] = []
    chunks = list(_chunks(_stories(run, index)))
    if not run.tally.with_gold:
        for number, code in filters(run.insights):
            index[number].setdefault("k", []).append(code)
    return _Packed(index, chunks)


def _stories(run: Shown, index: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    settings = run.directory.override
    for entry in run.directory.entries():
        comparison = compare(entry)
        run.tally.add(entry, comparison)
        run.insights.add(entry.output)
        index.append(index_row(entry, comparison))
        yield detail(entry, comparison, settings)
    for error in run.directory.errors:
        if error.get("uid") is not None:
            index.append(failed_row(error))
            yield failed_detail(error)


def _chunks(stories: Iterable[dict[str, Any]]) -> Iterator[str]:
    chunk = []
    for story in stories:
        chunk.append(story)
        if len(chunk) == CHUNK:
            yield squeeze(chunk)
            chunk = []
    if chunk:
        yield squeeze(chunk)


def squeeze(value: object) -> str:
    """A JSON value as base64 of gzip, which has no character that means anything in HTML."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # The time is left out so that equal runs give equal reports.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode()


def embed(value: object) -> Markup:
    """A JSON value as text that a script element cannot be left with."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPES))


def _drawing(directory: ReportedRun) -> str | None:
    if directory.settings is None:
        return None
    from absa.api import build_graph
    from absa.graph.drawing import draw_svg
    from absa.schemas.settings import BackendSettings, Settings

    # Who answers does not change the drawing, and a backend may want a key.
    settings = Settings(pipeline=directory.settings.pipeline, backend=BackendSettings())
    return draw_svg(build_graph(settings).get_graph())


def asset(name: str) -> str:
    """A file of this package."""
    return (files("absa.report") / name).read_text(encoding="utf-8")


def _script() -> str:
    """Both modules as one: a page in a file cannot import another file."""
    shared = re.sub(r"^export ", "", asset("samples.js"), flags=re.MULTILINE)
    own = re.sub(r"^import .*$", "", asset("page.js"), flags=re.MULTILINE)
    return f"{shared}{own}"


def policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """A policy that lets nothing run but these scripts, and lets nothing be loaded at all.

    Trusted types make every sink that parses markup throw, also for the page's own script.
    """
    allowed = {"script-src": scripts, "style-src": styles}
    hashes = {
        name: " ".join(dict.fromkeys(map(_hash, texts))) or "'none'"
        for name, texts in allowed.items()
    }
    return "; ".join(
        [
            "default-src 'none'",
            *(f"{name} {digest}" for name, digest in hashes.items()),
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(runs: Sequence[Shown], packed: Sequence[_Packed]) -> str:
    style, script = asset("page.css"), _script()
    names = ", ".join(run.name for run in runs)
    drawings = [run.drawing for run in runs if run.drawing]
    styles = [style, *(rule for drawing in drawings for rule in _STYLE.findall(drawing))]
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el(
            "meta",
            http_equiv="Content-Security-Policy",
            content=policy([script], styles),
        ),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", f"absa report: {names}"),
        el("style", Markup(style)),
    )
    blocks = [
        el("script", Markup(text), type="text/plain", id=name)
        for name, text in _data_blocks(packed)
    ]
    total = sum(len(p.index) for p in packed)
    body = el(
        "body",
        _top(total),
        overview(runs),
        Markup(asset("samples.html")),
        el("script", embed(_about(runs, packed)), type="application/json", id="about"),
        blocks,
        el("script", Markup(script), type="module"),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _data_blocks(packed: Sequence[_Packed]) -> Iterator[tuple[str, str]]:
    for number, run in enumerate(packed):
        yield f"index-{number}", squeeze(run.index)
        for place, chunk in enumerate(run.chunks):
            yield f"chunk-{number}-{place}", chunk


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


def _about(runs: Sequence[Shown], packed: Sequence[_Packed]) -> dict[str, Any]:
    adoption = {key for run in runs for key in run.tally.adoption}
    return {
        "chunk": CHUNK,
        "runs": [
            {
                "name": run.name,
                "count": len(data.index),
                "seeds": len(run.directory.manifest.get("seeds") or [0]),
                "steps": words.gate_steps(run.directory.override.allow_drop),
            }
            for run, data in zip(runs, packed, strict=True)
        ],
        "gate": words.GATE,
        "gate_order": [*OVERRIDES, *CONFIRMS, *SKIPS],
        "adopt": {f"{d}:{r}": words.adoption_name(d, r) for d, r in sorted(adoption)},
        "outcomes": words.OUTCOMES,
    }
