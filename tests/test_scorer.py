"""The scorer against the definitions of the field, written down a second time here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from absa.metrics.normalise import AbsaTuple, Normaliser
from absa.metrics.quality import bootstrap_sum, change, net_gain, tuple_changes
from absa.metrics.scorer import Found, Level, Matching, Score, overlap, score
from absa.schemas.sample import GoldAspect

POLARITIES = ("positive", "negative", "neutral")
WORDS = ("food", "service", "staff", "menu", "great", "slow", "bad", "wine list")

# A sentence's tuple as the field writes it: aspect, opinion (each a place of a word), polarity.
Triplet = tuple[int, int, str]


def f1(found: Found) -> float:
    counted = found.predicted + found.gold
    return 2 * found.right / counted if counted else 0.0


# The field's scorers, from their definitions -----------------------------------------------------


def micro_f1(predicted: Sequence[set[Any]], gold: Sequence[set[Any]]) -> float:
    """Exact match over the set of each sentence, summed over sentences."""
    right = sum(len(p & g) for p, g in zip(predicted, gold, strict=True))
    n_predicted, n_gold = sum(map(len, predicted)), sum(map(len, gold))
    precision = right / n_predicted if n_predicted else 0.0
    recall = right / n_gold if n_gold else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class Sentence:
    """Words with their places."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.text = " ".join(words)
        starts = np.cumsum([0, *(len(w) + 1 for w in words)])
        self.spans = [(int(a), int(a) + len(w)) for a, w in zip(starts, words, strict=False)]

    def tuples(self, triplets: Sequence[Triplet], *, as_gold: bool) -> list[AbsaTuple]:
        normaliser = Normaliser(self.text, "en")
        if as_gold:
            return normaliser.gold(self._gold(t) for t in triplets)
        return [
            normaliser.tuple(self.words[a], p, span=self.spans[a], opinion=self.words[o])
            for a, o, p in triplets
        ]

    def _gold(self, triplet: Triplet) -> GoldAspect:
        a, o, polarity = triplet
        start, end = self.spans[a]
        given = {"term": self.words[a], "from": start, "to": end}
        return GoldAspect.model_validate({**given, "polarity": polarity, "opinion": self.words[o]})


@st.composite
def corpora(
    draw: st.DrawFn, *, unique: bool
) -> list[tuple[Sentence, list[Triplet], list[Triplet]]]:
    """Sentences with predicted and gold triplets; `unique`: no word stands there twice."""
    corpus = []
    for _ in range(draw(st.integers(1, 4))):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=2, max_size=6, unique=unique))
        place = st.integers(0, len(words) - 1)
        triplets = st.lists(st.tuples(place, place, st.sampled_from(POLARITIES)), max_size=5)
        corpus.append((Sentence(words), draw(triplets), draw(triplets)))
    return corpus


def ours(corpus: Any, level: Level, matching: Matching) -> float:
    total = Score()
    for sentence, predicted, gold in corpus:
        total.merge(
            score(sentence.tuples(predicted, as_gold=False), sentence.tuples(gold, as_gold=True))
        )
    return f1(total.found.get((level, matching), Found()))


def theirs(corpus: Any, unit: Callable[[Sentence, Triplet], Hashable]) -> float:
    return micro_f1(
        [{unit(s, t) for t in predicted} for s, predicted, _ in corpus],
        [{unit(s, t) for t in gold} for s, _, gold in corpus],
    )


@given(corpora(unique=False))
def test_strict_pairs_are_the_fields_term_based_f1(corpus: Any) -> None:
    expected = theirs(corpus, lambda s, t: (s.words[t[0]], t[2]))
    assert ours(corpus, "pair", "strict") == pytest.approx(expected)


@given(corpora(unique=False))
def test_strict_aspects_are_the_fields_term_f1(corpus: Any) -> None:
    expected = theirs(corpus, lambda s, t: s.words[t[0]])
    assert ours(corpus, "aspect", "strict") == pytest.approx(expected)


@given(corpora(unique=False))
def test_span_pairs_are_the_fields_span_based_f1(corpus: Any) -> None:
    expected = theirs(corpus, lambda s, t: (s.spans[t[0]], t[2]))
    assert ours(corpus, "pair", "span") == pytest.approx(expected)


