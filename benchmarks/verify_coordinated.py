"""Changes of a run that fit together: several files, often the journal too.

Each is what somebody would do who wants another result and knows some of the files, but not all
of them. Somebody who rewrites files, journal and manifest alike makes another run; only a
fingerprint that was kept elsewhere shows it (`absa verify --expect`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from absa.metrics import evaluate
from absa.metrics import write as write_metrics
from absa.runs.artefacts import gate_summary
from absa.runs.verify.files import sample_of
from absa.schemas.output import FinalOutput
from absa.scorecard import scorecard
from benchmarks.verify_mutations import (
    JOURNAL,
    PARTS,
    TABLE,
    Json,
    execute,
    journal_parts,
    leaves,
    read_lines,
    replace,
    sync_journal,
    write_lines,
    write_part,
)

ALL = ("debate", "conflict_review", "vote")
OUTPUTS, TRACES, CARDS, GATE = PARTS
ERRORS = "errors.jsonl"
Edit = Callable[[Json], object]
Step = Callable[[Path], None]


@dataclass(frozen=True)
class Coordinated:
    """A change in several steps, and the runs that it can be made in."""

    name: str
    steps: tuple[Step, ...]
    protocols: tuple[str, ...] = ALL

    def apply(self, directory: Path) -> None:
        """Carry it out."""
        for step in self.steps:
            step(directory)


# Steps -------------------------------------------------------------------------------------------


def lines(name: str, edit: Edit, uid: str | None = "flip") -> Step:
    """Edit the records of a sample in a file, or all of them."""

    def step(directory: Path) -> None:
        records = read_lines(directory / name)
        for record in records:
            if uid is None or record["uid"] == uid:
                edit(record)
        write_lines(directory / name, records)

    return step


def without(name: str, uid: str) -> Step:
    """Take a sample out of a file."""

    def step(directory: Path) -> None:
        kept = [r for r in read_lines(directory / name) if r["uid"] != uid]
        write_lines(directory / name, kept)

    return step


def manifest(edit: Edit) -> Step:
    """Edit the manifest."""

    def step(directory: Path) -> None:
        path = directory / "manifest.json"
        value = json.loads(path.read_text("utf-8"))
        edit(value)
        path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")

    return step


def journal(sql: str, *values: object) -> Step:
    """Change the journal."""
    return lambda directory: execute(directory, sql, *values)


def calls(edit: Edit, uid: str | None = "flip") -> tuple[Step, Step]:
    """Edit calls in the traces and in the outputs."""

    def in_output(output: Json) -> None:
        for call in output["process_trace"]:
            edit(call)

    return lines(TRACES, edit, uid), lines(OUTPUTS, in_output, uid)


def score_again(directory: Path) -> None:
    """Make the scorecards from the outputs."""
    cards = read_lines(directory / CARDS)
    outputs = {o["uid"]: FinalOutput.model_validate(o) for o in read_lines(directory / OUTPUTS)}
    made = []
    for card in cards:
        output = outputs[card["uid"]]
        made.append(scorecard(output, sample_of(output, card), card["seed"]))
    write_lines(directory / CARDS, made)


def evaluate_again(directory: Path) -> None:
    """Make the metrics from outputs and scorecards."""
    write_metrics(directory, evaluate(directory))


def summarise_gate_again(directory: Path) -> None:
    """Make the summary of the gate from its lines."""
    made = gate_summary(iter(read_lines(directory / GATE)))
    path = directory / "override_gate_debug_summary.json"
    path.write_text(json.dumps(made, ensure_ascii=False, indent=2) + "\n", "utf-8")


def result(edit: Edit) -> Step:
    """Edit the final result of an output."""
    return lines(OUTPUTS, lambda o: edit(o["final_result"]))


def both_identities(edit: Edit) -> Step:
    """Edit the settings of the manifest and of its identity."""

    def change(m: Json) -> None:
        edit(m["settings"])
        edit(m["identity"]["settings"])

    return manifest(change)


def journal_identity(edit: Edit) -> Step:
    """Edit the settings of the journal's identity."""

    def step(directory: Path) -> None:
        value = json.loads((directory / "manifest.json").read_text("utf-8"))["identity"]
        edit(value["settings"])
        text = json.dumps(value, ensure_ascii=False)
        execute(directory, "UPDATE run SET value = ? WHERE key = 'identity'", text)

    return step


