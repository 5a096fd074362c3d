"""`absa review` without its terminal: the queue, the file, gold, counts, and what verify says."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from review_cases import BLOCKED, CALM, OPEN
from review_runs import TEXTS, finished_run, lines
from scripted import atsa

from absa.cli import run as absa
from absa.metrics.evaluation import evaluate
from absa.nodes.human_answer import apply_human_review
from absa.nodes.human_review import answered
from absa.review import Queue, export_gold, summarise
from absa.review.file import FILE, Review
from absa.review.session import Session
from absa.runs.verify import verify
from absa.runs.verify.files import sample_of
from absa.schemas.errors import InputError
from absa.schemas.human import HumanAnswer
from absa.schemas.output import FinalOutput
from absa.scorecard import scorecard

HOTELS = Path(__file__).parent / "fixtures" / "m_absa_hotel_en.jsonl"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("made"))


@pytest.fixture
def directory(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def files(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in directory.iterdir() if p.name != FILE}


def at(queue: Queue, uid: str, **more: Any) -> Session:
    """A reviewer in front of one text."""
    return Session(queue, queue.chosen(uid=uid), more.get("reviewer", "kim"))


# In a batch nobody is there ----------------------------------------------------------------------


def test_a_batch_is_finished_and_says_what_waits_for_a_person(directory: Path) -> None:
    words = {o["uid"]: o["meta"]["human_review"] for o in lines(directory / "outputs.jsonl")}
    assert words["calm"] is None
    assert [words[uid]["status"] for uid in ("open", "blocked")] == ["pending"] * 2
    assert [r["code"] for r in words["open"]["reasons"]] == ["unresolved_conflicts"]
    assert [r["code"] for r in words["blocked"]["reasons"]] == ["dissent", "adoption_blocked"]
    report = verify(directory)
    assert report.ok, [c.violations for c in report.checks]


def test_pending_texts_are_counted_in_the_metrics(directory: Path) -> None:
    process = evaluate(directory)["process"]
    assert process["human_review_rate"] == {"numerator": 2, "denominator": 3, "rate": 2 / 3}
    assert process["human_review_pending_rate"]["rate"] == 1.0
    assert process["human_review_reasons"]["adoption_blocked"]["numerator"] == 1
    assert process["human_review_decisions"]["flipped"] == 0


def test_a_run_that_asks_nobody_has_no_such_metrics(tmp_path: Path) -> None:
    process = evaluate(finished_run(tmp_path, "off"))["process"]
    assert not [name for name in process if name.startswith("human_review")]


# The queue ---------------------------------------------------------------------------------------


def test_texts_in_doubt_come_first_and_then_the_lowest_confidences(directory: Path) -> None:
    queue = Queue(directory)
    assert [i.uid for i in queue.chosen()] == ["blocked", "open", "calm"]
    assert [r.code for r in queue.items[-1].reasons] == ["low_confidence"]
    assert [i.uid for i in queue.chosen(uid="calm")] == ["calm"]


def test_the_most_doubtful_come_first_then_the_lowest_confidences(tmp_path: Path) -> None:
    """Twelve texts: the two in doubt, then one in ten by confidence; the others on demand."""
    calm = {**CALM, "epm": {"agent": "epm", "proposed_edits": []}}
    confidences = [0.9, 0.8, 0.55, 0.7, 0.65, 0.85, 0.95, 0.75, 0.6, 0.88]
    answers = {
        f"calm{n}": {**calm, "atsa": atsa(("가격", "positive", "비싸고", c))}
        for n, c in enumerate(confidences)
    }
    queue = Queue(
        finished_run(tmp_path, "off", answers={"open": OPEN, "blocked": BLOCKED, **answers})
    )
    assert [i.uid for i in queue.chosen()] == ["blocked", "open", "calm2", "calm8"]
    rest = [i.confidence for i in queue.items[2:]]
    assert rest == sorted(rest) and len(rest) == len(confidences)


def test_doubts_come_before_what_is_shown_anyway(tmp_path: Path) -> None:
    queue = Queue(finished_run(tmp_path, "always"))
    assert [i.uid for i in queue.items] == ["blocked", "open", "calm"]
    assert [r.code for r in queue.items[-1].reasons] == ["always"]


def test_a_run_that_asked_nobody_can_be_reviewed_all_the_same(tmp_path: Path) -> None:
    queue = Queue(finished_run(tmp_path, "off"))
    assert [i.uid for i in queue.chosen()] == ["blocked", "open", "calm"]


def test_repetitions_of_a_text_are_shown_once(tmp_path: Path) -> None:
    queue = Queue(finished_run(tmp_path, seeds=(1, 2)))
    assert [(i.uid, i.seed) for i in queue.chosen()][:2] == [("blocked", 1), ("open", 1)]
    with queue.file.open():
        at(queue, "open").next()
    assert summarise(queue).reviewed == 1


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda d: (d / "manifest.json").unlink(), "is not a run directory"),
        (lambda d: (d / "outputs.jsonl").unlink(), "has no outputs.jsonl"),
        (lambda d: (d / "scorecards.jsonl").write_text(""), "scorecards.jsonl does not have"),
        (lambda d: (d / "outputs.jsonl").write_text("{}\n"), "outputs.jsonl:1: not a valid record"),
        (lambda d: (d / "outputs.jsonl").write_text('{"uid": "x"}\n'), "'x' is not a valid output"),
        (lambda d: (d / FILE).write_text("{}\n"), "reviews.jsonl:1: not a review"),
    ],
)
def test_what_is_no_run_or_damaged_is_named(directory: Path, damage, complaint, capsys) -> None:
    damage(directory)
    assert absa(["review", str(directory), "--list"]) == 2
    assert complaint in capsys.readouterr().err


# Decisions on disk -------------------------------------------------------------------------------


def test_every_decision_is_on_disk_at_once_and_the_last_line_wins(directory: Path) -> None:
    queue = Queue(directory)
    before = files(directory)
    with queue.file.open():
        session = at(queue, "open")
        session.flip("negative")
        session.move(1)
        session.keep()
        session.next()
    written = lines(directory / FILE)
    assert [len(line["decisions"]) for line in written] == [1, 2, 2]
    assert [line["finished"] for line in written] == [False, False, True]
    assert {line["reviewer"] for line in written} == {"kim"} and written[0]["at"]
    assert Queue(directory).file.latest["open"].finished
    assert files(directory) == before


def test_a_text_that_was_begun_is_gone_on_with(directory: Path) -> None:
    queue = Queue(directory)
    with queue.file.open():
        at(queue, "open").drop()
    again = Queue(directory)
    session = at(again, "open")
    assert [d.action for d in session.decisions] == ["drop"]
    assert not again.finished(session.item)
    with again.file.open():
        session.undo()
    assert Queue(directory).file.latest["open"].decisions == ()


def test_a_decision_on_the_same_tuple_takes_the_place_of_the_first(directory: Path) -> None:
    queue = Queue(directory)
    with queue.file.open():
        session = at(queue, "open")
        session.keep()
        session.flip("negative")
        session.set_label("mixed")
        session.set_label("negative")
        assert [d.action for d in session.decisions] == ["flip", "label"]
        assert session.label == "negative"
        session.undo()
        assert session.label == "mixed"  # what the tuples add up to


def test_what_cannot_be_decided_is_said_and_not_written(directory: Path) -> None:
    queue = Queue(directory)
    with queue.file.open():
        session = at(queue, "blocked")
        session.flip("positive")
        assert "is already positive" in session.message
        session.add("값", "negative", "not there")
        assert "is not in the text" in session.message
        session.move(2)
        session.drop()
        assert "맛 negative is not in the result; press a to add it" in session.message
    assert not (directory / FILE).read_bytes()


def test_a_line_that_was_cut_short_is_written_over(directory: Path) -> None:
    queue = Queue(directory)
    with queue.file.open():
        at(queue, "open").next()
    with (directory / FILE).open("ab") as torn:
        torn.write(b'{"decisions":[],"uid":"bl')
    again = Queue(directory)
    assert set(again.file.latest) == {"open"}
    with again.file.open():
        at(again, "blocked").next()
    assert [line["uid"] for line in lines(directory / FILE)] == ["open", "blocked"]


def test_a_last_line_that_lacks_only_its_newline_counts(directory: Path) -> None:
    queue = Queue(directory)
    with queue.file.open():
        at(queue, "open").next()
    path = directory / FILE
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    again = Queue(directory)
    assert again.file.latest["open"].finished
    with again.file.open():
        at(again, "blocked").next()
    assert [line["uid"] for line in lines(path)] == ["open", "blocked"]


def test_two_people_cannot_review_one_run_at_once(directory: Path) -> None:
    with Queue(directory).file.open(), pytest.raises(InputError, match="being reviewed"):
        with Queue(directory).file.open():
            pass


def test_decisions_that_do_not_fit_the_result_are_outdated_not_applied(directory: Path) -> None:
    [item] = Queue(directory).chosen(uid="open")
    decisions = [{"action": "drop", "aspect": "배송"}]
    about = {"uid": "open", "seed": 0, "shown": item.shown, "finished": True}
    review = Review.model_validate({**about, "decisions": decisions})
    (directory / FILE).write_text(f"{review.model_dump_json()}\n", "utf-8")
    summary = summarise(Queue(directory))
    assert (summary.reviewed, summary.outdated) == (0, ["open"])


def _other_polarity(output: Any) -> None:
    for part in ("final_aspects", "final_tuples"):
        output["final_result"][part][0]["polarity"] = "negative"


def _other_label(output: Any) -> None:
    output["final_result"]["label"] = "mixed"


def _other_text(output: Any) -> None:
    output["text"] += "!"


@pytest.mark.parametrize("change", [_other_polarity, _other_label, _other_text])
def test_an_approval_of_another_result_is_outdated(
    directory: Path, tmp_path: Path, change: Any
) -> None:
    queue = Queue(directory)
    with queue.file.open():
        at(queue, "open").next()
    assert summarise(Queue(directory)).reviewed == 1
    outputs = directory / "outputs.jsonl"
    rows = lines(outputs)
    change(next(row for row in rows if row["uid"] == "open"))
    outputs.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    again = Queue(directory)
    assert (export_gold(again, tmp_path / "gold.jsonl"), again.outdated) == (0, ["open"])


def test_an_approval_of_another_seed_is_outdated(tmp_path: Path) -> None:
    queue = Queue(finished_run(tmp_path, seeds=(1, 2)))
    with queue.file.open():
        at(queue, "open").next()
    path = queue.directory / FILE
    path.write_text(path.read_text("utf-8").replace('"seed":1', '"seed":2'), "utf-8")
    again = Queue(queue.directory)
    assert (summarise(again).reviewed, again.outdated) == (0, ["open"])


# Counts and gold ---------------------------------------------------------------------------------


@pytest.fixture
def reviewed(directory: Path) -> Queue:
    """`open`: 가격 turned and a tuple added; `blocked`: left as it is."""
    queue = Queue(directory)
    with queue.file.open():
        session = at(queue, "open")
        session.flip("negative")
        session.add("가성비", "negative", "비싸고")
        session.move(1)
        session.keep()
        session.next()
        at(queue, "blocked", reviewer="lee").next()
    return Queue(directory)


def test_the_summary_counts_decisions_and_agreement(reviewed: Queue) -> None:
    summary = summarise(reviewed)
    assert (summary.texts, summary.reviewed, summary.pending) == (3, 2, 1)
    assert summary.reviewers == {"kim": 1, "lee": 1}
    did = summary.decisions
    assert (did.kept, did.flipped, did.dropped, did.added) == (1, 1, 0, 1)
    assert (summary.same_tuples.numerator, summary.same_tuples.denominator) == (1, 2)
    # Of the run's 4 tuples 3 stand; the person has 5, of which the run found 3.
    assert (summary.precision.numerator, summary.precision.denominator) == (3, 4)
    assert (summary.recall.numerator, summary.recall.denominator) == (3, 5)


def test_the_summary_of_nothing_has_no_rates(directory: Path, capsys) -> None:
    assert absa(["review", str(directory), "--summary", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pending"] == 3 and found["precision"]["value"] is None


def test_gold_is_read_by_the_commands_that_read_data(
    reviewed: Queue, tmp_path: Path, capsys
) -> None:
    gold, again = tmp_path / "gold.jsonl", tmp_path / "again"
    command = ["review", str(reviewed.directory), "--export", "gold", str(gold)]
    assert absa(command) == 0
    by_uid = {line["uid"]: line for line in lines(gold)}
    assert set(by_uid) == {"open", "blocked"}
    assert (by_uid["open"]["domain"], by_uid["open"]["split"]) == ("food", "test")
    assert by_uid["open"]["label"] == "mixed"
    assert by_uid["open"]["aspects"] == [
        {"term": "가격", "from": 0, "to": 2, "polarity": "negative"},
        {"term": "맛", "from": 8, "to": 9, "polarity": "positive"},
        {"term": "가성비", "from": None, "to": None, "polarity": "negative"},
    ]
    capsys.readouterr()
    assert absa(["data", str(gold), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert (about["samples"], about["aspects"], about["with_gold"]["numerator"]) == (2, 5, 2)
    assert about["implicit"]["numerator"] == 1
    assert absa(["run", str(gold), "--out", str(again), "--no-cache"]) == 0
    assert absa(["evaluate", str(again)]) == 0
    metrics = json.loads((again / "metrics.json").read_text("utf-8"))
    assert metrics["gold"]["scored"] == 2


def test_the_embedded_analyser_learns_from_reviewed_texts(tmp_path: Path, capsys) -> None:
    directory, gold = tmp_path / "run", tmp_path / "gold.jsonl"
    assert absa(["run", str(HOTELS), "--out", str(directory), "--no-cache"]) == 0
    queue = Queue(directory)
    with queue.file.open():
        session = Session(queue, queue.items, "kim")
        while not session.done:
            session.next()
    assert export_gold(queue, gold) == 60
    capsys.readouterr()
    assert absa(["train", str(gold), "--out", str(tmp_path / "model")]) == 0
    assert "trained on" in capsys.readouterr().out


def test_a_finished_queue_has_nothing_to_review(reviewed: Queue, capsys) -> None:
    with reviewed.file.open():
        at(reviewed, "calm").next()
    assert absa(["review", str(reviewed.directory)]) == 0
    assert "there is nothing to review" in capsys.readouterr().out


def test_the_limit_counts_texts_that_are_still_to_review(reviewed: Queue, capsys) -> None:
    assert absa(["review", str(reviewed.directory), "--list", "--all", "--limit", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    (reviewed.directory / FILE).unlink()
    assert absa(["review", str(reviewed.directory), "--list", "--all", "--limit", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_only_gold_can_be_exported(directory: Path, capsys) -> None:
    assert absa(["review", str(directory), "--export", "silver", "x.jsonl"]) == 2
    assert "not a known export" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["missing/gold.jsonl", "", "run"])
def test_gold_that_cannot_be_written_is_told(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absa(["review", str(directory), "--export", "gold", where]) == 2
    told = capsys.readouterr().err
    assert str(Path(where)) in told and ("directory" in told)


# Not a terminal ----------------------------------------------------------------------------------


def test_the_queue_is_plain_lines(reviewed: Queue, capsys) -> None:
    assert absa(["review", str(reviewed.directory), "--list", "--all"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[:4] for row in rows] == [
        ["reviewed", "blocked", "dissent,adoption_blocked", TEXTS["blocked"]],
        ["reviewed", "open", "unresolved_conflicts", TEXTS["open"]],
        ["pending", "calm", "low_confidence", TEXTS["calm"]],
    ]
    assert [row[4] for row in rows] == [
        "epm called 가격 negative, it is positive; "
        "Stage 2 was blocked: its tuples contradict the debate's, or each other",
        "the debate left open: 가격: 비싸고",
        "confidence 0.70, among the lowest of this run",
    ]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ([], "a review needs a terminal; --list prints the queue"),
        (["--uid", "nobody"], "no text with this identifier"),
        (["--list", "--summary"], "one of --list, --summary and --export"),
    ],
)
def test_wrong_use_is_told(directory: Path, more: list[str], complaint: str, capsys) -> None:
    assert absa(["review", str(directory), *more]) == 2
    assert complaint in capsys.readouterr().err


# Verify ------------------------------------------------------------------------------------------


def with_answers(directory: Path) -> Path:
    """The run as if a person had answered in it: outputs and scorecards say so."""
    queue = Queue(directory)
    decided = HumanAnswer.model_validate(
        {
            "decisions": [
                {"action": "flip", "aspect": "가격", "polarity": "negative"},
                {"action": "drop", "aspect": "맛"},
                {"action": "add", "aspect": "값", "polarity": "neutral", "evidence": "비싸고"},
                {"action": "label", "label": "neg"},
            ],
            "reviewer": "kim",
        }
    )
    outputs, cards = [], []
    for line, card in zip(
        lines(directory / "outputs.jsonl"), lines(directory / "scorecards.jsonl"), strict=True
    ):
        output = FinalOutput.model_validate(line)
        item = next(i for i in queue.items if i.uid == output.uid)
        if output.meta.human_review:
            output = apply_human_review(output, answered(decided, item.reasons))
            card = scorecard(output, sample_of(output, card), 0)
        outputs.append(output.model_dump_json())
        cards.append(json.dumps(card, ensure_ascii=False))
    (directory / "outputs.jsonl").write_text("\n".join(outputs) + "\n", "utf-8")
    (directory / "scorecards.jsonl").write_text("\n".join(cards) + "\n", "utf-8")
    with closing(sqlite3.connect(directory / "journal.db")) as journal, journal:
        for output, card in zip(outputs, cards, strict=True):
            parts = [zlib.compress(line.encode()) for line in (output, card)]
            journal.execute(
                "UPDATE samples SET output = ?, scorecard = ? WHERE uid = ?",
                [*parts, json.loads(output)["uid"]],
            )
    return directory


def test_verify_accepts_what_a_person_decided(directory: Path) -> None:
    report = verify(with_answers(directory))
    assert report.ok, [c.violations for c in report.checks]
    process = evaluate(directory)["process"]
    assert process["human_review_pending_rate"]["rate"] == 0.0
    assert process["human_review_decisions"] == {
        "kept": 0,
        "flipped": 2,
        "dropped": 2,
        "added": 2,
        "labelled": 2,
    }


def test_the_report_and_the_screen_tell_what_a_person_did(directory: Path, tmp_path: Path) -> None:
    from rich.console import Console

    from absa.cli.screen import Screen
    from absa.schemas.settings import OverrideSettings

    with_answers(directory)
    output = FinalOutput.model_validate(lines(directory / "outputs.jsonl")[-1])
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(Screen(output, OverrideSettings()))
    shown = console.export_text()
    assert "kim: 1 flipped, 1 dropped, 1 added, 1 labelled" in shown
    assert "a person changed positive to negative" in shown
    assert "a person changed it from positive" in shown
    assert absa(["report", str(directory), "-o", str(tmp_path / "r.html")]) == 0


def test_a_pending_text_is_shown_as_such(directory: Path, tmp_path: Path) -> None:
    from absa.show import person

    output = FinalOutput.model_validate(lines(directory / "outputs.jsonl")[-1])
    assert str(person(output)).startswith("waits for a person: the debate left open")


def _tamper(path: Path, change: Any) -> None:
    rows = lines(path)
    change(rows[-1])
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, "utf-8")


def _another_label(o: Any) -> None:
    o["final_result"]["label"] = "positive"


def _ghost(o: Any) -> None:
    o["meta"]["correction_applied_log"].pop()


def _lost_decision(o: Any) -> None:
    o["meta"]["human_review"]["decisions"].pop(1)


def _other_tuple(o: Any) -> None:
    for part in ("final_aspects", "final_tuples"):
        o["final_result"][part][0]["polarity"] = "positive"


def _other_shown(o: Any) -> None:
    o["meta"]["human_review"]["shown"]["final_aspects"][1]["polarity"] = "negative"


def _never_asked(o: Any) -> None:
    o["meta"]["human_review"] |= {"status": "pending", "shown": None, "decisions": []}


def _nothing_shown(o: Any) -> None:
    o["meta"]["human_review"]["shown"] = None


def _miscounted(o: Any) -> None:
    o["meta"]["human_review"]["counts"]["kept"] = 7


@pytest.mark.parametrize(
    "change",
    [
        _another_label,
        _ghost,
        _lost_decision,
        _other_tuple,
        _other_shown,
        _never_asked,
        _nothing_shown,
        _miscounted,
    ],
)
def test_verify_finds_what_a_person_did_not_decide(directory: Path, change: Any) -> None:
    _tamper(with_answers(directory) / "outputs.jsonl", change)
    found = {c.name: [v.what for v in c.violations] for c in verify(directory).checks}
    assert found["S4"] or (change is _other_shown and found["S1"]), found
