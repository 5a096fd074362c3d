"""The command line. `COMMANDS` lists the commands; each is a function in a module of its own.

Heavy modules are not imported here or at the top of a command's module: `absa --help` must be fast.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from absa.cli import (
    ablate,
    analyze,
    data,
    doctor,
    evaluate,
    export,
    graph,
    insights,
    mcp,
    memory,
    replay,
    report,
    review,
    top,
    train,
    verify,
    view,
)
from absa.cli import run as batch
from absa.cli.options import UsageError, complain, print_text

# The name of each command, its function, whose docstring is the help, and an example.
COMMANDS: tuple[tuple[str, Callable[..., None], str], ...] = (
    ("analyze", analyze.analyze, 'absa analyze "사용감은 좋지만 가격은 비싸요."'),
    ("run", batch.run, "absa run reviews.jsonl --out runs/first"),
    ("top", top.top, "absa top runs/first"),
    ("data", data.data, "absa data test.jsonl --other train.jsonl"),
    ("evaluate", evaluate.evaluate, "absa evaluate runs/first"),
    (
        "ablate",
        ablate.ablate,
        "absa ablate reviews.jsonl --out runs/ablation --configs default baseline_vote",
    ),
    (
        "replay",
        replay.replay,
        "absa replay runs/first --out runs/t2 --set pipeline.override_profile=t2",
    ),
    ("verify", verify.verify, "absa verify runs/first"),
    ("report", report.report, "absa report runs/debate runs/no_debate -o report.html"),
    (
        "export",
        export.export_run,
        "absa export runs/reviews --to label-studio --out tasks.json",
    ),
    ("insights", insights.insights, "absa insights runs/reviews --by product"),
    ("view", view.view, "absa view runs --config openai --set backend.model=qwen3:8b"),
    ("review", review.review, "absa review runs/first --as kim"),
    ("train", train.train, "absa train mine.jsonl --out models/mine"),
    ("graph", graph.graph, "absa graph --config abl_no_debate --format svg > graph.svg"),
    ("mcp", mcp.mcp, "absa mcp --config abl_no_debate"),
    ("doctor", doctor.doctor, "absa doctor --config openai"),
)

FINE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

_OUTPUT_FAILURES = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EROFS)

# Depending on its version, Typer has its own copy of click or uses the installed one. BadParameter
# is derived from the base class of usage errors in both.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]


def build_app() -> typer.Typer:
    """The Typer application with every command."""
    app = typer.Typer(
        name="absa",
        help="Aspect-based sentiment analysis of Korean and English reviews by agents that debate.",
        epilog='Example: absa analyze "The battery is great but the screen is terrible."',
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, command, example in COMMANDS:
        kind = ablate.ManyConfigs if name == "ablate" else None
        app.command(name, epilog=f"Example: {example}", cls=kind)(command)
    app.add_typer(memory.app, name="memory")
    return app


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit with its code."""
    # Imported objects are never freed, but garbage collection during the imports and at the end
    # takes a fifth of the time of a short command.
    gc.set_threshold(50_000, 20, 50)
    code = run(args)
    gc.freeze()
    sys.exit(code)


def run(args: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code: 0 success, 1 some texts failed, 2 usage error.

    A user's mistake is one line on stderr, never a traceback.
    """
    _never_fail_to_write()
    command = typer.main.get_command(build_app())
    try:
        code = command.main(
            args=list(sys.argv[1:] if args is None else args),
            prog_name="absa",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        # Python wraps a KeyboardInterrupt that comes while a class is created.
        interrupted = isinstance(error.__cause__, KeyboardInterrupt)
        code = INTERRUPTED if interrupted else _explain(error)
        if code is None:
            raise
    if code == INTERRUPTED:
        complain("interrupted")
    return code if isinstance(code, int) else FINE


def _root(
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=lambda asked: _print_version() if asked else None,
        ),
    ] = False,
) -> None:
    """The root command, which does nothing itself."""


def _print_version() -> NoReturn:
    print_text(f"absa {version('absa-debate-graph')}")
    raise typer.Exit


def _explain(error: Exception) -> int | None:
    """Print a user's error; return the exit code, or None if it is not a user's error."""
    if isinstance(error, _CommandLineError):
        return _explain_usage(error)
    # If one of these errors was raised, its module is already loaded.
    from absa.config import SettingsError
    from absa.data.problems import DataError
    from absa.database import StorageError
    from absa.schemas.errors import BackendError, InputError

    if isinstance(error, BackendError):
        complain(str(error))
        return FAILED
    if isinstance(error, UsageError | SettingsError | DataError | InputError | StorageError):
        complain(str(error))
        return WRONG_USE
    if isinstance(error, OSError):
        return _explain_system(error)
    return None


def _explain_system(error: OSError) -> int | None:
    """Print an OSError about a file or about the output."""
    if error.filename is not None:
        complain(f"{error.filename}: {error.strerror}")
        return WRONG_USE
    if error.errno not in _OUTPUT_FAILURES:
        return None
    # The rest of the buffer would raise the error again when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    complain(f"the output cannot be written: {error.strerror}")
    return FAILED


def _explain_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "absa"
    message: str = error.format_message().strip()  # type: ignore[attr-defined]
    if type(error).__name__ == "NoArgsIsHelpError":
        print_text(message, stderr=True)
        return WRONG_USE
    hint = f" See '{where} --help'." if isinstance(error, _UsageError) else ""
    complain(" ".join(message.split()) + hint, where)
    return WRONG_USE


def _never_fail_to_write() -> None:
    """Replace characters that the terminal cannot encode, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
