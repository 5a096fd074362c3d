"""Everyday Korean: what expressions say, and whose statement they are."""

from __future__ import annotations

import pytest

from absa.offline.analysis import Analyser
from absa.offline.text.annotations import View
from absa.offline.text.other_languages import other_language
from absa.offline.text.scope import scopes_at
from absa.offline.text.views import view_of


def signs(text: str) -> list[str]:
    return ["+" if opinion.score > 0 else "-" for opinion in view_of(text, "ko").opinions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("배터리가 반나절도 못 버텨요", "-"),
        ("앱이 툭하면 튕겨요", "-"),
        ("다시는 안 가요", "-"),
        ("가성비 갑", "+"),
        ("줄이 길어요", "-"),  # of a queue
        ("배터리가 길어요", "+"),  # of a battery
        ("소음이 있어요", "-"),  # bad by being there
        ("소음이 없어요", "+"),
        ("냄새가 안 나요", "+"),
        ("설명이 없어요", "-"),  # good things that are absent
        ("나쁘지 않아요", "+"),
        ("발열도 별로 없네요", "+"),  # 별로 goes with the negation
        ("조금만 더 컸으면 좋겠어요", "-"),  # only wished for
        ("맛잇어요", "+"),  # spelt in haste
    ],
)
def test_what_an_expression_says(text: str, expected: str) -> None:
    found = signs(text)
    assert found and found[-1] == expected, found


def statements(text: str, *terms: str) -> list[tuple[str, str]]:
    """The own statement of each term, and what follows without an aspect of its own."""
    view = view_of(text, "ko")
    places = [(text.index(term), text.index(term) + len(term)) for term in terms]
    return [
        (_words(view, scope.own), _words(view, scope.beyond))
        for _, scope in scopes_at(view, places)
    ]


def _words(view: View, span: tuple[int, int]) -> str:
    first, last = span
    tokens = view.tokens[first:last]
    return view.text[tokens[0].start : tokens[-1].end] if tokens else ""


def test_a_clause_belongs_to_its_aspect() -> None:
    found = statements("국은 싱거우나 밥은 고슬고슬해요", "국", "밥")
    assert found == [("국은 싱거우나", ""), ("밥은 고슬고슬해요", "")]


def test_clipped_statements_are_cut_before_the_next_aspect() -> None:
    found = statements("그림 예쁨 조작 답답", "그림", "조작")
    assert [own for own, _ in found] == ["그림 예쁨", "조작 답답"]


def test_aspects_without_a_predicate_between_them_share_one() -> None:
    found = statements("색상과 재질 모두 마음에 듭니다", "색상", "재질")
    assert {own for own, _ in found} == {"색상과 재질 모두 마음에 듭니다"}


def test_what_follows_and_names_no_aspect_speaks_of_the_one_before() -> None:
    found = statements("소매가 길어서 두 번 접어야 해요. 촉감은 좋아요", "소매", "촉감")
    assert found[0] == ("소매가 길어서", "두 번 접어야 해요.")


def test_a_text_without_spaces_is_cut_at_its_contrast() -> None:
    found = statements("국물도시원한데 면이너무불었어요", "국물", "면")
    assert found[0][0] == "국물도시원한데"


@pytest.fixture(scope="module")
def analyser() -> Analyser:
    return Analyser()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "음식은 맛있는데 직원이 불친절하고 가격도 비싸요",
            {"음식": "positive", "직원": "negative", "가격": "negative"},
        ),
        ("화면은 밝고 선명한데 소음이 좀 있네요", {"화면": "positive", "소음": "negative"}),
        ("배송이 늦었어요.", {"배송": "negative"}),
    ],
)
def test_the_opinion_of_another_clause_is_not_borrowed(
    analyser: Analyser, text: str, expected: dict[str, str]
) -> None:
    analysis = analyser(text, "ko")
    said = {
        f.aspect.term: f.clause_reading.polarity for f in (*analysis.findings, *analysis.reserve)
    }
    assert {term: said.get(term) for term in expected} == expected


def test_the_rules_have_a_reading_of_their_own(analyser: Analyser) -> None:
    found = analyser("소음이 심해요", "ko", None, ("소음",)).findings[0]
    reading = found.nearest_reading
    assert (reading.polarity, reading.opinion is not None) == ("negative", True)
    assert 0.5 < reading.confidence < 1.0


@pytest.mark.parametrize("domain", [None, "food", "hotel", "games"])
def test_an_unnamed_judgement_is_reported_in_every_domain(
    analyser: Analyser, domain: str | None
) -> None:
    analysis = analyser("다시는 안 가요. 완전 후회합니다", "ko", domain)
    assert analysis.overall is not None and analysis.overall.polarity == "negative"


@pytest.mark.parametrize(
    ("text", "lang", "expected"),
    [
        ("C'est très bon mais le service est lent.", "en", "French"),
        ("料理は美味しいですが、店員が不親切です", None, "Japanese"),
        ("Еда вкусная, но обслуживание плохое", None, "a language in Cyrillic script"),
        ("The à la carte menu is no good", "en", None),
        ("와이파이 good", None, None),
        ("ok", "fr", "the language 'fr'"),
        ("Le service était affreux.", None, "French"),
        ("Makanannya enak sekali tapi pelayanannya lambat.", None, "Indonesian"),
        ("Jídlo bylo skvělé", None, "a language other than English"),
        ("freindly staff and delishus scones", None, None),
        ("CAPTCHA after CAPTCHA after CAPTCHA", None, None),
        ("인스타 맛집 ttokbokki sundae gimbap jjajang", None, None),
    ],
)
def test_other_languages_are_told(text: str, lang: str | None, expected: str | None) -> None:
    assert other_language(text, lang) == expected


def test_nothing_is_found_in_another_language(analyser: Analyser) -> None:
    analysis = analyser("La comida es muy buena pero el servicio es lento", "en")
    assert not analysis.findings and analysis.overall is None
