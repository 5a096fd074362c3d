"""How a role finds its aspect in an analysis, and what it may quote."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from absa.offline.text.annotations import (
    MIXED,
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    Analysis,
    Finding,
    Reading,
)
from absa.offline.text.lexicon import lexicon

EVIDENCE_LIMIT = 200


# Every agent of a debate looks up the same few terms.
@lru_cache(maxsize=4096)
def key(term: str) -> str:
    """What two spellings of an aspect term share: letters and digits in lower case."""
    folded = unicodedata.normalize("NFC", term).lower()
    return "".join(
        char
        for char in folded
        if not char.isspace() and not unicodedata.category(char).startswith("P")
    )


def evidence(analysis: Analysis, reading: Reading) -> str:
    """The words a reading rests on: always a piece of the text, empty where there are none."""
    if reading.opinion is None:
        return ""
    return analysis.text[reading.evidence_start : reading.evidence_end][:EVIDENCE_LIMIT]


def grounds(analysis: Analysis, finding: Finding, quoted: str) -> str:
    """What is quoted of an aspect, else its clause, as written; never its name alone."""
    clause = analysis.clauses[finding.aspect.clause]
    for words in (quoted, analysis.text[clause.start : clause.end]):
        if words and key(words) != key(finding.aspect.term):
            return words[:EVIDENCE_LIMIT]
    return analysis.text.strip()[:EVIDENCE_LIMIT]


def distinct(analysis: Analysis) -> list[Finding]:
    """The findings, one for each term and polarity, in order of the text."""
    seen: set[tuple[str, str]] = set()
    first_of: dict[str, Finding] = {}
    findings: list[Finding] = []
    for finding in analysis.findings:
        term, polarity = key(finding.aspect.term), finding.clause_reading.polarity
        if not term or (term, polarity) in seen:
            continue
        # A second mention counts only where it explicitly says something else.
        if term in first_of and finding.clause_reading.opinion is None:
            continue
        if term in first_of and first_of[term].clause_reading.opinion is None:
            findings.remove(first_of[term])
        seen.add((term, polarity))
        first_of[term] = finding
        findings.append(finding)
    return findings


def find(analysis: Analysis, term: str) -> Finding | None:
    """The finding that a term means: the same words, else the one phrase that contains them."""
    wanted = key(term)
    if not wanted:
        return None
    everything = (*analysis.findings, *analysis.reserve)
    same = [finding for finding in everything if key(finding.aspect.term) == wanted]
    if same:
        return max(same, key=lambda finding: finding.clause_reading.opinion is not None)
    within = [
        finding
        for finding in everything
        if wanted in key(finding.aspect.term) or key(finding.aspect.term) in wanted
    ]
    return within[0] if len(within) == 1 else None


def label(polarities: list[str]) -> str:
    """The sentence label that a set of polarities amounts to."""
    present = set(polarities)
    if POSITIVE in present and NEGATIVE in present:
        return MIXED
    if POSITIVE in present:
        return POSITIVE
    return NEGATIVE if NEGATIVE in present else NEUTRAL


def synonym_of(term: str, others: list[str], lang: str) -> str | None:
    """Another of the terms that names the same thing, by the lexicon's synonyms."""
    lowered = term.lower()
    for group in lexicon(lang).synonyms:
        if lowered in group:
            for other in others:
                if other.lower() in group and other.lower() != lowered:
                    return other
    return None
