"""Nodes and edges of one's own: what can be changed, what is refused, the documented examples."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import documented
import pytest
from answer_server import answering
from langgraph.graph import END, START
from langgraph_server import Serving, langgraph_dev
from pydantic import BaseModel
from scripted import ScriptedBackend, all_say, ate, atsa, judge, pairs, said, set_polarity

from absa import Agent, WiringError, build_graph, load_settings, wiring
from absa.graph import Graph, Wiring
from absa.graph.wiring import TABLES
from absa.schemas.output import FinalOutput
from absa.schemas.settings import RESERVED_NAMES, PipelineSettings

HERE = Path(__file__).resolve().parent
TEXT = "가격이 비싸고 맛은 좋아요."
ANSWERS = said(
    ate=ate("가격", "맛"),
    atsa=atsa(("가격", "positive", "비싸고", 0.6), ("맛", "positive", "좋아요", 0.8)),
    **all_say("가격", "negative"),
    judge=judge(set_polarity("가격", "negative"), spans=["비싸고"], label="mixed"),
)


class Sarcasm(BaseModel):
    is_sarcastic: bool
    quote: str = ""


def sarcasm(**changes: Any) -> Agent[Sarcasm]:
    fields = {"prompt": "Is it sarcastic? Quote the words.", "answer": Sarcasm, **changes}
    return Agent("sarcasm", **fields)


SAID = {**ANSWERS, "sarcasm": {"is_sarcastic": True, "quote": "비싸고"}}


def default() -> Wiring:
    return wiring(load_settings())


def drawn(graph: Graph) -> set[str]:
    return set(graph.get_graph().nodes) - {START, END}


def run(w: Wiring, answers: Any = None) -> FinalOutput:
    graph = w.compile(backend=ScriptedBackend(answers or ANSWERS))
    output: FinalOutput = graph.invoke({"text": TEXT, "lang": "ko"})["output"]
    return output


# What it shows -----------------------------------------------------------------------------------


def test_a_wiring_names_its_nodes_and_edges():
    w = default()
    assert w.nodes[:5] == ("intake", "ate", "atsa", "validator", "stage1")
    assert w.edges[START] == ("intake",)
    assert w.edges["intake"] == ("ate", "atsa", "validator")
    assert w.edges["stage1"] == ("epm",)
    assert w.edges["finalize"] == (END,)
    assert "recall" not in w.nodes and "human_review" not in w.nodes


@pytest.mark.parametrize("protocol", TABLES)
def test_every_protocol_ends_with_finalize(protocol):
    model = {"backend.kind": "openai", "backend.model": "m"}
    w = wiring(load_settings(None, {"pipeline.protocol": protocol, **model}))
    assert [source for source, targets in w.edges.items() if END in targets] == ["finalize"]


def test_the_names_of_all_nodes_are_reserved():
    settings = PipelineSettings()
    names = {name for table in TABLES.values() for name in table(settings).nodes}
    speakers = set(settings.debate.order)
    verdicts = {name for name in names if name.startswith(("apply_", "skip_"))}
    assert names - speakers - verdicts <= RESERVED_NAMES


def test_a_wiring_compiles_to_the_graph_of_its_settings():
    settings = load_settings(None, {"pipeline.enable_debate": False})
    assert drawn(wiring(settings).compile()) == drawn(build_graph(settings))


def test_a_wiring_is_never_changed():
    w = default()
    nodes, edges = w.nodes, w.edges
    w.remove("validator").rewire("apply_reviews", "adopt").replace("adopt", lambda state: {})
    w.insert("x", lambda state: {}, after="stage1")
    assert (w.nodes, w.edges) == (nodes, edges)
    with pytest.raises(FrozenInstanceError):
        w.pipeline = PipelineSettings()  # type: ignore[misc]


# What it changes ---------------------------------------------------------------------------------


def test_an_own_agent_is_asked_traced_and_shared_with_the_speakers():
    backend = ScriptedBackend(SAID)
    agent = sarcasm(sees=("stage1_result",), shared=True)
    w = default().insert("sarcasm", agent, after="stage1", before="epm")
    output = w.compile(backend=backend).invoke({"text": TEXT, "lang": "ko"})["output"]
    assert output.meta.answers == {"sarcasm": {"is_sarcastic": True, "quote": "비싸고"}}
    assert [c.node for c in output.process_trace if c.node == "sarcasm"] == ["sarcasm"]
    assert output.meta.usage.calls == 11
    shown = backend.inputs_of("sarcasm")["stage1_result"]
    assert [a["term"] for a in shown["aspects"]] == ["가격", "맛"]
    for speaker in ("epm", "tan", "cj", "judge"):
        assert backend.inputs_of(speaker)["shared"] == output.meta.answers
        question = next(q for q in backend.asked if q.node == speaker)
        assert json.loads(question.user)["shared"]["sarcasm"]["quote"] == "비싸고"
    assert "shared" not in backend.inputs_of("ate_review")


def test_an_answer_that_is_not_shared_stays_out_of_the_debate():
    backend = ScriptedBackend(SAID)
    w = default().insert("sarcasm", sarcasm(), after="stage1", before="epm")
    w.compile(backend=backend).invoke({"text": TEXT, "lang": "ko"})
    assert "shared" not in backend.inputs_of("epm")


def test_an_answer_that_does_not_fit_the_own_model_is_a_failure_of_that_agent():
    w = default().insert("sarcasm", sarcasm(), after="stage1", before="epm")
    from absa import BackendError

    with pytest.raises(BackendError, match="is_sarcastic") as failure:
        run(w, {**ANSWERS, "sarcasm": {"quote": "x"}})
    assert failure.value.node == "sarcasm"


def test_an_own_agent_in_the_loop_counts_its_turns():
    settings = load_settings(None, {"pipeline.debate.rounds": 2})
    backend = ScriptedBackend(SAID)
    w = wiring(settings).insert("sarcasm", sarcasm(), after="epm", before="tan")
    w.compile(backend=backend).invoke({"text": TEXT, "lang": "ko"})
    assert backend.turns_of("sarcasm") == [0, 1]


def test_a_replaced_moderator_decides_and_finalize_still_builds_the_output():
    from absa.schemas.records import ModeratorOutput

    def neutral(state: Any) -> Any:
        return {"moderation": ModeratorOutput(final_label="neutral", confidence=0.5)}

    output = run(default().replace("moderator", neutral))
    assert (output.final_result.label, output.final_result.confidence) == ("neutral", 0.5)
    assert pairs(output.final_result.final_tuples) == {("가격", "negative"), ("맛", "positive")}


@pytest.mark.parametrize("is_async", [False, True])
def test_an_own_function_may_be_plain_or_async_and_sees_the_settings_if_it_wants(is_async):
    seen: list[Any] = []

    def plain(state: Any, pipeline: Any) -> Any:
        seen.append(pipeline.protocol)
        return {"tone": "angry"}

    async def awaited(state: Any, pipeline: Any) -> Any:
        await asyncio.sleep(0)
        return plain(state, pipeline)

    def reads(state: Any) -> Any:
        seen.append(state["tone"])
        return {}

    node = awaited if is_async else plain
    w = default().insert("tone_of", node, after="stage1", before="epm", writes={"tone": str})
    w = w.insert("reader", reads, after="tone_of")
    run(w)
    graph = w.compile(backend=ScriptedBackend(ANSWERS))
    asyncio.run(graph.ainvoke({"text": TEXT, "lang": "ko"}))
    assert seen == ["debate", "angry"] * 2


def test_rewiring_leaves_out_what_nothing_leads_to():
    w = default().rewire("apply_reviews", "adopt")
    graph = w.compile(backend=ScriptedBackend(ANSWERS))
    left = drawn(graph)
    assert "override_gate" not in left
    assert not {name for name in left if name.startswith(("skip_", "apply_"))} - {"apply_reviews"}
    assert graph.invoke({"text": TEXT, "lang": "ko"})["output"].meta.override_gate == ()


def test_a_removed_node_is_passed_over():
    w = default().remove("validator_review").remove("validator").remove("override_gate")
    assert w.edges["ate_review"] == ("apply_reviews",)
    assert w.edges["intake"] == ("ate", "atsa")
    assert w.edges["apply_reviews"] == ("adopt",)
    output = run(w)
    assert output.stage2_validator is None
    assert {c.node for c in output.process_trace}.isdisjoint({"validator", "validator_review"})


def test_a_router_of_ones_own_chooses():
    def only_in_doubt(state: Any) -> str:
        return "epm" if len(state["stage1_result"].aspects) > 2 else "adopt"

    w = default().rewire("stage1", "epm", "adopt", by=only_in_doubt)
    output = run(w.replace("adopt", lambda state: {}))
    assert output.debate is None and output.meta.usage.calls == 3


@pytest.mark.parametrize("protocol", ["conflict_review", "vote"])
def test_the_other_protocols_can_be_changed_too(protocol):
    w = wiring(load_settings(None, {"pipeline.protocol": protocol}))
    noted: list[str] = []
    w = w.insert("note", lambda state: noted.append(state["text"]) or {}, after="intake")
    w.compile().invoke({"text": "The food was good."})
    assert noted == ["The food was good."]


# What it refuses ---------------------------------------------------------------------------------


def nothing(state: Any) -> Any:
    return {}


MISTAKES = {
    "replace an unknown node": (lambda w: w.replace("moderater", nothing), "'moderator'"),
    "remove an unknown node": (lambda w: w.remove("validatr"), "'validator'"),
    "rewire to an unknown node": (lambda w: w.rewire("apply_reviews", "adoptt"), "'adopt'"),
    "rewire an unknown node": (lambda w: w.rewire("aply_reviews", "adopt"), "'apply_reviews'"),
    "insert after an unknown node": (
        lambda w: w.insert("x", nothing, after="stage_1"),
        "'stage1'",
    ),
    "insert into an edge that is not there": (
        lambda w: w.insert("x", nothing, after="stage1", before="judge"),
        "no edge leads from 'stage1' to 'judge': it leads to 'epm'",
    ),
    "a name twice": (lambda w: w.insert("ate", nothing, after="stage1"), "already"),
    "the name of a state key": (lambda w: w.insert("turns", nothing, after="stage1"), "state"),
    "an own node that nothing leads to": (
        lambda w: w.insert("x", nothing, after="stage1").rewire("stage1", "epm"),
        "no edge leads to your node 'x'",
    ),
    "a key in sees without a writer": (
        lambda w: w.insert("sarcasm", sarcasm(sees=("stage1_reslt",)), after="stage1"),
        "'stage1_result'",
    ),
    "a key in sees whose writer is gone": (
        lambda w: w.insert("sarcasm", sarcasm(sees=("candidates",)), after="stage1"),
        "no node of this graph writes",
    ),
    "a cycle without a router": (lambda w: w.rewire("tan", "epm"), "epm -> tan -> epm"),
    "no target": (lambda w: w.rewire("stage1"), "needs at least one target"),
    "a prompt that is not there": (
        lambda w: w.insert("sarcasm", sarcasm(prompt="extrct"), after="stage1"),
        "'extract'",
    ),
    "a prompt file that is not there": (
        lambda w: w.insert("sarcasm", sarcasm(prompt=Path("no.md")), after="stage1"),
        "no.md",
    ),
    "an agent under another name": (
        lambda w: w.insert("irony", sarcasm(), after="stage1"),
        "'sarcasm'",
    ),
    "a key that the state has": (
        lambda w: w.insert("x", nothing, after="stage1", writes={"turns": list}),
        "'turns'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_when_it_is_compiled(name):
    make, hint = MISTAKES[name]
    w = make(default())
    with pytest.raises(WiringError) as error:
        w.compile(backend=ScriptedBackend(SAID))
    assert hint in str(error.value)


def test_all_mistakes_are_named_together():
    w = default().remove("validatr").rewire("stage1", "emp")
    with pytest.raises(WiringError, match=r"validatr.*emp"):
        w.compile(backend=ScriptedBackend({}))


def test_a_key_that_was_not_declared_is_refused_and_not_dropped():
    w = default().insert("tone", lambda state: {"ton": "angry"}, after="stage1")
    with pytest.raises(WiringError, match=r"'ton'.*writes="):
        run(w)
    with pytest.raises(WiringError, match="dictionary"):
        run(default().insert("tone", lambda state: "angry", after="stage1"))


def test_a_rule_whose_input_nobody_wrote_says_so():
    with pytest.raises(WiringError, match="reads 'stage1_result'"):
        run(default().remove("stage1"))


def test_the_offline_analyser_says_what_it_cannot_play_before_anything_is_analysed():
    with pytest.raises(WiringError, match="offline analyzer cannot answer for 'sarcasm'"):
        default().insert("sarcasm", sarcasm(), after="stage1").compile()
    doubter = {"name": "D", "role": "Doubter", "goal": "Doubt"}
    changes = {"debate.personas": {"doubter": doubter}, "debate.order": ["epm", "doubter"]}
    with pytest.raises(WiringError, match="'doubter'"):
        build_graph(load_settings(None, {f"pipeline.{k}": v for k, v in changes.items()}))


# What the documentation shows --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("print(w.nodes)", "negative"),
        ("strict_moderator", "mixed"),
        ('rewire("apply_reviews", "adopt")', "False"),
        ("TERMS =", "['배송', '포장']"),
    ],
)
def test_the_documented_examples_run(words, printed, tmp_path):
    code = documented.program("extend.md", "python", words)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == printed


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A user's folder with the documented agent, six reviews, and the settings of a model."""
    (tmp_path / "sarcasm.py").write_text(documented.program("extend.md", "python", "is_sarcastic"))
    rows = [{"uid": f"u{n}", "text": f"food{n} was great{n}"} for n in range(6)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "reviews.jsonl").write_text(lines)
    env = {**os.environ, "OPENAI_API_KEY": "k", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with answering(tmp_path / "calls.jsonl") as url:
        backend = {"kind": "openai", "model": "m", "base_url": url}
        (tmp_path / "my_model.yaml").write_text(json.dumps({"backend": backend}))
        yield tmp_path, env


def absa(project: tuple[Path, dict[str, str]], *args: str) -> subprocess.CompletedProcess[str]:
    folder, env = project
    command = [str(Path(sys.executable).with_name("absa")), *args]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=240
    )


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