@given(corpora(unique=True))
def test_strict_and_span_agree_where_no_word_stands_twice(corpus: Any) -> None:
    assert ours(corpus, "pair", "strict") == pytest.approx(ours(corpus, "pair", "span"))


@given(corpora(unique=True))
def test_triplets_are_the_aste_exact_match_f1(corpus: Any) -> None:
    # Triplets are scored where the gold names an opinion; ASTE has no other sentences.
    corpus = [item for item in corpus if item[2]]
    expected = theirs(corpus, lambda s, t: (s.spans[t[0]], s.spans[t[1]], t[2]))
    assert ours(corpus, "triplet", "strict") == pytest.approx(expected)
    assert ours(corpus, "triplet", "span") == pytest.approx(expected)


Spans = st.tuples(st.integers(0, 12), st.integers(1, 6)).map(lambda s: (s[0], s[0] + s[1]))
Placed = st.lists(
    st.tuples(Spans, st.sampled_from(POLARITIES[:2])), max_size=4, unique_by=lambda t: t[0]
)


@given(Placed, Placed)
def test_overlap_finds_as_many_one_to_one_matches_as_there_can_be(said: Any, true: Any) -> None:
    def make(items: Any) -> list[AbsaTuple]:
        return [AbsaTuple(key=f"{span}", polarity=p, span=span) for span, p in items]

    def near(one: Any, other: Any) -> bool:
        a, b = set(range(*one[0])), set(range(*other[0]))
        return one[1] == other[1] and 2 * len(a & b) >= len(a | b)

    few, many = sorted((said, true), key=len)
    best = max(
        sum(near(one, other) for one, other in zip(few, chosen, strict=True))
        for chosen in permutations(many, len(few))
    )
    assert score(make(said), make(true)).found["pair", "overlap"] == Found(
        best, len(said), len(true)
    )


anything = st.builds(
    AbsaTuple,
    key=st.sampled_from(["", "food", "wine", "가격"]),
    polarity=st.sampled_from(POLARITIES),
    span=st.none() | Spans,
    category=st.sampled_from([None, "FOOD", "PRICE"]),
    opinion=st.sampled_from(["", "good", "bad"]),
    opinion_span=st.none() | Spans,
    implicit=st.booleans(),
)


@given(st.lists(anything, max_size=6))
def test_gold_scores_full_marks_against_itself(gold: list[AbsaTuple]) -> None:
    result = score(gold, gold)
    assert result.perfect
    assert all(f1(f) == 1.0 for f in result.found.values() if f.gold)


@given(st.lists(anything, max_size=5), st.lists(anything, max_size=5))
def test_no_prediction_and_no_gold_is_lost(said: list[AbsaTuple], true: list[AbsaTuple]) -> None:
    result = score(said, true)
    found, apart = result.found["pair", "strict"], result.implicit["pair"]
    units = {(t.key, t.polarity) if t.key else (t.category, t.polarity, "") for t in said}
    assert found.predicted + apart.predicted == len(units)
    assert found.right <= min(found.predicted, found.gold)


@given(st.lists(anything, max_size=6), st.lists(anything, max_size=6))
def test_overlap_never_finds_fewer_than_strict(
    said: list[AbsaTuple], true: list[AbsaTuple]
) -> None:
    result = score(said, true)
    for level in ("aspect", "pair", "triplet"):
        if (level, "strict") in result.found:
            strict, overlapping = (result.found[level, m] for m in ("strict", "overlap"))
            assert overlapping.right >= strict.right
            assert (overlapping.predicted, overlapping.gold) == (strict.predicted, strict.gold)


# The tasks with categories, as the code that papers publish computes them ------------------------

Quad = tuple[str, str, str, str]
quads = st.lists(
    st.tuples(
        st.sampled_from(["NULL", "food", "wine list", "staff"]),
        st.sampled_from(["food quality", "service general", "food prices"]),
        st.sampled_from(POLARITIES),
        st.sampled_from(["NULL", "great", "slow"]),
    ),
    max_size=5,
)
QUAD_TEXT = "the food and the wine list are great, the staff is slow"
PARTS: dict[str, Callable[[Quad], Hashable]] = {
    "tasd": lambda q: (q[0], q[1], q[2]),
    "asqp": lambda q: q,
    "acsa": lambda q: (q[1], q[2]),
}