def data(edit: Edit, uid: str = "flip") -> Step:
    """Edit a row of the data file."""

    def step(directory: Path) -> None:
        path = directory.parent / "data.jsonl"
        rows = path.read_text("utf-8").split("\n")
        for number, row in enumerate(rows):
            if row.startswith("{") and (value := json.loads(row))["uid"] == uid:
                edit(value)
                rows[number] = json.dumps(value, ensure_ascii=False)
        path.write_text("\n".join(rows), "utf-8")

    return step


def hash_data_again(directory: Path) -> None:
    """Put the hash of the changed data into the manifest."""
    from absa.runs.identity import file_sha256

    sha256 = file_sha256(directory.parent / "data.jsonl")

    def change(m: Json) -> None:
        m["data"]["sha256"] = m["identity"]["data"]["sha256"] = sha256

    manifest(change)(directory)


# Edits -------------------------------------------------------------------------------------------

_OPPOSITE = {"positive": "negative", "negative": "positive", "neutral": "positive"}


def _other_polarity(r: Json) -> None:
    for part in ("final_tuples", "final_aspects"):
        for item in r[part]:
            item["polarity"] = _OPPOSITE[item["polarity"]]


def _other_label(r: Json) -> None:
    r["label"] = _OPPOSITE.get(r["label"], "negative")


def _no_tuples(r: Json) -> None:
    r["final_tuples"], r["final_aspects"] = [], []


def _every_tuple(o: Json) -> None:
    """All stages say the same."""
    _other_polarity(o["final_result"])
    for stage in ("stage1_tuples", "stage2_tuples"):
        o["final_result"][stage] = o["final_result"]["final_tuples"]


def _sure(o: Json) -> None:
    o["final_result"]["confidence"] = 0.99
    if o["moderator"]:
        o["moderator"]["confidence"] = 0.99


def _sure_aspects(r: Json) -> None:
    for aspect in r["final_aspects"]:
        aspect["confidence"] = 0.99


def _other_gold(card: Json) -> None:
    for aspect in card["gold"]["aspects"]:
        aspect["polarity"] = _OPPOSITE[aspect["polarity"]]


def _other_row_gold(row: Json) -> None:
    for aspect in row["aspects"]:
        aspect["polarity"] = _OPPOSITE[aspect["polarity"]]


def _other_evidence(r: Json) -> None:
    for aspect in r["final_aspects"]:
        aspect["evidence"], aspect["is_grounded"] = r["final_aspects"][0]["aspect_term"], True


def _model(settings: Json) -> None:
    settings["backend"]["model"] = "gpt-4o"


def _fewer_tokens(call: Json) -> None:
    call["usage"] = {"prompt_tokens": 1, "completion_tokens": 1}


def _fewer_tokens_in_output(o: Json) -> None:
    number = len(o["process_trace"])
    o["meta"]["usage"].update(prompt_tokens=number, completion_tokens=number)


def _count_usage_again(directory: Path) -> None:
    """The manifest's tokens from outputs and errors."""
    spent = [o["meta"]["usage"] for o in read_lines(directory / OUTPUTS)]
    spent += [e["spent"] for e in read_lines(directory / ERRORS) if e.get("spent")]
    tokens = ("prompt_tokens", "completion_tokens")
    sums = {name: sum(s[name] for s in spent) for name in tokens}
    manifest(lambda m: (m["usage"].update(sums), m["spent"].update(sums)))(directory)


def _free(call: Json) -> None:
    call["cached"] = True


def _free_in_output(o: Json) -> None:
    o["meta"]["usage"]["cached_calls"] = o["meta"]["usage"]["calls"]


def _other_answer(call: Json) -> None:
    for path, value in leaves(call["output"]):
        if isinstance(value, str) and value in _OPPOSITE:
            replace(call["output"], path, _OPPOSITE[value])


def _swap(name: str) -> Step:
    other = {"plain": "flip", "flip": "plain"}
    return lines(name, lambda r: r.update(uid=other.get(r["uid"], r["uid"])), None)


