"""Random and nasty cases for the conflict review: triplets of three perspectives, and actions."""

from __future__ import annotations

from random import Random
from typing import Any

from absa.schemas.answers import REASON_CODES

Json = dict[str, Any]

TEXTS = {
    "ko": (
        "사용감은 좋지만 가격은 비싸요.",
        "배터리가 오래 가지 않지만 배터리 수명은 괜찮아요.",
        "음식은 안 맛있는데 서비스는 좋아요. 가격은 별로.",
        "화면 좋아요!",
    ),
    "en": (
        "The battery life is not great but the battery charges fast.",
        "Food was good, but the service wasn't.",
        "Great screen, great price.",
    ),
}
# Terms of which some share a key, some overlap in the text and some are nowhere in it.
TERMS = {
    "ko": (
        "가격",
        "가격은",
        "배터리",
        "배터리가",
        "배터리 수명",
        "수명",
        "사용감",
        "서비스",
        "제품",
    ),
    "en": ("battery", "Battery", "battery life", "life", "battery.", "food", "Food", "service"),
}
POLARITIES = ("positive", "negative", "neutral", "POS", "neg")
MISSPELT = ("postive", "negatve", "nuetral", "good", "", None, "mixed")


def case(seed: int) -> tuple[str, str, list[list[Json]], list[list[Json]]]:
    """A language, a text, the triplets of A, B, C, and the actions of their reviewers."""
    rng = Random(seed)
    lang = rng.choice(("ko", "en"))
    text = rng.choice(TEXTS[lang])
    # Few terms a case, so that they meet.
    terms = rng.sample(TERMS[lang], k=rng.randint(1, 4))
    crowd = 7 if rng.random() < 0.1 else 3  # now and then more than ten tuples
    triplets = [[_triplet(rng, text, terms) for _ in range(rng.randint(0, crowd))] for _ in "ABC"]
    total = sum(map(len, triplets))
    shared = [_action(rng, total, terms) for _ in range(rng.randint(1, 4))]
    said = [
        [
            # Reviewers would seldom agree by chance.
            {**rng.choice(shared), "reason_code": _reason(rng)}
            if rng.random() < 0.6
            else _action(rng, total, terms)
            for _ in range(rng.randint(0, 5))
        ]
        for _ in "ABC"
    ]
    return lang, text, triplets, said


def _triplet(rng: Random, text: str, terms: list[str]) -> Json:
    term = rng.choice([*terms, *terms, *terms, None])
    return {
        "aspect_term": term,
        "aspect_ref": rng.choice([None, None, term, *terms, "", "!"]),
        "polarity": rng.choice(MISSPELT if rng.random() < 0.15 else POLARITIES),
        "opinion_term": None,
        "evidence": _evidence(rng, text),
        "span": _span(rng, text, term),
        **rng.choice([{}, {"confidence": None}, {"confidence": rng.choice((0.0, 0.4, 0.9, 1.0))}]),
    }


def _evidence(rng: Random, text: str) -> str | None:
    if rng.random() < 0.2:
        return rng.choice((None, "", " ", "이 말은 없다", "not there"))
    return rng.choice([*text.split(), text])


def _span(rng: Random, text: str, term: str | None) -> Json | None:
    start = text.find(term) if term else -1
    if rng.random() < 0.7 and start >= 0:
        return {"start": start, "end": start + len(term or "")}
    start = rng.randint(-1, len(text))
    return rng.choice((None, None, {"start": start, "end": start + rng.randint(-1, 5)}))


def _action(rng: Random, total: int, terms: list[str]) -> Json:
    kind = rng.choice(("DROP", "MERGE", "MERGE", "FLIP", "FLIP", "KEEP", "FLAG"))
    if rng.random() < 0.03:
        kind = rng.choice(("ADD", "", "drop"))
    ids = [f"t{i}" for i in range(total)] or ["t0"]
    targets = rng.choices(ids, k=rng.choice((2, 2, 3) if kind == "MERGE" else (1, 1, 2)))
    if rng.random() < 0.05:
        targets = rng.choice(([], ["t99"], [*targets, "t99"], ["T0"]))
    polarity = rng.choice(MISSPELT if rng.random() < 0.2 else POLARITIES)
    ref = rng.choice([*terms, *terms, "", None]) if kind == "MERGE" else None
    return {
        "action_type": kind,
        "target_tuple_ids": targets,
        "new_value": {"polarity": polarity, "normalized_ref": ref},
        "reason_code": _reason(rng),
    }


def _reason(rng: Random) -> str | None:
    if rng.random() < 0.05:
        return rng.choice(("BECAUSE", "", None))
    return rng.choice(REASON_CODES)
