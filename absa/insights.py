"""What people say: topics with polarities, quotes, trends and comparisons, without gold.

A topic is a category where the run has a category set, else an aspect with its synonyms (the
lexicons' and the language's pattern file; singular and plural). Each text counts once for a topic
and polarity.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from absa.nodes.language import language
from absa.offline.models.loading import LANGUAGES
from absa.offline.text import english
from absa.offline.text.lexicon import lexicon
from absa.runs.directory import OUTPUTS, RunDirectory
from absa.schemas.answers import POLARITIES
from absa.schemas.errors import InputError
from absa.schemas.output import FinalAspect, FinalOutput
from absa.show import NOT_NAMED

QUOTES = 3
_LONGEST_QUOTE = 100
# Of quotes with the same confidence, one of about this length comes first.
_GOOD_LENGTH = 50
# The end of a sentence.
_STOP = re.compile(r"[.!?…。]+[)\"'”’]*\s+|\n+")
_SHORTEST_QUOTE = 2
# A column holds dates if at least this share of its values are dates.
_DATES = 0.9
# The largest number of values of a column that are compared.
VALUES = 12
# Over more months, the trend is by year.
_MONTHS = 36
_DATE = re.compile(r"(\d{4})[-./](\d{1,2})(?:[-./](\d{1,2}))?(?:[T\s].*)?$")


@dataclass
class Quote:
    """The words of a text that express a judgement, and the evidence within them."""

    uid: str
    words: str
    evidence: str
    confidence: float


@dataclass
class Topic:
    """The judgements about one category or aspect."""

    kind: str
    names: Counter[str] = field(default_factory=Counter)
    # The numbers of the texts, by polarity.
    texts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    quotes: dict[str, list[Quote]] = field(default_factory=lambda: defaultdict(list))

    @property
    def name(self) -> str:
        """The most frequent name."""
        return self.names.most_common(1)[0][0]

    def count(self, polarity: str) -> int:
        """The number of texts with this polarity for the topic."""
        return len(self.texts.get(polarity, ()))

    @property
    def total(self) -> int:
        """The number of all judgements."""
        return sum(map(len, self.texts.values()))


@dataclass
class Insights:
    """Counts what the texts of a run say."""

    topics: dict[tuple[str, str], Topic] = field(default_factory=dict)
    labels: Counter[str] = field(default_factory=Counter)
    uids: list[str] = field(default_factory=list)
    extra: list[dict[str, Any]] = field(default_factory=list)
    # The topics of each text with their polarities.
    judgements: list[set[tuple[tuple[str, str], str]]] = field(default_factory=list)

    def add(self, output: FinalOutput) -> None:
        """Count one text."""
        number = len(self.uids)
        self.uids.append(output.uid)
        self.extra.append(dict(output.extra))
        self.labels[output.final_result.label] += 1
        counted: set[tuple[tuple[str, str], str]] = set()
        for aspect in output.final_result.final_aspects:
            key, name, kind = _topic_of(aspect, output.lang)
            topic = self.topics.setdefault(key, Topic(kind))
            topic.names[name] += 1
            if (key, aspect.polarity) not in counted:
                counted.add((key, aspect.polarity))
                topic.texts[aspect.polarity].append(number)
            if aspect.is_grounded and (words := _quote(aspect, output.text)):
                _keep(
                    topic.quotes[aspect.polarity],
                    Quote(output.uid, words, aspect.evidence or "", aspect.confidence),
                )
        self.judgements.append(counted)

    def ranked(self, polarity: str | None = None) -> list[Topic]:
        """The topics by the number of judgements, or of those of one polarity.

        With a polarity, unnamed judgements come only if there are no named ones.
        """
        topics = [t for t in self.topics.values() if polarity is None or t.count(polarity)]
        if polarity is not None:
            named = [t for t in topics if t.kind != "unnamed"]
            topics = named or topics
            return sorted(topics, key=lambda t: (-t.count(polarity), t.name))
        return sorted(topics, key=lambda t: (-t.total, t.name))

    def columns(self) -> list[str]:
        """The additional columns of the data."""
        return list(dict.fromkeys(name for row in self.extra for name in row))

    def date_column(self) -> str | None:
        """The first column with dates."""
        return next((name for name in self.columns() if self._has_dates(name)), None)

    def comparable(self) -> str | None:
        """The first column with few values that are not dates."""
        for name in self.columns():
            values = {str(row[name]) for row in self.extra if row.get(name) not in (None, "")}
            if 2 <= len(values) <= VALUES and not self._has_dates(name):
                return name
        return None

    def _has_dates(self, column: str) -> bool:
        values = [str(row[column]) for row in self.extra if row.get(column) not in (None, "")]
        dates = sum(_DATE.match(value.strip()) is not None for value in values)
        return bool(values) and dates >= _DATES * len(values)

    def trend(self, column: str | None = None) -> dict[str, Any] | None:
        """Judgements by month, or by year or day depending on the period; None without dates."""
        column = column or self.date_column()
        periods = self.periods(column) if column else {}
        if not periods:
            return None
        buckets = [{"bucket": name, **self._within(texts)} for name, texts in periods.items()]
        return {"column": column, "buckets": buckets}

    def periods(self, column: str) -> dict[str, list[int]]:
        """The numbers of the texts of each year, month or day."""
        dates = [_date(row.get(column)) for row in self.extra]
        present = [date for date in dates if date]
        months = {date[:2] for date in present}
        size = 1 if len(months) > _MONTHS else 3 if len(months) == 1 else 2
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, date in enumerate(dates):
            if date:
                groups[date[:size]].append(number)
        return {
            "-".join(f"{part:02d}" for part in date): numbers
            for date, numbers in sorted(groups.items())
        }

    def by(self, column: str) -> dict[str, Any]:
        """A comparison of the values of a column, the most frequent first.

        Raises:
            InputError: No text has the column.
        """
        if column not in self.columns():
            names = ", ".join(self.columns()) or "none"
            raise InputError(f"the run's data has no column {column!r}; its columns: {names}")
        groups = self.values(column)
        shown = list(groups.items())[:VALUES]
        values = [{"value": value, **self._within(texts)} for value, texts in shown]
        return {"column": column, "values": values, "left_out": max(0, len(groups) - VALUES)}

    def values(self, column: str) -> dict[str, list[int]]:
        """The numbers of the texts of each value of a column, the most frequent value first."""
        groups: dict[str, list[int]] = defaultdict(list)
        for number, row in enumerate(self.extra):
            if row.get(column) not in (None, ""):
                groups[str(row[column])].append(number)
        return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))

    def _within(self, numbers: Iterable[int]) -> dict[str, Any]:
        """The counts over some of the texts."""
        chosen = list(numbers)
        polarities: Counter[str] = Counter()
        topics: dict[str, Counter[str]] = {p: Counter() for p in POLARITIES}
        for number in chosen:
            for key, polarity in self.judgements[number]:
                polarities[polarity] += 1
                if self.topics[key].kind != "unnamed":
                    topics[polarity][self.topics[key].name] += 1
        return {
            "texts": len(chosen),
            **{p: polarities[p] for p in POLARITIES},
            "negative_share": _share(polarities["negative"], polarities.total()),
            "liked": topics["positive"].most_common(QUOTES),
            "disliked": topics["negative"].most_common(QUOTES),
        }

    def summary(self, by: str | None = None, limit: int = 20) -> dict[str, Any]:
        """All results as JSON."""
        column = by or self.comparable()
        judged = sum(topic.total for topic in self.topics.values())
        return {
            "texts": len(self.uids),
            "judgements": judged,
            "labels": dict(self.labels.most_common()),
            "topics": [self._topic(topic, judged) for topic in self.ranked()[:limit]],
            "topics_left_out": max(0, len(self.topics) - limit),
            "liked": [t.name for t in self.ranked("positive")[:5]],
            "disliked": [t.name for t in self.ranked("negative")[:5]],
            "columns": self.columns(),
            "trend": self.trend(),
            "by": self.by(column) if column else None,
        }

    def _topic(self, topic: Topic, judged: int) -> dict[str, Any]:
        return {
            "name": topic.name,
            "kind": topic.kind,
            "names": dict(topic.names.most_common(8)),
            **{p: topic.count(p) for p in POLARITIES},
            "share": _share(topic.total, judged),
            "negative_share": _share(topic.count("negative"), topic.total),
            "quotes": {
                p: [{"uid": q.uid, "quote": q.words, "evidence": q.evidence} for q in quotes]
                for p, quotes in topic.quotes.items()
            },
            "uids": {p: [self.uids[n] for n in numbers] for p, numbers in topic.texts.items()},
        }


def insights_of(run: Path) -> Insights:
    """Count the texts of a finished run.

    Raises:
        NoRun: It is not a run directory, or it has no results.
    """
    directory = RunDirectory(run).require(OUTPUTS)
    collected = Insights()
    for record in directory.lines(OUTPUTS):
        collected.add(FinalOutput.model_validate(record))
    return collected


def _topic_of(aspect: FinalAspect, lang: str) -> tuple[tuple[str, str], str, str]:
    """The key of the aspect's topic, its name in this text, and its kind."""
    if aspect.category:
        return ("category", aspect.category), aspect.category, "category"
    if aspect.aspect_term is None:
        return ("unnamed", ""), NOT_NAMED, "unnamed"
    return ("aspect", _group(aspect.aspect_term, lang)), aspect.aspect_term, "aspect"


