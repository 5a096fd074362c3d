"""The aspect tagger: features, spans from marginals, what the models find, damaged files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copy

import pytest

from absa.backends.offline import OfflineBackend
from absa.nodes.assets import data_dir
from absa.offline.analysis import Analyser
from absa.offline.models.decision import Candidacy, Decision, candidacies
from absa.offline.models.features import features
from absa.offline.models.loading import Models
from absa.offline.models.tagger import Candidate, disjoint, spans
from absa.offline.text.annotations import View
from absa.offline.text.noun_phrases import find_noun_phrases
from absa.offline.text.views import view_of
from absa.offline.text.windows import Windows
from absa.offline.training.tagger import labels
from absa.schemas.errors import InputError
from absa.schemas.sample import GoldAspect

TEXTS = [
    ("The battery life is great but the screen is dim .", "en", "laptop"),
    ("음식은 맛있지만 직원이 불친절해요.", "ko", "restaurant"),
]


def test_span_probabilities_follow_the_chain() -> None:
    found = spans([0.8, 0.0, 0.0], [0.8, 0.1, 0.0], [0.0, 0.4, 0.0])
    alone, joined, second = found
    assert (alone.first, alone.last, alone.probability) == (0, 1, pytest.approx(0.4))
    # 0.8 · 0.5 · P(stops after the second token) = 0.4 · 1
    assert (joined.first, joined.last, joined.probability) == (0, 2, pytest.approx(0.4))
    assert (second.first, second.probability) == (1, pytest.approx(0.1))
    assert alone.judged == pytest.approx(1.0)


def test_of_overlapping_candidates_the_likelier_one_stays() -> None:
    short, long, apart = (
        Candidate(0, 1, 0.3, 1.0),
        Candidate(0, 2, 0.6, 1.0),
        Candidate(3, 4, 0.1, 0.5),
    )
    assert disjoint([short, long, apart]) == [long, apart]


def test_labels_tell_judged_from_mentioned_and_leave_out_what_no_token_fits() -> None:
    view = view_of("The food and the bar snacks", "en")

    def gold(term: str, polarity: str) -> GoldAspect:
        start = view.text.index(term)
        return GoldAspect.model_validate(
            {"term": term, "from": start, "to": start + len(term), "polarity": polarity}
        )

    wanted = [gold("food", "positive"), gold("bar snacks", "neutral"), gold("foo", "negative")]
    assert labels(view, wanted) == ["O", "BJ", "O", "O", "BN", "IN"]


@pytest.mark.parametrize(("text", "lang", "domain"), TEXTS)
def test_each_token_has_features_and_the_domain_is_optional(
    text: str, lang: str, domain: str
) -> None:
    with_domain = features(view_of(text, lang, domain))
    without = features(view_of(text, lang))
    assert len(with_domain) == len(without) == len(view_of(text, lang).tokens)
    for known, unknown in zip(with_domain, without, strict=True):
        assert set(unknown) < set(known)
        assert all(name.startswith("D") for name in set(known) - set(unknown))


@pytest.mark.parametrize(
    ("text", "lang", "domain", "expected"),
    [
        (*TEXTS[0], {"battery life": "positive", "screen": "negative"}),
        (*TEXTS[1], {"음식": "positive", "직원": "negative"}),
    ],
)
def test_the_shipped_models_find_plain_aspects(
    text: str, lang: str, domain: str, expected: dict[str, str]
) -> None:
    found = Analyser()(text, lang, domain).findings
    assert {f.aspect.term: f.clause_reading.polarity for f in found} == expected
    for finding in found:
        reading = finding.clause_reading
        assert 0 < reading.confidence < 1
        assert text[reading.evidence_start : reading.evidence_end]


@pytest.mark.parametrize("domain", [None, "hotel"])
def test_a_judgement_of_nothing_named_is_reported_in_every_domain(domain: str | None) -> None:
    found = Analyser()("Absolutely wonderful !", "en", domain)
    assert found.overall is not None and not found.findings


@pytest.mark.parametrize("domain", [None, "hotel", "cosmetics"])
def test_a_text_is_read_whether_or_not_its_domain_was_trained_on(domain: str | None) -> None:
    findings = Analyser()("사용감은 좋지만 가격은 비싸요.", "ko", domain).findings
    read = {f.aspect.term: f.clause_reading.polarity for f in findings}
    assert read == {"사용감": "positive", "가격": "negative"}


def test_threads_share_a_tagger() -> None:
    models = Models().of("en")
    views = [view_of(f"The {word} was great .", "en") for word in ("food", "room", "staff", "bed")]

    def read(view: View) -> list[Candidacy]:
        return candidacies(view, models.tagger, models.polarity, find_noun_phrases(view))

    alone = [read(view) for view in views]
    with ThreadPoolExecutor(8) as pool:
        work = [view for _ in range(20) for view in views]
        together = list(pool.map(read, work))
    assert together == alone * 20


def test_pieces_of_a_long_text_keep_the_places_of_the_text() -> None:
    text = "The food was great but the service was slow. " * 60
    view = view_of(text, "en")
    windows = Windows(view)
    for token in (0, 250, len(view.tokens) - 1):
        piece = windows.at(token)
        assert view.tokens[token] in piece.tokens
        assert len(piece.tokens) < len(view.tokens) / 2
        for opinion in piece.opinions:
            assert text[opinion.start : opinion.end] == opinion.term
            assert piece.tokens[opinion.first].start >= opinion.start
    short = view_of("The food was great.", "en")
    assert Windows(short).at(2) is short


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    junk = tmp_path / "tagger_en.crf"
    junk.write_bytes(b"junk")
    with pytest.raises(ValueError, match="absa train"):
        Models(tmp_path)
    decision = tmp_path / "decision_en.json"
    decision.write_text("{}")
    with pytest.raises(ValueError, match="not a decision file"):
        Decision.read(decision.read_bytes(), decision)
    for name in ("decision_en.json", "polarity_en.npz"):
        copy(data_dir("resources") / "models" / name, tmp_path)
    with pytest.raises(InputError, match="backend.model.*not an aspect tagger"):
        OfflineBackend(str(tmp_path), trust_model=True)
    junk.unlink()
    with pytest.raises(InputError, match="backend.model.*incomplete model"):
        OfflineBackend(str(tmp_path), trust_model=True)
