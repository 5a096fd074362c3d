"""The learned polarity models: what they say, and that no text breaks them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from absa.nodes.assets import data_dir
from absa.offline.models import cues
from absa.offline.models.polarity_model import LABELS, PolarityModel
from absa.offline.text.annotations import NEGATIVE, NEUTRAL, POSITIVE
from absa.offline.text.views import view_of
from absa.offline.training.polarity_model import Labelled, label_of, train
from training import polarity_model as shipped


def model_file(lang: str) -> Path:
    return data_dir("resources") / "models" / f"polarity_{lang}.npz"


def read_model(path: Path) -> PolarityModel:
    return PolarityModel.read(path.read_bytes(), path)


@pytest.fixture(scope="module")
def models() -> dict[str, PolarityModel]:
    return {lang: read_model(model_file(lang)) for lang in ("en", "ko")}


def aspect_polarity(models: dict[str, PolarityModel], text: str, terms: list[str]) -> list[str]:
    view = view_of(text)
    spans = [(text.index(term), text.index(term) + len(term)) for term in terms]
    answers = []
    for span in spans:
        said = models[view.lang].aspect(view, *span, [other for other in spans if other != span])
        assert sum(said) == pytest.approx(1.0)
        answers.append(LABELS[said.index(max(said))])
    return answers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The food was great but the service was slow and rude.",
            {"food": POSITIVE, "service": NEGATIVE},
        ),
        ("I love the screen, but the battery is terrible.", {"screen": 0, "battery": 1}),
        ("The pizza is not good.", {"pizza": NEGATIVE}),
        ("The waiter asked whether we wanted drinks.", {"drinks": NEUTRAL}),
        ("음식은 맛있지만 서비스는 불친절했어요.", {"음식": POSITIVE, "서비스": NEGATIVE}),
        ("방은 깨끗한데 침대가 불편합니다.", {"방": POSITIVE, "침대": NEGATIVE}),
        ("직원이 친절하지 않아요.", {"직원": NEGATIVE}),
    ],
)
def test_opinions_go_to_the_aspect_they_speak_of(
    models: dict[str, PolarityModel], text: str, expected: dict[str, str | int]
) -> None:
    wanted = [LABELS[label] if isinstance(label, int) else label for label in expected.values()]
    assert aspect_polarity(models, text, list(expected)) == wanted


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("정말 재밌어요 ㅋㅋㅋ 강추", POSITIVE),
        ("돈이아깝다진짜최악", NEGATIVE),
        ("노잼ㅠㅠ 시간낭비", NEGATIVE),
        ("맛있구마잉 또 올라요", POSITIVE),
        ("참말로 좋습니더", POSITIVE),
        ("존맛탱 👍👍", POSITIVE),
        ("Excellent place, we loved everything.", POSITIVE),
        ("A complete waste of money.", NEGATIVE),
    ],
)
def test_whole_texts_with_slang_dialect_and_missing_spaces(
    models: dict[str, PolarityModel], text: str, label: str
) -> None:
    view = view_of(text)
    said = models[view.lang].text(view)
    assert LABELS[said.index(max(said))] == label


@pytest.mark.parametrize(
    "text",
    [
        "ㅋㅋㅋㅋ ㅇㅈ ㄹㅇ ㅈㅁㅌ ㅠㅠㅠㅠ",
        "(ㅠ_ㅠ) ^^; >_< ㅡㅡ;; ~.~",
        "iPhone15Pro는 카메라가 미쳤구마잉",
        "Galaxy S24 Ultra배터리 ㄱㅊ",
        "👨‍👩‍👧‍👦🏽❤️‍🔥가성비🔥",
        "맛있슴돠~~~!!!!!!!",
        "뷁뷁뷁뷁뷁뷁뷁뷁뷁뷁뷁뷁",
        "가격이\u200b비싸\ufeff요",
        "\ud800 lone surrogate",
        "",
        "   \n\n\t",
        "\x00\x01\x02",
    ],
)
def test_tokens_of_odd_texts_lie_in_the_text_and_the_models_answer(
    models: dict[str, PolarityModel], text: str
) -> None:
    for lang in ("ko", "en", None):
        view = view_of(text, lang)
        for token in view.tokens:
            assert 0 <= token.start <= token.end <= len(text)
        starts = [token.start for token in view.tokens]
        assert starts == sorted(starts)
        model = models[view.lang]
        for said in (model.text(view), model.aspect(view, 0, len(text), [(0, 1)])):
            assert sum(said) == pytest.approx(1.0)


def random_text(source: random.Random) -> str:
    """Characters of everywhere, with Hangul, jamo, emoji and joiners more often than by chance."""
    ranges = (
        (0x20, 0x7E),
        (0xAC00, 0xD7A3),
        (0x3131, 0x3163),
        (0x1100, 0x11FF),
        (0x1F300, 0x1FAFF),
        (0x2000, 0x206F),
        (0x0, 0x10FFFF),
    )
    return "".join(
        chr(source.randint(*source.choice(ranges))) for _ in range(source.randint(0, 24))
    )


def test_random_strings_get_an_answer(models: dict[str, PolarityModel]) -> None:
    source = random.Random(5_000)
    for number in range(5_000):
        text = random_text(source)
        view = view_of(text, ("ko", "en")[number % 2])
        model = models[view.lang]
        start = source.randint(0, len(text))
        end = source.randint(start, len(text))
        others = [(source.randint(0, 30), source.randint(0, 30))]
        assert 0.999 < sum(model.text(view)) < 1.001, repr(text)
        assert 0.999 < sum(model.aspect(view, start, end, others)) < 1.001, repr(text)


def test_the_same_view_always_gets_the_same_answer(models: dict[str, PolarityModel]) -> None:
    text = "The food was great but the service was slow."
    first, second = view_of(text), view_of(text)
    assert models["en"].aspect(first, 4, 8) == models["en"].aspect(second, 4, 8)
    assert models["en"].text(first) == models["en"].text(second)


def test_negated_words_are_marked() -> None:
    assert "!good" in cues.scene_of(view_of("The pizza is not good.")).words
    assert "!좋다/V" in cues.scene_of(view_of("화질이 좋지 않아요.")).words


def test_an_aspect_between_takes_the_words_beyond_it() -> None:
    text = "cheese and wine were good"
    alone = cues.aspect_cues(view_of(text), 0, 6, (), {})
    beside = cues.aspect_cues(view_of(text), 0, 6, ((11, 15),), {})
    assert "g>good" in alone
    assert "g>good" not in beside


@pytest.mark.parametrize(
    ("polarities", "label"),
    [
        ([POSITIVE, POSITIVE], POSITIVE),
        ([NEGATIVE, NEUTRAL], NEGATIVE),
        ([NEUTRAL], NEUTRAL),
        ([POSITIVE, NEGATIVE], None),
        ([], None),
    ],
)
def test_label_of_a_text_by_its_aspects(polarities: list[str], label: str | None) -> None:
    assert label_of(polarities) == label


def own_samples() -> list[Labelled]:
    """A made-up trade with words of its own: `zorky` is praise, `blem` is blame."""
    nouns = ("handle", "strap", "lid", "hinge", "case", "dial")
    samples = []
    for noun in nouns * 5:
        for word, polarity in (("zorky", POSITIVE), ("blem", NEGATIVE)):
            text = f"The {noun} is {word}."
            span = (4, 4 + len(noun), polarity)
            samples.append(Labelled(view_of(text, "en"), (span,), polarity))
    return samples


def test_own_data_teaches_words_and_keeps_what_was_known(
    models: dict[str, PolarityModel], tmp_path: Path
) -> None:
    own = train(own_samples(), "en", models["en"])
    own.save(tmp_path / "own.npz")
    read = {"en": read_model(tmp_path / "own.npz")}
    assert aspect_polarity(read, "The knob is zorky.", ["knob"]) == [POSITIVE]
    assert aspect_polarity(read, "The knob is blem.", ["knob"]) == [NEGATIVE]
    assert aspect_polarity(read, "The food is delicious.", ["food"]) == [POSITIVE]
    assert aspect_polarity(read, "The service is awful.", ["service"]) == [NEGATIVE]


def test_equal_data_gives_equal_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        shipped.train(own_samples(), "en").save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_a_file_that_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"model\.npz is not a polarity model"):
        read_model(path)


def test_rows_without_terms_are_one_unnamed_aspect_if_they_agree() -> None:
    row = {
        "text": "Good.",
        "lang": "en",
        "aspects": [{"term": None, "from": None, "to": None, "polarity": POSITIVE}] * 2,
    }
    sample = shipped.labelled(row)
    assert sample.aspects == ((0, 0, POSITIVE),)
    assert sample.label == POSITIVE
    mixed = shipped.labelled(
        {**row, "aspects": [*row["aspects"], {"term": None, "polarity": NEGATIVE}]}
    )
    assert mixed.aspects == ()
    assert mixed.label is None
