"""`verify`: does a run directory tell the truth?

| check  | what must hold                                                                        |
|--------|---------------------------------------------------------------------------------------|
| Counts | every sample of the data once per seed in every file; the manifest says so too        |
| S1     | what was decided follows from the recorded answers                                    |
| S2     | the final tuples are those of the final aspects; every polarity is canonical          |
| S3     | a debate whose tuples are not the final ones was overruled for an allowed reason      |
| S4     | every correction marked applied can be seen in the patched result                     |
| S5     | every explicit aspect stands at its span; evidence is in the text, or marked as not   |
| S6     | no gold, key or secret in prompts, traces and outputs                                 |

S1, S4 and S6 are checked twice. The recorded answers go through the decision layer again, and
everything it decides must be what is on record, the prompts' hashes included: a prompt with that
hash held the text and earlier answers, and nothing else. And because that could not show a fault
of the decision layer itself, what can be checked without it is checked without it.

One sample is held at a time; of the others only the places of their lines.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field

from absa.backends.replay import backend_notes
from absa.data import BadLine, DataError, read_samples
from absa.demos import Demos
from absa.runs.artefacts import (
    ERRORS,
    GATE,
    GATE_SUMMARY,
    OUTPUTS,
    SCORECARDS,
    TRACES,
    gate_summary,
)
from absa.runs.engine import MANIFEST
from absa.runs.identity import TRANSPORT, differences, file_sha256, identity, versions
from absa.runs.replay import NoRun
from absa.scorecard import gold, scorecard
from graph import build
from nodes.adopt import EV_REASONS
from nodes.language import Language, language
from nodes.polarity import read
from schemas.answers import (
    LABELS,
    POLARITIES,
    AteAnswer,
    AtsaAnswer,
    JudgeAnswer,
    Span,
    read_answer,
)
from schemas.backend import Ask, Reply
from schemas.errors import AnswerError, BackendError
from schemas.output import AspectTuple, FinalOutput
from schemas.records import Correction
from schemas.sample import GoldAspect, Sample
from schemas.settings import PipelineSettings, Settings

COUNTS = "Counts"
CHECKS = {
    COUNTS: ("every sample once, in every file", "samples"),
    "S1": ("decisions follow from the answers", "samples"),
    "S2": ("tuples and aspects agree", "samples"),
    "S3": ("an overruled debate has a reason", "debates"),
    "S4": ("applied corrections are visible", "corrections"),
    "S5": ("aspects and evidence are in the text", "aspects"),
    "S6": ("no gold, key or secret leaked", "calls"),
}
"""The checks, what each says, and what it counts."""

OVERRIDE = "debate_override"
PACKAGE = "absa-debate-graph"
# What stands beside the decision: how answers were had, and what classifiers think of the text.
_NOT_DECIDED = ("process_trace", "aux_signals")
_JSON_FILES = (OUTPUTS, SCORECARDS, TRACES, GATE, ERRORS)
_SHOWN = 3
_TOLERANCE = 1e-9
_SECRETS = re.compile(
    r"\bsk-[A-Za-z0-9_-]{12,}"  # OpenAI and those that imitate it
    r"|\bBearer\s+[A-Za-z0-9._~+/-]{8,}=*"
    r"|\b(?:gh[pousr]_|github_pat_|hf_|xox[abprs]-|AIza|AKIA)[A-Za-z0-9_-]{12,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<!\\)\"(?:api_?key|authorization|password|secret)\"\s*:\s*\"[^\"]",
    re.IGNORECASE,
)
_GOLD_KEY = re.compile(r"(?<!\\)\"(gold(?:_\w+)?)\"\s*:", re.IGNORECASE)
_GOLD_FIELDS = frozenset({"term", "from", "to", "polarity"})

Tuples = frozenset[tuple[str, str]]
Found = Iterator[tuple[str, str]]
"""Violations as (check, what is wrong)."""
Detail = tuple[str, Span | None, str, float, str | None]
"""Term, span, polarity, confidence and evidence."""


class Violation(BaseModel):
    """Something that does not hold, and for which sample; no uid if it is about the run."""

    model_config = ConfigDict(frozen=True)
    uid: str | None
    seed: int | None = None
    what: str


class Check(BaseModel):
    """One check: how much was looked at, and what does not hold."""

    name: str
    title: str
    unit: str
    checked: int = 0
    violations: list[Violation] = Field(default_factory=list)


class VerifyReport(BaseModel):
    """What a verification found."""

    directory: str
    run_id: str | None = None
    status: str
    samples: int = 0
    checks: list[Check]
    notes: list[str] = Field(default_factory=list)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.status == "finished"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether the run is finished and everything holds."""
        return self.finished and not any(check.violations for check in self.checks)

    @property
    def exit_code(self) -> int:
        """0 if everything holds, 1 if not or if the run is unfinished."""
        return 0 if self.ok else 1

    def check(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)


def verify(directory: Path | str) -> VerifyReport:
    """Check a run directory.

    Raises:
        NoRun: There is none at that place.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise NoRun(f"{directory}: there is no such directory")
    if not (directory / MANIFEST).is_file():
        raise NoRun(f"{directory} is no run directory: it has no {MANIFEST}")
    return _Verification(directory).report()


class _Line(NamedTuple):
    """A line of an artefact: as it stands there, and as it is read."""

    raw: str
    record: dict[str, Any]

    @property
    def seed(self) -> Any:
        return self.record.get("seed")


class _Artefact:
    """A JSONL file of the run: the places of each sample's lines, and the lines on demand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.exists = path.is_file()
        self.count = 0
        self.broken: list[str] = []
        self._places: dict[str, list[tuple[int, int]]] = {}
        self._fd = os.open(path, os.O_RDONLY) if self.exists else None

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def index(self) -> Iterator[dict[str, Any]]:
        """Read the file once, noting places; the records as they go by."""
        if not self.exists:
            return
        offset = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                start, offset = offset, offset + len(line)
                try:
                    record = json.loads(line)
                    uid = record["uid"]
                except (ValueError, KeyError, TypeError, RecursionError):
                    self.broken.append(
                        f"{self.path.name}:{number}: not a record (cut short or damaged)"
                    )
                    continue
                if not line.endswith(b"\n"):
                    self.broken.append(f"{self.path.name}:{number}: the file ends within a line")
                self.count += 1
                self._places.setdefault(str(uid), []).append((start, len(line)))
                yield record

    def of(self, uid: str) -> list[_Line]:
        """The lines of a sample."""
        assert self._fd is not None or uid not in self._places
        found = []
        for offset, length in self._places.get(uid, ()):
            raw = os.pread(self._fd or 0, length, offset).decode()
            found.append(_Line(raw, json.loads(raw)))
        return found

    def times(self, uid: str) -> int:
        """How many lines a sample has."""
        return len(self._places.get(uid, ()))

    @property
    def uids(self) -> Iterable[str]:
        return self._places.keys()