def _swap_in_journal(part: str) -> Step:
    """Exchange a part of two rows."""

    def step(directory: Path) -> None:
        rows = dict(journal_parts(directory, part))
        by_uid = {records[0]["uid"]: row for row, records in rows.items() if records}
        for one, other in (("plain", "flip"), ("flip", "plain")):
            records = [{**r, "uid": one} for r in rows[by_uid[other]]]
            write_part(directory, part, by_uid[one], records)

    return step


def _other_order(directory: Path) -> None:
    for name in PARTS:
        records = read_lines(directory / name)
        write_lines(directory / name, sorted(records, key=lambda r: str(r["uid"])))


def _renamed(name: str) -> Step:
    return lines(name, lambda r: r.update(uid="flip-2"))


def _doubled(name: str) -> Step:
    def step(directory: Path) -> None:
        records = read_lines(directory / name)
        again = [{**r, "uid": "plain-2"} for r in records if r["uid"] == "plain"]
        write_lines(directory / name, [*records, *again])

    return step


def _perfect(directory: Path) -> None:
    """Every F1 is 1.0, in the JSON and in the table."""
    path = directory / "metrics.json"
    metrics = json.loads(path.read_text("utf-8"))
    for place, _ in list(leaves(metrics)):
        if "f1" in place and place[-1] == "rate":
            replace(metrics, place, 1.0)
    path.write_text(json.dumps(metrics, ensure_ascii=False, indent=2) + "\n", "utf-8")
    table = (directory / TABLE).read_text("utf-8").split("\n")
    rows = [",".join([*r.split(",")[:-1], "1.0"]) if ".f1," in r else r for r in table]
    (directory / TABLE).write_text("\n".join(rows), "utf-8")


def _fewer_samples(number: int) -> Step:
    def change(m: Json) -> None:
        m["counts"]["samples"] -= number
        m["counts"]["done"] -= number

    return manifest(change)


def _remove(directory: Path) -> None:
    (directory / JOURNAL).unlink()


def _empty_journal(directory: Path) -> None:
    (directory / JOURNAL).write_bytes(b"")


def _damaged_journal(directory: Path) -> None:
    path = directory / JOURNAL
    content = bytearray(path.read_bytes())
    content[4096:12288] = b"\0" * 8192
    path.write_bytes(bytes(content))


def _journal_of_another(directory: Path) -> None:
    """The journal of a run with one sample less."""
    copy = directory / "other.db"
    shutil.copy(directory / JOURNAL, copy)
    execute(directory, "DELETE FROM samples WHERE uid = 'plain'")
    execute(directory, "UPDATE run SET value = '\"0\"' WHERE key = 'run_id'")
    copy.unlink()


def _unlogged(o: Json) -> None:
    o["meta"]["correction_applied_log"] = []


def _gate_total(record: Json) -> None:
    record["total"] = record["margin"] = 9.0


def _gate_total_in_output(o: Json) -> None:
    for record in o["meta"]["override_gate"]:
        _gate_total(record)


def _no_call(name: str, node: str) -> Step:
    def step(directory: Path) -> None:
        if name == TRACES:
            kept = [
                r
                for r in read_lines(directory / name)
                if r["uid"] != "flip" or r["node"] != node or r["turn"]
            ]
            write_lines(directory / name, kept)
            return

        def drop(o: Json) -> None:
            o["process_trace"] = [c for c in o["process_trace"] if c["node"] != node or c["turn"]]

        lines(name, drop)(directory)

    return step


_NODES = {"debate": "tan", "conflict_review": "p_imp", "vote": "extract"}
_SCORED = (score_again, evaluate_again)
_JOURNALLED = (score_again, evaluate_again, sync_journal)
_GONE = tuple(without(name, "flip") for name in (*PARTS, ERRORS))
_FORGET = journal("DELETE FROM samples WHERE uid = 'flip'")
_NO_FAILURE = without(ERRORS, "fails")
_NO_BAD_LINE = without(ERRORS, None)  # type: ignore[arg-type]


def _reason(e: Json) -> None:
    e["reason"] = "it was empty"


_ARBITER = ("conflict_review",)
_DEBATE = ("debate",)

