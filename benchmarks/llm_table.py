"""A real model on fixed sentences: one call, the debate and a vote at the debate's calls.

    python -m benchmarks.llm_table --data DATA --base-url http://127.0.0.1:8099/v1 --model qwen \
        --out runs/llm

DATA holds `dev/` and `train/` with the data files by name. Everything goes through `absa ablate`:
each protocol is a run directory below --out, the same command goes on where it stopped, scores,
intervals and comparisons are its own. Seconds per sample are those of the whole run over its
samples: with one call under way at a time what one sample takes, with more of them (--in-flight)
what it takes of the machine.

Two samples that share no sentence: `report` is for the table, `tune` for writing prompts. Nobody
who writes prompts looks at the sentences of `report`.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absa.schemas.settings import SECOND_READER

Json = dict[str, Any]
LANGUAGES = ("ko", "en")


class Part(NamedTuple):
    """A number of sentences of one data file, perhaps of one domain only."""

    file: str
    size: int
    domain: str | None = None


SAMPLES: Mapping[str, Sequence[Part]] = {
    "report": (Part("dev/mabsa_ko", 60), Part("dev/aste_14res", 60)),
    "tune": (
        Part("train/mabsa_ko", 40),
        Part("train/mabsa_en", 20, domain="restaurant"),
        Part("train/mams", 20),
    ),
}
CONFIGS: Mapping[str, str | Json] = {
    "single": "baseline_single",
    "debate": "default",
    "vote": "baseline_vote",
    "persona": "persona_debate",
    "conflict": "conflict_review",
    "selective": "selective",
    "contested": "debate_contested",
    # Settings that differ from the shipped configurations are written beside the runs.
    "vote3": {"protocol": "vote", "vote": {"n": 3}},
    "contested_joint": {
        "stage1": "joint",
        "debate": {"when": "contested"},
        "override_profile": "t2",
        "debate_override": {"allow_drop": True, "max_overrides_per_sample": 3},
    },
    "conflict_single_support": {
        "protocol": "conflict_review",
        "conflict_review": {"flag_single_support": True},
    },
}
UNDEBATED = {"single", "vote", "vote3", "selective", "conflict", "conflict_single_support"}


def lines(path: Path) -> Iterator[Json]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def draw(data: Path, sample: str) -> list[Json]:
    """The sentences of a sample: always the same ones of the same files."""
    rng = random.Random(f"llm_table {sample}")
    drawn: list[Json] = []
    for part in SAMPLES[sample]:
        rows = [
            row
            for row in lines(data / f"{part.file}.jsonl")
            # Incomplete gold cannot be scored.
            if not row.get("dropped_aspects") and part.domain in (None, row.get("domain"))
        ]
        drawn += rng.sample(rows, part.size)
    return drawn


def limited(rows: Sequence[Json], limit: int | None) -> list[Json]:
    """The first texts of each language, up to a number."""
    return [row for lang in LANGUAGES for row in [r for r in rows if r["lang"] == lang][:limit]]


def config_of(name: str, out: Path) -> str:
    """The name or the file of a configuration."""
    given = CONFIGS[name]
    if isinstance(given, str):
        return given
    path = out / f"{name}.yaml"
    path.write_text(json.dumps({"pipeline": given}) + "\n", encoding="utf-8")
    return str(path)


def ablate(data: Path, args: argparse.Namespace) -> Json:
    """Run what has not been run yet, and compare."""
    settings = {
        "kind": "openai",
        "base_url": args.base_url,
        "model": args.model,
        "timeout_s": args.timeout_s,
        "max_concurrency": args.in_flight,
    }
    configs = [config_of(name, args.out) for name in args.protocols]
    command = [
        *(sys.executable, "-m", "absa", "ablate", str(data), "--out", str(args.out)),
        # One sample more than calls: while one is written down, the other asks.
        *("--own-cache", "--concurrency", str(args.in_flight + 1)),
        *(word for key, value in settings.items() for word in ("--set", f"backend.{key}={value}")),
        *("--configs", *configs),
        # Without a debate somebody else has to be what the others are compared with.
        *(("--debate", Path(configs[0]).stem) if UNDEBATED >= {*args.protocols} else ()),
        *(("--vote", "baseline_vote") if "vote" in args.protocols else ()),
    ]
    # 1 says that some samples failed: they are in the table as answers that were not valid.
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode not in (0, 1):
        raise SystemExit("llm_table: absa ablate could not run; its message is above")
    made = args.out / "ablation.json"
    if not made.exists():
        raise SystemExit("llm_table: stopped before the end; repeat the command to continue")
    found: Json = json.loads(made.read_text(encoding="utf-8"))
    return found


class Cost(NamedTuple):
    """What a protocol took, counted on the samples for which the model was asked every time.

    The cost of an answer from the cache is not known here.
    """

    samples: int
    seconds: float
    calls: int
    prompt_tokens: int
    output_tokens: int
    read_at_once: int
    failed: int

    @classmethod
    def of(cls, run: Path) -> Cost:
        """Count the calls of a run."""
        asked: dict[str, list[Json]] = {}
        for call in lines(run / "traces.jsonl"):
            asked.setdefault(call["uid"], []).append(call)
        fresh = {uid for uid, calls in asked.items() if not any(c["cached"] for c in calls)}
        # The embedded analyzer does not count as a call.
        calls = [
            c
            for uid in fresh
            for c in asked[uid]
            if c["node"] != SECOND_READER and c["backend"] != "offline"
        ]
        usages = [call["usage"] or {} for call in calls]
        return cls(
            samples=len(fresh),
            seconds=json.loads((run / "manifest.json").read_text(encoding="utf-8"))["elapsed_s"],
            calls=len(calls),
            prompt_tokens=sum(usage.get("prompt_tokens", 0) for usage in usages),
            output_tokens=sum(usage.get("completion_tokens", 0) for usage in usages),
            read_at_once=sum(c["attempts"] == 1 and not c["notes"] for c in calls),
            failed=sum(bool(error.get("node")) for error in lines(run / "errors.jsonl")),
        )

    def each(self, spent: float, digits: int = 0) -> str:
        """A total per sample."""
        return f"{spent / self.samples:.{digits}f}" if self.samples else "–"

    def seconds_each(self) -> str:
        """Seconds per sample; failures took their time, too."""
        asked = self.samples + self.failed
        return f"{self.seconds / asked:.1f}" if asked and self.seconds else "–"


def table(found: Json, out: Path, protocols: Sequence[str]) -> Iterator[str]:
    """The numbers side by side, as Markdown, and what they say about the debate."""
    yield (
        "| protocol | pair F1 [95 %] | samples asked | s per sample | calls | prompt tokens "
        "| output tokens | valid answers |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in found["configurations"]:
        f1, cost = one["scores"]["pair_strict_f1"], Cost.of(out / one["name"])
        cells = (
            one["name"],
            f"{100 * f1['value']:.1f} [{100 * f1['low']:.1f}, {100 * f1['high']:.1f}]",
            str(cost.samples),
            cost.seconds_each(),
            cost.each(cost.calls, 1),
            cost.each(cost.prompt_tokens),
            cost.each(cost.output_tokens),
            f"{cost.read_at_once} of {cost.calls + cost.failed}",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    for one in found["comparisons"]:
        more = one["differences"]["pair_strict_f1"]
        least = one["smallest_shown"]
        yield (
            f"{found['roles']['debate']} less {one['other']}: {100 * more['value']:+.1f} points "
            f"[{100 * more['low']:+.1f}, {100 * more['high']:+.1f}], p {one['p_holm']:.3f}"
            + (f"; could have shown {100 * least:.1f}" if least is not None else "")
        )
    if not UNDEBATED >= {*protocols}:
        yield found["verdict"]["sentence"]
    yield found["verdict"]["cost_line"]
    yield from (f"note: {note}" for note in found["notes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with dev/ and train/")
    parser.add_argument("--base-url", required=True, help="an OpenAI-compatible server")
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True, help="where the runs go")
    parser.add_argument("--sample", choices=SAMPLES, default="report")
    parser.add_argument("--limit", type=int, help="only the first N sentences of each language")
    parser.add_argument(
        "--protocols", nargs="+", choices=CONFIGS, default=["single", "debate", "vote"]
    )
    parser.add_argument("--timeout-s", type=float, default=600.0)
    parser.add_argument("--in-flight", type=int, default=1, help="calls at a time")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    data = args.out / f"{args.sample}.jsonl"
    rows = limited(draw(args.data, args.sample), args.limit)
    data.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    print("\n".join(table(ablate(data, args), args.out, args.protocols)))


if __name__ == "__main__":
    main()