WIRED = ("--wiring", "sarcasm:with_sarcasm", "--config", "my_model.yaml")


def test_a_foreign_agent_in_a_whole_run_that_is_verified_reported_and_replayed(project):
    folder = project[0]
    run_it = absa(project, "run", "reviews.jsonl", "--out", "runs/sarcasm", *WIRED)
    assert run_it.returncode == 0, run_it.stderr
    outputs = records(folder / "runs/sarcasm/outputs.jsonl")
    assert all(o["meta"]["answers"]["sarcasm"]["quote"] for o in outputs) and len(outputs) == 6
    traces = records(folder / "runs/sarcasm/traces.jsonl")
    assert sum(t["node"] == "sarcasm" for t in traces) == 6
    verified = absa(project, "verify", "runs/sarcasm")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "NOT REPLAYED" not in verified.stdout
    report = absa(project, "report", "runs/sarcasm", "-o", "sarcasm.html")
    assert report.returncode == 0 and "sarcasm</" in (folder / "sarcasm.html").read_text()
    again = absa(project, "replay", "runs/sarcasm", "--out", "runs/again")
    assert again.returncode == 0, again.stderr
    replayed = records(folder / "runs/again/outputs.jsonl")
    assert [o["meta"]["answers"] for o in replayed] == [o["meta"]["answers"] for o in outputs]
    # Another version of the function is another run.
    source = folder / "sarcasm.py"
    source.write_text(source.read_text().replace("You read", "You know"))
    other = absa(project, "run", "reviews.jsonl", "--out", "runs/sarcasm", *WIRED)
    assert other.returncode == 2 and "wiring" in other.stderr


