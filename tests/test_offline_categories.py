"""Categories and unnamed judgements of the embedded analyzer, where a set is in force."""

from __future__ import annotations

from typing import Any

import pytest

from absa.nodes.categories import shipped, spelling
from absa.offline import OfflineAnalyst
from absa.offline.analysis import Analyser
from absa.offline.models.categories import (
    CategoryModel,
    aspect_cues,
    judged_cues,
    text_cues,
)
from absa.offline.models.categories import shipped as shipped_model
from absa.schemas.errors import InputError

FOOD = "The waiter was rude but the soup was delicious."


@pytest.fixture(scope="module")
def analyst() -> OfflineAnalyst:
    return OfflineAnalyst()


def found(analyst: OfflineAnalyst, text: str, categories: Any, **more: Any) -> list[Any]:
    inputs = {"text": text, "lang": "en", "categories": categories, **more}
    tuples = analyst.answer("extract", inputs)["tuples"]
    return [(t["aspect_term"], t.get("category"), t["polarity"]) for t in tuples]


def test_named_aspects_have_a_category_of_the_set_in_its_spelling(analyst: OfflineAnalyst) -> None:
    names = [name.replace(" ", "#").upper() for name in shipped("restaurants").names]
    assert found(analyst, FOOD, names) == [
        ("waiter", "SERVICE#GENERAL", "negative"),
        ("soup", "FOOD#QUALITY", "positive"),
    ]


def test_without_a_set_or_with_an_unknown_one_there_is_no_category(analyst: OfflineAnalyst) -> None:
    for categories in ((), ("parking", "weather")):
        assert {c for _, c, _ in found(analyst, FOOD, categories)} == {None}


def test_what_is_not_named_has_a_category(analyst: OfflineAnalyst) -> None:
    names = shipped("restaurants").names
    ((term, category, polarity),) = found(
        analyst, "Will definitely come back again!", names, domain="restaurant"
    )
    assert (term, category, polarity) == (None, "restaurant general", "positive")
    inputs = {"text": "또 가고 싶어요. 강추!", "lang": "ko", "categories": names}
    answers = analyst.answer("atsa", inputs)["aspect_sentiments"]
    assert [(a["aspect_ref"], a["category"]) for a in answers] == [(None, "restaurant general")]
    assert analyst.answer("ate", inputs)["aspects"][0]["category"] == "restaurant general"


def test_where_a_text_names_what_it_judges_nothing_unnamed_is_likely() -> None:
    part = shipped_model("en").domains["restaurant"]
    allowed = {spelling(name): name for name in part.unnamed_names}
    analyse = Analyser()

    def judged(text: str) -> float:
        analysis = analyse(text, "en", "restaurant")
        ranked = part.of_text(text_cues(analysis.tokens), judged_cues(analysis), allowed)
        return sum(probability for _, probability in ranked)

    assert judged("Will definitely come back again!") > 0.5 > judged("The pizza was delicious.")


def test_the_models_of_a_domain_give_probabilities() -> None:
    analysis = Analyser()("The battery life is short.", "en", "laptop")
    part = shipped_model("en").domains["laptop"]
    allowed = {spelling(name): name for name in part.names}
    best = part.of_aspect(aspect_cues(analysis, 4, 16), allowed)
    assert best is not None
    assert best[0].startswith("BATTERY#") and 0.2 < best[1] < 1.0


def test_a_damaged_model_is_refused(tmp_path: Any) -> None:
    with pytest.raises((ValueError, InputError)):
        CategoryModel.read(b"PK no model", tmp_path / "categories_en.npz")
