"""Aspect keys, synonyms, clauses and the language of a text."""

from __future__ import annotations

import unicodedata

import pytest
from scripted import ate, atsa, decide, pairs, said

from absa.nodes.language import detect, language, normalise_code
from absa.nodes.text import grounded, locate, piece
from absa.schemas.answers import Span

KO, EN = language("ko"), language("en")


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("term", "key"),
    [
        ("가격", "가격"),
        ("가격은", "가격"),
        ("가격이", "가격"),
        ("가격을", "가격"),
        ("배터리가", "배터리"),
        ("배터리는", "배터리"),
        ("배터리를", "배터리"),
        ("배터리 수명은", "배터리수명"),
        ("배터리 수명", "배터리수명"),
        ("UI는", "ui"),
        ("A/S는", "as"),
        ("a/s", "as"),
    ],
)
def test_korean_keys_lose_one_trailing_particle(term, key):
    assert KO.key(term) == key


@pytest.mark.parametrize(
    "word",
    [
        "종이",
        "사이",
        "나이",
        "고양이",
        "떡볶이",
        "디스플레이",
        "차이",
        "가을",
        "휴가",
        "속도",
        "불만",
    ],
)
def test_a_syllable_that_is_part_of_the_word_is_no_particle(word):
    assert KO.key(word) == word
    assert KO.strip_particle(word) == word


@pytest.mark.parametrize("word", ["종이는", "나이가", "고양이는", "사이가", "속도는", "가을은"])
def test_behind_such_a_word_a_real_particle_still_goes(word):
    assert KO.key(word) == word[:-1]


@pytest.mark.parametrize("word", ["이", "은", "가", "만", "도"])
def test_a_particle_alone_is_never_stripped_to_nothing(word):
    assert KO.key(word) == word


@pytest.mark.parametrize("word", ["선명도", "채도", "당도", "청결도", "자유도"])
def test_a_word_has_one_key_with_and_without_its_particle(word):
    assert KO.key(word) == KO.key(f"{word}는") == word


@pytest.mark.parametrize("word", ["판매가", "출고가", "고가"])
def test_a_word_that_reads_like_a_noun_with_a_particle_still_has_one_key(word):
    """Alone, 판매가 is "sale" as a subject: the key loses 가, but the same for all forms."""
    assert KO.key(word) == KO.key(f"{word}는") == KO.key(KO.strip_particle(f"{word}는"))


def test_one_particle_goes_not_two():
    assert KO.key("가격만은") == "가격만"


def test_a_term_with_two_particles_is_the_same_aspect_for_ate_and_atsa():
    text = "가격만은 좋아요."
    out = decide(
        text, said(ate=ate("가격만은"), atsa=atsa(("가격만은", "positive", "좋아요", 0.9)))
    )
    assert out.meta.unanchored_count == 0
    assert {p for _, p in pairs(out.final_result.final_tuples)} == {"positive"}


@pytest.mark.parametrize("term", ["가격은", "고양이", "배터리 수명은", "맛이"])
def test_decomposed_hangul_has_the_same_key(term):
    assert KO.key(nfd(term)) == KO.key(term)


def test_a_decomposed_term_stays_decomposed_so_that_it_is_found_in_its_text():
    text = nfd("가격은 비싸요.")
    stripped = KO.strip_particle(nfd("가격은"))
    assert stripped == nfd("가격")
    assert locate(text, stripped) == Span(start=0, end=len(nfd("가격")))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("가격!", "가격"),
        ("“가격”", "가격"),
        ("가격은...", "가격"),
        ("배터리-수명", "배터리수명"),
        ("  가격\t", "가격"),
        ("(가격)은", "가격"),
    ],
)
def test_punctuation_and_white_space_do_not_count(one, other):
    assert KO.key(one) == KO.key(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Battery Life", "battery life"), ("WiFi", "wi-fi"), ("Café", "cafe\u0301")]
)
def test_case_and_composition_do_not_count_in_english(one, other):
    assert EN.key(one) == EN.key(other)


@pytest.mark.parametrize("term", ["가격은", "price"])
def test_a_language_without_a_pattern_file_has_keys_but_no_particles_or_markers(term):
    ja = language("ja")
    assert ja.key(term) == term
    assert not ja.has_contrast("however, 하지만")
    assert ja.clauses("a but b") == [(0, 7)]
    assert ja.synonym_group("price") is None
    assert ja.subject("the service was slow") is None


@pytest.mark.parametrize("mark", ["...", "!", "", "  "])
def test_a_term_of_punctuation_has_an_empty_key(mark):
    assert KO.key(mark) == ""


