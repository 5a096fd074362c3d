"""S5: aspects and evidence occur in the text."""

from __future__ import annotations

from absa.runs.verify.records import Findings, SampleRecords
from absa.runs.verify.words import named, number_of
from absa.schemas.answers import Span


def stands_in_text(e: SampleRecords) -> Findings:
    """S5. SampleRecords that is not in the text must be marked, and the marks must be correct."""
    text, meta = e.output.text, e.output.meta
    ungrounded = 0
    for a in e.output.final_result.final_aspects:
        name = f"aspect {a.name!r}"
        if a.span is not None and not _covers(text, a.span, a.aspect_term):
            there = text[max(0, a.span.start) : max(0, a.span.end)]
            place = f"{a.span.start}–{a.span.end}"
            yield "S5", f"{name} is not at {place}: the text there is {there!r}"
        if a.span is None and not a.is_implicit:
            yield "S5", f"{name} is explicit, but has no span"
        if a.span is None and a.aspect_term and a.aspect_term in text:
            yield "S5", f"{name} occurs in the text, but has no span"
        is_there = bool(a.evidence and a.evidence.strip()) and str(a.evidence) in text
        ungrounded += bool(a.evidence) and not is_there
        if is_there != a.is_grounded:
            place = "is in the text" if is_there else "is not in the text"
            what = f"evidence {a.evidence!r} of {name} {place}"
            yield "S5", f"{what}, is_grounded says {a.is_grounded}"
    if meta.ungrounded_count != ungrounded:
        yield "S5", f"ungrounded_count is {meta.ungrounded_count}, the aspects have {ungrounded}"
    for c in meta.correction_applied_log:
        for shot in (c.before, c.after):
            span = (shot or {}).get("span")
            if shot and isinstance(span, dict):
                logged = Span(start=number_of(span.get("start")), end=number_of(span.get("end")))
                if not _covers(text, logged, str(shot.get("aspect_term"))):
                    yield "S5", f"{named(c)}: {shot.get('aspect_term')!r} is not at its span"
    for r in meta.override_gate:
        if r.verdict in ("add", "flip") and (not r.evidence or r.evidence not in text):
            evidence = f"{r.evidence!r}, which is not in the text"
            yield "S5", f"override of {r.aspect!r} rests on {evidence}"


def _covers(text: str, span: Span, term: str | None) -> bool:
    return 0 <= span.start < span.end <= len(text) and text[span.start : span.end] == term
