"""The short lines under the table of `absa analyze`: why this label, who objected, what changed."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import (
    all_say,
    ate,
    atsa,
    atsa_review,
    confirm,
    decide,
    drop,
    edit,
    judge,
    pipeline,
    propose,
    said,
    set_polarity,
    turn,
    validator,
)

from absa import outcome
from absa.schemas.output import FinalOutput
from absa.schemas.settings import OverrideSettings, PipelineSettings

TEXT = "The soup was not bad, the service slow."
SOUP = ("soup", "positive", "not bad", 0.8)
SERVICE = ("service", "negative", "slow", 0.8)
NEGATIVE_SOUP = ("soup", "negative", "bad", 0.7)


def decided(
    *sentiments: Any, settings: PipelineSettings | None = None, **answers: Any
) -> FinalOutput:
    aspects = [s[0] for s in sentiments]
    given = {"ate": ate(*aspects), "atsa": atsa(*sentiments), **answers}
    return decide(TEXT, said(**given), settings, lang="en")


@pytest.mark.parametrize(
    ("sentiments", "reason"),
    [
        ([SOUP, SERVICE], "one aspect is positive, one negative"),
        ([SOUP], "the only aspect is positive"),
        ([SERVICE, NEGATIVE_SOUP], "both aspects are negative"),
        ([("mood", "negative", "slow", 0.7)], "the only unnamed judgement is negative"),
        ([], "no aspect with a sentiment"),
    ],
)
def test_a_label_that_follows_the_aspects_is_explained_by_them(sentiments, reason):
    assert outcome.label_reason(decided(*sentiments)) == reason


def test_only_a_critical_risk_that_changes_the_label_is_called_a_veto():
    critical = validator("NEGATION_SCOPE", label="positive", confidence=0.1)
    vetoed = decided(NEGATIVE_SOUP, validator_review=critical)
    assert outcome.label_reason(vetoed) == (
        "veto by the Validator, from negative to positive: negation scope"
    )
    surer = decided(NEGATIVE_SOUP, validator_review=validator(label="positive", confidence=0.99))
    assert outcome.label_reason(surer) == (
        "the Validator says positive (0.99), at least as sure as negative (0.70)"
    )
    assert (
        "at least as sure as negative (0.70), so the label becomes positive (0.99)."
        in surer.final_result.rationale
    )
    agrees = decided(SOUP, validator_review=critical)
    assert outcome.label_reason(agrees) == "the only aspect is positive"
    assert agrees.final_result.rationale == "RuleC: the Validator agrees with positive (0.10)."


FLIP = {**all_say("soup", "negative"), "judge": judge(set_polarity("soup", "negative"))}


@pytest.mark.parametrize(
    ("answers", "lines"),
    [
        ({}, ["no objections"]),
        ({"epm": turn(confirm("soup")), "cj": turn(confirm("soup", "positive"))}, None),
        (
            {**FLIP, "judge": judge(set_polarity("soup", "negative"), evidence={"soup": "bad"})},
            ['EPM: soup is negative ("bad"), 3 of 3 agreed → changed'],
        ),
        (
            {"epm": turn(set_polarity("soup", "negative", evidence="bad")), "judge": judge()},
            ['EPM: soup is negative ("bad") → kept as positive: no evidence given'],
        ),
        (
            {
                "tan": turn(set_polarity("soup", "negative")),
                **{name: turn(confirm("soup", "positive")) for name in ("epm", "cj")},
                "judge": judge(confirm("soup", "positive"), evidence={"soup": "not bad"}),
            },
            ["the others confirmed it"],
        ),
        ({"cj": turn(drop("soup"))}, ["CJ: soup should be dropped → kept: only a review may"]),
        (
            {"tan": turn({**edit("merge_tuples", "soup"), "value": "soups"})},
            ['TAN: soup means "soups" → not changed: only a review may rename an aspect'],
        ),
    ],
)
def test_the_debate_is_one_line_where_all_agree_else_a_line_for_each_objection(answers, lines):
    shown = outcome.debate(decided(SOUP, **answers), OverrideSettings())
    lines = lines or ["all agents agreed"]
    assert len(shown) == len(lines)
    assert all(part in line for part, line in zip(lines, shown, strict=True)), shown


@pytest.mark.parametrize(
    ("answers", "lines"),
    [
        (
            {
                "epm": turn(set_polarity("service", "positive", evidence="slow")),
                "tan": turn(drop("service")),
                "validator": validator(proposals=[propose("DROP_ASPECT", "service")]),
            },
            [
                'EPM: service is positive ("slow") → not changed: ',
                "TAN: service should be dropped → dropped, by the Validator's review",
            ],
        ),
        (
            {
                "tan": turn(drop("service")),
                "atsa_review": atsa_review(("service", "drop")),
            },
            ["TAN: service should be dropped → dropped, by ATSA's review"],
        ),
        (
            {
                "epm": turn(set_polarity("service", "positive", evidence="slow")),
                "judge": judge(),
                "atsa_review": atsa_review(("service", "flip_polarity", "positive", 0.9)),
            },
            ['EPM: service is positive ("slow") → changed, by ATSA\'s review'],
        ),
    ],
)
def test_a_change_that_a_review_made_names_the_review(answers, lines):
    eager = pipeline(override={"ev_threshold": 0.0})
    shown = outcome.debate(decided(SOUP, SERVICE, settings=eager, **answers), OverrideSettings())
    assert len(shown) == len(lines)
    assert all(line.startswith(part) for part, line in zip(lines, shown, strict=True)), shown


def test_without_a_debate_there_is_no_line_about_it():
    assert (
        outcome.debate(decided(SOUP, settings=pipeline(enable_debate=False)), OverrideSettings())
        == []
    )


def test_reviews_are_shown_where_they_changed_a_tuple_adopted_or_not():
    flip = {"atsa_review": atsa_review(("soup", "flip_polarity", "negative", 0.9))}
    adopted = decided(SOUP, settings=pipeline(enable_debate=False), **flip)
    assert outcome.reviews(adopted) == ["soup: ATSA's review changed positive to negative"]
    strict = pipeline(enable_debate=False, override={"ev_threshold": 1.0})
    (line,) = outcome.reviews(
        decided(
            SOUP,
            settings=strict,
            **flip,
            validator=validator("OTHER"),
            validator_review=validator("OTHER"),
        )
    )
    assert line == (
        "soup: ATSA's review wanted to change positive to negative; not used, because Stage 2 was "
        "not adopted (too little evidence for the change)"
    )
    surer = {"atsa_review": atsa_review(("soup", "maintain", "positive", 0.95))}
    assert outcome.reviews(decided(SOUP, **surer)) == []