@pytest.mark.parametrize(
    ("lang", "one", "other"),
    [
        (KO, "가격", "값"),
        (KO, "값은", "비용이"),
        (KO, "배송", "택배"),
        (EN, "price", "Cost"),
        (EN, "display", "SCREEN"),
    ],
)
def test_synonyms_share_a_group(lang, one, other):
    assert lang.synonym_group(one) is not None
    assert lang.synonym_group(one) == lang.synonym_group(other)
    assert lang.key(one) not in map(lang.key, lang.synonyms(one))


def test_the_synonyms_of_a_term_are_the_others_of_its_group():
    assert set(KO.synonyms("값이")) == {"가격", "비용", "가격대"}
    assert KO.synonyms("우주선") == []


@pytest.mark.parametrize(
    ("lang", "text", "clauses"),
    [
        (KO, "가격은 비싸지만 맛은 좋아요.", ["가격은 비싸지만", " 맛은 좋아요."]),
        (KO, "맛은 좋아요. 하지만 비싸요.", ["맛은 좋아요. ", "하지만 비싸요."]),
        (KO, "맛은 좋은데 양은 적어요", ["맛은 좋은데", " 양은 적어요"]),
        (KO, "맛은 좋아요.", ["맛은 좋아요."]),
        (EN, "Good food but bad service", ["Good food ", "but bad service"]),
        (EN, "However, it works", ["However, it works"]),
        (EN, "The button works", ["The button works"]),
    ],
)
def test_contrast_markers_divide_a_text_into_clauses(lang, text, clauses):
    assert [text[a:b] for a, b in lang.clauses(text)] == clauses


@pytest.mark.parametrize(
    ("lang", "text", "contrast"),
    [
        (KO, "비싸지만 좋아요", True),
        (KO, "지만", False),
        (KO, "그러나 좋아요", True),
        (KO, "좋아요", False),
        (EN, "cheap BUT good", True),
        (EN, "a rebuttal", False),
    ],
)
def test_contrast_is_seen_at_word_ends_and_in_whole_words_only(lang, text, contrast):
    assert lang.has_contrast(text) is contrast


@pytest.mark.parametrize(
    ("lang", "clause", "subject"),
    [
        (KO, " 맛은 좋아요.", "맛"),
        (KO, "배터리 수명이 짧아요", "배터리 수명"),
        (KO, "정말 좋아요", None),
        (EN, "but the service was slow", "service"),
        (EN, "its battery life is short", "battery life"),
        (EN, "loved it", None),
    ],
)
def test_the_subject_of_a_clause_is_found_where_there_is_one(lang, clause, subject):
    found = lang.subject(clause)
    assert (clause[slice(*found)] if found else None) == subject


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("가격이 비싸요", "ko"),
        ("The food was good", "en"),
        ("iPhone 15 Pro Max 좋아요", "ko"),
        ("I love 김치 so very very much indeed, really", "en"),
        (nfd("가격이 비싸요"), "ko"),
        ("ㅋㅋㅋ", "ko"),
        ("12345 !!! 😀", "en"),
    ],
)
def test_the_language_is_told_by_the_share_of_hangul(text, lang):
    assert detect(text) == lang


@pytest.mark.parametrize("code", ["ko", "KO", "ko-KR", "ko_kr", " Ko "])
def test_language_codes_are_reduced_to_the_language(code):
    assert normalise_code(code) == "ko"


def test_a_given_language_wins_over_detection():
    assert decide("가격이 비싸요", said(), lang="en-US").lang == "en"
    assert decide("가격이 비싸요", said(), lang=None).lang == "ko"


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((0, 2), "가격"),
        ((0, 7), "가격이 비싸요"),
        ((-1, 2), None),
        ((2, 2), None),
        ((3, 2), None),
        ((0, 8), None),
        ((99, 100), None),
    ],
)
def test_a_span_covers_text_only_if_it_lies_in_it(span, expected):
    assert piece("가격이 비싸요", Span(start=span[0], end=span[1])) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [((4, 6), (4, 6)), ((1, 3), (0, 2)), (None, (0, 2)), ((40, 60), (0, 2))],
    ids=["right place kept", "wrong place", "no place", "outside"],
)
def test_a_span_that_does_not_cover_its_term_is_looked_for(given, expected):
    span = Span(start=given[0], end=given[1]) if given else None
    assert locate("가격 X가격", "가격", span) == Span(start=expected[0], end=expected[1])


def test_a_term_that_is_not_in_the_text_has_no_place():
    assert locate("가격", "맛") is None
    assert locate("가격", "") is None


@pytest.mark.parametrize(
    ("evidence", "held"),
    [("비싸", True), ("싸다", False), ("", False), (" ", False), (None, False)],
)
def test_evidence_is_a_piece_of_the_text_and_nothing_grounds_nothing(evidence, held):
    assert grounded("가격이 비싸요", evidence) is held
