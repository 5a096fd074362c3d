"""A text is read twice, once without the encoder: what both readings share is computed once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from absa.offline.analysis import Analyser
from absa.offline.given_aspects import judge
from absa.offline.models.loading import Models
from absa.offline.models.network import Network
from absa.offline.second_look import Bars, Found, compare
from absa.offline.text.annotations import View
from absa.offline.text.views import view_of

TEXT = "The soup was cold, but the waiter was kind and the terrace lovely."


def test_the_network_reads_a_text_once_for_both_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    probabilities = Network.probabilities

    def counted(self: Network, view: View) -> Any:
        read.append(view.text)
        return probabilities(self, view)

    monkeypatch.setattr(Network, "probabilities", counted)
    analysis = Analyser()(TEXT, "en")
    assert read == [TEXT]
    assert {finding.aspect.term for finding in analysis.findings} >= {"soup", "waiter"}


def test_what_was_computed_of_a_text_is_not_taken_for_a_piece_of_it() -> None:
    view = replace(view_of(TEXT, "en"), memo={})
    piece = replace(view, tokens=view.tokens[:4])
    made = [each.once(("words",), lambda each=each: len(each.tokens)) for each in (view, piece)]
    again = [each.once(("words",), lambda: -1) for each in (view, piece)]
    assert made == again == [len(view.tokens), 4]


def test_without_a_memo_everything_is_computed_each_time() -> None:
    view = view_of(TEXT, "en")
    assert [view.once(("words",), lambda number=number: number) for number in (1, 2)] == [1, 2]


def test_where_an_encoder_reads_the_rules_do_not_push_the_polarity() -> None:
    models = Models().of("en")
    view = models.read(view_of(TEXT, "en"))
    for term in ("soup", "waiter", "terrace"):
        start = TEXT.index(term)
        others = [
            (TEXT.index(other), TEXT.index(other) + len(other))
            for other in ("soup", "waiter", "terrace")
            if other != term
        ]
        shares = models.polarity.aspect(view, start, start + len(term), others)
        given = judge(view, models, ["soup", "waiter", "terrace"])
        sure = next(each.confidence for each in given if each.aspect.term == term)
        assert sure == pytest.approx(max(shares), abs=0.001)


def test_texts_of_unknown_domains_have_a_decision_of_their_own() -> None:
    models = Models().of("en")
    for decision in (models.decision, models.stage1):
        assert decision is not None
        assert decision.of("hospital") is decision.of(None) is decision.elsewhere
        assert decision.of("restaurant") is decision


def test_of_findings_that_are_all_doubted_one_stays() -> None:
    first = Found(Analyser()(TEXT, "en").findings)
    doubted = [
        replace(each, clause_reading=replace(each.clause_reading, confidence=0.1), alternatives=())
        for each in first
    ]
    bars = Bars(add=0.5, drop=0.2, flip=0.1)
    verdicts = [finding.verdict for finding in compare(first, Found((), doubted), bars)]
    assert len(verdicts) >= 2 and sum(map(bool, verdicts)) == 1
