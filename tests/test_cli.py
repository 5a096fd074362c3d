"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import openai_server
import pytest
from rich.cells import cell_len
from scripted import (
    all_say,
    ate,
    ate_review,
    atsa,
    atsa_review,
    decide,
    judge,
    pipeline,
    propose,
    risk,
    said,
    set_polarity,
    turn,
    validator,
)
from typer.testing import CliRunner

from absa import show
from absa.cli import build_app, run
from absa.cli.options import console
from absa.cli.screen import Screen, wrap
from absa.nodes.intake import text_uid
from absa.offline import OfflineAnalyst
from absa.schemas.output import FinalOutput
from absa.schemas.settings import OverrideSettings, PipelineSettings

ROOT = Path(__file__).resolve().parent.parent
GOOD = "The food is great."
OTHER = "The price is bad."


def spoken(term: str, polarity: str, evidence: str) -> dict[Any, Any]:
    return said(ate=ate(term), atsa=atsa((term, polarity, evidence, 0.9)))


ANSWERS = {GOOD: spoken("food", "positive", "great"), OTHER: spoken("price", "negative", "bad")}


@pytest.fixture
def replay(tmp_path: Path) -> list[str]:
    """Options for a backend that knows the answers for two texts and no other."""
    return recorded(tmp_path, ANSWERS)


def recorded(folder: Path, answers: Mapping[str, Mapping[Any, Any]]) -> list[str]:
    lines = [
        json.dumps({"uid": text_uid(text), "node": node, "turn": 0, "output": output})
        for text, outputs in answers.items()
        for node, output in outputs.items()
    ]
    path = folder / "traces.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return ["--set", "backend.kind=replay", "--set", f"backend.path={path}"]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "OPENAI_API_KEY", "OPENAI_BASE_URL", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")


def shown(
    output: FinalOutput,
    width: int = 100,
    settings: OverrideSettings | None = None,
    *,
    verbose: bool = False,
    **more: Any,
) -> str:
    screen = console()
    screen.width = width
    for name, value in more.items():
        setattr(screen, name, value)
    with screen.capture() as capture:
        screen.print(Screen(output, settings or OverrideSettings(), verbose=verbose))
    return capture.get()


def events(output: FinalOutput) -> list[str]:
    return [f"{e.kind}: {e}" for e in show.events(output, OverrideSettings())]


def absa(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    """The command as a user starts it."""
    code = "import sys; from absa.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        input=stdin,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", **env},
        timeout=120,
    )


