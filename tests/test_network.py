"""The networks beside the tagger: their gradients, what they learn, what their files hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from absa.nodes.assets import data_dir
from absa.offline.models import network
from absa.offline.models.blas import one_thread
from absa.offline.models.loading import Models
from absa.offline.models.network import LABELS, Network
from absa.offline.models.tagger import Tagger
from absa.offline.models.vectors import Vectors, english
from absa.offline.text.views import view_of
from training import network as training

FOODS = "pasta soup bread salad chicken rice cake steak cheese fish".split()
TIMES = "evening morning week day night afternoon month weekend hour year".split()
Text = tuple[network.View, list[str]]


def read_network(path: Path) -> Network:
    return Network.read(path.read_bytes(), path)


def text_of(word: str, label: str) -> Text:
    view = view_of(f"The {word} was great .", "en")
    return view, ["O", label, "O", "O", "O"]


@pytest.fixture(scope="module")
def trained() -> Network:
    texts = [text_of(word, "BJ") for word in FOODS] + [text_of(word, "O") for word in TIMES]
    return training.train(texts * 12)


def shown_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_HIDDEN", "_STEM_DROPOUT", "_HIDDEN_NAMES"):
        monkeypatch.setattr(training, name, 0.0)


def loss(weights: dict[str, network.Array], tokens: training.Tokens) -> float:
    """Of the code that reads texts, not of the code that trains."""
    one = {name: value[None] for name, value in weights.items()}
    wrong, read = 0.0, 0
    for first, last in tokens.texts:
        rows = slice(first, last)
        entered = (
            tokens.names[rows] @ weights["rows"]
            + tokens.vectors[rows] @ weights["vector"]
            + weights["bias"]
        )
        shares = network.softmax(network.scores(one, entered[None]))[0]
        wrong -= float(np.log(shares[np.arange(last - first), tokens.labels[rows]]).sum())
        read += last - first
    return wrong / read


def test_slopes_are_those_of_the_loss_and_texts_do_not_see_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown_everything(monkeypatch)
    monkeypatch.setattr(training, "_SIZE", 6)
    texts = [text_of("pasta", "BJ"), (view_of("Nice", "en"), ["IN"]), text_of("week", "O")]
    named = [training._names(view) for view, _ in texts]
    known = sorted({name for text in named for names in text for name in names})
    tokens = training._tokens(texts, named, {name: place for place, name in enumerate(known)})
    random = np.random.default_rng(5)
    guess = training._init_weights(len(known), tokens.vectors.shape[1], random)
    weights = {name: value.astype(np.float64) for name, value in guess.items()}
    gradients = training._gradients(weights, tokens, tokens.texts, np.zeros(len(known)), random)
    assert gradients.keys() == weights.keys()
    for name, slope in gradients.items():
        # Where the slope is steepest a mistake shows best.
        place = tuple(int(n) for n in np.unravel_index(np.abs(slope).argmax(), slope.shape))
        step = 1e-5
        weights[name][place] += step
        after = loss(weights, tokens)
        weights[name][place] -= 2 * step
        before = loss(weights, tokens)
        weights[name][place] += step
        assert (after - before) / (2 * step) == pytest.approx(slope[place], rel=1e-3), name


def test_words_of_no_training_text_are_read_by_their_vector(trained: Network) -> None:
    def begins(word: str) -> float:
        view, _ = text_of(word, "O")
        return float(trained.probabilities(view)[1, LABELS.index("BJ")])

    unseen_foods = [begins(word) for word in ("lasagna", "sandwich", "lamb")]
    unseen_times = [begins(word) for word in ("century", "decade", "minute")]
    assert min(unseen_foods) > 0.5 > max(unseen_times)


def test_equal_data_gives_equal_bytes_and_a_file_gives_the_network_back(
    trained: Network, tmp_path: Path
) -> None:
    texts = [text_of(word, "BJ") for word in FOODS] + [text_of(word, "O") for word in TIMES]
    training.train(texts * 12).save(tmp_path / "again.npz")
    trained.save(tmp_path / "first.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "first.npz").read_bytes()
    view, _ = text_of("sandwich", "O")
    read = read_network(tmp_path / "first.npz").probabilities(view)
    assert read == pytest.approx(trained.probabilities(view), abs=0.01)


def test_the_tagger_says_the_mean_of_crf_and_network() -> None:
    folder = data_dir("resources") / "models"
    view = view_of("The lasagna was great but the waiter was rude .", "en")
    beside = read_network(folder / "network_en.npz")
    crf = (folder / "tagger_en.crf").read_bytes()
    alone, both = (Tagger(crf, None, n) for n in (None, beside))
    for of_crf, of_both, column in zip(
        alone._marginals(view),
        both._marginals(view),
        ((1,), (1, 3), (2, 4)),
        strict=True,
    ):
        of_network = beside.probabilities(view)[:, list(column)].sum(axis=1)
        assert of_both == pytest.approx((np.array(of_crf) + of_network) / 2, abs=1e-6)


def test_probabilities_of_any_text_are_probabilities() -> None:
    beside = read_network(data_dir("resources") / "models" / "network_en.npz")
    for text in ("!", "x" * 3000, "한글 and 😀 \ud800", "a b " * 1500):
        view = view_of(text, "en")
        shares = beside.probabilities(view)
        assert shares.shape == (len(view.tokens), len(LABELS))
        assert shares.sum(axis=1) == pytest.approx(np.ones(len(view.tokens)), abs=1e-5)


def test_a_long_text_is_read_in_pieces_that_see_what_is_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside = read_network(data_dir("resources") / "models" / "network_en.npz")
    view = view_of("The soup was cold, but the waiter brought another bowl of it . " * 3, "en")
    whole = beside.probabilities(view)
    monkeypatch.setattr(network, "_PIECE", 4)
    assert beside.probabilities(view) == pytest.approx(whole, abs=1e-6)


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_matrix_products_of_a_text_use_one_thread_and_others_as_many_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside = read_network(data_dir("resources") / "models" / "network_en.npz")
    long_text = view_of("The soup was cold. " * 40, "en")
    seen: list[set[int]] = []
    scores = network.scores

    def watched(weights: Mapping[str, network.Array], entered: network.Array) -> network.Array:
        seen.append(threads())
        return scores(weights, entered)

    monkeypatch.setattr(network, "scores", watched)
    with threadpool_limits(2, user_api="blas"):
        beside.probabilities(long_text)
        with one_thread():  # another thread's text, which takes longer
            beside.probabilities(long_text)
            assert threads() == {1}
        assert seen == [{1}, {1}]
        assert threads() == {2}


def test_a_damaged_network_is_refused(tmp_path: Path) -> None:
    junk = tmp_path / "network_en.npz"
    junk.write_bytes(b"junk")
    with pytest.raises(ValueError, match="not a network"):
        read_network(junk)
    with np.load(data_dir("resources") / "models" / "network_en.npz") as data:
        whole = dict(data)
    for name, wrong in (
        ("rows", whole["rows"][1:]),
        ("rows", whole["rows"] * np.nan),
        ("out", None),
    ):
        np.savez(junk, **{k: v for k, v in {**whole, name: wrong}.items() if v is not None})
        with pytest.raises(ValueError, match="not a network"):
            read_network(junk)


def test_unknown_words_have_no_vector_and_known_ones_stay_what_they_were(tmp_path: Path) -> None:
    given = np.array([[0.5, -1.0], [2.0, 9.0]], np.float32)
    Vectors.of(["food", "room"], given).save(tmp_path / "v.npz")
    found = Vectors.read((tmp_path / "v.npz").read_bytes(), tmp_path / "v.npz").find(
        ["room", "nothing", "food"]
    )
    # A byte holds no more than four units.
    assert found == pytest.approx(np.array([[2.0, 3.97], [0.0, 0.0], [0.5, -1.0]]), abs=0.02)
    battery, charger, waiter = english().find(["battery", "charger", "waiter"])
    assert battery @ charger > battery @ waiter


def test_the_shipped_models_are_small_and_korean_needs_no_network() -> None:
    folder = data_dir("resources") / "models"
    shipped = [path for path in folder.iterdir() if path.suffix != ".md"]
    # The encoders are more than half of it.
    assert sum(path.stat().st_size for path in shipped) < 65_000_000
    assert Models().of("ko").tagger._network is None
    assert Models().of("en").tagger._network is not None