def published_f1(predicted: list[list[Quad]], gold: list[list[Quad]], task: str) -> float:
    """Exact matches of each sentence's distinct tuples, micro-averaged (Zhang et al. 2021)."""
    part, right, n_predicted, n_gold = PARTS[task], 0, 0, 0
    for said, true in zip(predicted, gold, strict=True):
        one, other = list(dict.fromkeys(map(part, said))), list(dict.fromkeys(map(part, true)))
        right += sum(tuple_ in other for tuple_ in one)
        n_predicted, n_gold = n_predicted + len(one), n_gold + len(other)
    precision = right / n_predicted if n_predicted else 0.0
    recall = right / n_gold if n_gold else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def as_tuples(sentence: list[Quad]) -> list[AbsaTuple]:
    normaliser = Normaliser(QUAD_TEXT, "en")
    named = [tuple(None if part == "NULL" else part for part in quad) for quad in sentence]
    return [normaliser.tuple(t, p, category=c, opinion=o) for t, c, p, o in named]


@pytest.mark.parametrize("task", PARTS)
@given(st.lists(st.tuples(quads, quads.filter(bool)), min_size=1, max_size=6))
def test_tasks_with_categories_are_scored_as_published(
    task: str, pairs: list[tuple[list[Quad], list[Quad]]]
) -> None:
    total = Score()
    for said, true in pairs:
        total.merge(score(as_tuples(said), as_tuples(true)))
    said_all, true_all = [p[0] for p in pairs], [p[1] for p in pairs]
    assert f1(total.tasks[task]) == pytest.approx(published_f1(said_all, true_all, task))


def test_a_category_may_be_spelt_in_two_ways() -> None:
    gold = Normaliser("the food", "en").tuple("food", "positive", category="FOOD#QUALITY")
    said = Normaliser("the food", "en").tuple("food", "positive", category="food quality")
    assert score([said], [gold]).tasks["tasd"] == Found(1, 1, 1)


# What counts as what -----------------------------------------------------------------------------


def en(
    *tuples: tuple[str | None, str], text: str = "the food and the wine list"
) -> list[AbsaTuple]:
    return [Normaliser(text, "en").tuple(term, polarity) for term, polarity in tuples]


def test_a_tuple_without_a_term_is_counted_apart() -> None:
    result = score(en(("food", "positive"), (None, "negative")), en(("food", "positive")))
    assert result.found["pair", "strict"] == Found(right=1, predicted=1, gold=1)
    assert result.found["pair", "overlap"] == Found(right=1, predicted=1, gold=1)
    assert result.implicit["pair"] == Found(right=0, predicted=1, gold=0)


def test_implicit_gold_is_scored_apart() -> None:
    result = score(en(("food", "positive")), en(("food", "positive"), (None, "negative")))
    assert result.found["pair", "strict"] == Found(1, 1, 1)
    assert result.implicit["pair"] == Found(0, 0, 1)


@pytest.mark.parametrize(("category", "right"), [("FOOD#PRICE", 1), ("SERVICE", 0), (None, 0)])
def test_implicit_gold_is_matched_by_category(category: str | None, right: int) -> None:
    gold = [AbsaTuple(key="", polarity="negative", category="FOOD#PRICE", implicit=True)]
    said = [AbsaTuple(key="", polarity="negative", category=category, implicit=True)]
    result = score(said, gold)
    assert result.implicit["pair"] == Found(right, 1, 1)
    assert result.found["pair", "strict"] == Found(0, 0, 0)


def test_several_opinions_of_one_aspect_are_one_pair_and_two_triplets() -> None:
    make = Normaliser("good and cheap food", "en").tuple
    gold = [make("food", "positive", opinion="good"), make("food", "positive", opinion="cheap")]
    result = score(gold[:1], gold)
    assert result.found["pair", "strict"] == Found(1, 1, 1)
    assert result.found["triplet", "strict"] == Found(1, 1, 2)


def test_korean_particles_make_no_difference() -> None:
    make = Normaliser("가격은 비싸요", "ko").tuple
    said, gold = [make("가격", "negative")], [make("가격은", "negative")]
    assert score(said, gold).found["pair", "strict"] == Found(1, 1, 1)
    assert score(said, gold).found["pair", "overlap"] == Found(1, 1, 1)
    assert score(said, gold).found["pair", "span"] == Found(0, 1, 1)


