"""Does `absa verify` see it when a run is changed afterwards?

    python -m benchmarks.verify_mutations [--every 1] [--with-journal]

Makes a debate, a conflict-review and a vote run, each with gold, a sample that fails and a line
that cannot be read. Then changes them and verifies, one change at a time:

    single         every value of every file of the run, one by one; `--every 20` takes each 20th
    with journal   the same values of outputs, traces, scorecards and gate lines, changed in the
                   journal too: what is seen without comparing with it (`--with-journal`)
    coordinated    changes of several files that fit together, as somebody would make them who
                   wants a better result: benchmarks.verify_coordinated

What does not matter, and why, is `UNIMPORTANT`.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import shutil
import sqlite3
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absa.metrics import evaluate
from absa.metrics import write as write_metrics
from absa.runs import RunPlan, run
from absa.runs.verify import verify
from absa.schemas.backend import Ask, Reply
from absa.schemas.errors import BackendError
from absa.schemas.settings import Settings

Json = dict[str, Any]
Path_ = tuple[str | int, ...]
MODEL = "gpt-4o-mini"
PARTS = {
    "outputs.jsonl": "output",
    "traces.jsonl": "traces",
    "scorecards.jsonl": "scorecard",
    "override_gate_debug.jsonl": "gate",
}
LINES = (*PARTS, "errors.jsonl")
WHOLE = ("manifest.json", "override_gate_debug_summary.json", "metrics.json")
TABLE = "structural_metrics.csv"
JOURNAL = "journal.db"

UNIMPORTANT: Mapping[tuple[str, ...], str] = {
    ("manifest.json", "updated_at"): "when the manifest was written",
    ("manifest.json", "versions"): "of the packages of the last start; a difference is a note",
    ("manifest.json", "limit"): "of the last start; an earlier one may have had another",
    ("manifest.json", "data", "path"): "where the data was; its content is compared by hash",
    **{
        ("manifest.json", "settings", "backend", name): "how answers travel, not what they say"
        for name in (
            *("timeout_s", "max_retries", "max_concurrency", "requests_per_second", "path"),
            *("api_key_env", "api_key_keyring"),
        )
    },
}
"""What a single change need not be seen in, and why."""

# What the server said about a call. Changed in the journal as well, it cannot be known.
REPORTED = ("latency_ms", "attempts", "notes", "error", "recall", "aux_signals")


# The runs ----------------------------------------------------------------------------------------

FEEL = {"aspect_term": "사용감", "polarity": "positive", "evidence": "좋지만", "confidence": 0.9}
PRICE = {"aspect_term": "가격", "polarity": "negative", "evidence": "비싸요", "confidence": 0.8}
WRONG = {**PRICE, "polarity": "positive", "confidence": 0.6}
CONTRAST, BATTERY, SCREEN = (
    "사용감은 좋지만 가격은 비싸요.",
    "배터리가 오래가요.",
    "화면이 어두워요.",
)


def _edit(op: str, aspect: str, polarity: str) -> Json:
    value = {"value": polarity} if op == "set_polarity" else {}
    return {"op": op, "target": {"aspect_ref": aspect, "polarity": polarity}, **value}


def _debate(aspect: str, polarity: str, evidence: str, **more: Any) -> Json:
    """Answers of a debate about one aspect."""
    silent = {"proposed_edits": []}
    felt = {"aspect_ref": aspect, "polarity": polarity, "evidence": evidence, "confidence": 0.6}
    answers = {
        "ate": {"aspects": [{"term": aspect, "confidence": 0.9}]},
        "atsa": {"aspect_sentiments": [felt]},
        "validator": {"structural_risks": [], "correction_proposals": []},
        **{name: {"agent": name, **silent} for name in ("epm", "tan", "cj")},
        "judge": {"final_patch": [], "final_tuples": [], "sentence_evidence_spans": [evidence]},
        "ate_review": {"aspect_review": []},
        "atsa_review": {"sentiment_review": []},
        "validator_review": {"structural_risks": []},
    }
    return {**answers, **more}


_RIGHT = _edit("set_polarity", "배터리", "positive")
_FLIP = {"action_type": "FLIP", "target_tuple_ids": ["t2"], "reason_code": "NEGATION_SCOPE"}
_FLIP["new_value"] = {"polarity": "negative"}
_FAILS = "fails"
SCRIPTS: Mapping[str, Mapping[str, Mapping[Any, Any]]] = {
    "debate": {
        "plain": _debate(
            "가격",
            "negative",
            "비싸요",
            ate={"aspects": [{"term": "사용감"}, {"term": "가격"}]},
            atsa={
                "aspect_sentiments": [
                    {"aspect_ref": x["aspect_term"], **{k: x[k] for k in ("polarity", "evidence")}}
                    for x in (FEEL, PRICE)
                ]
            },
        ),
        "override": _debate(
            "배터리",
            "negative",
            "오래가요",
            **{name: {"agent": name, "proposed_edits": [_RIGHT]} for name in ("epm", "tan", "cj")},
            judge={
                "final_patch": [_RIGHT],
                "final_tuples": [{"aspect_term": "배터리", "polarity": "positive"}],
                "aspect_evidence": {"배터리": "오래가요"},
                "sentence_polarity": "positive",
                "sentence_evidence_spans": ["오래가요"],
            },
        ),
        "flip": _debate(
            "화면",
            "positive",
            "어두워요",
            validator={
                "structural_risks": [{"type": "OTHER", "severity": "mid"}],
                "correction_proposals": [
                    {"proposal_type": "FLIP_POLARITY", "target_aspect": "화면"}
                ],
            },
        ),
    },
    "conflict_review": {
        "plain": {
            "p_neg": {"triplets": [FEEL, PRICE]},
            "p_imp": {"triplets": []},
            "p_lit": {"triplets": [PRICE]},
        },
        "flip": {
            "p_neg": {"triplets": [FEEL, PRICE]},
            "p_imp": {"triplets": []},
            "p_lit": {"triplets": [WRONG]},
            "review_a": {"review_actions": [_FLIP]},
            "review_b": {"review_actions": [_FLIP]},
            "review_c": {"review_actions": []},
        },
    },
    "vote": {
        "plain": {
            ("extract", turn): {"tuples": [FEEL, PRICE] if turn else [FEEL]} for turn in range(3)
        },
        "flip": {
            ("extract", turn): {"tuples": [{**FEEL, "aspect_term": "화면", "evidence": "어두워요"}]}
            for turn in range(3)
        },
    },
}
TEXTS = {
    "plain": "사용감은 좋지만 가격은 비싸요.",
    "override": "배터리가 오래가요.",
    "flip": "화면이 어두워요.",
}
GOLD = {
    "plain": [("사용감", 0, "positive"), ("가격", 9, "negative")],
    "override": [("배터리", 0, "positive")],
    "flip": [("화면", 0, "negative")],
}


class Scripted:
    """Answers as a paid model would, from a script."""

    def __init__(self, scripts: Mapping[str, Mapping[Any, Any]], seed: int) -> None:
        """Take the answers of each sample."""
        self._scripts = scripts
        self._seed = seed

    def ask(self, question: Ask) -> Reply:
        """The answer by node and turn, or by node."""
        answers: Mapping[Any, Any] = self._scripts.get(question.uid, {})
        output = answers.get((question.node, question.turn), answers.get(question.node))
        usage = {"prompt_tokens": 100 + len(question.user), "completion_tokens": 20}
        if output is None:
            details = {"model": MODEL, "usage": usage, "answered": True}
            raise BackendError(
                "the answer is not JSON",
                node=question.node,
                turn=question.turn,
                attempts=2,
                raw="?",
                details=details,
            )
        return Reply(
            output,
            backend="openai",
            model=MODEL,
            seed=self._seed + question.seed_offset,
            usage=usage,
            latency_ms=12.5,
        )

    async def aask(self, question: Ask) -> Reply:
        """The same."""
        return self.ask(question)


def make_run(folder: Path, protocol: str, *, better: bool = False) -> Path:
    """A finished and evaluated run of a protocol; its data lies beside it.

    `better` is what a forger would make: `flip` is answered as `plain` is.
    """
    scripts = dict(SCRIPTS[protocol])
    if better:
        scripts["flip"] = scripts["plain"]
    rows: list[Json] = [
        {
            "uid": uid,
            "text": TEXTS[uid],
            "lang": "ko",
            "domain": "shop",
            "split": "test",
            "aspects": [
                {"term": term, "from": start, "to": start + len(term), "polarity": polarity}
                for term, start, polarity in GOLD[uid]
            ],
        }
        for uid in scripts
    ]
    rows.insert(1, {"uid": _FAILS, "text": "소리가 커요.", "lang": "ko", "split": "test"})
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data.jsonl"
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    data.write_text("\n".join([*lines, "not json", ""]), encoding="utf-8")
    settings = Settings.model_validate(
        {
            "backend": {"kind": "openai", "model": MODEL, "base_url": "http://127.0.0.1:9/v1"},
            "pipeline": {"protocol": protocol, "vote": {"n": 3}},
        }
    )
    plan = RunPlan(
        data=data, out=folder / "run", settings=settings, cache_path=folder / "answers.db"
    )
    asyncio.run(run(plan, backend_for=lambda backend: Scripted(scripts, backend.seed)))
    write_metrics(folder / "run", evaluate(folder / "run"))
    report = verify(folder / "run")
    assert report.ok and not report.warnings, report.model_dump_json(indent=1)
    return folder / "run"


# Values and their places -------------------------------------------------------------------------


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """All values that hold no others, with their places."""
    inner: Iterator[tuple[str | int, Any]]
    if isinstance(value, dict) and value:
        inner = iter(value.items())
    elif isinstance(value, list) and value:
        inner = iter(enumerate(value))
    else:
        yield path, value
        return
    for key, part in inner:
        yield from leaves(part, (*path, key))


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    words = {"positive": "negative", "negative": "positive", "neutral": "positive"}
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + 0.125 if value <= 0.875 else value - 0.125
    if isinstance(value, str):
        return words.get(value, f"{value[:-1]}{'a' if value[-1] != 'a' else 'b'}" if value else "a")
    return {"none": "a", "list": ["a"], "dict": {"a": 1}}[
        "none" if value is None else type(value).__name__
    ]


def replace(value: Any, path: Path_, new: Any) -> None:
    """Put a value in a place, in place."""
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def read_lines(path: Path) -> list[Json]:
    """The records of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def dump(value: Any) -> str:
    """As the run writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write_lines(path: Path, records: list[Json]) -> None:
    """Write the records."""
    path.write_text("".join(f"{dump(r)}\n" for r in records), "utf-8")


def journal_parts(directory: Path, part: str) -> Iterator[tuple[int, list[Json]]]:
    """Row ids of the journal with the records of a part."""
    with closing(sqlite3.connect(directory / JOURNAL)) as db:
        sql = f"SELECT rowid, {part} FROM samples WHERE status = 'done' ORDER BY position, seed"
        for row, blob in db.execute(sql).fetchall():
            text = zlib.decompress(blob).decode()
            yield row, [json.loads(line) for line in text.split("\n") if line]


def write_part(directory: Path, part: str, row: int, records: list[Json]) -> None:
    """Write the records of a part of a row."""
    blob = zlib.compress("\n".join(map(dump, records)).encode(), 3)
    execute(directory, f"UPDATE samples SET {part} = ? WHERE rowid = ?", blob, row)


def execute(directory: Path, sql: str, *values: Any) -> None:
    """Change the journal."""
    with closing(sqlite3.connect(directory / JOURNAL)) as db, db:
        db.execute(sql, values)


def sync_journal(directory: Path) -> None:
    """Make the records of the journal those of the files, sample by sample."""
    for name, part in PARTS.items():
        records = read_lines(directory / name)
        for row, before in journal_parts(directory, part):
            if before:
                uid = before[0]["uid"]
                write_part(directory, part, row, [r for r in records if r["uid"] == uid])


# Single changes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """One value of one file that is changed."""

    file: str
    path: Path_
    with_journal: bool = False

    def __str__(self) -> str:
        """File and place."""
        return f"{self.file} {'.'.join(map(str, self.path))}"

    @property
    def reason_to_ignore(self) -> str | None:
        """Why it need not be seen, if so."""
        place = (self.file, *map(str, self.path))
        for start, why in UNIMPORTANT.items():
            if place[: len(start)] == start:
                return why
        if self.with_journal and any(name in place for name in REPORTED):
            return "what a server reported about a call, changed wherever it stands"
        return None

    def apply(self, directory: Path) -> None:
        """Change it."""
        path = directory / self.file
        if self.file == JOURNAL:
            self._apply_to_journal(directory)
        elif self.file == TABLE:
            rows = list(csv.reader(io.StringIO(path.read_text("utf-8"))))
            replace(rows, self.path, changed(rows[int(self.path[0])][int(self.path[1])]))
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(rows)
            path.write_text(text.getvalue(), "utf-8")
        elif self.file in LINES:
            records = read_lines(path)
            replace(records, self.path, changed(_at(records, self.path)))
            write_lines(path, records)
            if self.with_journal:
                sync_journal(directory)
        else:
            value = json.loads(path.read_text("utf-8"))
            replace(value, self.path, changed(_at(value, self.path)))
            path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")

    def _apply_to_journal(self, directory: Path) -> None:
        table, *rest = self.path
        with closing(sqlite3.connect(directory / JOURNAL)) as db, db:
            if table == "run":
                key, *inner = rest
                (text,) = db.execute("SELECT value FROM run WHERE key = ?", [key]).fetchone()
                value = {"value": json.loads(text)}
                place = ("value", *inner)
                replace(value, place, changed(_at(value, place)))
                new = json.dumps(value["value"], ensure_ascii=False)
                db.execute("UPDATE run SET value = ? WHERE key = ?", [new, key])
                return
            row, column = rest
            (old,) = db.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", [row]).fetchone()
            if isinstance(old, bytes):
                records = [json.loads(x) for x in zlib.decompress(old).decode().split("\n") if x]
                place = next(p for p, _ in leaves(records) if p[-1] not in ("uid", "lang"))
                replace(records, place, changed(_at(records, place)))
                new_blob = zlib.compress("\n".join(map(dump, records)).encode(), 3)
                db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [new_blob, row])
            else:
                sql = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                db.execute(sql, [changed(old), row])


def _at(value: Any, path: Path_) -> Any:
    for key in path:
        value = value[key]
    return value


def single_changes(directory: Path) -> Iterator[Change]:
    """Every value of every file."""
    for name in LINES:
        records = read_lines(directory / name)
        yield from (Change(name, path) for path, _ in leaves(records) if path)
    for name in WHOLE:
        value = json.loads((directory / name).read_text("utf-8"))
        yield from (Change(name, path) for path, _ in leaves(value))
    rows = list(csv.reader(io.StringIO((directory / TABLE).read_text("utf-8"))))
    for number, cells in enumerate(rows):
        yield from (Change(TABLE, (number, cell)) for cell in range(len(cells)))
    with closing(sqlite3.connect(directory / JOURNAL)) as db:
        for key, text in db.execute("SELECT key, value FROM run").fetchall():
            for path, _ in leaves(json.loads(text)):
                yield Change(JOURNAL, ("run", key, *path))
        for table in ("samples", "bad_lines"):
            found = db.execute(f"SELECT rowid, * FROM {table}")
            columns = [part[0] for part in found.description[1:]]
            for row, *values in found.fetchall():
                for column, value in zip(columns, values, strict=True):
                    if value is not None and not (isinstance(value, bytes) and len(value) < 12):
                        yield Change(JOURNAL, (table, row, column))


def changes_with_journal(directory: Path) -> Iterator[Change]:
    """The values of the samples' records, changed in file and journal alike."""
    for change in single_changes(directory):
        if change.file in PARTS:
            yield Change(change.file, change.path, with_journal=True)