@lru_cache(maxsize=65536)
def _group(term: str, lang: str) -> str:
    """A key that an aspect shares with its synonyms."""
    patterns = language(lang)
    base = term.lower()
    if lang == "en":
        *before, last = base.split() or [base]
        base = " ".join([*before, english.base_forms(last)[-1]])
    key = patterns.key(base)
    for number, group in enumerate(_synonyms(lang)):
        if key in group:
            return f"{lang}#{number}"
    return key or base


@lru_cache(maxsize=16)
def _synonyms(lang: str) -> tuple[frozenset[str], ...]:
    """Groups of aspect keys with the same meaning."""
    patterns = language(lang)
    groups: Iterable[Iterable[str]] = lexicon(lang).synonyms if lang in LANGUAGES else ()
    every = [frozenset(map(patterns.key, group)) for group in (*groups, *patterns.synonym_groups)]
    return tuple(every)


def _quote(aspect: FinalAspect, text: str) -> str | None:
    """The sentence, or if that is too long the text from aspect to evidence, or the evidence."""
    start = text.find(aspect.evidence or "")
    end = start + len(aspect.evidence or "")
    places = [(start, end)]
    if aspect.span is not None:
        places.insert(0, (min(start, aspect.span.start), max(end, aspect.span.end)))
    places.insert(0, _sentence(text, *places[0]))
    for first, last in places:
        while first > 0 and not text[first - 1].isspace():
            first -= 1
        while last < len(text) and not text[last].isspace():
            last += 1
        if _SHORTEST_QUOTE <= last - first <= _LONGEST_QUOTE:
            return text[first:last]
    return None


