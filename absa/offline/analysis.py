"""From a text to its :class:`Analysis`, and a bounded store of recent ones."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from absa.nodes.forks import renew_after_fork
from absa.offline.given_aspects import judge as judge_given
from absa.offline.labels import CLEAR_LABEL, label_of
from absa.offline.models import readers
from absa.offline.models.decision import MOST, candidacies
from absa.offline.models.encoder import category_scores
from absa.offline.models.judge import by_rules
from absa.offline.models.loading import LanguageModels, Models
from absa.offline.models.polarity_model import LABELS
from absa.offline.second_look import KNOWN_DOMAIN, Found, compare
from absa.offline.stopping import check
from absa.offline.text import polarity_rules
from absa.offline.text.annotations import (
    MIXED,
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    Analysis,
    Aspect,
    Finding,
    Probabilities,
    Reading,
    View,
)
from absa.offline.text.noun_phrases import find_noun_phrases
from absa.offline.text.other_languages import other_language
from absa.offline.text.views import view_of
from absa.offline.text.windows import Windows

#: Share of its probability that a noun phrase keeps without an opinion; the score of a full link.
_UNLINKED = 0.45
_FULL_LINK = 0.8
#: How strong a rule's finding must be where the tagger does not know the domain, and how far its
#: strength is to be trusted.
_RULE_ACCEPT = 0.34
#: Below it the probability of a polarity is left out.
_LEAST = 0.01
_RULE_TRUST = 0.8
#: How sure a judgement of nothing named must be where the tagger knows the domain: its silence
#: speaks against there being one.
_UNNAMED = 0.8
#: How sure the label is at the least where the text reads the opposite of all its aspects.
_LEAST_SURE = 0.3
#: How sure a judgement must be to be reported without a name.
_LEAST_UNNAMED = 0.5
#: From this probability of an unnamed judgement on, none of the doubtful aspects is what it judges.
_NAMES_NOTHING = 0.4
#: From this probability of neutral on a text judges nothing.
_NEUTRAL_TEXT = 0.5
#: How often one that waits for an analysis looks whether it is to be stopped.
_LOOK_S = 0.1

Given = tuple[str, ...] | None
Key = tuple[str, str | None, str | None, Given]
Read = Callable[[str, str | None, str | None, Given], Analysis]


class Analyser:
    """Reads texts with the learned models of a folder, the shipped one if none is named."""

    def __init__(self, models: Models | None = None) -> None:
        """Take models; nothing is loaded before the first text of a language."""
        self._models = models or Models()

    def __call__(
        self,
        text: str,
        lang: str | None = None,
        domain: str | None = None,
        given: Given = None,
    ) -> Analysis:
        """Read one text, or what it says about the `given` aspects.

        Pure and total: any string gives an analysis. In a text of another language than Korean and
        English nothing is found.
        """
        if other_language(text, lang):
            return Analysis(text, lang or "en")
        view = view_of(text, lang, domain)
        if not view.tokens:
            return Analysis(text, view.lang)
        models = self._models.of(view.lang)
        return _analysis(replace(models.read(view), memo={}), models, given)


def _analysis(view: View, models: LanguageModels, given: Given) -> Analysis:
    shares = _label_shares(view, models)
    mood = models.polarity.text(view) if shares is None else _mood(shares)
    encoded = view.encoded
    if not models.hears_encoder(view):
        view = _plain(view)
    second, overall = _read(view, models, given, mood)
    first = second
    if models.stage1 is not None and view.encoded is not None:
        # Stage 1 speaks with the small models alone, the debate with everything there is.
        small, plain = replace(models, decision=models.stage1, stage1=None), _plain(view)
        first, _ = _read(plain, small, given, _mood_of(plain, small))
    knows_domain = view.domain in models.decision.domains
    compared = compare(
        first,
        second,
        KNOWN_DOMAIN[view.lang] if knows_domain and first is not second else None,
    )
    return Analysis(
        text=view.text,
        lang=view.lang,
        tokens=view.tokens,
        clauses=view.clauses,
        negators=view.negators,
        opinions=view.opinions,
        findings=tuple(compared.reported),
        reserve=tuple(compared.reserve),
        overall=overall,
        mood=mood,
        label=label_of(view, second.reported, overall)
        if shares is None
        else _read_label(shares, second),
        unnamed=view.encoded.unnamed if view.encoded else (),
        category_scores=category_scores(
            encoded,
            ((f.aspect.start, f.aspect.end) for f in (*compared.reported, *compared.reserve)),
        ),
        used_negators=view.used_negators,
        knows_domain=knows_domain,
    )


def _plain(view: View) -> View:
    """The text without what the encoder says of it."""
    return replace(view, encoded=None) if view.encoded else view


def _label_shares(view: View, models: LanguageModels) -> list[float] | None:
    """The probabilities of the labels of the text, in a language with a reader of labels."""
    if models.readers is None:
        return None
    polarity = models.polarity
    plain = view.once(("label", id(polarity)), lambda: readers.label_measures(view, polarity))
    measures = {**plain, **readers.encoder_label_measures(view)}
    return models.readers.label_of(view).shares(measures)


def _mood_of(view: View, models: LanguageModels) -> Probabilities:
    """P(positive), P(negative), P(neutral) of the text as a whole."""
    shares = _label_shares(view, models)
    return models.polarity.text(view) if shares is None else _mood(shares)


def _mood(shares: Sequence[float]) -> Probabilities:
    positive, negative, neutral, mixed = shares
    return positive + mixed / 2, negative + mixed / 2, neutral


def _read_label(shares: Sequence[float], found: Found) -> tuple[str, float]:
    """The likeliest label; mixed where it is unsure and the opposite of all aspects."""
    likely = max(shares)
    label = readers.READ_LABELS[shares.index(likely)]
    polarities = {finding.clause_reading.polarity for finding in found.reported} - {NEUTRAL}
    opposite = label in (POSITIVE, NEGATIVE) and polarities and label not in polarities
    if opposite and likely < CLEAR_LABEL:
        return MIXED, round(max(_LEAST_SURE, 1.0 - likely), 3)
    return label, round(likely, 3)


def _read(
    view: View, models: LanguageModels, given: Given, mood: Probabilities
) -> tuple[Found, Reading | None]:
    """What these models find, and a judgement of something that the text does not name."""
    if given is not None:
        return Found(judge_given(view, models, given)), None
    accepted, reserve = _found(view, models)
    overall = None
    if not accepted and not _judges_nothing(view):
        overall = polarity_rules.overall(view, mood)
        is_quiet = view.domain in models.decision.quiet
        if overall and view.domain in models.decision.domains:
            is_quiet = is_quiet or overall.confidence < _UNNAMED
            overall = overall if overall.confidence >= _LEAST_UNNAMED else None
        if overall is not None and reserve and not (is_quiet or _names_nothing(view)):
            # The text judges something, and this is what it most likely judges.
            best = max(reserve, key=lambda finding: finding.clause_reading.confidence)
            accepted = [best if models.readers else _judged_as(view, best, overall)]
            reserve.remove(best)
    return Found(accepted, reserve), overall


def _judges_nothing(view: View) -> bool:
    """Whether the encoder takes the text for neutral."""
    return view.encoded is not None and view.encoded.labels[LABELS.index(NEUTRAL)] >= _NEUTRAL_TEXT


def _names_nothing(view: View) -> bool:
    """Whether the encoder says that what the text judges has no name in it."""
    return view.encoded is not None and max(view.encoded.unnamed) >= _NAMES_NOTHING


def _found(view: View, models: LanguageModels) -> tuple[list[Finding], list[Finding]]:
    """What is reported, and what is kept for a second look."""
    noun_phrases = view.once(("noun phrases",), lambda: find_noun_phrases(view))
    learned, reserve = _learned(view, models, noun_phrases)
    accepted = learned
    helped = view.encoded is None and models.readers is None
    if helped and view.domain not in models.decision.domains:
        accepted = _helped_out(view, models, learned, noun_phrases)
    return accepted, [f for f in reserve if not _overlaps(f.aspect, accepted)]


def _learned(
    view: View, models: LanguageModels, noun_phrases: Sequence[Aspect]
) -> tuple[list[Finding], list[Finding]]:
    """What the models stand for, and what is worth a second look."""
    decision = models.decision.of(view.domain)
    helped = models.readers is None and view.encoded is None
    firsts = [clause.first for clause in view.clauses]
    made = candidacies(view, models.tagger, models.polarity, noun_phrases, models.readers)
    aspects = [
        Aspect(
            term=view.text[each.start : each.end],
            start=each.start,
            end=each.end,
            first=each.candidate.first,
            last=each.candidate.last,
            clause=bisect_right(firsts, each.candidate.first) - 1,
            term_probability=round(each.candidate.probability, 3),
        )
        for each in made
    ]
    accepted: list[Finding] = []
    reserve: list[Finding] = []
    for aspect, each, (clause, nearest) in zip(
        aspects, made, polarity_rules.read_by_rules(view, aspects), strict=True
    ):
        if helped and view.domain not in decision.domains:
            each = replace(each, said=polarity_rules.blend_with_rules(each.said, clause))
        elif polarity_rules.rests_on_own_words(view, clause):
            said = polarity_rules.blend_with_rules(each.said, clause, polarity_rules.OWN_WORDS)
            each = replace(each, said=said)
        word, likely = decision.polarity(each)
        sure = decision.confidence(each, word, likely)
        if each.judgement is not None and each.judgement.rules is not None:
            clause = nearest = by_rules(view, aspect, each.judgement)
        learned = polarity_rules.learned(
            view, aspect, word, likely, round(sure, 3), (nearest, clause)
        )
        others = _alternatives(decision.polarities(each), word, sure)
        finding = Finding(aspect, aspect.term_probability, learned, nearest, others)
        if sure >= decision.accept:
            accepted.append(finding)
        elif sure >= decision.reserve:
            reserve.append(finding)
    return accepted, reserve


def _helped_out(
    view: View,
    models: LanguageModels,
    learned: list[Finding],
    noun_phrases: Sequence[Aspect],
) -> list[Finding]:
    """The learned findings and, beside them, the noun phrases that the rules see judged."""
    by_rule: list[Finding] = []
    windows = Windows(view)
    for aspect, (clause, nearest) in zip(
        noun_phrases, polarity_rules.read_by_rules(view, noun_phrases), strict=True
    ):
        linked = min(1.0, abs(clause.score) / _FULL_LINK)
        strength = aspect.term_probability * (_UNLINKED + (1.0 - _UNLINKED) * linked)
        if clause.opinion is None or strength < _RULE_ACCEPT or _overlaps(aspect, learned):
            continue
        probabilities = models.polarity.aspect(windows.at(aspect.first), aspect.start, aspect.end)
        probabilities = polarity_rules.blend_with_rules(probabilities, clause)
        likely = max(probabilities)
        word = LABELS[probabilities.index(likely)]
        sure = round(_RULE_TRUST * strength, 3)
        reading = polarity_rules.learned(view, aspect, word, likely, sure, (nearest, clause))
        by_rule.append(
            Finding(aspect, sure, reading, nearest, _alternatives(probabilities, word, sure))
        )
        if len(by_rule) == MOST:
            break
    return sorted([*learned, *by_rule], key=lambda finding: finding.aspect.start)


def _alternatives(said: Sequence[float], word: str, sure: float) -> tuple[tuple[str, float], ...]:
    """The other polarities of an aspect whose likeliest one is right with the probability `sure`.

    Their probabilities are in the polarity model's proportions; all together are at most 1.
    """
    likely = max(said[LABELS.index(word)], _LEAST)
    scale = min(sure / likely, 1.0)
    return tuple(
        (other, round(scale * probability, 3))
        for other, probability in zip(LABELS, said, strict=True)
        if other != word and scale * probability >= _LEAST
    )


def _overlaps(aspect: Aspect, findings: Sequence[Finding]) -> bool:
    return any(
        other.aspect.start < aspect.end and aspect.start < other.aspect.end for other in findings
    )


def _judged_as(view: View, finding: Finding, whole: Reading) -> Finding:
    sure, likely = finding.clause_reading.confidence, whole.confidence
    readings = (finding.nearest_reading, whole)
    learned = polarity_rules.learned(view, finding.aspect, whole.polarity, likely, sure, readings)
    return replace(finding, clause_reading=learned)


class AnalysisCache:
    """Recent analyses, least recently used first out; bounded in number and in characters."""

    def __init__(
        self,
        read: Read,
        max_texts: int = 512,
        max_chars: int = 1_000_000,
    ) -> None:
        """Keep at most ``max_texts`` analyses of at most ``max_chars`` characters in all."""
        self._read = read
        self._max_texts = max_texts
        self._max_chars = max_chars
        self._chars = 0
        self._known: OrderedDict[Key, Analysis] = OrderedDict()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Begin again in a forked process, where no thread of the parent finishes anything."""
        self._making: dict[Key, threading.Event] = {}
        self._lock = threading.Lock()

    def __call__(
        self, text: str, lang: str | None, domain: str | None = None, given: Given = None
    ) -> Analysis:
        """The analysis of a text, from the store or made now.

        The agents of Stage 1 ask for the same one at once, each in its own thread: one of them
        makes it and the others wait. An analysis of another text waits for neither.
        """
        key = (text, lang, domain, given)
        while True:
            with self._lock:
                if key in self._known:
                    self._known.move_to_end(key)
                    return self._known[key]
                making = self._making.get(key)
                if making is None:
                    done = self._making[key] = threading.Event()
                    break
            # Looked at again afterwards: whoever made it may have failed, or was stopped.
            while not making.wait(_LOOK_S):
                check()
        try:
            made = self._read(text, lang, domain, given)
            with self._lock:
                self._keep(key, made)
        finally:
            with self._lock:
                del self._making[key]
            done.set()
        return made

    def _keep(self, key: Key, made: Analysis) -> None:
        self._known[key] = made
        self._chars += len(key[0])
        while self._known and (len(self._known) > self._max_texts or self._chars > self._max_chars):
            (old, *_), _ = self._known.popitem(last=False)
            self._chars -= len(old)
