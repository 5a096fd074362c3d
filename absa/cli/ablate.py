"""`absa ablate`: compares configurations and says whether the debate helped."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from absa.cli import options
from absa.cli.options import UsageError, complain, console, print_json, print_text

if TYPE_CHECKING:
    from absa.ablate import Configuration
    from absa.ablate.constant import Constant
    from absa.ablate.sweep import Point
    from absa.ablate.tables import Table
    from absa.runs import RunPlan


class ManyConfigs(TyperCommand):
    """A command whose `--configs` takes several words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat `--configs` before each of its words, as Typer expects it."""
        values: list[str] = []
        listing = False
        for word in args:
            if word.startswith("-") and word != "-":
                listing = word == "--configs"
                if not listing:
                    values.append(word)
            elif listing:
                values += ["--configs", word]
            else:
                values.append(word)
        return super().parse_args(ctx, values)


def ablate(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="The directory of the study.")
    ],
    data: Annotated[
        Path | None, typer.Argument(metavar="DATA", help="A data file with gold annotations.")
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A B …",
            help="Configurations: files, shipped names, lexicon, constant, analyser. Default: "
            "default, the five abl_*, baseline_single, baseline_vote.",
        ),
    ] = None,
    sets: options.Set = None,
    limit: options.Limit = None,
    concurrency: options.Concurrency = None,
    debate: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Which configuration is the debate. Default: `default` if compared, else the "
            "first that holds a debate.",
        ),
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which configuration is the single call. Default: the first with protocol single.",
            show_default=False,
        ),
    ] = "single",
    vote: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which configuration is the vote at equal cost. Default: the first with protocol "
            "vote.",
            show_default=False,
        ),
    ] = "vote",
    train: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Data with gold that `constant` learns from."),
    ] = None,
    sweeps: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="KEY=LO:HI:STEP",
            help="Try these values of a setting on recorded answers. May be repeated.",
        ),
    ] = None,
    replay_variants: Annotated[
        bool,
        typer.Option("--replay-variants", help="Try shipped gate and Moderator variants too."),
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Sweep this run, not the debate's."),
    ] = None,
    fitting: Annotated[
        bool,
        typer.Option(
            "--fit",
            help="Fit the weight of the embedded analyzer and the threshold of selective to the "
            "run of --from; write fitted.yaml.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the bootstrap.")] = 0,
    own_cache: Annotated[
        bool,
        typer.Option("--own-cache", help="Store answers in DIR, not in the shared cache."),
    ] = False,
    retry_failed: options.RetryFailed = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print ablation.json.")] = False,
) -> None:
    """Compare configurations: does the debate help on your data?

    Runs every configuration on the same samples, each in its own directory below --out, and pays
    for equal calls once. The same command resumes an interrupted study. With --from and without
    DATA no model is called: the recorded answers of a run are decided again under the settings of
    --sweep and --replay-variants.
    """
    from absa.ablate import AblationError, Study, study, write
    from absa.ablate.configurations import roles
    from absa.ablate.sweep import grid, variants
    from absa.metrics import GoldError
    from absa.runs import RunError, RunPlan

    if fitting:
        _fit(source, data, out, seed, as_json=as_json)
        return
    # All inputs are checked before the first call to a model.
    tried = [*grid(sweeps or ()), *(variants() if replay_variants else ())]
    if source is not None and not tried:
        raise AblationError("--from needs --sweep or --replay-variants")
    if data is None and (source is None or configs):
        raise AblationError("DATA is missing: give a file with labelled samples before --configs")
    results: dict[str, Any] = {"notes": []}
    failed = False
    try:
        if data is not None:
            chosen, constant, notes = _configurations(configs, sets, train)
            who = roles(chosen, debate, baseline, vote)
            _require_gold(data, limit)
            make_plan = partial(
                RunPlan,
                data=data,
                limit=limit,
                concurrency=concurrency,
                cache_path=out / "answers.db" if own_cache else None,
                retry_failed=retry_failed,
            )
            failed = _run_all(chosen, out, make_plan)
            with console(stderr=True).status("comparing…"):
                results = study(Study(out, chosen, who, constant, seed=seed, notes=notes))
            source = source or out / who.debate
        if tried and source is not None:
            results["sweep"] = _sweep(source, tried, seed)
    except RunError as error:
        raise UsageError(str(error)) from error
    except GoldError as error:
        complain(str(error))
        raise typer.Exit(1) from error
    written = write(out, results)
    if as_json:
        print_json(results, indent=2)
    else:
        _show(results, out, [path.name for path in written])
    raise typer.Exit(1 if failed else 0)


def _fit(source: Path | None, data: Path | None, out: Path, seed: int, *, as_json: bool) -> None:
    """Fit trust and threshold on a recorded run, and write them as a config."""
    from absa.ablate import AblationError
    from absa.ablate.fit import fit, sentences, write_fit
    from absa.runs.directory import RunDirectory

    if source is None or data is not None:
        raise AblationError("--fit: needs --from RUN, a labelled run of protocol selective")
    fitted = fit(source, seed=seed)
    settings = RunDirectory(source).settings
    assert settings is not None, "`fit` has read them"
    written = write_fit(out, fitted, settings)
    if as_json:
        print_json(fitted, indent=2)
    else:
        for line in sentences(fitted):
            print_text(line)
    print_text(f"written to {out}: {', '.join(path.name for path in written)}", stderr=True)


def _configurations(
    names: Sequence[str] | None, sets: Sequence[str] | None, train: Path | None
) -> tuple[list[Configuration], Constant | None, list[str]]:
    """The configurations, the constant baseline, and notes on left-out ones."""
    from absa.ablate import DEFAULT_NAMES, load, with_analyser
    from absa.ablate.configurations import CONSTANT
    from absa.ablate.constant import learn
    from absa.config import parse_override

    asked = list(names or DEFAULT_NAMES)
    notes = []
    if train is not None and CONSTANT not in asked:
        asked.append(CONSTANT)
    if train is None:
        if CONSTANT in asked:
            asked.remove(CONSTANT)
        notes.append("constant is left out: it needs --train, a labelled file to learn from")
    overrides = dict(parse_override(text) for text in sets or ())
    chosen = with_analyser(load(asked, overrides), overrides)
    return chosen, learn(train) if train is not None else None, notes


def _require_gold(data: Path, limit: int | None) -> None:
    """Check before the first call to a model that at least two samples have gold."""
    from itertools import islice

    from absa.ablate import AblationError
    from absa.data import read_samples
    from absa.schemas.sample import Sample

    samples = (item for item in read_samples(data) if isinstance(item, Sample))
    labelled = (s for s in islice(samples, limit) if s.aspects and not s.incomplete_gold)
    if len(list(islice(labelled, 2))) < 2:
        raise AblationError(
            f"{data}: fewer than two samples have gold aspects to score by. In JSONL they are the "
            'field "aspects", a list of {"term": …, "polarity": …}; '
            f"absa data {shlex.quote(str(data))} shows what was read"
        )


def _run_all(chosen: Sequence[Configuration], out: Path, make_plan: Callable[..., RunPlan]) -> bool:
    """Run every configuration; return whether some samples failed."""
    from absa.cli.run import carry_out
    from absa.runs.plan import SAME_COMMAND

    failed = False
    for one in chosen:
        if one.settings is None:
            continue
        console(stderr=True).print(one.name, style="bold")
        report = carry_out(make_plan(out=out / one.name, settings=one.settings))
        if report.status != "finished":
            complain(
                f"{one.name}: {report.stopped_because or 'stopped'}; nothing is compared yet; "
                f"{report.remedy or SAME_COMMAND}"
            )
            raise typer.Exit(1)
        failed |= bool(report.exit_code)
    return failed


def _sweep(source: Path, tried: Sequence[Point], seed: int) -> dict[str, Any]:
    from absa.ablate import sweep

    with console(stderr=True).status("") as status:

        def tell(done: int, total: int) -> None:
            status.update(
                f"decided again: {done:,} of {total:,} samples, {len(tried)} settings each"
            )

        return sweep(source, tried, seed=seed, on_progress=tell)


def _show(results: Mapping[str, Any], out: Path, written: Sequence[str]) -> None:
    """Print the tables, then the verdict, so that the verdict stays visible."""
    from rich.panel import Panel
    from rich.text import Text

    from absa.ablate.tables import tables

    screen = console()
    for table in tables(results, brief=True):
        screen.print(table.title, style="bold")
        screen.print(_rich(table))
        if table.note:
            screen.print(table.note, style="dim")
        screen.print()
    for note in results.get("notes", ()):
        screen.print(Text.assemble(("note ", "bold"), note))
    if "verdict" in results:
        styles = {"helps": "green", "hurts": "red"}
        style = styles.get(results["verdict"]["word"], "yellow")
        words = f"{results['verdict']['sentence']}\n\n{results['verdict']['cost_line']}"
        screen.print(Panel(Text(words), border_style=style))
    print_text(f"written to {out}: {', '.join(written)}", stderr=True)


def _rich(table: Table) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Rich

    shown = Rich(
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        header_style="bold",
        padding=(0, 1, 0, 0),
    )
    for number, name in enumerate(table.columns):
        if number < table.text_columns:
            shown.add_column(name, overflow="fold")
        else:
            # Numbers are not wrapped. On a narrow screen the names are.
            longest = max(map(len, (*name.split(), *(row[number] for row in table.rows))))
            shown.add_column(name, justify="right", width=longest)
    for row in table.rows:
        shown.add_row(*row)
    return shown
