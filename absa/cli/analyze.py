"""`absa analyze`: one text, or one a line, with evidence highlighted and decisions explained."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from absa.cli.options import (
    ConfigOption,
    SetOption,
    UsageError,
    WiringOption,
    complain,
    console,
    print_json,
    settings_from,
)
from absa.nodes.morphemes import load_aside

if TYPE_CHECKING:
    from absa.schemas.output import FinalOutput
    from absa.schemas.settings import Settings

HELP = """Analyse a text, or one a line: aspects, evidence, decisions.

Shows each aspect with its polarity and evidence, the label, and what the debate changed and why.

A file or standard input holds one text a line; empty lines are skipped. A text that fails is
reported on stderr and the others go on; the exit code is then 1."""
EPILOG = 'Example: absa analyze "사용감은 좋지만 가격은 비싸요."'


class Given(NamedTuple):
    """A text, and where it stands if it is one of several."""

    text: str
    line: int | None = None
    problem: str | None = None

    def complain(self, message: str) -> None:
        """Say what is wrong with it."""
        complain(message if self.line is None else f"line {self.line}: {message}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("analyze", help=HELP, epilog=EPILOG)(analyze)


def analyze(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="The text; - reads standard input.", show_default=False
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read the texts from a file."),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(
            "--lang", metavar="CODE", help="Language such as ko or en. Default: detected."
        ),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option("--domain", metavar="NAME", help="What is reviewed, such as restaurant."),
    ] = None,
    aspects: Annotated[
        str | None,
        typer.Option(
            "--aspects", metavar="A,B", help="Judge these aspects instead of searching for them."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one FinalOutput a line as JSON, nothing else.")
    ] = False,
    config: ConfigOption = None,
    sets: SetOption = None,
    wiring: WiringOption = None,
) -> None:
    """Analyse what is given and print it."""
    if (text is None) == (file is None):
        raise UsageError("give a TEXT, - for standard input, or --file FILE; one of them")
    if text is not None and any("가" <= letter <= "힣" for letter in text):
        load_aside()
    settings = settings_from(config, sets, wiring)
    known = {
        "lang": lang or None,
        "domain": domain or None,
        "given_aspects": aspects.split(",") if aspects is not None else None,
    }
    if text is not None and text != "-":
        _analyze_argument(text, settings, known, as_json)
        return
    texts = _stdin() if text == "-" or file == "-" else _lines(str(file))
    failed = _analyze_lines(texts, settings, known, as_json)
    if failed:
        raise typer.Exit(1)


def _analyze_argument(text: str, settings: Settings, known: dict[str, Any], as_json: bool) -> None:
    """One text from the command line: if it cannot be analysed as it stands, that is wrong use."""
    from absa.nodes.intake import checked_text
    from absa.schemas.errors import BackendError

    checked_text(text, settings.pipeline.max_text_chars)
    try:
        output = _Analyst(settings, known).analyze(text)
    except BackendError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    _show(output, settings, as_json)


def _analyze_lines(
    texts: Iterator[Given], settings: Settings, known: dict[str, Any], as_json: bool
) -> int:
    """Analyse texts one by one, as they come in; how many failed."""
    from absa.schemas.errors import BackendError, InputError

    analyst: _Analyst | None = None
    failed = 0
    for number, given in enumerate(texts, start=1):
        # Opened with the first text: a mistake in its settings is no failure of a text.
        analyst = analyst or _Analyst(settings, known)
        if given.problem is not None:
            given.complain(given.problem)
            failed += 1
            continue
        try:
            output = analyst.analyze(given.text)
        except (BackendError, InputError) as error:
            given.complain(str(error))
            failed += 1
            continue
        _show(output, settings, as_json, number, given.line)
    if analyst is None:
        raise InputError("there is no text to analyse: the input is empty")
    return failed


class _Analyst:
    """Analyses texts; opens the backend at once, so that its errors come first."""

    def __init__(self, settings: Settings, fields: dict[str, Any]) -> None:
        from absa.api import TextAnalyser
        from absa.backends import open_backend

        self._analyser = TextAnalyser(settings, open_backend(settings.backend))
        self._fields = fields

    def analyze(self, text: str) -> FinalOutput:
        from absa.offline.stopping import stopped_by_interrupt

        with console(stderr=True).status("analysing…"), stopped_by_interrupt():
            return self._analyser.analyze(text, **self._fields)


def _show(
    output: FinalOutput,
    settings: Settings,
    as_json: bool,
    number: int = 1,
    line: int | None = None,
) -> None:
    if as_json:
        print_json(output.model_dump_json())
        return
    from absa.cli.screen import Screen

    out = console()
    if number > 1:
        out.print()
    if line is not None:
        out.print(f"line {line}", style="dim")
    out.print(Screen(output, settings.pipeline.debate_override))


def _lines(path: str) -> Iterator[Given]:
    from absa.data.source import checked_source

    source = checked_source(Path(path))
    for line in source.lines():
        yield Given(line.text, line.number, line.problem)
    if source.cut_short is not None:
        damaged = source.cut_short
        yield Given("", damaged.line, f"{damaged.reason} {damaged.remedy}")


def _stdin() -> Iterator[Given]:
    """The lines of standard input as they come, so that a pipe that stays open is answered."""
    from absa.small_files import bounded_lines

    for number, line in enumerate(bounded_lines(sys.stdin.buffer), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            yield Given("", number, f"not UTF-8 text (byte {error.start} of the line)")
            continue
        if text.strip():
            yield Given(text, number)
