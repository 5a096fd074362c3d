"""Polarity words and what they add up to."""

from __future__ import annotations

import pytest
from scripted import (
    ate,
    atsa,
    atsa_review,
    decide,
    felt,
    judge,
    said,
    set_polarity,
    turn,
    validator,
)

from absa.nodes.polarity import PolarityCounter, aggregate, exact, label_of, read
from absa.nodes.thresholds import reaches
from absa.schemas.answers import LABELS


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("positive", ("positive", "exact")),
        ("NEGATIVE", ("negative", "exact")),
        ("Neutral", ("neutral", "exact")),
        ("pos", ("positive", "exact")),
        ("NEG", ("negative", "exact")),
        ("Neu", ("neutral", "exact")),
        ("positve", ("positive", "repaired")),
        ("negativee", ("negative", "repaired")),
        ("nuetral", ("neutral", "repaired")),
        (" positive ", ("positive", "repaired")),
        ("Positivo", ("positive", "repaired")),
        ("postv", (None, "invalid")),
        # Two letters from positive, two from negative: nobody knows which was meant.
        ("pogative", (None, "invalid")),
        ("mixed", (None, "invalid")),
        ("good", (None, "invalid")),
        ("긍정", (None, "invalid")),
        ("", (None, "invalid")),
        (None, (None, "invalid")),
    ],
)
def test_a_word_is_exact_repaired_or_invalid(word, expected):
    assert tuple(read(word)) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("mixed", "mixed"),
        ("MIXED", "mixed"),
        ("mixd", "mixed"),
        ("fixes", "mixed"),
        ("neg", "negative"),
    ],
)
def test_a_sentence_label_may_also_be_mixed(word, expected):
    assert read(word, LABELS).value == expected


@pytest.mark.parametrize("word", ["positve", "negativ", " neutral", "mixed", "", None, "부정"])
def test_the_strict_reading_of_the_gate_repairs_nothing(word):
    assert exact(word) is None


@pytest.mark.parametrize(
    ("word", "expected"), [("POS", "positive"), ("negative", "negative"), ("Neu", "neutral")]
)
def test_the_strict_reading_takes_accepted_spellings(word, expected):
    assert exact(word) == expected


def test_the_counter_counts_repairs_and_invalid_words_but_not_labels_not_given():
    counter = PolarityCounter()
    words = [counter.read(w) for w in ("positive", "positve", "good", None)]
    labels = [counter.label(w) for w in (None, "mixxed", "meh")]
    assert words == ["positive", "positive", None, None]
    assert labels == [None, "mixed", None]
    counts = counter.counts()
    assert (counts.polarity_repair_count, counts.polarity_invalid_count) == (2, 3)


@pytest.mark.parametrize(
    ("sentiments", "expected"),
    [
        ([], ("neutral", 0.0)),
        ([("neutral", 0.4), ("neutral", 0.8)], ("neutral", 0.6)),
        ([("positive", 0.9)], ("positive", 0.9)),
        ([("positive", 0.9), ("neutral", 0.1)], ("positive", 0.9)),
        ([("negative", 0.6), ("negative", 0.8), ("neutral", 0.1)], ("negative", 0.7)),
        ([("negative", 0.6), ("positive", 0.8)], ("mixed", 0.7)),
        ([("negative", 0.6), ("positive", 0.8), ("neutral", 0.1)], ("mixed", 0.7)),
    ],
    ids=lambda value: "+".join(p for p, _ in value) or "none" if isinstance(value, list) else None,
)
def test_the_confidence_of_a_label_is_the_mean_of_those_that_carry_it(sentiments, expected):
    label, confidence = aggregate(felt(p, c) for p, c in sentiments)
    assert (label, confidence) == (expected[0], pytest.approx(expected[1]))
    assert label_of(p for p, _ in sentiments) == label


@pytest.mark.parametrize(
    ("value", "threshold", "reached"),
    [
        (0.5 + 0.5 + 0.8, 1.8, True),
        (0.7 - 0.5, 0.2, True),
        (0.1 + 0.2, 0.3, True),
        (0.3, 0.1 + 0.2, True),
        (1.6 - 0.9e-9, 1.6, True),
        (1.6 - 1.1e-9, 1.6, False),
        (1.5, 1.6, False),
        (0.0, 0.0, True),
    ],
)
def test_a_value_within_a_billionth_of_a_threshold_reaches_it(value, threshold, reached):
    assert reaches(value, threshold) is reached


def test_a_run_counts_what_it_repaired_and_left_out_in_every_answer():
    out = decide(
        "가격이 비싸요.",
        said(
            ate=ate("가격"),
            atsa=atsa(
                ("가격", "negativ", "비싸요", 0.9), ("가격", "awful", "비싸요", 0.9)
            ),  # 1 + 1
            validator=validator(label="negatve"),  # 1 repaired
            epm=turn(set_polarity("가격", "bad")),  # 1 invalid
            judge=judge(label="mixd", tuples=[("가격", "worse")]),  # 1 repaired, 1 invalid
            atsa_review=atsa_review(("가격", "flip_polarity", "posotive")),  # 1 repaired
            validator_review=validator(label="so-so"),  # 1 invalid
        ),
    )
    assert (out.meta.polarity_repair_count, out.meta.polarity_invalid_count) == (4, 4)


def test_an_invalid_polarity_leaves_the_item_out_and_never_becomes_a_plain_neutral():
    out = decide("가격이 비싸요.", said(ate=ate("가격"), atsa=atsa(("가격", "bad", "비싸요", 0.9))))
    (only,) = out.final_result.final_aspects
    # What stands in for it is a marked backfill: low confidence, no evidence.
    assert (only.polarity, only.confidence, only.evidence) == ("neutral", 0.3, None)
    assert out.meta.polarity_invalid_count == 1