def test_a_foreign_agent_on_dask(project):
    dask = ("--engine", "dask", "--workers", "1")
    done = absa(project, "run", "reviews.jsonl", "--out", "runs/dask", *WIRED, *dask)
    assert done.returncode == 0, done.stderr
    outputs = records(project[0] / "runs/dask/outputs.jsonl")
    assert all("sarcasm" in o["meta"]["answers"] for o in outputs) and len(outputs) == 6


def test_the_command_line_draws_analyses_and_explains_a_wiring(project):
    drawn_it = absa(
        project, "graph", "--wiring", "sarcasm:with_sarcasm", "--config", "my_model.yaml"
    )
    assert "stage1 --> sarcasm;" in drawn_it.stdout and "sarcasm --> epm;" in drawn_it.stdout
    analysed = absa(project, "analyze", "food was great", "--json", *WIRED)
    assert json.loads(analysed.stdout)["meta"]["answers"]["sarcasm"]["quote"] == "great"
    for name, hint in (
        ("sarcsm:with_sarcasm", "cannot be imported"),
        ("sarcasm:with_sarcsm", "'with_sarcasm'"),
        ("sarcasm", "module:function"),
        ("sarcasm:Sarcasm", "raised TypeError"),
        ("builtins:type", "must return a Wiring"),
    ):
        refused = absa(project, "analyze", "x", "--wiring", name)
        assert refused.returncode == 2 and hint in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr


def test_the_documented_graph_for_studio_is_served(project):
    folder, _ = project
    (folder / "served.py").write_text(documented.program("extend.md", "python", "interactive=True"))
    (folder / "langgraph.json").write_text(documented.program("extend.md", "json", "served.py"))
    serving = Serving(config=folder / "langgraph.json", environment={"OPENAI_API_KEY": "k"})
    with langgraph_dev(folder, serving) as studio:
        assert "sarcasm" in studio.nodes("sarcasm")
        output = studio.run("sarcasm", given={"text": "food1 was great1"})
    assert output["meta"]["answers"]["sarcasm"] == {"is_sarcastic": False, "quote": "great1"}
    assert "sarcasm" in [call["node"] for call in output["process_trace"]]
