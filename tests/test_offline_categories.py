"""Categories and unnamed judgements of the embedded analyzer, where a set is in force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from absa.nodes.categories import shipped, spelling
from absa.offline import OfflineAnalyst
from absa.offline.analysis import Analyser
from absa.offline.models.categories import (
    CategoryModel,
    DomainCategories,
    aspect_cues,
    judged_cues,
    text_cues,
)
from absa.offline.models.categories import shipped as shipped_model
from absa.offline.models.encoder import category_scores
from absa.offline.text.annotations import CategoryScores, Encoded
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


def scores_for(part: DomainCategories, domain: str, best: str) -> CategoryScores:
    """What an encoder says that is sure of one category."""
    scores = np.array([9.0 * (name == best) for name in part.names], np.float32)
    return CategoryScores(tuple((domain, name) for name in part.names), {(4, 16): scores}, scores)


def test_an_encoder_counts_as_much_as_the_model_says() -> None:
    analysis = Analyser()("The battery life is short.", "en", "laptop")
    part = replace(shipped_model("en").domains["laptop"], encoder=(0.9, 0.9))
    cues, words = aspect_cues(analysis, 4, 16), text_cues(analysis.tokens)
    scores = scores_for(part, "laptop", "DISPLAY#PRICE")
    allowed = {spelling(name): name for name in part.names}
    best = part.of_aspect(cues, allowed, (4, 16), scores)
    assert best is not None and best[0] == "DISPLAY#PRICE" and best[1] > 0.8
    assert sum(part.aspect_shares(cues, (4, 16), scores)) == pytest.approx(1)
    alone = part.of_aspect(cues, allowed)
    assert alone is not None and alone[0] != "DISPLAY#PRICE"
    # No weight, no such place, and another domain leave the linear model alone.
    unweighted = replace(part, encoder=(0.0, 0.0))
    assert unweighted.of_aspect(cues, allowed, (4, 16), scores) == alone
    assert part.of_aspect(cues, allowed, (0, 3), scores) == alone
    elsewhere = scores_for(part, "hotel", "DISPLAY#PRICE")
    assert part.of_aspect(cues, allowed, (4, 16), elsewhere) == alone
    of_text = part.text_shares(words, replace(scores, text=scores.text[::-1]))
    assert not np.allclose(of_text, part.text_shares(words, None))


def test_the_share_of_the_encoder_is_kept_in_the_file(tmp_path: Path) -> None:
    part = replace(shipped_model("en").domains["food"], encoder=(0.25, 0.5))
    path = tmp_path / "categories_en.npz"
    CategoryModel({"food": part}).save(path)
    read = CategoryModel.read(path.read_bytes(), path).domains["food"]
    assert (read.domain, read.encoder) == ("food", (0.25, 0.5))
    arrays = dict(np.load(path))
    del arrays["food.encoder"]
    np.savez(path, **arrays)
    assert CategoryModel.read(path.read_bytes(), path).domains["food"].encoder == (0.0, 0.0)


def test_an_encoder_without_categories_says_nothing_of_them() -> None:
    encoded = Encoded(
        (0,), (0, 1), np.ones((1, 5), np.float32), np.ones((1, 3), np.float32), (1, 0, 0, 0), ()
    )
    assert category_scores(encoded, [(0, 3)]) is None
    assert category_scores(None, [(0, 3)]) is None
    rows = np.array([[1, 0], [3, 2]], np.float32)
    knows = replace(
        encoded,
        pieces=(0, 2),
        category_names=(("food", "taste"), ("food", "price")),
        categories=rows,
        text_categories=rows[0],
    )
    scores = category_scores(knows, [(0, 3)])
    assert scores is not None and scores.aspects[0, 3].tolist() == [2, 1]


def test_a_damaged_model_is_refused(tmp_path: Any) -> None:
    with pytest.raises((ValueError, InputError)):
        CategoryModel.read(b"PK no model", tmp_path / "categories_en.npz")
