"""The offline debate where the second reading differs from Stage 1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from absa import build_graph, load_settings
from absa.backends.offline import OfflineBackend
from absa.offline import Analyser, OfflineAnalyst
from absa.offline.roles.inputs import Stage1
from absa.offline.roles.stage1 import proposals
from absa.offline.roles.verdicts import Verdicts
from absa.offline.second_look import Found, compare
from absa.offline.text.annotations import Analysis, Finding
from absa.schemas.answers import Edit
from absa.schemas.output import FinalOutput

TEXT = "The food was great but the staff was rude."


class Reads:
    """An analyzer whose Stage 1 misreads a text in a given way."""

    def __init__(self, *findings: Finding, reserve: tuple[Finding, ...] = ()) -> None:
        self._found, self._reserve = findings, reserve

    def __call__(self, text: str, *_: object) -> Analysis:
        return replace(read(), findings=self._found, reserve=self._reserve)


def read() -> Analysis:
    return Analyser()(TEXT, "en", "restaurant")


@pytest.fixture(scope="module")
def food_and_staff() -> tuple[Finding, Finding]:
    food, staff = read().findings
    assert (food.aspect.term, staff.aspect.term) == ("food", "staff")
    return food, staff


def misread(finding: Finding, likely: tuple[float, float, float], verdict: str | None) -> Finding:
    """Stage 1 calls it positive; the second reading is another one."""
    stated = replace(finding.clause_reading, polarity="positive", confidence=0.6, opinion=None)
    return replace(finding, clause_reading=stated, likely=likely, verdict=verdict)


def debated(*findings: Finding, reserve: tuple[Finding, ...] = ()) -> FinalOutput:
    backend = OfflineBackend()
    backend._analyst = OfflineAnalyst(Reads(*findings, reserve=reserve))
    graph = build_graph(load_settings("configs/default.yaml"), backend=backend)
    output = graph.invoke({"text": TEXT, "lang": "en"})["output"]
    assert isinstance(output, FinalOutput)
    return output


def finals(output: FinalOutput) -> set[tuple[str | None, str]]:
    return {(t.aspect_term, t.polarity) for t in output.final_result.final_tuples}


def test_a_sure_correction_is_an_override_with_words_of_its_own_clause(
    food_and_staff: tuple[Finding, Finding],
) -> None:
    food, staff = food_and_staff
    output = debated(food, misread(staff, (0.05, 0.85, 0.02), "negative"))
    assert ("staff", "positive") in {
        (t.aspect_term, t.polarity) for t in output.final_result.stage1_tuples
    }
    assert finals(output) == {("food", "positive"), ("staff", "negative")}
    assert output.meta.debate_override_stats.applied == 1
    evidence = {a.aspect_term: a.evidence for a in output.final_result.final_aspects}
    assert evidence["staff"] == "rude"
    assert output.final_result.label == "mixed"


def test_a_doubtful_reading_is_corrected_by_the_validator_and_closes_the_gate(
    food_and_staff: tuple[Finding, Finding],
) -> None:
    food, staff = food_and_staff
    output = debated(food, misread(staff, (0.42, 0.48, 0.02), "negative"))
    assert finals(output) == {("food", "positive"), ("staff", "negative")}
    assert output.meta.debate_override_stats.applied == 0
    assert any("CONTRAST" in issue for issue in output.stage1_validator.issues)
    sources = {c.source for c in output.meta.correction_applied_log if c.applied}
    assert sources == {"validator"}


def test_what_the_second_reading_does_not_report_is_dropped_and_what_it_adds_is_added(
    food_and_staff: tuple[Finding, Finding],
) -> None:
    food, staff = food_and_staff
    gone = misread(food, (0.15, 0.02, 0.02), None)
    output = debated(gone, reserve=(staff,))
    assert finals(output) == {("staff", "negative")}
    assert output.meta.adopt_decision == "adopted"


def test_two_corrections_are_an_override_and_a_review(
    food_and_staff: tuple[Finding, Finding],
) -> None:
    food, staff = food_and_staff
    turned = misread(food, (0.1, 0.75, 0.02), "negative")
    output = debated(turned, misread(staff, (0.05, 0.85, 0.02), "negative"))
    assert finals(output) == {("food", "negative"), ("staff", "negative")}
    assert output.meta.debate_override_stats.applied == 1


def test_the_validator_proposes_to_drop_what_nothing_judges(
    food_and_staff: tuple[Finding, Finding],
) -> None:
    food, staff = food_and_staff
    gone = misread(food, (0.03, 0.02, 0.02), None)
    found = proposals(replace(read(), findings=(gone, staff)))
    assert [(p["proposal_type"], p["target_aspect"]) for p in found] == [("DROP_ASPECT", "food")]


def test_another_models_stage1_and_speakers_are_witnesses() -> None:
    analysis = read()
    stated = Stage1.model_validate(
        {"sentiments": [{"aspect_term": "food", "polarity": "negative", "confidence": 0.6}]}
    )
    alone = next(iter(Verdicts(analysis, stated)))
    # One witness does not outweigh a sure reading; several sure ones do.
    assert alone.after == "positive"
    edit = Edit.model_validate(
        {
            "op": "set_polarity",
            "target": {"aspect_ref": "food"},
            "value": "negative",
            "confidence": 1.0,
        }
    )
    heard = next(iter(Verdicts(analysis, stated, [edit] * 3)))
    assert heard.after == "negative"
    given = next(iter(Verdicts(analysis, stated, given=True)))
    assert given.after == "positive"


def test_the_second_reading_never_empties_a_text(
    food_and_staff: tuple[Finding, Finding],
) -> None:
    food, staff = food_and_staff
    nothing = compare(Found([food]), Found([], [food, staff]))
    assert [f.verdict for f in nothing.reported] == [None]
    assert [f.aspect.term for f in nothing.reserve if f.verdict] == ["staff"]
    only = compare(Found([food]), Found([], [food]))
    assert [f.verdict for f in only.reported] == ["positive"]
