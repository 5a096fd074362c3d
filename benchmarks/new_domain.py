"""What `absa train` is worth in a new domain: `python -m benchmarks.new_domain DATA`.

The shipped models know the domains of DATA, so a copy of the project is trained without one of
them first. Then a user of that copy labels a few hundred sentences of the missing domain: pair F1
of `absa run` on its dev part, before and after `absa train`. `resources/models/README.md` says what
DATA holds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("absa", "graph", "nodes", "schemas", "prompts", "configs", "resources", "training")
OWN = {"en": "mabsa_en", "ko": "mabsa_ko"}
Row = dict[str, Any]


def rows_of(path: Path) -> list[Row]:
    packed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()).decode() if packed else path.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path, rows: Iterable[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")
    return path


class Project:
    """A copy of the project, and its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in PARTS:
            shutil.copytree(ROOT / part, folder / part, symlinks=True)

    def call(self, module: str, *args: str | Path) -> str:
        command = [sys.executable, "-m", module, *map(str, args)]
        done = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout

    def pair_f1(self, data: Path, out: Path, *options: str) -> float:
        self.call("absa", "run", data, "--out", out, *options)
        scored = json.loads(self.call("absa", "evaluate", out, "--json"))["quality"]
        return round(100 * scored["final"]["pair"]["strict"]["f1"]["rate"], 1)


def without(domain: str, data: Path, into: Path) -> Path:
    """The data without one domain."""
    for path in sorted([*data.glob("*/*.jsonl"), *data.glob("*/*.jsonl.gz")]):
        kept = [row for row in rows_of(path) if row.get("domain") != domain]
        write(into / path.parent.name / path.name.removesuffix(".gz"), kept)
    return into


def measured(data: Path, lang: str, domain: str, texts: int, tmp: Path) -> Row:
    project = Project(tmp / "project")
    rest = without(domain, data, tmp / "rest")
    models = project.folder / "resources" / "models"
    project.call("training.polarity_model", rest, "--out", models, "--lang", lang)
    project.call("training.shipped", rest, "--out", models, "--lang", lang)
    of_domain = {
        split: [r for r in rows_of(data / split / f"{OWN[lang]}.jsonl") if r["domain"] == domain]
        for split in ("train", "dev")
    }
    labelled = write(tmp / "labelled.jsonl", of_domain["train"][:texts])
    dev = write(tmp / "dev.jsonl", of_domain["dev"])
    before = project.pair_f1(dev, tmp / "before")
    project.call("absa", "train", labelled, "--out", tmp / "model")
    settings = tmp / "own.yaml"
    settings.write_text(f"backend:\n  kind: offline\n  model: {tmp / 'model'}\n", "utf-8")
    after = project.pair_f1(dev, tmp / "after", "--config", str(settings))
    return {
        "lang": lang,
        "domain": domain,
        "texts": texts,
        "dev": len(of_domain["dev"]),
        "before": before,
        "after": after,
        "lift": round(after - before, 1),
        "goal": 8,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--lang", choices=sorted(OWN), default="ko")
    parser.add_argument("--domain", default="hotel")
    parser.add_argument("--texts", type=int, default=300)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(
            json.dumps(
                measured(asked.data.resolve(), asked.lang, asked.domain, asked.texts, Path(name)),
                indent=2,
            )
        )


if __name__ == "__main__":
    main()
