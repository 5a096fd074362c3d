"""`absa analyze`: analyze texts from the command line, a file, or as they are typed."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from absa.cli import options
from absa.cli.options import UsageError, complain, console, print_json, print_text, settings_from
from absa.nodes.morphemes import load_in_child_process

if TYPE_CHECKING:
    from absa.api import TextAnalyser
    from absa.schemas.output import FinalOutput
    from absa.schemas.settings import Settings


class Line(NamedTuple):
    """A text of the input with its number, and the problem if it cannot be read."""

    text: str
    number: int
    problem: str | None = None
    unit: str = "line"

    @property
    def name(self) -> str:
        """For example: line 3."""
        return f"{self.unit} {self.number}"

    def complain(self, message: str) -> None:
        """Report a problem on stderr."""
        complain(f"{self.name}: {message}")


#: An argument of more bytes is a text, not the name of a file.
_LONGEST_NAME = 255


def analyze(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT…]", help="The texts; - reads standard input."),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the texts from a file.")
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", "-i", help="Ask for texts; models stay loaded."),
    ] = False,
    lang: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Language such as ko or en. Default: detected."),
    ] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="NAME", help="What is reviewed, such as restaurant.")
    ] = None,
    aspects: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Judge these aspects instead of searching for them. An aspect that the text does "
            "not mention is given as neutral, implicit.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each result as one line of JSON (FinalOutput).")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Also show what the override gate refused, why Stage 2 was adopted, and the "
            "Moderator's rules, with their numbers.",
        ),
    ] = False,
    config: options.Config = None,
    sets: options.Set = None,
    wiring: options.Wiring = None,
    demos: options.Demos = None,
) -> None:
    """Analyze texts, a file of texts, or what you type (-i).

    Shows each aspect with its polarity and evidence, the label of the text, and what the debate
    changed and why.

    In a file or on standard input, empty lines are skipped. A text fails if it cannot be read or
    an agent gives no usable answer: it is reported on stderr, the remaining texts are still
    analyzed, and the exit code is 1. A text in a language that the offline analyzer does not read
    is reported on stderr, too, but is not a failure.
    """
    texts = texts or []
    if (bool(texts), file is not None, interactive).count(True) != 1 or (
        "-" in texts and len(texts) > 1
    ):
        raise UsageError(
            "give exactly one of: TEXT, - (standard input), --file FILE, --interactive"
        )
    if interactive and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--interactive needs a terminal; - reads texts from standard input")
    if any("가" <= letter <= "힣" for text in texts for letter in text):
        load_in_child_process()
    settings = settings_from(config, sets, wiring, demos)
    fields = {
        "lang": lang or None,
        "domain": domain or None,
        "given_aspects": aspects.split(",") if aspects is not None else None,
    }
    analyzer = _Analyzer(settings, fields)
    screen = _Printer(analyzer, as_json, verbose)
    if interactive:
        _ask_for_texts(analyzer, screen)
    elif len(texts) == 1 and texts != ["-"]:
        _analyze_argument(texts[0], analyzer, screen)
    elif _analyze_lines(_input(texts, file), analyzer, screen):
        raise typer.Exit(1)


def _input(texts: list[str], file: str | None) -> Iterator[Line]:
    if texts == ["-"] or file == "-":
        return _stdin()
    if file is not None:
        return _lines(file)
    return (Line(text, number, unit="text") for number, text in enumerate(texts, start=1))


def _analyze_argument(text: str, analyzer: _Analyzer, screen: _Printer) -> None:
    """Analyze one text from the command line. For an invalid text the exit code is 2."""
    from absa.nodes.intake import checked_text
    from absa.schemas.errors import BackendError

    checked_text(text, analyzer.settings.pipeline.max_text_chars)
    try:
        output, seconds = analyzer.analyze(text)
    except BackendError as error:
        complain(str(error))
        raise typer.Exit(1) from None
    screen.show(output, seconds)
    _hint_at_file(text)


def _hint_at_file(text: str) -> None:
    """Give a hint if the text is the name of a file."""
    if len(text.encode("utf-8", "replace")) <= _LONGEST_NAME and Path(text).is_file():
        complain(
            f"{text} is also a file, but its name was analyzed, not its content."
            f" To analyze the texts in it: absa analyze --file {shlex.quote(text)}"
        )


def _analyze_lines(lines: Iterator[Line], analyzer: _Analyzer, screen: _Printer) -> int:
    """Analyze the texts as they arrive; return the number of failures."""
    from absa.schemas.errors import BackendError, InputError

    number = failed = 0
    for number, line in enumerate(lines, start=1):
        # Opened at the first text: an error in the settings must not count as a failed text.
        analyzer.open()
        problem = line.problem
        if problem is None:
            try:
                output, seconds = analyzer.analyze(line.text)
            except (BackendError, InputError) as error:
                problem = str(error)
        if problem is not None:
            line.complain(problem)
            failed += 1
            continue
        screen.show(output, seconds, number, line.name)
        if line.unit == "text":
            _hint_at_file(line.text)
    if not number:
        raise InputError("the input is empty: there is no text to analyze")
    return failed


def _ask_for_texts(analyzer: _Analyzer, screen: _Printer) -> None:
    """Analyze each line that is typed, until Ctrl-D; Ctrl-C stops the analysis or empties the line.

    The arrow keys bring earlier texts back. They are not written to disk: reviews can be private.
    """
    from absa.schemas.errors import BackendError, InputError

    # Importing it gives input() a line editor with history. Some builds of Python have none.
    with suppress(ImportError):
        import readline  # noqa: F401

    with console(stderr=True).status("loading…"):
        analyzer.open()
    print_text("Type a text and press Enter. Arrow up: earlier texts. Ctrl-D: end.", stderr=True)
    while True:
        try:
            text = input("> ")
            if text.strip():
                screen.show(*analyzer.analyze(text))
        except EOFError:
            print_text("")
            return
        except KeyboardInterrupt:
            print_text("", stderr=True)
        except (BackendError, InputError) as error:
            complain(str(error))


class _Analyzer:
    """Analyzes texts with one backend, which is opened once."""

    def __init__(self, settings: Settings, fields: dict[str, Any]) -> None:
        self.settings = settings
        self._fields = fields
        self._opened: TextAnalyser | None = None

    def open(self) -> TextAnalyser:
        """Open the backend."""
        from absa.api import TextAnalyser
        from absa.backends import open_backend

        if self._opened is None:
            self._opened = TextAnalyser(self.settings, open_backend(self.settings.backend))
        return self._opened

    def analyze(self, text: str) -> tuple[FinalOutput, float]:
        """The result and the seconds that it took."""
        from absa.offline.stopping import stopped_by_interrupt

        analyser = self.open()
        with console(stderr=True).status("analyzing…"), stopped_by_interrupt():
            start = time.perf_counter()
            output = analyser.analyze(text, **self._fields)
            seconds = time.perf_counter() - start
        return output, seconds

    def unread_language(self, text: str) -> str | None:
        """The language of a text that the offline analyzer does not read."""
        from absa.offline.text.other_languages import other_language

        offline = self.settings.backend.kind == "offline"
        return other_language(text, self._fields["lang"]) if offline else None


class _Printer(NamedTuple):
    analyzer: _Analyzer
    as_json: bool
    verbose: bool

    def show(
        self, output: FinalOutput, seconds: float, number: int = 1, name: str | None = None
    ) -> None:
        """Print one result; the number-th, under the name of its text."""
        unread = self.analyzer.unread_language(output.text)
        if unread:
            from absa.offline.text.other_languages import MODEL_OPTIONS

            complain(
                f"not analyzed: this text seems to be in {unread}, and the offline analyzer reads"
                " Korean and English only. A language model reads other languages"
                f" ({MODEL_OPTIONS})."
            )
        if self.as_json:
            print_json(output.model_dump_json())
            return
        from rich.text import Text

        from absa.cli.screen import Screen

        out = console()
        if number > 1:
            out.print()
        if name is not None:
            out.print(name, style="dim")
        if unread:
            out.print(Text(f"{output.text}\n\nnot analyzed: {unread}"))
            return
        overrides = self.analyzer.settings.pipeline.debate_override
        out.print(Screen(output, overrides, seconds, self.verbose))


def _lines(path: str) -> Iterator[Line]:
    from absa.data.source import checked_source

    source = checked_source(Path(path))
    for line in source.lines():
        yield Line(line.text, line.number, line.problem)
    if source.cut_short is not None:
        damaged = source.cut_short
        yield Line("", damaged.line, f"{damaged.reason} {damaged.remedy}")


def _stdin() -> Iterator[Line]:
    """Yield the lines of standard input as they arrive, so that an open pipe gets answers."""
    from absa.small_files import bounded_lines

    for number, line in enumerate(bounded_lines(sys.stdin.buffer), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            yield Line("", number, f"not UTF-8 text (byte {error.start} of the line)")
            continue
        if text.strip():
            yield Line(text, number)
