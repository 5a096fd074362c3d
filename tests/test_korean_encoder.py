"""The Korean encoder: what it sees of a text, and what it says of it."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from absa.nodes.assets import data_dir
from absa.offline.models import loading
from absa.offline.models.encoder import aspect_scores
from absa.offline.models.folder import shipped
from absa.offline.models.morpheme_encoder import CATEGORIES, PIECE, MorphemeEncoder
from absa.offline.models.morpheme_inputs import FACTS, GRAMS, inputs_of
from absa.offline.models.polarity_model import LABELS
from absa.offline.text.annotations import View
from absa.offline.text.views import view_of


@pytest.fixture(scope="module")
def encoder() -> MorphemeEncoder:
    made = loading.encoder(shipped(), "ko")
    assert isinstance(made, MorphemeEncoder)
    return made


def polarity(view: View, term: str) -> str:
    start = view.text.index(term)
    scores = aspect_scores(view, start, start + len(term))
    assert scores is not None
    return LABELS[int(np.argmax(scores))]


def test_what_it_sees_of_a_text() -> None:
    view = view_of("맛은 좋지만 양이 많지 않아요", "ko", "restaurant")
    inputs = inputs_of(view)
    forms = [token.form for token in view.tokens]
    assert inputs.names[0] == "맛/NNG"
    assert inputs.grams.shape == (len(forms), GRAMS) and inputs.facts.shape == (len(forms), FACTS)
    assert inputs.facts[forms.index("좋"), 0] > 0
    assert inputs.facts[forms.index("양"), 7] == 1  # a space is before it
    assert inputs.clauses[0] < inputs.clauses[forms.index("양")]
    assert inputs.domain and not inputs_of(replace(view, domain="cars")).domain


def test_each_aspect_has_the_polarity_of_its_own_clause(encoder: MorphemeEncoder) -> None:
    view = encoder.encoded(view_of("배송은 빨랐는데 포장이 엉망이에요", "ko"))
    assert (polarity(view, "배송"), polarity(view, "포장")) == ("positive", "negative")
    assert view.encoded is not None
    assert view.encoded.tags.shape == (len(view.tokens), 5)
    assert view.encoded.tags.sum(axis=1) == pytest.approx(1, abs=1e-4)
    assert sum(view.encoded.labels) == pytest.approx(1, abs=1e-4)


def test_a_long_text_is_read_in_pieces(encoder: MorphemeEncoder) -> None:
    sentence = "국물은 깊고 진한데 면이 퍼져서 나왔어요. "
    view = encoder.encoded(view_of(sentence * 40, "ko"))
    assert view.encoded is not None and len(view.tokens) > 2 * PIECE
    assert view.encoded.polarities.shape == (len(view.tokens), 3)
    assert len(view.encoded.pieces) == len(view.tokens) + 1
    # One word of a thousand syllables has neither clauses nor known morphemes.
    strange = encoder.encoded(view_of("뷁" * 1000, "ko"))
    assert strange.encoded is not None
    assert np.isfinite(strange.encoded.polarities).all()


def test_a_text_without_words_stays_as_it_is(encoder: MorphemeEncoder) -> None:
    view = View("", "ko")
    assert encoder.encoded(view) is view


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "encoder_ko.npz"
    content = (data_dir("resources") / "models" / "encoder_ko.npz").read_bytes()
    with np.load(BytesIO(content)) as arrays:
        fewer_categories = {**arrays, CATEGORIES: arrays[CATEGORIES][:100]}
    np.savez(path, **fewer_categories)
    for damaged in (b"", content[:1000], path.read_bytes()):
        with pytest.raises(ValueError, match=r"encoder_ko\.npz is not a Korean encoder"):
            MorphemeEncoder.read(damaged, path)


def test_numpy_reads_what_torch_has_learned(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    from training import korean_encoder as training

    views = [view_of(text, "ko") for text in ("배송이 빨라요", "화면은 밝은데 소음이 있네요.")]
    names = sorted({f"{token.form}/{token.tag}" for view in views for token in view.tokens})
    words = training.Words(["", *names], 4)
    torch.manual_seed(0)
    vectors = np.random.default_rng(0).normal(size=(len(names) + 1, 8))
    model = training.Encoder(vectors.astype(np.float32), words.trained).eval()
    training.save(model, words, tmp_path / "encoder_ko.npz")
    made = MorphemeEncoder.read((tmp_path / "encoder_ko.npz").read_bytes(), tmp_path)
    texts = [training.example(view, words) for view in views]
    batch = training.batch_of(texts)
    with torch.no_grad():
        hidden, _ = model.hidden(batch, 0.0)
        tags, polarities, whole = model.heads(hidden, batch["mask"], 0.0)
        labels = model.label(whole).softmax(-1)
    for row, view in enumerate(views):
        encoded, size = made.encoded(view).encoded, len(view.tokens)
        assert encoded is not None
        assert encoded.tags == pytest.approx(tags[row, :size].softmax(-1).numpy(), abs=0.02)
        assert encoded.polarities == pytest.approx(polarities[row, 1 : size + 1].numpy(), abs=0.03)
        assert encoded.labels == pytest.approx(labels[row].tolist(), abs=0.02)


def test_texts_of_a_known_domain_are_read_with_weights_of_their_own(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    from training import korean_domains, korean_encoder

    text, path = "화면은 밝은데 소음이 있네요.", tmp_path / "encoder_ko.npz"
    views = {domain: view_of(text, "ko", domain) for domain in ("laptop", "cars")}
    names = sorted({f"{token.form}/{token.tag}" for token in views["cars"].tokens})
    torch.manual_seed(0)
    vectors = np.random.default_rng(0).normal(size=(len(names) + 1, 8)).astype(np.float32)
    words = korean_encoder.Words(["", *names], 4)
    korean_encoder.save(korean_encoder.Encoder(vectors, words.trained).eval(), words, path)
    before = MorphemeEncoder.read(path.read_bytes(), tmp_path)
    assert not before.knows_domains

    categories = [("food", "taste"), ("laptop", "DISPLAY#GENERAL"), ("laptop", "LAPTOP#GENERAL")]
    model = korean_domains.begun(before, categories)
    aspect = {"term": "화면", "from": 0, "to": 2, "polarity": "positive"}
    row = {
        "text": text,
        "domain": "laptop",
        "aspects": [
            {**aspect, "category": "DISPLAY#GENERAL"},
            {"term": None, "polarity": "negative", "category": "LAPTOP#GENERAL"},
        ],
    }
    texts = korean_domains.examples([row], korean_domains.Numbers(before), categories)
    assert (texts[0].sorts, texts[0].unnamed_sorts) == ([(0, 1, [1])], [2])
    korean_domains.fit(model, texts, rounds=60)
    korean_domains.added_to(path, model, categories)
    after = MorphemeEncoder.read(path.read_bytes(), tmp_path)

    one, other = (after.encoded(views[domain]).encoded for domain in ("laptop", "cars"))
    assert one is not None and other is not None
    unchanged = before.encoded(views["cars"]).encoded
    assert unchanged is not None and np.array_equal(other.polarities, unchanged.polarities)
    assert not other.category_names and not other.categories.size
    assert one.category_names == tuple(categories)
    assert one.categories.shape == (len(views["laptop"].tokens), 3)
    assert one.categories[0, 1] > one.categories[0, 2]
    assert one.text_categories[2] > one.text_categories[1]
    batch = korean_encoder.batch_of(texts)
    with torch.no_grad():
        hidden, _ = model.hidden(batch, 0.0)
        tags, polarities, _ = model.heads(hidden, batch["mask"], 0.0)
        scores, of_text = model.categories(hidden, batch, 0.0)
    assert one.tags == pytest.approx(tags[0].softmax(-1).numpy(), abs=0.02)
    assert one.polarities == pytest.approx(polarities[0, 1:].numpy(), abs=0.05)
    assert one.categories == pytest.approx(scores[0].numpy(), abs=0.05)
    assert one.text_categories == pytest.approx(of_text[0].numpy(), abs=0.05)


def test_joined_texts_keep_what_each_half_says() -> None:
    pytest.importorskip("torch")
    from training import korean_encoder as training

    words = training.Words([""], 1)
    halves = []
    for text, term, word in (("맛은 좋아요", "맛", "positive"), ("양이 적어요", "양", "negative")):
        view = view_of(text, "ko")
        start = text.index(term)
        aspect = {"term": term, "from": start, "to": start + 1, "polarity": word}
        made = training.example(view, words)
        assert made is not None
        made = training.with_aspects(made, view, [{**aspect, "evidence": text[-4:]}])
        made.label = training.TEXT_LABELS.index(word)
        halves.append(made)
    joint = training.example(view_of("근데", "ko"), words)
    both = training.joined(halves[0], halves[1], joint)
    by = len(halves[0].words) + len(joint.words)
    assert both.label == training.TEXT_LABELS.index("mixed")
    assert len(both.words) == len(both.tags) == by + len(halves[1].words)
    assert [span[:3] for span in both.spans] == [(0, 1, 0), (by, by + 1, 1)]
    assert both.spans[1][4] and min(both.spans[1][4]) > by
    assert list(both.clauses) == sorted(both.clauses)
    assert both.clauses[by - 1] == both.clauses[by] > both.clauses[0]