COORDINATED: tuple[Coordinated, ...] = (
    Coordinated("polarity: output", (result(_other_polarity),)),
    Coordinated("polarity: output, scorecard, metrics", (result(_other_polarity), *_SCORED)),
    Coordinated(
        "polarity: output, scorecard, metrics, journal", (result(_other_polarity), *_JOURNALLED)
    ),
    Coordinated(
        "polarity in all stages: output, scorecard, metrics, journal",
        (lines(OUTPUTS, _every_tuple), *_JOURNALLED),
    ),
    Coordinated("label: output, scorecard, metrics, journal", (result(_other_label), *_JOURNALLED)),
    Coordinated(
        "no tuples: output, scorecard, metrics, journal", (result(_no_tuples), *_JOURNALLED)
    ),
    Coordinated(
        "confidence: output, moderator, scorecard, metrics", (lines(OUTPUTS, _sure), *_SCORED)
    ),
    Coordinated(
        "confidence: output, moderator, scorecard, metrics, journal",
        (lines(OUTPUTS, _sure), *_JOURNALLED),
    ),
    Coordinated("confidence of aspects, journal", (result(_sure_aspects), *_JOURNALLED)),
    Coordinated("evidence, journal", (result(_other_evidence), *_JOURNALLED)),
    Coordinated("gold: scorecard, metrics", (lines(CARDS, _other_gold), evaluate_again)),
    Coordinated(
        "gold: scorecard, metrics, journal",
        (lines(CARDS, _other_gold), evaluate_again, sync_journal),
    ),
    Coordinated("gold: data, metrics", (data(_other_row_gold), _perfect)),
    Coordinated(
        "gold: data, scorecard, metrics, journal",
        (data(_other_row_gold), lines(CARDS, _other_gold), evaluate_again, sync_journal),
    ),
    Coordinated(
        "gold: data, its hash in the manifest, scorecard, metrics, journal",
        (
            *(data(_other_row_gold), hash_data_again),
            *(lines(CARDS, _other_gold), evaluate_again, sync_journal),
        ),
    ),
    Coordinated(
        "domain and split: scorecard, metrics, journal",
        (
            lines(CARDS, lambda c: c.update(domain="toys", split="train")),
            evaluate_again,
            sync_journal,
        ),
    ),
    Coordinated(
        "text: output, journal",
        (lines(OUTPUTS, lambda o: o.update(text=f"{o['text']} 좋아요.")), sync_journal),
    ),
    Coordinated("a sample is gone from the files", _GONE),
    Coordinated(
        "a sample is gone from files, manifest and metrics, not from the journal",
        (*_GONE, _fewer_samples(1), _count_usage_again, evaluate_again),
    ),
    Coordinated(
        "a sample is gone from files, manifest, metrics and journal",
        (*_GONE, _fewer_samples(1), _count_usage_again, evaluate_again, _FORGET),
    ),
    Coordinated("a sample is gone from the journal", (_FORGET,)),
    Coordinated(
        "a failure is gone from errors and manifest",
        (
            _NO_FAILURE,
            manifest(lambda m: m["counts"].update(failed=0, samples=m["counts"]["done"])),
        ),
    ),
    Coordinated(
        "a failure is gone from errors, manifest and journal",
        (
            _NO_FAILURE,
            manifest(lambda m: m["counts"].update(failed=0, samples=m["counts"]["done"])),
            journal("DELETE FROM samples WHERE uid = 'fails'"),
        ),
    ),
    Coordinated(
        "the reason of a failure: errors, metrics",
        (lines(ERRORS, _reason, "fails"), evaluate_again),
    ),
    Coordinated(
        "an unreadable line is gone from errors, manifest and journal",
        (
            _NO_BAD_LINE,
            manifest(lambda m: m["counts"].update(bad_lines=0)),
            journal("DELETE FROM bad_lines"),
        ),
    ),
    Coordinated(
        "the reason of an unreadable line: errors, journal",
        (
            lambda directory: lines(ERRORS, lambda e: None if e["uid"] else _reason(e), None)(
                directory
            ),
            journal("UPDATE bad_lines SET error = json_set(error, '$.reason', 'it was empty')"),
        ),
    ),
    Coordinated("traces of two samples swapped", (_swap(TRACES),)),
    Coordinated(
        "traces of two samples swapped, journal", (_swap(TRACES), _swap_in_journal("traces"))
    ),
    Coordinated("outputs of two samples swapped", (_swap(OUTPUTS),)),
    Coordinated(
        "outputs and scorecards of two samples swapped, journal",
        (
            *(_swap(OUTPUTS), _swap(CARDS)),
            *(_swap_in_journal("output"), _swap_in_journal("scorecard")),
        ),
    ),
    Coordinated("all lines in another order", (_other_order,)),
    Coordinated("a sample renamed in all files", tuple(map(_renamed, PARTS))),
    Coordinated(
        "a sample renamed in all files and the journal",
        (
            *map(_renamed, PARTS),
            evaluate_again,
            journal("UPDATE samples SET uid = 'flip-2' WHERE uid = 'flip'"),
            sync_journal,
        ),
    ),
    Coordinated(
        "a good sample doubled under another name, manifest, metrics",
        (*map(_doubled, PARTS), _fewer_samples(-1), _count_usage_again, evaluate_again),
    ),
    Coordinated("every F1 is 1.0", (_perfect,)),
    Coordinated("answer: traces", (lines(TRACES, _other_answer),)),
    Coordinated("answer: traces, output's trace", calls(_other_answer)),
    Coordinated("answer: traces, output's trace, journal", (*calls(_other_answer), sync_journal)),
    Coordinated(
        "prompt hash: traces, output's trace, journal",
        (*calls(lambda c: c.update(prompt_sha256="0" * 64)), sync_journal),
    ),
    Coordinated(
        "model: manifest, its identity, traces, outputs",
        (both_identities(_model), *calls(lambda c: c.update(model="gpt-4o"), None), evaluate_again),
    ),
    Coordinated(
        "model: manifest, its identity, journal's identity",
        (both_identities(_model), journal_identity(_model)),
    ),
    Coordinated(
        "model: traces, outputs, metrics, journal",
        (*calls(lambda c: c.update(model="gpt-4o")), evaluate_again, sync_journal),
    ),
    Coordinated(
        "seed of the calls: outputs, journal",
        (
            lines(OUTPUTS, lambda o: [c.update(seed=7) for c in o["process_trace"]]),
            sync_journal,
        ),
    ),
    Coordinated(
        "backend: traces, outputs, journal",
        (*calls(lambda c: c.update(backend="offline")), evaluate_again, sync_journal),
    ),
    Coordinated(
        "temperature: manifest, its identity",
        (both_identities(lambda s: s["backend"].update(temperature=1.5)),),
    ),
    Coordinated(
        "server: manifest, its identity",
        (both_identities(lambda s: s["backend"].update(base_url="http://127.0.0.1:8/v1")),),
    ),
    Coordinated(
        "thresholds: manifest, its identity",
        (both_identities(lambda s: s["pipeline"]["debate_override"].update(min_total=9.0)),),
    ),
    Coordinated(
        "seeds: manifest, scorecards, traces, gate, outputs, metrics",
        (
            manifest(lambda m: m.update(seeds=[5])),
            *(lines(name, lambda r: r.update(seed=5), None) for name in (CARDS, TRACES, GATE)),
            lines(OUTPUTS, lambda o: o["meta"].update(seed=5), None),
            evaluate_again,
        ),
    ),
    Coordinated(
        "fewer tokens: traces, outputs, scorecards, manifest, metrics",
        (
            *calls(_fewer_tokens),
            lines(OUTPUTS, _fewer_tokens_in_output),
            *_SCORED,
            _count_usage_again,
        ),
    ),
    Coordinated(
        "fewer tokens: traces, outputs, scorecards, manifest, metrics, journal's lines",
        (
            *calls(_fewer_tokens),
            lines(OUTPUTS, _fewer_tokens_in_output),
            *_JOURNALLED,
            _count_usage_again,
        ),
    ),
    Coordinated(
        "calls marked as cached: traces, outputs, scorecards, metrics, journal's lines",
        (*calls(_free), lines(OUTPUTS, _free_in_output), *_JOURNALLED),
    ),
    Coordinated(
        "cost: manifest, journal",
        (
            manifest(lambda m: (m["usage"].update(cost_usd=0.0), m["spent"].update(cost_usd=0.0))),
            journal("UPDATE samples SET cost_usd = 0"),
            journal(
                "UPDATE run SET value = json_set(value, '$.cost_usd', 0.0) WHERE key = 'spent'"
            ),
        ),
    ),
    Coordinated(
        "less was spent than the samples cost: manifest, journal",
        (
            manifest(lambda m: m["spent"].update(calls=1)),
            journal("UPDATE run SET value = json_set(value, '$.calls', 1) WHERE key = 'spent'"),
        ),
    ),
    Coordinated(
        "what a failure cost: errors, manifest",
        (
            lines(ERRORS, lambda e: e["spent"].update(prompt_tokens=0), "fails"),
            _count_usage_again,
        ),
    ),
    Coordinated(
        "latency: traces, outputs, metrics",
        (*calls(lambda c: c.update(latency_ms=1.0), None), evaluate_again),
    ),
    Coordinated(
        "run id: manifest, metrics", (manifest(lambda m: m.update(run_id="0")), evaluate_again)
    ),
    Coordinated(
        "the journal is gone, polarity: output", (_remove, result(_other_polarity), *_SCORED)
    ),
    Coordinated("the journal is gone", (_remove,)),
    Coordinated("the journal is empty", (_empty_journal,)),
    Coordinated("the journal is damaged", (_damaged_journal,)),
    Coordinated("the journal is another run's", (_journal_of_another,)),
    *(
        Coordinated(
            "a call is gone from traces, output and journal",
            (_no_call(TRACES, node), _no_call(OUTPUTS, node), sync_journal),
            (protocol,),
        )
        for protocol, node in _NODES.items()
    ),
    Coordinated(
        "correction log: output, scorecard, metrics, journal",
        (lines(OUTPUTS, _unlogged), *_JOURNALLED),
        _DEBATE,
    ),
    Coordinated(
        "reason of the adoption: output, scorecard, metrics, journal",
        (lines(OUTPUTS, lambda o: o["meta"].update(adopt_reason="debate_action")), *_JOURNALLED),
        _DEBATE,
    ),
    Coordinated(
        "not adopted, and Stage 1 final: output, scorecard, metrics, journal",
        (
            lines(
                OUTPUTS,
                lambda o: (
                    o["meta"].update(adopt_decision="not_adopted", adopt_reason="low_signal"),
                    o["moderator"].update(selected_stage="stage1"),
                    o["final_result"].update(final_tuples=o["final_result"]["stage1_tuples"]),
                ),
            ),
            *_JOURNALLED,
        ),
        _DEBATE,
    ),
    Coordinated(
        "gate: output, gate lines, summary",
        (
            lines(OUTPUTS, _gate_total_in_output, "override"),
            lines(GATE, _gate_total, "override"),
            summarise_gate_again,
        ),
        _DEBATE,
    ),
    Coordinated(
        "gate: output, gate lines, summary, journal",
        (
            lines(OUTPUTS, _gate_total_in_output, "override"),
            lines(GATE, _gate_total, "override"),
            *(summarise_gate_again, sync_journal),
        ),
        _DEBATE,
    ),
    Coordinated(
        "gate: no lines of a sample, output, summary",
        (
            lines(OUTPUTS, lambda o: o["meta"].update(override_gate=[]), "override"),
            *(without(GATE, "override"), summarise_gate_again),
        ),
        _DEBATE,
    ),
    Coordinated(
        "arbiter's action: output, scorecard, metrics, journal",
        (
            lines(
                OUTPUTS,
                lambda o: [a.update(action_type="KEEP") for a in o["meta"]["arbiter_actions"]],
            ),
            *_JOURNALLED,
        ),
        _ARBITER,
    ),
    Coordinated(
        "conflict flags: output, scorecard, metrics, journal",
        (lines(OUTPUTS, lambda o: o["meta"].update(conflict_flags=[])), *_JOURNALLED),
        _ARBITER,
    ),
)
"""The changes. Each is made in every run of its protocols."""