class Bench:
    """A run that is changed, verified and put back."""

    def __init__(self, directory: Path) -> None:
        """Keep a copy of the run and its data."""
        self.directory = directory
        self._folder = directory.parent
        self._copy = self._folder.with_name(f"{self._folder.name}.copy")
        shutil.copytree(self._folder, self._copy)

    def restore(self) -> None:
        """Put everything back."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)

    def catches(self, change: Any, **how: Any) -> bool:
        """Whether the verification fails on a changed run. Whatever it raises is a defect."""
        try:
            change.apply(self.directory)
            return not verify(self.directory, **how).ok
        finally:
            self.restore()


def main(arguments: list[str] | None = None) -> int:
    """Make the runs, change them, and print what was seen."""
    from benchmarks.verify_coordinated import COORDINATED

    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--every", type=int, default=1, help="take each Nth single change")
    options.add_argument("--with-journal", action="store_true", help="change the journal as well")
    chosen = options.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="absa-mutations-"))
    began, seen, total = time.monotonic(), 0, 0
    try:
        for protocol in SCRIPTS:
            bench = Bench(make_run(folder / protocol, protocol))
            walk = changes_with_journal if chosen.with_journal else single_changes
            everything = list(walk(bench.directory))
            important = [c for c in everything if c.reason_to_ignore is None]
            tried = important[:: chosen.every]
            missed = [c for c in tried if not bench.catches(c)]
            total, seen = total + len(tried), seen + len(tried) - len(missed)
            print(
                f"{protocol}: {len(tried) - len(missed)} of {len(tried)} single changes seen "
                f"({len(everything) - len(important)} of {len(everything)} do not matter)"
            )
            for name, number in Counter(map(str, missed)).items():
                print(f"  missed: {name}" + (f" ({number} times)" if number > 1 else ""))
            if not chosen.with_journal:
                named = [c for c in COORDINATED if protocol in c.protocols]
                lost = [c.name for c in named if not bench.catches(c)]
                print(f"{protocol}: {len(named) - len(lost)} of {len(named)} coordinated seen")
                print("".join(f"  missed: {name}\n" for name in lost), end="")
    finally:
        shutil.rmtree(folder)
    print(f"{seen} of {total} ({seen / total:.2%}) in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