def _sentence(text: str, start: int, end: int) -> tuple[int, int]:
    """The place widened to whole sentences."""
    # A stop inside the place ends no sentence here; one that it ends with does.
    stops = [match.end() for match in _STOP.finditer(text)]
    first = max((stop for stop in stops if stop <= start), default=0)
    last = min((stop for stop in stops if stop >= end), default=len(text))
    while last > end and text[last - 1].isspace():
        last -= 1
    while first < start and text[first].isspace():
        first += 1
    return first, last


def _keep(quotes: list[Quote], new: Quote) -> None:
    """Keep the few quotes with the highest confidence, without repetitions."""
    if any(old.words.lower() == new.words.lower() for old in quotes):
        return
    quotes.append(new)
    quotes.sort(key=lambda q: (-round(q.confidence, 1), abs(len(q.words) - _GOOD_LENGTH)))
    del quotes[QUOTES:]


def _date(value: Any) -> tuple[int, ...] | None:
    match = _DATE.match(str(value or "").strip())
    if match is None:
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    return (year, month, day) if 1 <= month <= 12 else None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def sparkline(values: Iterable[float | None]) -> Iterator[str]:
    """One character for each value from 0 to 1."""
    for value in values:
        yield " " if value is None else "▁▂▃▄▅▆▇█"[min(7, int(value * 8))]
