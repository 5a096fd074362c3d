"""A confirm is not an override: a raised confidence changes no tuple and uses up nothing."""

from __future__ import annotations

import json

from scripted import (
    ate,
    atsa,
    decide,
    drop,
    judge,
    pairs,
    pipeline,
    said,
    set_polarity,
    turn,
    validator,
)

from absa import show
from absa.metrics.gates import GateTally
from absa.metrics.process import ProcessTally
from absa.nodes.language import language
from absa.nodes.memory import episode_of, signature_of
from absa.report.page import write_report
from absa.runs.artefacts import gate_summary
from absa.schemas.output import FinalOutput
from absa.schemas.sample import Sample
from absa.schemas.settings import OverrideSettings, PipelineSettings
from absa.scorecard import VERSION, scorecard

TEXT = "맛은 좋은데 가격이 비싸요."


def output(*, price: str = "positive") -> FinalOutput:
    """The debate agrees with 맛, which is unsure, and then says that 가격 is negative."""
    edits = (set_polarity("맛", "positive"), set_polarity("가격", "negative"))
    return decide(
        TEXT,
        said(
            ate=ate("맛", "가격"),
            atsa=atsa(("맛", "positive", "좋은데", 0.6), ("가격", price, "비싸요", 0.6)),
            validator=validator("EVIDENCE_GAP"),
            epm=turn(*edits),
            cj=turn(*edits),
            judge=judge(*edits, spans=["비싸요"], evidence={"맛": "좋은데"}),
        ),
    )


def test_a_confirm_leaves_the_override_to_the_aspect_that_needs_it():
    out = output()
    assert [r.verdict for r in out.meta.override_gate] == ["confirm", "flip"]
    stats = out.meta.debate_override_stats
    assert (stats.applied, stats.confirmed, stats.skipped_max_one_override_per_sample) == (1, 1, 0)
    assert (out.meta.gate_decision, out.meta.override_skipped_reason) == ("APPLY", None)
    assert out.meta.adopt_decision == "adopted"
    assert pairs(out.final_result.final_tuples) == {("맛", "positive"), ("가격", "negative")}
    taste = next(a for a in out.final_result.final_aspects if a.aspect_term == "맛")
    assert (taste.confidence, taste.evidence) == (0.7, "좋은데")
    # The screen: Stage 1 found the tuple, and the gate held nothing back.
    assert show.origin(taste, out) == "Stage 1"
    assert {e.kind for e in show.events(out, OverrideSettings())} == {"changed"}


def test_a_debate_that_only_confirms_changes_nothing_final_and_counts_as_no_override():
    out = output(price="negative")
    assert [r.verdict for r in out.meta.override_gate] == ["confirm", "confirm"]
    assert not any(r.applied for r in out.meta.override_gate)
    assert (out.meta.gate_decision, out.meta.adopt_reason) == ("SKIP", "low_signal")
    assert all(a.confidence == 0.6 for a in out.final_result.final_aspects)
    log = [(c.proposal_type, c.applied) for c in out.meta.correction_applied_log]
    assert log == [("debate_override_confirm", True)] * 2
    lang = language("ko")
    shape = signature_of(TEXT, lang, aspects=2, implicit=False, risks=())
    assert episode_of(out, shape, None, 0).override == "skipped"


def test_every_count_of_applied_overrides_leaves_confirms_out(tmp_path):
    out = output(price="negative")
    card = json.loads(json.dumps(scorecard(out, Sample(uid="a", text=TEXT), 0)))
    assert card["version"] == VERSION and card["stage_delta"]["change_type"] == "none"
    assert card["ignored_proposal"]["why"] == "no_proposal"
    tally, gates = ProcessTally(), GateTally(PipelineSettings())
    tally.add(card)
    gates.add(card)
    counted = tally.summary()
    assert counted["debate_override_applied"] == 0
    assert counted["debate_override_confirmed_rate"]["rate"] == 1
    fired = {g["gate"]: g["fired"] for g in gates.summary()}
    assert fired["override_gate.confirm"] == 2 and "override_gate.flip" not in fired
    records = [r.model_dump(mode="json") for r in out.meta.override_gate]
    summary = gate_summary(iter(records))
    assert (summary["applied"], summary["confirmed"]) == (0, 2)


def test_a_report_of_scorecards_of_two_versions_warns(tmp_path):
    out = output()
    runs = []
    for name, version in (("old", None), ("new", VERSION)):
        card = {**scorecard(out, Sample(uid=out.uid, text=TEXT), 0), "version": version}
        if version is None:
            del card["version"]
        folder = tmp_path / name
        folder.mkdir()
        (folder / "outputs.jsonl").write_text(out.model_dump_json() + "\n", encoding="utf-8")
        (folder / "scorecards.jsonl").write_text(json.dumps(card) + "\n", encoding="utf-8")
        runs.append(folder)
    written = write_report(runs, tmp_path / "report.html")
    assert any("old" in p and "version 1" in p for p in written.problems)
    assert not any("version 1" in p and "/new:" in p for p in written.problems)


def test_a_drop_logs_the_weight_of_the_drops():
    out = decide(
        TEXT,
        said(
            ate=ate("맛", "가격"),
            atsa=atsa(("맛", "positive", "좋은데", 0.9), ("가격", "negative", "비싸요", 0.9)),
            epm=turn(drop("가격")),
            tan=turn(drop("가격")),
            judge=judge(drop("가격"), spans=["비싸요"]),
        ),
        pipeline(override={"allow_drop": True}),
    )
    (entry,) = out.meta.correction_applied_log
    assert entry.proposal_type == "debate_override_drop" and "drop weight 2.4" in entry.reason
