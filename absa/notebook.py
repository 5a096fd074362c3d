"""Results in a notebook: HTML for one, a pandas table for many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absa import outcome, show
from absa.drawing import draw_svg
from absa.export.texts import judged, judged_texts
from absa.export.writers import COLUMNS, rows
from absa.report.markup import Markup, el, join
from absa.runs.directory import RunDirectory
from absa.schemas.errors import InputError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import OverrideSettings

if TYPE_CHECKING:
    import pandas

    from absa.graph import Graph

# Half transparent, for light and dark pages.
_TINTS = {
    "positive": "rgba(46,160,67,.28)",
    "negative": "rgba(229,83,75,.30)",
    "neutral": "rgba(130,140,150,.28)",
    "mixed": "rgba(200,150,30,.30)",
}
_COLUMNS = ("aspect", "polarity", "category", "evidence", "confidence")


def graph_bundle(graph: Graph) -> dict[str, str]:
    """A compiled graph for a notebook: one line of text and the drawing."""
    drawable = graph.get_graph()
    return {
        "text/plain": f"<Graph {graph.name}: {len(drawable.nodes)} nodes>",
        "image/svg+xml": draw_svg(drawable),
    }


def html(output: FinalOutput) -> str:
    """HTML of a result: the marked text, the label, a table, and the outcome of the debate.

    Styles are inline and there is no script, because notebook pages can drop style sheets and
    scripts.
    """
    result = output.final_result
    lines = [
        *(("debate", line) for line in outcome.debate(output, OverrideSettings())),
        *(("reviews", line) for line in outcome.reviews(output)),
    ]
    return el(
        "div",
        el("p", _marked(output), lang=output.lang, style="font-size:1.15em;line-height:1.7"),
        el(
            "p",
            el("b", result.label),
            f" ({result.confidence:.2f}): {outcome.label_reason(output)}",
        ),
        _table(output) if result.final_aspects else None,
        *(el("p", el("b", f"{name}: "), line, style="margin:.2em 0") for name, line in lines),
    )


def _marked(output: FinalOutput) -> Markup:
    """The text: evidence has the colour of its polarity, an aspect is underlined."""
    text = output.text
    styles = [""] * len(text)
    # Aspects come last, so that an aspect inside evidence keeps its own colour.
    for place in sorted(show.places(output), key=lambda place: place.part == "aspect"):
        line = ";border-bottom:2px solid" if place.part == "aspect" else ""
        for at in range(max(place.start, 0), min(place.end, len(text))):
            styles[at] = _style(place.polarity) + line
    pieces = []
    for style, positions in groupby(range(len(text)), key=styles.__getitem__):
        piece = "".join(text[at] for at in positions)
        pieces.append(el("mark", piece, style=style) if style else piece)
    return join(pieces)


def _style(polarity: str) -> str:
    return f"background:{_TINTS.get(polarity, _TINTS['neutral'])};color:inherit"


def _table(output: FinalOutput) -> Markup:
    aspects = output.final_result.final_aspects
    # A column that is empty for all aspects is left out.
    columns = [c for c in _COLUMNS if c != "category" or any(a.category for a in aspects)]
    body = []
    for a in aspects:
        cells = {
            "aspect": a.aspect_term or "(unnamed)",
            "polarity": el("mark", a.polarity, style=f"{_style(a.polarity)};padding:0 .3em"),
            "category": a.category or "",
            "evidence": a.evidence or "",
            "confidence": f"{a.confidence:.2f}",
        }
        body.append(el("tr", [el("td", cells[c], style="text-align:left") for c in columns]))
    head = el("tr", [el("th", c, style="text-align:left") for c in columns])
    return el("table", el("thead", head), el("tbody", body))


def to_frame(results: FinalOutput | Iterable[FinalOutput] | Path | str) -> pandas.DataFrame:
    """A pandas table of one output, of several, of a run directory or of a study.

    One row for each tuple; a text without any has one row without an aspect. The columns are those
    of `absa export --to csv`: uid, text, lang, domain, label, term, from, to, polarity, category,
    opinion, evidence, confidence, implicit, then the columns of the data. For a study the
    first column is the configuration.

    Raises:
        InputError: pandas is not installed.
        NoRun: The path is not a run directory, or the run has no results.
    """
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs the package pandas: pip install pandas") from None
    # Rows before the columns: a column of the data may come late.
    lines = list(_rows(results))
    first = ["configuration"] if lines and "configuration" in lines[0] else []
    columns = dict.fromkeys([*first, *COLUMNS, *(name for line in lines for name in line)])
    return pandas.DataFrame.from_records(lines, columns=list(columns))


def _rows(results: FinalOutput | Iterable[FinalOutput] | Path | str) -> Iterator[dict[str, Any]]:
    if isinstance(results, FinalOutput):
        return rows([judged(results)])
    if isinstance(results, Path | str):
        # These take a second to import, and the HTML of a result needs none of them.
        from absa.report.study_numbers import is_study

        path = Path(results)
        return _rows_of_study(path) if is_study(path) else rows(judged_texts(path))
    return rows(map(judged, results))


def _rows_of_study(path: Path) -> Iterator[dict[str, Any]]:
    from absa.ablate.study import FILE
    from absa.report.study_numbers import configurations_with_runs

    study = RunDirectory(path).document(FILE) or {}
    for name in configurations_with_runs(path, study):
        for line in rows(judged_texts(path / name)):
            yield {"configuration": name, **line}