class _Known(NamedTuple):
    """What the files say about a sample, to be compared with the data file."""

    texts: set[bytes]
    gold: set[bytes]


class _Verification:
    def __init__(self, directory: Path) -> None:
        self._dir = directory
        self._checks = {
            name: Check(name=name, title=title, unit=unit) for name, (title, unit) in CHECKS.items()
        }
        self._notes: list[str] = []
        self._manifest = self._read_manifest()
        self._status = str(self._manifest.get("status", "unknown"))
        self._seeds = _numbers(self._manifest.get("seeds")) or [0]
        self._settings = self._read_settings()
        self._files = {name: _Artefact(directory / name) for name in _JSON_FILES}
        self._scored: dict[str, list[int]] = {}
        self._failed: dict[str, list[int]] = {}
        self._bad_lines = 0
        self._known: dict[str, _Known] = {}
        self._usage: Counter[str] = Counter()
        self._prompts_unchanged = False

    def report(self) -> VerifyReport:
        try:
            self._index()
            self._compare_identity()
            expected = self._data_uids()
            self._count(expected)
            self._count_totals()
            self._check_samples()
            self._check_the_rest()
        finally:
            for file in self._files.values():
                file.close()
        return VerifyReport(
            directory=str(self._dir),
            run_id=_text(self._manifest.get("run_id")),
            status=self._status,
            samples=self._files[OUTPUTS].count,
            checks=list(self._checks.values()),
            notes=self._notes,
        )

    def _say(self, check: str, what: str, uid: str | None = None, seed: int | None = None) -> None:
        shown = seed if len(self._seeds) > 1 else None
        self._checks[check].violations.append(Violation(uid=uid, seed=shown, what=what))

    @property
    def _finished(self) -> bool:
        return self._status == "finished"

    # The manifest ---------------------------------------------------------------------------

    def _read_manifest(self) -> dict[str, Any]:
        try:
            manifest = json.loads((self._dir / MANIFEST).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            self._say_early(f"{MANIFEST}: not valid JSON ({error}): the settings are not known")
            return {}
        if not isinstance(manifest, dict):
            self._say_early(f"{MANIFEST}: not a JSON object: the settings are not known")
            return {}
        return manifest

    def _say_early(self, what: str) -> None:
        self._checks[COUNTS].violations.append(Violation(uid=None, what=what))

    def _read_settings(self) -> Settings | None:
        if not self._manifest:
            return None
        try:
            return Settings.model_validate(self._manifest.get("settings"))
        except ValidationError as error:
            self._say_early(f"{MANIFEST}: settings cannot be read: {_first_problem(error)}")
            return None

    def _compare_identity(self) -> None:
        """The manifest's settings are those of the run's identity; are its rules still ours?"""
        known = self._manifest.get("identity")
        if not isinstance(known, dict) or self._settings is None:
            if self._settings is not None:
                self._say(COUNTS, f"{MANIFEST}: no identity of the run in it")
            return
        for part, said in self._identified(known).items():
            for difference in differences(known.get(part), said, part):
                self._say(COUNTS, f"{MANIFEST}: against the run's identity, {difference}")
        made_by = _mapping(self._manifest.get("versions")).get(PACKAGE)
        if made_by != versions()[PACKAGE]:
            self._notes.append(
                f"the run was made by version {made_by}, this is {versions()[PACKAGE]}: its rules "
                "may decide otherwise"
            )
        # Only the folders' hashes are wanted, and of the resources only what the rules read.
        ours = identity(Settings(), {})
        changed = [
            f"{part}/{name}"
            for part in ("prompts", "resources")
            for name, sha256 in _mapping(known.get(part)).items()
            if ours[part].get(name) != sha256 and (part == "prompts" or name.startswith("patterns"))
        ]
        self._prompts_unchanged = not changed
        if changed:
            self._notes.append(
                f"changed since the run, so that decisions and prompts may differ: {_some(changed)}"
            )

    def _identified(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest's settings and data in the form that an identity has."""
        settings = dict(_mapping(self._manifest.get("settings")))
        given = _mapping(settings.get("backend"))
        backend = {k: v for k, v in given.items() if k not in TRANSPORT}
        if backend.get("kind") == "openai" and backend.get("base_url") is None:
            # The environment named the server then; what it names now does not matter.
            then = _mapping(_mapping(known.get("settings")).get("backend"))
            backend["base_url"] = then.get("base_url")
        data = {k: v for k, v in _mapping(self._manifest.get("data")).items() if k != "path"}
        return {"settings": {**settings, "backend": backend}, "data": data}

    # Counts ---------------------------------------------------------------------------------

    def _index(self) -> None:
        for output in self._files[OUTPUTS].index():
            self._known_as(output).texts.add(_digest(output.get("text")))
            usage = _mapping(_mapping(output.get("meta")).get("usage"))
            self._usage.update({k: v for k, v in usage.items() if isinstance(v, int)})
        for card in self._files[SCORECARDS].index():
            facts = [card.get("gold"), card.get("domain"), card.get("split")]
            self._known_as(card).gold.add(_digest(facts))
            self._scored.setdefault(str(card["uid"]), []).append(_number(card.get("seed")))
        for error in self._files[ERRORS].index():
            if error.get("kind") == "bad_line":
                self._bad_lines += 1
            else:
                seeds = self._failed.setdefault(str(error["uid"]), [])
                seeds.append(_number(error.get("seed")))
        for name in (TRACES, GATE):
            for _ in self._files[name].index():
                pass
        for file in self._files.values():
            if not file.exists and self._finished:
                self._say(COUNTS, f"{file.path.name} is missing")
            for problem in file.broken:
                self._say(COUNTS, problem)

    def _known_as(self, record: dict[str, Any]) -> _Known:
        return self._known.setdefault(str(record["uid"]), _Known(set(), set()))

    def _data_uids(self) -> list[str] | None:
        """The uids of the data file, None if it is gone or changed. Texts and gold are compared."""
        about = _mapping(self._manifest.get("data"))
        if not about.get("path"):
            return None
        path = Path(str(about["path"]))
        why = "is not there any more" if not path.is_file() else None
        if why is None and file_sha256(path) != about.get("sha256"):
            why = "has changed since the run"
        if why is not None:
            self._notes.append(f"the data file {path} {why}: samples were not compared with it")
            return None
        uids: list[str] = []
        limit = self._limit if self._limit is not None else math.inf
        bad_lines = asked_bad_lines = 0
        try:
            for row in read_samples(path, about.get("format"), about.get("columns")):
                if isinstance(row, BadLine):
                    bad_lines += 1
                    asked_bad_lines += len(uids) <= limit
                else:
                    uids.append(row.uid)
                    self._compare_with_data(row)
        except DataError as error:
            self._notes.append(f"{error}: samples were not compared with the data")
            return None
        if self._finished and not asked_bad_lines <= self._bad_lines <= bad_lines:
            self._say(
                COUNTS,
                f"{ERRORS} lists {self._bad_lines} unreadable lines, the data has {bad_lines}",
            )
        return uids

    @property
    def _limit(self) -> int | None:
        limit = self._manifest.get("limit")
        return limit if isinstance(limit, int) else None

    def _compare_with_data(self, sample: Sample) -> None:
        known = self._known.get(sample.uid)
        if known is None:
            return
        if known.texts - {_digest(sample.text)}:
            self._say(COUNTS, "the text of the output is not that of the data", sample.uid)
        if known.gold - {_digest([gold(sample), sample.domain, sample.split])}:
            self._say(
                COUNTS,
                "gold, domain or split of the scorecard is not that of the data",
                sample.uid,
            )

    def _count(self, data: list[str] | None) -> None:
        """Every sample once per seed: analysed, or failed."""
        files = [self._files[name] for name in (OUTPUTS, SCORECARDS, TRACES, GATE)]
        seen = dict.fromkeys(uid for file in files for uid in file.uids) | self._failed
        expected = self._expected(list(seen), data)
        self._checks[COUNTS].checked = sum(map(len, expected.values()))
        for uid in dict.fromkeys([*expected, *seen]):
            if data is not None and uid not in expected:
                self._say(COUNTS, "is not in the data file", uid)
                continue
            for problem in self._count_one(uid, expected.get(uid, [])):
                self._say(COUNTS, problem, uid)

    def _expected(self, seen: list[str], data: list[str] | None) -> dict[str, list[int]]:
        """The seeds under which each sample must be there.

        A run may have been started several times with other limits and seeds: under each seed
        the samples from the first of the data to the last that has a record; under all of them
        as many as the last start asked for, if the manifest counts so many.
        """
        there = {uid: {*self._scored.get(uid, ()), *self._failed.get(uid, ())} for uid in seen}
        order = data if data is not None else seen
        asked = len(order) if self._limit is None else min(self._limit, len(order))
        last = {
            seed: max(
                (n for n, uid in enumerate(order, 1) if seed in there.get(uid, ())), default=0
            )
            for seed in self._seeds
        }
        counted = _mapping(self._manifest.get("counts")).get("samples")
        furthest = max(last.values(), default=0)
        if self._finished:
            for seed in self._seeds:
                everywhere = counted == asked * len(self._seeds) or len(self._seeds) == 1
                if everywhere or (furthest < asked and last[seed] == furthest):
                    last[seed] = max(last[seed], asked)
        return {
            uid: [seed for seed in self._seeds if n <= last[seed]] for n, uid in enumerate(order, 1)
        }

    def _count_one(self, uid: str, expected: list[int]) -> Iterator[str]:
        outputs, traces = self._files[OUTPUTS].times(uid), self._files[TRACES].times(uid)
        scored, failed = Counter(self._scored.get(uid, ())), Counter(self._failed.get(uid, ()))
        for name, seeds in ((SCORECARDS, scored), (ERRORS, failed)):
            for seed, times in seeds.items():
                if times > 1:
                    yield f"{_times(times)} in {name}{self._under(seed)}"
                if seed not in self._seeds:
                    yield f"{name}: seed {seed} is none of the run's"
        for seed in scored.keys() & failed.keys():
            yield f"both analysed and failed{self._under(seed)}"
        if outputs != len(scored):
            yield f"{_times(outputs)} in {OUTPUTS}, but {_times(len(scored))} in {SCORECARDS}"
        missing = [s for s in expected if s not in scored and s not in failed]
        if missing and self._finished and not outputs > len(scored):
            yield "missing: neither analysed nor failed" + self._under(*missing)
        if outputs and not traces:
            yield f"not in {TRACES}"
        for name in (TRACES, GATE):
            if self._files[name].times(uid) and not outputs:
                yield f"in {name}, but not in {OUTPUTS}"

    def _under(self, *seeds: int) -> str:
        return f" (seed {', '.join(map(str, seeds))})" if len(self._seeds) > 1 else ""

    def _count_totals(self) -> None:
        """The manifest's numbers. Those of an unfinished run may be older than its files."""
        if not self._finished or not self._manifest:
            return
        counts, usage = (_mapping(self._manifest.get(part)) for part in ("counts", "usage"))
        failed = sum(map(len, self._failed.values()))
        done = self._files[OUTPUTS].count
        facts = {
            ("counts", "samples"): done + failed,
            ("counts", "done"): done,
            ("counts", "failed"): failed,
            ("counts", "bad_lines"): self._bad_lines,
            ("usage", "calls"): self._usage["calls"] - self._usage["cached_calls"],
            ("usage", "cached_calls"): self._usage["cached_calls"],
            ("usage", "prompt_tokens"): self._usage["prompt_tokens"],
            ("usage", "completion_tokens"): self._usage["completion_tokens"],
        }
        for (part, name), found in facts.items():
            said = (counts if part == "counts" else usage).get(name)
            if said != found:
                self._say(COUNTS, f"{MANIFEST} says {part}.{name} {said}, the files have {found}")

    # Sample by sample -----------------------------------------------------------------------

    def _demos(self, settings: Settings) -> Demos:
        """The demos that the prompts held: those of other texts, never of the evaluated ones."""
        outputs = self._files[OUTPUTS]
        lines = (line for uid in outputs.uids for line in outputs.of(uid))
        texts = (str(line.record.get("text")) for line in lines)
        seed = self._seeds[0] if self._seeds else settings.backend.seed
        return Demos(settings.demos, seed=seed, evaluated=texts if settings.demos.k else ())

    def _check_samples(self) -> None:
        settings = self._settings
        replayer = _Replayer(settings.pipeline, self._demos(settings)) if settings else None
        for uid in self._files[OUTPUTS].uids:
            outputs = self._files[OUTPUTS].of(uid)
            cards = self._files[SCORECARDS].of(uid)
            calls = self._files[TRACES].of(uid)
            gate = self._files[GATE].of(uid)
            self._check_seeds(uid, [*calls, *gate])
            unscored = [s for s in self._seeds if s not in self._scored.get(uid, ())]
            for number, line in enumerate(outputs):
                card = cards[number].record if number < len(cards) else None
                seed = _number(card.get("seed")) if card else [*unscored, *self._seeds][0]
                try:
                    output = FinalOutput.model_validate(line.record)
                except ValidationError as error:
                    what = f"{OUTPUTS}: not an output: {_first_problem(error)}"
                    self._say(COUNTS, what, uid, seed)
                    continue
                mine = [[x for x in lines if x.seed == seed] for lines in (calls, gate)]
                self._check_one(_Evidence(line, output, card, *mine), replayer, seed)

    def _check_seeds(self, uid: str, lines: Iterable[_Line]) -> None:
        for seed in {line.seed for line in lines} - set(self._seeds):
            self._say(COUNTS, f"{TRACES} or {GATE}: seed {seed} is none of the run's", uid)

    def _check_one(self, e: _Evidence, replayer: _Replayer | None, seed: int | None) -> None:
        found: list[tuple[str, str]] = []
        for check in (same_calls, same_scorecard, same_gate_log, follows_directly):
            found += check(e)
        again: FinalOutput | None = None
        if replayer is not None:
            again, differing = replayer.compare(e)
            found += differing
        for check in (tuples_agree, overruled_with_reason, corrections_visible, stands_in_text):
            found += check(e)
        found += nothing_leaked(e)
        if again is not None and self._prompts_unchanged and not any(c == "S1" for c, _ in found):
            found += same_prompts(e, again)
        for name, number in e.sizes().items():
            self._checks[name].checked += number
        for name, what in dict.fromkeys(found):
            self._say(name, what, e.output.uid, seed)

    def _check_the_rest(self) -> None:
        """What is not about a finished sample: errors, the manifest, the gate's summary."""
        for uid in self._files[ERRORS].uids:
            for line in self._files[ERRORS].of(uid):
                for what in leaks(line.raw, ""):
                    self._say("S6", f"{ERRORS}: {what}", None if uid == "None" else uid)
        manifest = (self._dir / MANIFEST).read_text(encoding="utf-8", errors="replace")
        for what in leaks(manifest, ""):
            self._say("S6", f"{MANIFEST}: {what}")
        self._check_gate_summary()

    def _check_gate_summary(self) -> None:
        path = self._dir / GATE_SUMMARY
        if not path.is_file():
            if self._finished:
                self._say(COUNTS, f"{GATE_SUMMARY} is missing")
            return
        if not self._files[GATE].exists:
            return
        try:
            recorded = json.loads(path.read_text(encoding="utf-8"))
            gate = self._files[GATE]
            made = gate_summary(line.record for uid in gate.uids for line in gate.of(uid))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._say(COUNTS, f"{GATE_SUMMARY} or {GATE}: cannot be read ({error})")
            return
        for path_, one, other in differing(recorded, json.loads(json.dumps(made))):
            what = f"{GATE_SUMMARY}: {path_} is {_short(one)}, {GATE} gives {_short(other)}"
            self._say(COUNTS, what)


@dataclass(frozen=True)
class _Evidence:
    """All that is on record about one sample under one seed."""

    line: _Line
    output: FinalOutput
    card: dict[str, Any] | None
    calls: list[_Line]
    gate: list[_Line]

    @property
    def raw(self) -> dict[str, Any]:
        return self.line.record

    @property
    def lang(self) -> Language:
        return language(self.output.lang)

    @property
    def is_debate(self) -> bool:
        """Whether the stages are those of the debate protocol."""
        return self.output.meta.protocol == "debate"

    @property
    def adopted(self) -> bool:
        return self.output.meta.adopt_decision == "adopted"

    def answer(self, node: str) -> dict[str, Any] | None:
        """What a node answered (its last turn)."""
        found = [c.record.get("output") for c in self.calls if c.record.get("node") == node]
        return found[-1] if found and isinstance(found[-1], dict) else None

    def keyed(self, tuples: Iterable[AspectTuple]) -> Tuples:
        return frozenset((self.lang.key(t.aspect_term), t.polarity) for t in tuples)

    def debate_tuples(self) -> set[tuple[str, str]]:
        """The valid tuples of the judge, by the names the debate used."""
        said = self.answer("judge")
        try:
            summary = read_answer(JudgeAnswer, said)[0] if said is not None else JudgeAnswer()
        except AnswerError:
            return set()
        return {
            (key, polarity)
            for t in summary.final_tuples
            if (key := self.lang.key(t.aspect_term or "")) and (polarity := read(t.polarity).value)
        }

    def sizes(self) -> dict[str, int]:
        """How much there is to check."""
        return {
            "S1": 1,
            "S2": 1,
            "S3": int(bool(self.debate_tuples())),
            "S4": sum(c.applied for c in self.output.meta.correction_applied_log),
            "S5": len(self.output.final_result.final_aspects),
            "S6": len(self.calls),
        }


# S1: the recorded answers through the decision layer again -------------------------------------


class _RecordedAnswers:
    """A backend over the recorded calls of one sample, costs and all."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, int], dict[str, Any]] = {}
        self.asked: set[tuple[str, int]] = set()

    def load(self, calls: Iterable[_Line]) -> None:
        self._calls = {_call_key(c.record): c.record for c in calls}
        self.asked = set()

    @property
    def unasked(self) -> list[str]:
        return [_call_name(key) for key in self._calls if key not in self.asked]

    def ask(self, question: Ask) -> Reply:
        key = (question.node, question.turn)
        self.asked.add(key)
        call = self._calls.get(key)
        output = call.get("output") if call else None
        if call is None or not isinstance(output, dict):
            raise BackendError(f"no answer of {_call_name(key)}", node=question.node)
        return Reply(
            output,
            backend=str(call.get("backend")),
            model=call.get("model"),
            seed=call.get("seed"),
            usage=call.get("usage"),
            latency_ms=call.get("latency_ms"),
            cached=bool(call.get("cached")),
            attempts=_number(call.get("attempts")),
            notes=backend_notes(question, output, call.get("notes")),
        )

    async def aask(self, question: Ask) -> Reply:
        return self.ask(question)


class _Replayer:
    """The decision layer of the run's settings over recorded answers."""

    def __init__(self, pipeline: PipelineSettings, demos: Demos) -> None:
        self._answers = _RecordedAnswers()
        self._graph = build(pipeline, self._answers)
        self._demos = demos

    def compare(self, e: _Evidence) -> tuple[FinalOutput | None, list[tuple[str, str]]]:
        """Decide again, and say what differs from the record."""
        self._answers.load(e.calls)
        given = {
            "uid": e.output.uid,
            "text": e.output.text,
            "lang": e.output.lang,
            "domain": e.card.get("domain") if e.card else None,
            "demos": self._demos.for_text(e.output.text),
        }
        try:
            again: FinalOutput = self._graph.invoke(given)["output"]
        except Exception as error:  # whatever a damaged record makes of it is the finding
            return None, [("S1", f"{TRACES}: the answers cannot be replayed: {error}")]
        found = [
            (COUNTS, f"{TRACES}: {call} is no call of this graph") for call in self._answers.unasked
        ]
        recorded = {k: v for k, v in e.raw.items() if k not in _NOT_DECIDED}
        recorded["meta"] = {**e.raw.get("meta", {}), "seed": None}
        made = again.model_dump(mode="json", exclude=set(_NOT_DECIDED))
        by_check: dict[str, list[str]] = {}
        for path, one, other in differing(recorded, made):
            check = "S4" if path.startswith("meta.correction_applied_log") else "S1"
            what = f"{path} is {_short(one)}, the recorded answers give {_short(other)}"
            by_check.setdefault(check, []).append(what)
        found += [(check, _some(whats, "; ")) for check, whats in by_check.items()]
        return again, found


def same_prompts(e: _Evidence, again: FinalOutput) -> Found:
    """S6: the prompts held the text and the answers before them, and nothing else."""
    ours = {(c.node, c.turn): c.prompt_sha256 for c in again.process_trace}
    for call in e.calls:
        key = _call_key(call.record)
        if key in ours and call.record.get("prompt_sha256") != ours[key]:
            yield (
                "S6",
                f"the prompt of {_call_name(key)} is not the one that the text and the recorded "
                "answers make: something else was in it",
            )


# S1 and Counts: the files say the same ----------------------------------------------------------


def same_calls(e: _Evidence) -> Found:
    """The trace of a sample is its output's `process_trace`, call by call."""
    traced: dict[tuple[str, int], dict[str, Any]] = {}
    for line in e.calls:
        key = _call_key(line.record)
        if key in traced:
            yield COUNTS, f"{TRACES}: {_call_name(key)} twice"
        traced[key] = line.record
    listed = {_call_key(call): call for call in _dicts(e.raw.get("process_trace"))}
    for key in listed.keys() - traced.keys():
        yield COUNTS, f"{TRACES}: {_call_name(key)} is missing"
    for key in traced.keys() - listed.keys():
        yield COUNTS, f"{TRACES}: {_call_name(key)} is not in the output's process_trace"
    for key in listed.keys() & traced.keys():
        # The line of a trace names the run's seed, the call the one its model was given.
        one, other = ({**call, "uid": None, "seed": None} for call in (traced[key], listed[key]))
        parts = [path for path, _, _ in differing(one, other)]
        if parts:
            yield (
                "S1",
                f"{TRACES}: {_call_name(key)} differs from the output's process_trace in "
                f"{_some(parts)}",
            )


def same_scorecard(e: _Evidence) -> Found:
    """A scorecard is what its output says, and its gold is gold."""
    if e.card is None:
        return
    try:
        sample = sample_of(e.output, e.card)
        made = scorecard(e.output, sample, _number(e.card.get("seed")))
    except (ValidationError, ValueError, TypeError, AttributeError) as error:
        yield COUNTS, f"{SCORECARDS}: its gold cannot be read ({str(error).splitlines()[0]})"
        return
    # A later version may count more; what this one counted must be right.
    whats = [
        f"{path} is {_short(one)}, the output gives {_short(other)}"
        for path, one, other in differing(e.card, json.loads(json.dumps(made)), known_only=True)
    ]
    if whats:
        yield "S1", f"{SCORECARDS}: {_some(whats, '; ')}"


def sample_of(output: FinalOutput, card: Mapping[str, Any]) -> Sample:
    """The sample that an output and its scorecard tell of."""
    known = card.get("gold") or {}
    aspects = known.get("aspects")
    return Sample(
        uid=output.uid,
        text=output.text,
        lang=output.lang,
        domain=card.get("domain"),
        split=card.get("split"),
        aspects=None if aspects is None else tuple(map(GoldAspect.model_validate, aspects)),
        label=known.get("label"),
        incomplete_gold=bool(known.get("incomplete")),
    )


def same_gate_log(e: _Evidence) -> Found:
    """The lines of the gate's file are the output's `override_gate`."""
    lines = [{k: v for k, v in g.record.items() if k not in ("uid", "seed")} for g in e.gate]
    listed = _mapping(e.raw.get("meta")).get("override_gate", [])
    if len(lines) != len(listed):
        yield COUNTS, f"{len(lines)} lines in {GATE}, {len(listed)} verdicts in the output"
        return
    whats = [
        f"{path} is {_short(one)}, the output has {_short(other)}"
        for path, one, other in differing(lines, listed)
    ]
    if whats:
        yield "S1", f"{GATE}: {_some(whats, '; ')}"


# S1, without the decision layer ------------------------------------------------------------------


def follows_directly(e: _Evidence) -> Found:
    """Stage 1 from its answers, the final tuples from the decision, overrides from the gate."""
    result, meta = e.output.final_result, e.output.meta
    if not e.is_debate:
        return
    yield from _stage1_follows(e)
    chosen = result.stage2_tuples if e.adopted else result.stage1_tuples
    if e.keyed(result.final_tuples) != e.keyed(chosen):
        yield (
            "S1",
            f"{meta.adopt_decision}, but final_tuples are {_tuples(result.final_tuples)} and "
            f"those of {'Stage 2' if e.adopted else 'Stage 1'} {_tuples(chosen)}",
        )
    moderator = e.output.moderator
    if moderator and (moderator.selected_stage == "stage2") != e.adopted:
        yield "S1", f"{meta.adopt_decision}, but the Moderator took {moderator.selected_stage}"
    overrides = [c for c in meta.correction_applied_log if c.source == OVERRIDE and c.applied]
    granted = sum(r.applied for r in meta.override_gate)
    if len(overrides) != granted:
        yield (
            "S1",
            f"{len(overrides)} overrides in correction_applied_log, {granted} granted by the gate",
        )
    if (meta.gate_decision == "APPLY") != bool(granted):
        yield "S1", f"gate_decision is {meta.gate_decision}, the gate granted {granted} overrides"
    yield from _asked_for(e)


def _stage1_follows(e: _Evidence) -> Found:
    """Stage 1's tuples: ATE's aspects with ATSA's sentiments, neutral where there is none."""
    ate, atsa = e.answer("ate"), e.answer("atsa")
    if ate is None or atsa is None:
        return  # a missing answer is told elsewhere
    try:
        aspects, sentiments = read_answer(AteAnswer, ate)[0], read_answer(AtsaAnswer, atsa)[0]
    except AnswerError:
        return
    said: dict[str, set[str]] = {}
    for item in sentiments.aspect_sentiments:
        polarity = read(item.polarity).value
        if polarity:
            said.setdefault(e.lang.key(item.aspect_ref or ""), set()).add(polarity)
    keys = {key for a in aspects.aspects if (key := e.lang.key(a.term))}
    expected = {(key, p) for key in keys for p in said.get(key) or {"neutral"}}
    recorded = e.keyed(e.output.final_result.stage1_tuples)
    added = {key for key, _ in recorded} - keys
    # The contrast rule may find one aspect more.
    if len(added) == 1 and len(keys) < 2 and e.lang.has_contrast(e.output.text):
        key = next(iter(added))
        expected |= {(key, p) for p in said.get(key) or {"neutral"}}
    if recorded != expected:
        yield (
            "S1",
            f"stage1_tuples are {_pairs(recorded)}, the answers of ate and atsa give "
            f"{_pairs(expected)}",
        )


def _asked_for(e: _Evidence) -> Found:
    """Every correction but an override was asked for by the Validator or a reviewer."""
    asked = Counter(
        (source, _word(item.get(action)), _word(item.get(target)))
        for source, node, part, action, target in (
            ("validator", "validator", "correction_proposals", "proposal_type", "target_aspect"),
            ("ate_review", "ate_review", "aspect_review", "action", "term"),
            ("atsa_review", "atsa_review", "sentiment_review", "action", "aspect_ref"),
        )
        for item in _dicts((e.answer(node) or {}).get(part))
    )
    for c in e.output.meta.correction_applied_log:
        what = (c.source, c.proposal_type, _word(c.target_aspect))
        if c.source != OVERRIDE and not asked[what]:
            yield "S1", f"{_correction(c)} is on the log, but nobody asked for it in {TRACES}"
        asked[what] -= 1


# S2 and S3 ---------------------------------------------------------------------------------------


def tuples_agree(e: _Evidence) -> Found:
    """S2."""
    result = e.output.final_result
    aspects = e.keyed(result.final_aspects)
    if e.keyed(result.final_tuples) != aspects:
        yield (
            "S2",
            f"final_tuples are {_tuples(result.final_tuples)}, final_aspects have "
            f"{_tuples(result.final_aspects)}",
        )
    lists: tuple[tuple[str, Sequence[AspectTuple]], ...] = (
        ("final_aspects", result.final_aspects),
        ("final_tuples", result.final_tuples),
        ("stage1_tuples", result.stage1_tuples),
        ("stage2_tuples", result.stage2_tuples),
    )
    for name, tuples in lists:
        if name != "final_aspects" and len(e.keyed(tuples)) != len(tuples):
            yield "S2", f"{name} hold a tuple twice: {_tuples(tuples)}"
        for t in tuples:
            if t.polarity not in POLARITIES:
                yield "S2", f"{name}: {t.aspect_term} has the polarity {t.polarity!r}"
    if result.label not in LABELS:
        yield "S2", f"the label is {result.label!r}"


def overruled_with_reason(e: _Evidence) -> Found:
    """S3. An aspect whose span was revised is the same under its new term."""
    said = e.debate_tuples()
    if not said or not e.is_debate:
        return
    meta, final = e.output.meta, e.keyed(e.output.final_result.final_tuples)
    if not e.adopted:
        if said != final and meta.adopt_reason not in EV_REASONS:
            yield (
                "S3",
                f"the debate's tuples {_pairs(said)} are not the final ones {_pairs(final)}, and "
                f"{meta.adopt_reason!r} is no reason for that",
            )
        return
    renamed = _renames(e)
    if {(_follow(key, renamed), polarity) for key, polarity in said} != final:
        yield (
            "S3",
            f"the debate's tuples {_pairs(said)} are not the final ones {_pairs(final)}, and yet "
            "Stage 2 was adopted",
        )


def _renames(e: _Evidence) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for c in e.output.meta.correction_applied_log:
        before, after = c.before or {}, c.after or {}
        if c.applied and before.get("aspect_term") and after.get("aspect_term"):
            old, new = e.lang.key(before["aspect_term"]), e.lang.key(after["aspect_term"])
            if old != new:
                renamed.pop(new, None)
                renamed[old] = new
        elif c.applied and after.get("aspect_term"):
            renamed.pop(e.lang.key(after["aspect_term"]), None)
    return renamed


def _follow(key: str, renamed: Mapping[str, str]) -> str:
    seen = {key}
    while (key := renamed.get(key, key)) not in seen:
        seen.add(key)
    return key


# S4 ----------------------------------------------------------------------------------------------


class _Felt(BaseModel):
    polarity: str
    confidence: float
    evidence: str | None = None


class _Snapshot(BaseModel):
    """An aspect as a log entry shows it."""

    aspect_term: str
    span: Span | None = None
    sentiments: list[_Felt]

    @property
    def face(self) -> tuple[str, Span | None, list[tuple[str, float]]]:
        """What may be seen of it: term, span, and polarities with their confidence."""
        return (
            self.aspect_term,
            self.span,
            sorted((s.polarity, s.confidence) for s in self.sentiments),
        )

    @property
    def details(self) -> list[Detail]:
        """One entry per sentiment, as the final aspects have it."""
        return [
            (self.aspect_term, self.span, s.polarity, s.confidence, s.evidence)
            for s in self.sentiments
        ]

    @property
    def polarities(self) -> frozenset[str]:
        return frozenset(s.polarity for s in self.sentiments)


def corrections_visible(e: _Evidence) -> Found:
    """S4: Stage 1 and the applied corrections, one by one, make the patched tuples."""
    result, log = e.output.final_result, e.output.meta.correction_applied_log
    if not e.is_debate:
        return
    if not e.output.analysis_flags.stage2_executed:
        if any(c.applied for c in log):
            yield "S4", "corrections are marked applied, but there was no Stage 2"
        return
    state: dict[str, frozenset[str]] = {}
    for key, polarity in e.keyed(result.stage1_tuples):
        state[key] = state.get(key, frozenset()) | {polarity}
    last: dict[str, tuple[Correction, _Snapshot | None]] = {}
    for c in log:
        try:
            before, after = (
                _Snapshot.model_validate(s) if s is not None else None for s in (c.before, c.after)
            )
        except ValidationError as error:
            yield "S4", f"{_correction(c)}: before or after cannot be read: {_first_problem(error)}"
            return
        changed = (before.face if before else None) != (after.face if after else None)
        if not c.applied:
            if changed:
                yield "S4", f"{_correction(c)} is marked not applied, but before and after differ"
            continue
        if not changed:
            yield "S4", f"{_correction(c)} is marked applied, but before and after are the same"
        old = e.lang.key(before.aspect_term) if before else None
        if before and old is not None:
            if state.get(old, frozenset()) != before.polarities:
                had = ", ".join(sorted(state.get(old, ()))) or "nothing"
                yield "S4", f"{_correction(c)}: its `before` is wrong, the aspect had {had}"
            state.pop(old, None)
            last[old] = (c, None)
        if after:
            new = e.lang.key(after.aspect_term)
            state[new] = after.polarities
            last[new] = (c, after)
    yield from _ends_as(e, state, last)


def _ends_as(
    e: _Evidence,
    state: Mapping[str, frozenset[str]],
    last: Mapping[str, tuple[Correction, _Snapshot | None]],
) -> Found:
    """What the log leaves is what is on record: in the tuples and, if adopted, in every detail."""
    expected = {(key, p) for key, polarities in state.items() for p in polarities}
    recorded = e.keyed(e.output.final_result.stage2_tuples)
    for key in sorted({key for key, _ in expected ^ recorded}):
        has = ", ".join(sorted(p for k, p in recorded if k == key)) or "no tuple"
        if key in last:
            c = last[key][0]
            yield "S4", f"{_correction(c)} is marked applied, but in stage2_tuples it has {has}"
        else:
            what = f"{key} has {has} in stage2_tuples: not Stage 1, and no correction made it so"
            yield "S1", what
    if not e.adopted:
        return
    shown: dict[str, list[Detail]] = {}
    for a in e.output.final_result.final_aspects:
        detail = (a.aspect_term, a.span, a.polarity, a.confidence, a.evidence)
        shown.setdefault(e.lang.key(a.aspect_term), []).append(detail)
    for key, (c, after) in last.items():
        made = after.details if after else []
        if shown.get(key, []) != made:
            yield (
                "S4",
                f"{_correction(c)} is marked applied, but final_aspects do not show what it left",
            )


# S5 ----------------------------------------------------------------------------------------------


def stands_in_text(e: _Evidence) -> Found:
    """S5. Evidence that is not in the text must be marked so, and the marks must be true."""
    text, meta = e.output.text, e.output.meta
    ungrounded = 0
    for a in e.output.final_result.final_aspects:
        name = f"aspect {a.aspect_term!r}"
        if a.span is not None and not _covers(text, a.span, a.aspect_term):
            stands = text[max(0, a.span.start) : max(0, a.span.end)]
            yield "S5", f"{name} is not at {a.span.start}–{a.span.end}: there stands {stands!r}"
        if a.span is None and not a.is_implicit:
            yield "S5", f"{name} is explicit, but has no span"
        if a.span is None and a.aspect_term and a.aspect_term in text:
            yield "S5", f"{name} stands in the text, but has no span"
        is_there = bool(a.evidence and a.evidence.strip()) and str(a.evidence) in text
        ungrounded += bool(a.evidence) and not is_there
        if is_there != a.is_grounded:
            place = "is in the text" if is_there else "is not in the text"
            yield (
                "S5",
                f"evidence {a.evidence!r} of {name} {place}, is_grounded says {a.is_grounded}",
            )
    if meta.ungrounded_count != ungrounded:
        yield "S5", f"ungrounded_count is {meta.ungrounded_count}, the aspects have {ungrounded}"
    for c in meta.correction_applied_log:
        for shot in (c.before, c.after):
            span = (shot or {}).get("span")
            if shot and isinstance(span, dict):
                there = Span(start=_number(span.get("start")), end=_number(span.get("end")))
                if not _covers(text, there, str(shot.get("aspect_term"))):
                    yield "S5", f"{_correction(c)}: {shot.get('aspect_term')!r} is not at its span"
    for r in meta.override_gate:
        if r.verdict in ("add", "flip") and (not r.evidence or r.evidence not in text):
            yield (
                "S5",
                f"override of {r.aspect!r} rests on {r.evidence!r}, which is not in the text",
            )


def _covers(text: str, span: Span, term: str) -> bool:
    return 0 <= span.start < span.end <= len(text) and text[span.start : span.end] == term


# S6 ----------------------------------------------------------------------------------------------


def nothing_leaked(e: _Evidence) -> Found:
    """S6: what agents said and what was made of it holds neither gold nor secrets."""
    for name, lines in ((TRACES, e.calls), (OUTPUTS, [e.line]), (GATE, e.gate)):
        for line in lines:
            where = _call_name(_call_key(line.record)) if name == TRACES else ""
            for what in leaks(line.raw, e.output.text):
                yield "S6", f"{name}{', ' if where else ''}{where}: {what}"
            for what in gold_in(line, e.output.text):
                yield "S6", f"{name}{', ' if where else ''}{where}: {what}"


def leaks(raw: str, text: str) -> Iterator[str]:
    """Keys and secrets in a line; what stands in the review itself is nobody's secret.

    The value is not repeated: this goes to terminals and logs.
    """
    quoted = json.dumps(text, ensure_ascii=False)
    for match in _SECRETS.finditer(raw):
        if match.group() not in quoted:
            yield f"something like a key or secret ({match.group()[:4]}…)"
    # The user's own key, whatever it looks like.
    own = os.environ.get("OPENAI_API_KEY", "")
    if len(own) >= 12 and own in raw:
        yield "the key of this environment's OPENAI_API_KEY"


def gold_in(line: _Line, text: str) -> Iterator[str]:
    """Fields that only annotated data has; a review may speak of gold, and so may an answer."""
    for match in _GOLD_KEY.finditer(line.raw):
        if match.group(1).lower() not in text.lower():
            yield f"a field {match.group(1)!r}"
    if '"from"' in line.raw and any(d.keys() >= _GOLD_FIELDS for d in _objects(line.record)):
        yield "an aspect as annotations have it (term, from, to, polarity)"


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All JSON objects in a value."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            yield here
            waiting.extend(here.values())
        elif isinstance(here, list):
            waiting.extend(here)


# Words -------------------------------------------------------------------------------------------


def differing(
    one: Any, other: Any, path: str = "", *, known_only: bool = False
) -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ, as (path, one, other); numbers within 1e-9 are equal.

    With `known_only`, keys that `one` does not have are no difference.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one if known_only else dict.fromkeys([*one, *other]):
            here = f"{path}.{key}" if path else str(key)
            yield from differing(one.get(key), other.get(key), here, known_only=known_only)
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other) or all(
            isinstance(x, dict) and len(x) == 2 for x in [*one, *other]
        ):
            if list(one) != list(other):
                yield path, one, other
            return
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, f"{path}[{number}]", known_only=known_only)
    elif _is_number(one) and _is_number(other):
        if not math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield path, one, other
    elif one != other or isinstance(one, bool) != isinstance(other, bool):
        yield path, one, other


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    tuples = value if isinstance(value, list) else []
    if tuples and all(
        isinstance(t, dict) and t.keys() == {"aspect_term", "polarity"} for t in tuples
    ):
        return " + ".join(f"{t['aspect_term']}/{t['polarity']}" for t in tuples)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _tuples(tuples: Iterable[AspectTuple]) -> str:
    return " + ".join(f"{t.aspect_term}/{t.polarity}" for t in tuples) or "none"


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return " + ".join(f"{key}/{polarity}" for key, polarity in sorted(pairs)) or "none"


def _some(words: Sequence[str], comma: str = ", ") -> str:
    more = len(words) - _SHOWN
    return comma.join(words[:_SHOWN]) + (f"{comma}and {more} more" if more > 0 else "")


def _times(number: int) -> str:
    return {0: "not", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _correction(c: Correction) -> str:
    return f"{c.source} {c.proposal_type} of {c.target_aspect!r}"


def _call_key(call: Mapping[str, Any]) -> tuple[str, int]:
    return str(call.get("node")), _number(call.get("turn"))


def _call_name(key: tuple[str, int]) -> str:
    return f"{key[0]} (turn {key[1]})" if key[1] else key[0]


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'value'}: {first['msg']}"


def _digest(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _numbers(value: Any) -> list[int]:
    return [v for v in value if isinstance(v, int)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return str(value) if value is not None else None


def _word(value: Any) -> str | None:
    """A word as agents' answers are read: of a list the first string."""
    if isinstance(value, list):
        value = next((v for v in value if isinstance(v, str)), None)
    return str(value) if value is not None else None