# Wrong use --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["analyze"], "give exactly one of: TEXT"),
        (["analyze", "x", "--file", "y"], "give exactly one of"),
        (["analyze", "x", "--jsn"], "No such option: --jsn"),
        (["analyze", "x", "-"], "give exactly one of"),
        (["analyze", "x", "-i"], "give exactly one of"),
        (["analyze", "-i"], "needs a terminal"),
        (["analyze", ""], "text is empty"),
        (["analyze", " \n"], "text is empty"),
        (["analyze", "x", "--set", "pipeline.enable_debat=no"], "did you mean"),
        (["analyze", "x", "--set", "nonsense"], "expected key=value"),
        (["analyze", "x", "--config", "no_such_config"], "no such settings file"),
        (["analyze", "--file", "/no/such/file"], "no such file"),
        (["analyze", "--file", "/"], "directory"),
        (["analyze", "x", "--set", "backend.kind=replay"], "backend.path"),
        (
            ["analyze", "x", "--set", "backend.kind=replay", "--set", "backend.path=/no/run"],
            "no recorded answers at /no/run",
        ),
        (["graph", "--format", "png"], "'png'"),
        (["nonsense"], "nonsense"),
    ],
)
def test_a_users_mistake_is_one_line_on_stderr_and_exit_code_2(
    args: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert err.startswith("absa")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_every_problem_of_the_settings_gets_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", "--set", "a=1", "--set", "b=2"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_no_command_shows_the_help_and_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Usage: absa" in "".join(capsys.readouterr())


def test_control_characters_of_a_mistake_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["analyze", "--file", "/no/\x1b[31m"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_defect_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("absa.cli.graph.settings_from", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        run(["graph"])


@pytest.mark.parametrize("command", ["analyze", "graph", "doctor"])
def test_each_help_has_an_example(command: str) -> None:
    result = CliRunner().invoke(build_app(), [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: absa {command}" in result.stdout


def test_the_version_can_be_asked_for() -> None:
    result = CliRunner().invoke(build_app(), ["--version"])
    assert (result.exit_code, result.stdout.split()[0]) == (0, "absa")


def test_the_command_line_itself_imports_nothing_heavy() -> None:
    # The package's own __init__ is left out of it by a stand-in.
    code = (
        "import sys, types; p = types.ModuleType('absa'); p.__path__ = ['absa'];"
        "sys.modules['absa'] = p; import absa.cli; absa.cli.build_app();"
        "print([m for m in ('langgraph', 'pydantic', 'yaml', 'kiwipiepy', 'openai')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == b"[]"


# analyze: which texts ---------------------------------------------------------------------------


def test_one_text_is_shown_with_everything_about_it(replay: list[str]) -> None:
    result = CliRunner().invoke(build_app(), ["analyze", GOOD, *replay])
    assert result.exit_code == 0
    for part in ("    1===    1++++", "food", "positive", "great", "0.90", "Stage 1", "label"):
        assert part in result.stdout
    assert result.stderr == ""


def test_json_of_one_text_is_its_output_and_nothing_else(replay: list[str]) -> None:
    result = CliRunner().invoke(build_app(), ["analyze", GOOD, "--json", *replay])
    output = FinalOutput.model_validate_json(result.stdout)
    assert (output.text, output.final_result.label) == (GOOD, "positive")


@pytest.mark.parametrize("source", ["-", "--file", "--file -"])
def test_a_file_or_stdin_holds_one_text_a_line(
    source: str, replay: list[str], tmp_path: Path
) -> None:
    content = f"\ufeff{GOOD}\r\n\n  \n{OTHER}\n"
    path = tmp_path / "texts.txt"
    path.write_bytes(content.encode())
    args = {"-": ["-"], "--file": ["--file", str(path)], "--file -": ["--file", "-"]}[source]
    result = CliRunner().invoke(
        build_app(), ["analyze", *args, "--json", *replay], input=content.encode()
    )
    assert result.exit_code == 0
    texts = [json.loads(line)["text"] for line in result.stdout.splitlines()]
    assert texts == [GOOD, OTHER]


def test_texts_of_several_lines_are_told_apart_on_the_screen(replay: list[str]) -> None:
    result = CliRunner().invoke(
        build_app(), ["analyze", "-", *replay], input=f"{GOOD}\n\n{OTHER}\n"
    )
    assert "line 1\n" in result.stdout
    assert "\n\nline 3\n" in result.stdout


def test_a_failing_text_is_reported_and_the_others_go_on(
    replay: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(f"{GOOD}\nunknown\n".encode() + b"caf\xe9\n" + OTHER.encode())
    assert run(["analyze", "--file", str(path), "--json", *replay]) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["text"] for line in out.splitlines()] == [GOOD, OTHER]
    lines = err.splitlines()
    assert lines[0].startswith("absa: line 2: ")
    assert "no recorded answer" in lines[0]
    assert lines[1].startswith("absa: line 3: the bytes are not valid UTF-8")


def test_bytes_on_stdin_that_are_no_text_cost_their_line_only(
    replay: list[str],
) -> None:
    done = absa("analyze", "-", "--json", *replay, stdin=b"caf\xe9\n" + GOOD.encode())
    assert done.returncode == 1
    assert json.loads(done.stdout)["text"] == GOOD
    assert b"line 1: not UTF-8" in done.stderr


def test_the_only_text_failing_is_exit_code_1(
    replay: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", "unknown", "--json", *replay]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no recorded answer" in err


def test_an_empty_stdin_is_wrong_use() -> None:
    done = absa("analyze", "-", stdin=b"\n\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"there is no text" in done.stderr


def test_a_missing_key_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    openai = ["--set", "backend.kind=openai", "--set", "backend.model=m"]
    assert run(["analyze", GOOD, *openai]) == 1
    assert "OPENAI_API_KEY" in capsys.readouterr().err


def test_language_and_domain_reach_the_analyser(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Models are told neither: tests/test_prompts.py."""
    asked_with, answer = [], OfflineAnalyst.answer

    def heard(self: OfflineAnalyst, role: str, inputs: Mapping[str, Any]) -> Any:
        asked_with.append((inputs["lang"], inputs["domain"]))
        return answer(self, role, inputs)

    monkeypatch.setattr(OfflineAnalyst, "answer", heard)
    assert run(["analyze", GOOD, "--lang", "EN-us", "--domain", "canteen", "--json"]) == 0
    assert set(asked_with) == {("en", "canteen")}
    assert json.loads(capsys.readouterr().out)["lang"] == "en"


def test_stdout_that_is_not_unicode_still_gets_valid_json(tmp_path: Path) -> None:
    text = "The café is great 😀."
    options = recorded(tmp_path, {text: spoken("café", "positive", "great")})
    done = absa("analyze", text, "--json", *options, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert json.loads(done.stdout.decode("ascii"))["text"] == text


def test_a_screen_that_is_not_unicode_does_not_break_the_command(tmp_path: Path) -> None:
    text = "The café is great 😀."
    options = recorded(tmp_path, {text: spoken("café", "positive", "great")})
    done = absa("analyze", text, *options, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert b"caf? is great ?" in done.stdout


def test_ctrl_c_exits_130_without_a_traceback() -> None:
    code = "from absa.cli import main; print('up', flush=True); main(['analyze', '-'])"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"interrupted" in err


# analyze: the screen ----------------------------------------------------------------------------

OVERRIDDEN = "The battery life is great but the screen is bad."


@pytest.fixture(scope="module")
def overridden() -> FinalOutput:
    return decide(
        OVERRIDDEN,
        said(
            ate=ate("battery life", "screen"),
            atsa=atsa(
                ("battery life", "positive", "battery life is great", 0.9),
                ("screen", "positive", "bad", 0.5),
            ),
            **all_say("screen", "negative"),
            judge=judge(
                set_polarity("screen", "negative"),
                tuples=[("battery life", "positive"), ("screen", "negative")],
                label="mixed",
                evidence={"screen": "the screen is bad"},
            ),
        ),
        lang="en",
    )


def test_overlapping_spans_are_marked_in_lines_of_their_own(overridden: FinalOutput) -> None:
    assert shown(overridden).splitlines()[:3] == [
        "The battery life is great but the screen is bad.",
        "    1===========                  2=====",
        "    1++++++++++++++++++++     2----------------",
    ]


def test_an_override_is_shown_with_where_it_came_from_and_why(overridden: FinalOutput) -> None:
    screen = shown(overridden, verbose=True)
    assert "debate override" in screen
    assert "changed   screen: the debate changed positive to negative (total 2.3, margin 2.3)" in (
        screen
    )
    assert "Stage 2 was adopted: the debate asked for a change" in screen
    assert "RuleM" in screen


def test_korean_marks_stand_under_their_words() -> None:
    text = "사용감은 좋지만 가격은 비싸요."
    output = decide(
        text,
        said(
            ate=ate("사용감", "가격"),
            atsa=atsa(("사용감", "positive", "좋지만", 0.9), ("가격", "negative", "비싸요", 0.9)),
        ),
    )
    line, marks, *_ = shown(output).splitlines()
    assert line == text
    assert cell_len(line[: text.index("가격")]) == marks.index("2===")
    assert cell_len(line[: text.index("비싸요")]) == marks.index("2-----")
    table = [row for row in shown(output).splitlines() if "Stage 1" in row and "0.90" in row]
    assert len(table) == 2
    assert len({cell_len(row[: row.index("0.90")]) for row in table}) == 1


@pytest.mark.parametrize("width", [20, 40, 69, 70, 200])
def test_no_line_is_wider_than_the_terminal(width: int, overridden: FinalOutput) -> None:
    lines = shown(overridden, width).splitlines()
    assert max(map(cell_len, lines)) <= width
    joined = " ".join(" ".join(lines).split())
    for part in ("battery life", "negative", "3 of 3 agreed"):
        assert part in joined


def test_long_texts_are_broken_at_spaces_and_marked_on_every_line() -> None:
    text = "One and two and three and four."
    assert [text[a:b].strip() for a, b in wrap(list(text), 12)] == [
        "One and two",
        "and three",
        "and four.",
    ]
    assert list(wrap(list("가나다라"), 5)) == [(0, 2), (2, 4)]
    assert list(wrap(list("a\nb"), 5)) == [(0, 1), (2, 3)]
    output = decide(text, said(ate=ate("two and three"), atsa=atsa()), lang="en")
    assert shown(output, 12).splitlines()[:4] == [
        "One and two",
        "        1==",
        "and three",
        "=========",
    ]


def test_evidence_is_marked_where_it_is_nearest_to_its_aspect() -> None:
    text = "Good tea. The soup was good, the staff were good too."
    output = decide(
        text,
        said(
            ate=ate("soup", "staff"),
            atsa=atsa(("soup", "positive", "good", 0.9), ("staff", "positive", "good", 0.9)),
        ),
        lang="en",
    )
    marked = [(p.row, p.start) for p in show.places(output) if p.part == "evidence"]
    assert marked == [(1, text.index("good,")), (2, text.index("good too"))]


def test_aspects_that_share_evidence_share_its_mark() -> None:
    text = "Price and delivery were fine."
    output = decide(
        text,
        said(
            ate=ate("Price", "delivery"),
            atsa=atsa(("Price", "positive", "fine", 0.9), ("delivery", "positive", "fine", 0.9)),
        ),
        lang="en",
    )
    assert shown(output).splitlines()[1] == "1====     2=======      1,2+"


def test_a_review_cannot_write_to_the_terminal_or_use_markup() -> None:
    text = "The [red]food[/red] \x1b[31mis\x07 :smile:\u202e great\x9b."
    output = decide(
        text,
        said(
            ate=ate("food"),
            atsa=atsa(("food", "positive", "\x1b[31mis\x07", 0.9)),
            validator=validator(proposals=[propose("FLIP_POLARITY", "\x1b]0;owned\x07[b]x[/b]")]),
        ),
        lang="en",
    )
    screen = shown(output, 120, verbose=True)
    assert not {c for c in screen if not c.isprintable()} - {"\n"}
    first = screen.splitlines()[0]
    assert first == r"The [red]food[/red] \x1b[31mis\x07 :smile:\u202e great\x9b."
    # Marks follow the escaped text.
    assert screen.splitlines()[1].index("1=") == first.index("food")
    assert r"\x1b]0;owned\x07[b]x[/b]" in screen


def test_implicit_ungrounded_and_missing_evidence_are_marked() -> None:
    output = decide(
        "It costs too much, and the tea.",
        said(
            ate=ate("price", "tea"),
            atsa=atsa(("price", "negative", "far too dear", 0.9)),
        ),
        lang="en",
    )
    screen = shown(output)
    assert "price (implicit)" in screen
    assert "far too dear (not in the text)" in screen
    tea = next(line for line in screen.splitlines() if line.startswith("2"))
    assert "none" in tea


def test_a_text_without_aspects_says_so() -> None:
    assert "no aspects found" in shown(decide("Well.", said(), lang="en"))


@pytest.mark.parametrize(("no_color", "coloured"), [(False, True), (True, False)])
def test_colours_follow_polarity_and_no_color(
    no_color: bool, coloured: bool, overridden: FinalOutput
) -> None:
    screen = shown(overridden, no_color=no_color, _force_terminal=True, _color_system=1)
    # Red negative, green positive; without colour the signs say it.
    assert ("31m" in screen and "32m" in screen) == coloured
    assert "2----" in screen


def test_a_pipe_gets_no_escape_codes(replay: list[str]) -> None:
    done = absa("analyze", GOOD, *replay)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout + done.stderr


# analyze: reasons in plain words ----------------------------------------------------------------


@pytest.fixture
def text() -> str:
    return "The food is bad."


def gate_line(text: str, **answers: Any) -> str:
    answers_by_node = {
        "ate": ate("food"),
        "atsa": atsa(("food", "positive", "bad", 0.5)),
        **answers,
    }
    output = decide(text, said(**answers_by_node), lang="en")
    return events(output)[-1]


LOUD = {
    **all_say("food", "negative"),
    "judge": judge(set_polarity("food", "negative"), evidence={"food": "bad"}),
}


def divided(text: str) -> str:
    return gate_line(
        text,
        epm=turn(set_polarity("food", "positive")),
        tan=turn(set_polarity("food", "negative")),
        judge=judge(set_polarity("food", "negative"), evidence={"food": "bad"}),
    )


def test_skips_of_the_gate_are_explained_with_their_numbers(text: str) -> None:
    quiet = {"epm": turn(set_polarity("food", "negative")), "cj": turn(set_polarity("food", "neg"))}
    weak = "refused: food: no override to negative: the debate's signal was too weak"
    assert gate_line(text, **quiet, judge=judge(evidence={"food": "bad"})) == (
        f"{weak} (total 1.0 < 1.6)"
    )
    assert "divided (margin 0.8 < 0.8)" not in divided(text)
    assert gate_line(text, **quiet).endswith("the debate gave no evidence")
    assert gate_line(text, **quiet, judge=judge(evidence={"food": "worse"})).endswith(
        'the debate\'s evidence "worse" is not in the text'
    )
    assert gate_line(text, **quiet, judge=judge(evidence={"food": "b"})).endswith(
        'the debate\'s evidence "b" is too short'
    )
    assert gate_line(text, epm=turn(set_polarity("food", "neutral"))).endswith(
        "no override: the debate said nothing positive or negative about it"
    )
    assert gate_line(text, **LOUD, validator=validator(risk("NEGATION_SCOPE"))).endswith(
        "the Validator saw a risk (negation scope), and with such a risk the gate changes nothing "
        "(l3_conservative)"
    )
    agreeing = gate_line(
        text,
        **LOUD,
        atsa=atsa(("food", "negative", "bad", 0.9)),
        validator=validator(risk("NEGATION_SCOPE")),
    )
    assert agreeing.startswith("refused: food: not confirmed as negative: the Validator saw a risk")
    assert gate_line(text, **LOUD, atsa_review=atsa_review(("food", "drop"))).endswith(
        "a review removed it or its sentiment, so the agents disagree about what to do"
    )
    assert gate_line(text, **LOUD, atsa=atsa(("food", "negative", "bad", 0.9))) == (
        "agreed: food: negative already, with a confidence of at least 0.7"
    )


def test_a_divided_debate_and_a_used_up_override_are_explained(text: str) -> None:
    both = [set_polarity("food", "positive"), set_polarity("food", "negative")]
    line = gate_line(text, epm=turn(*both), tan=turn(*both), judge=judge(evidence={"food": "bad"}))
    assert line.endswith("the debate was divided (margin 0.0 < 0.8)")
    output = decide(
        "The food and the tea are bad.",
        said(
            ate=ate("food", "tea"),
            atsa=atsa(("food", "positive", "bad", 0.5), ("tea", "positive", "bad", 0.5)),
            **{
                name: turn(set_polarity("food", "negative"), set_polarity("tea", "negative"))
                for name in ("epm", "tan", "cj")
            },
            judge=judge(set_polarity("food", "negative"), spans=["bad"]),
        ),
        lang="en",
    )
    assert events(output)[-1].endswith("the overrides allowed for one text (1) are used up")


def test_an_implicit_aspect_is_not_overridden_and_says_so() -> None:
    output = decide(
        "Far too dear.",
        said(
            ate=ate("price"),
            atsa=atsa(("price", "positive", "dear", 0.5)),
            **all_say("price", "negative"),
            judge=judge(set_polarity("price", "negative"), evidence={"price": "dear"}),
        ),
        lang="en",
    )
    assert "the aspect is implicit: the text does not name it" in events(output)[-1]


def test_a_second_drop_says_that_the_aspect_was_already_dropped(text: str) -> None:
    output = decide(
        text,
        said(
            ate=ate("food"),
            atsa=atsa(("food", "negative", "bad", 0.5)),
            validator=validator(proposals=[propose("DROP_ASPECT", "food")]),
            ate_review=ate_review(("food", "drop")),
        ),
        lang="en",
    )
    assert "refused: food: ATE's review wanted to drop it, but it was already dropped" in (
        events(output)
    )


def test_refused_reviews_are_explained(text: str) -> None:
    output = decide(
        text,
        said(
            ate=ate("food"),
            atsa=atsa(("food", "neutral", "bad", 0.5)),
            validator=validator(proposals=[propose("FLIP_POLARITY", "food")]),
            ate_review={**ate_review(("tea", "add"), ("menu", "drop")), "aspects": []},
            atsa_review=atsa_review(("food", "add", "negative"), ("food", "flip_polarity", "meh")),
        ),
        lang="en",
    )
    assert events(output) == [
        "refused: food: the Validator wanted to flip its polarity, but a neutral has no opposite",
        "refused: tea: ATE's review wanted to add it, but it is not in the text",
        "refused: menu: ATE's review wanted to drop it, but the aspect or sentiment does not exist",
        "refused: food: ATSA's review wanted to add it, but the aspect already has a sentiment",
        "refused: food: ATSA's review wanted to flip its polarity, but its polarity is not valid",
        "refused: ate_review: aspects discarded: reviews only; "
        "a review may not replace Stage 1's list",
    ]


def test_applied_reviews_say_what_they_did(text: str) -> None:
    output = decide(
        "The hot food, soup and tea are bad.",
        said(
            ate=ate("food", "soup"),
            atsa=atsa(("food", "positive", "bad", 0.5), ("soup", "negative", "bad", 0.5)),
            ate_review=ate_review(
                ("food", "revise_span", "hot food"), ("soup", "drop"), ("tea", "add")
            ),
            atsa_review=atsa_review(("hot food", "flip_polarity", "negative", 0.9)),
        ),
        pipeline(enable_debate=False, override={"ev_threshold": 0.0}),
        lang="en",
    )
    lines = events(output)
    assert lines[0].startswith('changed: food: ATE\'s review moved it to "hot food"')
    assert lines[1].startswith("changed: soup: ATE's review dropped it")
    assert lines[2].startswith("changed: tea: ATE's review added it as neutral")
    assert lines[3].startswith("changed: hot food: ATSA's review changed positive to negative")
    origins = {a.aspect_term: show.origin(a, output) for a in output.final_result.final_aspects}
    assert origins == {"hot food": "review (ATSA)", "tea": "review (ATE)"}


def test_changes_of_an_unadopted_stage_2_are_set_aside(text: str) -> None:
    output = decide(
        text,
        said(
            ate=ate("food"),
            atsa=atsa(("food", "negative", "bad", 0.9)),
            judge=judge(tuples=[("food", "negative")]),
            atsa_review=atsa_review(("food", "flip_polarity")),
        ),
        lang="en",
    )
    assert events(output)[0].startswith(
        "set aside: food: ATSA's review wanted to change negative to positive"
    )
    assert show.origin(output.final_result.final_aspects[0], output) == "Stage 1"
    assert show.adoption(output, OverrideSettings()) == (
        "Stage 1's result stands: Stage 2 was blocked, since it is not what the debate agreed on"
    )


def adoption(text: str, settings: PipelineSettings | None = None, **answers: Any) -> str:
    answers_by_node = {
        "ate": ate("food"),
        "atsa": atsa(("food", "positive", "bad", 0.5)),
        **answers,
    }
    output = decide(text, said(**answers_by_node), settings, lang="en")
    return show.adoption(output, (settings or PipelineSettings()).debate_override)


def test_adoption_is_explained(text: str) -> None:
    flip = {"atsa_review": atsa_review(("food", "flip_polarity", "negative", 0.9))}
    stands = "Stage 1's result stands: "
    assert adoption(text) == f"{stands}Stage 2 changed nothing"
    assert adoption(text, epm=turn(set_polarity("food", "negative"))) == (
        f"{stands}Stage 2 changed nothing, and the gate held the debate back: "
        "the debate gave no evidence"
    )
    assert adoption(text, pipeline(enable_stage2=False)) == (
        "there was no Stage 2; Stage 1's result stands"
    )
    assert adoption(text, atsa_review=atsa_review(("food", "drop"))) == (
        f"{stands}Stage 2 left no aspect with a sentiment"
    )
    assert adoption(text, pipeline(override={"ev_threshold": 0.9}), **flip).startswith(
        f"{stands}there is too little for Stage 2's changes (evidence value 0.429 < 0.9: "
    )
    assert adoption(text, pipeline(enable_debate=False), **flip) == (
        "Stage 2 was adopted: the reviews changed it "
        "(evidence value 1.0 ≥ 0.5: better grounding 1.0, tuples tied to an aspect 1.0)"
    )
    low = {"atsa_review": atsa_review(("food", "flip_polarity", "negative", 0.1))}
    assert adoption(text, pipeline(enable_debate=False), **low) == (
        f"{stands}Stage 2 was less confident by 0.4, so the Moderator went back to Stage 1"
    )
    resolved = {**flip, "validator": validator("EVIDENCE_GAP", "OTHER")}
    assert "it resolves risks that the Validator saw, 2 before and 0 after" in (
        adoption(text, pipeline(enable_debate=False), **resolved)
    )


def test_the_rules_are_explained_with_and_without_a_moderator(text: str) -> None:
    answers = said(ate=ate("food"), atsa=atsa(("food", "negative", "bad", 0.9)))
    assert show.rules(decide(text, answers, lang="en")) == "Stage 1's label; no rule changed it"
    alone = decide(text, answers, pipeline(enable_moderator=False), lang="en")
    assert show.rules(alone) == "no Moderator: the label is the aggregate of the aspects"


def test_a_reason_without_a_sentence_is_shown_as_it_is(overridden: FinalOutput) -> None:
    record = overridden.meta.override_gate[0].model_copy(update={"verdict": "brand_new"})
    assert show.gate_reason(record, overridden, OverrideSettings()) == "brand_new"


# graph ------------------------------------------------------------------------------------------


def drawn(*args: str) -> str:
    result = CliRunner().invoke(build_app(), ["graph", *args])
    assert result.exit_code == 0
    return result.stdout


def test_mermaid_is_the_default_drawing() -> None:
    assert drawn() == drawn("--format", "mermaid")
    assert "skip_low_signal" in drawn()
    assert "graph TD" in drawn()


@pytest.mark.parametrize("form", ["mermaid", "ascii", "svg"])
def test_settings_and_a_closed_gate_change_the_drawing(form: str) -> None:
    assert "epm" in drawn("--format", form)
    assert "epm" not in drawn("--format", form, "--config", "abl_no_debate")
    assert "moderator" not in drawn("--format", form, "--set", "pipeline.enable_moderator=false")
    closed = drawn("--format", form, "--no-gate")
    assert "override_gate" in closed
    assert "skip_low_signal" not in closed


# doctor -----------------------------------------------------------------------------------------


@pytest.fixture
def no_kiwi(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("absa.cli.doctor._korean", lambda: {"loads": True, "ms": 1.0})
    yield


def examined(*args: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(build_app(), ["doctor", "--json", *args])
    return result.exit_code, json.loads(result.stdout)


def test_the_offline_backend_answers_a_real_question() -> None:
    code, report = examined()
    assert code == 0
    assert report["ok"] is True
    assert report["backend"]["kind"] == "offline"
    assert {a["aspect_ref"] for a in report["backend"]["answer"]["aspect_sentiments"]} == {
        "사용감",
        "가격",
    }
    assert report["korean"]["loads"] is True
    assert all(report["versions"].values())
    assert all(folder["files"] for folder in report["folders"].values())
    assert report["settings"]["pipeline"]["enable_debate"] is True


def test_doctor_for_people_says_the_same_in_lines(replay: list[str]) -> None:
    result = CliRunner().invoke(build_app(), ["doctor", *replay])
    assert result.exit_code == 0
    for part in ("python", "langgraph", "kiwipiepy", "configs", "settings", "Korean", "replay of"):
        assert part in result.stdout
    assert "answers" in result.stdout
    assert "ms" in result.stdout


@pytest.mark.usefixtures("no_kiwi")
def test_a_missing_key_is_the_reason_given() -> None:
    code, report = examined("--set", "backend.kind=openai", "--set", "backend.model=m")
    assert code == 1
    assert report["backend"]["key"] is False
    assert "set OPENAI_API_KEY" in report["backend"]["reason"]


def at(url: str) -> list[str]:
    return [
        *("--set", "backend.kind=openai", "--set", "backend.model=m"),
        *("--set", f"backend.base_url={url}"),
    ]


@pytest.mark.usefixtures("no_kiwi")
def test_a_server_that_is_not_there_is_refused_in_so_many_words() -> None:
    code, report = examined(*at(openai_server.free_port_url()))
    assert code == 1
    assert "connection refused" in report["backend"]["reason"]


@pytest.mark.usefixtures("no_kiwi")
def test_a_server_is_asked_once_and_its_answer_shown() -> None:
    with openai_server.serve() as server:
        server.rule = lambda _: openai_server.says(atsa(("가격", "negative", "비싸요", 0.9)))
        code, report = examined(*at(server.url))
        assert len(server.requests) == 1
    assert code == 0
    assert report["backend"]["answer"]["aspect_sentiments"][0]["aspect_ref"] == "가격"
    assert report["backend"]["ms"] > 0


@pytest.mark.usefixtures("no_kiwi")
def test_a_server_in_trouble_is_not_asked_again() -> None:
    with openai_server.serve() as server:
        server.rule = lambda _: openai_server.fails(503, "overloaded")
        code, report = examined(*at(server.url))
        assert len(server.requests) == 1
    assert code == 1
    assert "HTTP 503" in report["backend"]["reason"]


@pytest.mark.usefixtures("no_kiwi")
def test_a_recording_that_is_not_there_is_named() -> None:
    code, report = examined("--set", "backend.kind=replay", "--set", "backend.path=/no/run")
    assert code == 1
    assert "no recorded answers at /no/run" in report["backend"]["reason"]


@pytest.mark.usefixtures("no_kiwi")
def test_the_key_itself_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with openai_server.serve() as server:
        server.rule = lambda _: openai_server.fails(401, "bad key sk-very-secret")
        result = CliRunner().invoke(build_app(), ["doctor", *at(server.url)])
    assert result.exit_code == 1
    assert "sk-very-secret" not in result.output
    assert "OPENAI_API_KEY is set" in " ".join(result.output.split())
