"""Categories and unnamed judgements of the embedded analyser, where a set is in force."""

from __future__ import annotations

from typing import Any

import pytest

from absa.nodes.categories import shipped
from absa.offline import OfflineAnalyst
from absa.offline.models.categories import CategoryModel
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


def test_a_damaged_model_is_refused(tmp_path: Any) -> None:
    with pytest.raises((ValueError, InputError)):
        CategoryModel.read(b"PK no model", tmp_path / "categories_en.npz")