@pytest.mark.parametrize(
    ("said", "gold", "right"),
    [
        ((0, 4), (0, 8), 1),  # half of the union is enough
        ((0, 3), (0, 8), 0),
        ((0, 8), (4, 12), 0),
        ((0, 4), (4, 8), 0),
        ((2, 6), (2, 6), 1),
    ],
)
def test_overlap_asks_for_half_of_the_union(
    said: tuple[int, int], gold: tuple[int, int], right: int
) -> None:
    one = AbsaTuple(key="a", polarity="positive", span=said)
    other = AbsaTuple(key="b", polarity="positive", span=gold)
    assert score([one], [other]).found["pair", "overlap"].right == right
    assert score([one], [other]).found["pair", "strict"].right == 0


def test_overlap_goes_by_the_term_where_there_is_no_place() -> None:
    one = AbsaTuple(key="wifi", polarity="positive")
    other = AbsaTuple(key="wifi", polarity="positive", span=(3, 8))
    assert score([one], [other]).found["pair", "overlap"].right == 1


def test_polarity_is_judged_on_the_aspects_that_were_found() -> None:
    said = en(("food", "positive"), ("wine list", "negative"), ("music", "neutral"))
    gold = en(("food", "positive"), ("wine list", "positive"))
    classes = score(said, gold).polarity["strict"]
    assert (classes.correct, classes.total) == (1, 2)
    assert classes.f1() == {"negative": 0.0, "positive": pytest.approx(2 / 3)}
    assert classes.macro_f1() == pytest.approx(1 / 3)


def test_two_polarities_of_one_aspect_must_both_be_found() -> None:
    gold = en(("food", "positive"), ("food", "negative"))
    classes = score(en(("food", "positive")), gold).polarity["strict"]
    assert (classes.correct, classes.total) == (0, 1)


def test_triplets_are_not_scored_without_gold_opinions() -> None:
    assert ("triplet", "strict") not in score(en(), en(("food", "positive"))).found


def test_overlap_of_places() -> None:
    assert overlap((0, 4), (2, 6)) == pytest.approx(1 / 3)
    assert overlap((0, 2), (4, 6)) == 0.0


# What became of it -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "became"),
    [
        (True, True, "keep"),
        (True, False, "break"),
        (False, True, "fix"),
        (False, False, "still_wrong"),
    ],
)
def test_the_four_fates(before: bool, after: bool, became: str) -> None:
    assert change(before, after) == became


def test_a_tuple_is_fixed_when_found_or_when_a_false_one_goes() -> None:
    became = tuple_changes(
        stage1=en(("food", "negative"), ("staff", "positive")),
        final=en(("food", "positive"), ("staff", "positive")),
        gold=en(("food", "positive"), ("wine list", "neutral"), (None, "negative")),
    )
    # food/positive found, food/negative gone; staff false in both, wine list missed in both.
    assert became == Counter(fix=2, still_wrong=2)


def test_net_gain_is_fix_less_break() -> None:
    gain = net_gain({"a": 1, "b": 1, "c": -1, "d": 0}, 4)
    assert (gain["value"], gain["samples"], gain["rate"]) == (1, 4, 0.25)
    assert gain["interval95"]["low"] <= 1 <= gain["interval95"]["high"]


def test_the_interval_is_the_bootstrap_over_samples() -> None:
    values = np.array([1.0] * 30 + [-1.0] * 12 + [0.0] * 158)
    low, high = bootstrap_sum(values.astype(int).tolist())
    reference = stats.bootstrap(
        (values,), np.sum, method="percentile", n_resamples=20_000, rng=np.random.default_rng(7)
    ).confidence_interval
    assert (low, high) == pytest.approx((reference.low, reference.high), abs=2)
    assert (low, high) == bootstrap_sum(values.astype(int).tolist())
    assert low < 18 < high


def test_an_interval_over_nothing_is_zero() -> None:
    assert bootstrap_sum([]) == (0.0, 0.0)
    assert bootstrap_sum([0, 0, 0]) == (0.0, 0.0)
