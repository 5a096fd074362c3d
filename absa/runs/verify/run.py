"""The verification of a run directory."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

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
from absa.runs.verify.again import Replayer, same_prompts
from absa.runs.verify.artefacts import Artefact, Line
from absa.runs.verify.corrections import corrections_visible
from absa.runs.verify.evidence import Evidence
from absa.runs.verify.files import same_calls, same_gate_log, same_scorecard
from absa.runs.verify.leaks import leaks, nothing_leaked
from absa.runs.verify.memory import recalled_fairly
from absa.runs.verify.person import before_person, person_follows
from absa.runs.verify.report import CHECKS, COUNTS, Check, VerifyReport, Violation
from absa.runs.verify.stages import follows_directly, overruled_with_reason, tuples_agree
from absa.runs.verify.text import stands_in_text
from absa.runs.verify.words import (
    differing,
    digest_of,
    first_problem,
    mapping_of,
    number_of,
    numbers_of,
    often,
    shown,
    some_of,
    text_of,
)
from absa.scorecard import gold
from schemas.output import FinalOutput
from schemas.sample import Sample
from schemas.settings import Settings

PACKAGE = "absa-debate-graph"
_JSON_FILES = (OUTPUTS, SCORECARDS, TRACES, GATE, ERRORS)


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
        self._seeds = numbers_of(self._manifest.get("seeds")) or [0]
        self._settings = self._read_settings()
        self._files = {name: Artefact(directory / name) for name in _JSON_FILES}
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
            run_id=text_of(self._manifest.get("run_id")),
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
            self._say_early(f"{MANIFEST}: settings cannot be read: {first_problem(error)}")
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
        made_by = mapping_of(self._manifest.get("versions")).get(PACKAGE)
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
            for name, sha256 in mapping_of(known.get(part)).items()
            if ours[part].get(name) != sha256 and (part == "prompts" or name.startswith("patterns"))
        ]
        self._prompts_unchanged = not changed
        if changed:
            self._notes.append(
                "changed since the run, so that decisions and prompts may differ: "
                f"{some_of(changed)}"
            )

    def _identified(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest's settings and data in the form that an identity has."""
        settings = dict(mapping_of(self._manifest.get("settings")))
        given = mapping_of(settings.get("backend"))
        backend = {k: v for k, v in given.items() if k not in TRANSPORT}
        if backend.get("kind") == "openai" and backend.get("base_url") is None:
            # The environment named the server then; what it names now does not matter.
            then = mapping_of(mapping_of(known.get("settings")).get("backend"))
            backend["base_url"] = then.get("base_url")
        data = {k: v for k, v in mapping_of(self._manifest.get("data")).items() if k != "path"}
        return {"settings": {**settings, "backend": backend}, "data": data}

    # Counts ---------------------------------------------------------------------------------

    def _index(self) -> None:
        for output in self._files[OUTPUTS].index():
            self._known_as(output).texts.add(digest_of(output.get("text")))
            self._count_spent(mapping_of(output.get("meta")).get("usage"))
        for card in self._files[SCORECARDS].index():
            facts = [card.get("gold"), card.get("domain"), card.get("split")]
            self._known_as(card).gold.add(digest_of(facts))
            self._scored.setdefault(str(card["uid"]), []).append(number_of(card.get("seed")))
        for error in self._files[ERRORS].index():
            if error.get("kind") == "bad_line":
                self._bad_lines += 1
            else:
                seeds = self._failed.setdefault(str(error["uid"]), [])
                seeds.append(number_of(error.get("seed")))
                self._count_spent(error.get("spent"))
        for name in (TRACES, GATE):
            for _ in self._files[name].index():
                pass
        for file in self._files.values():
            if not file.exists and self._finished:
                self._say(COUNTS, f"{file.path.name} is missing")
            for problem in file.broken:
                self._say(COUNTS, problem)

    def _count_spent(self, usage: Any) -> None:
        self._usage.update({k: v for k, v in mapping_of(usage).items() if isinstance(v, int)})

    def _known_as(self, record: dict[str, Any]) -> _Known:
        return self._known.setdefault(str(record["uid"]), _Known(set(), set()))

    def _data_uids(self) -> list[str] | None:
        """The uids of the data file, None if it is gone or changed. Texts and gold are compared."""
        about = mapping_of(self._manifest.get("data"))
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
        if known.texts - {digest_of(sample.text)}:
            self._say(COUNTS, "the text of the output is not that of the data", sample.uid)
        if known.gold - {digest_of([gold(sample), sample.domain, sample.split])}:
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
        counted = mapping_of(self._manifest.get("counts")).get("samples")
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
                    yield f"{often(times)} in {name}{self._under(seed)}"
                if seed not in self._seeds:
                    yield f"{name}: seed {seed} is none of the run's"
        for seed in scored.keys() & failed.keys():
            yield f"both analysed and failed{self._under(seed)}"
        if outputs != len(scored):
            yield f"{often(outputs)} in {OUTPUTS}, but {often(len(scored))} in {SCORECARDS}"
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
        counts, usage = (mapping_of(self._manifest.get(part)) for part in ("counts", "usage"))
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
        replayer = Replayer(settings.pipeline, self._demos(settings)) if settings else None
        least = settings.pipeline.min_name_probability if settings else 0.0
        for uid in self._files[OUTPUTS].uids:
            outputs = self._files[OUTPUTS].of(uid)
            cards = self._files[SCORECARDS].of(uid)
            calls = self._files[TRACES].of(uid)
            gate = self._files[GATE].of(uid)
            self._check_seeds(uid, [*calls, *gate])
            unscored = [s for s in self._seeds if s not in self._scored.get(uid, ())]
            for number, line in enumerate(outputs):
                card = cards[number].record if number < len(cards) else None
                seed = number_of(card.get("seed")) if card else [*unscored, *self._seeds][0]
                try:
                    output = FinalOutput.model_validate(line.record)
                except ValidationError as error:
                    what = f"{OUTPUTS}: not an output: {first_problem(error)}"
                    self._say(COUNTS, what, uid, seed)
                    continue
                asked, judged = ([x for x in lines if x.seed == seed] for lines in (calls, gate))
                self._check_one(Evidence(line, output, card, asked, judged, least), replayer, seed)

    def _check_seeds(self, uid: str, lines: Iterable[Line]) -> None:
        for seed in {line.seed for line in lines} - set(self._seeds):
            self._say(COUNTS, f"{TRACES} or {GATE}: seed {seed} is none of the run's", uid)

    def _check_one(self, e: Evidence, replayer: Replayer | None, seed: int | None) -> None:
        found: list[tuple[str, str]] = []
        for check in (same_calls, same_scorecard, same_gate_log):
            found += check(e)
        # What the agents decided must follow from their answers; a person may overrule all of it.
        agents = before_person(e)
        found += follows_directly(agents)
        again: FinalOutput | None = None
        if replayer is not None:
            again, differing = replayer.compare(agents)
            found += differing
        for check in (overruled_with_reason, corrections_visible):
            found += check(agents)
        for check in (person_follows, tuples_agree, stands_in_text):
            found += check(e)
        found += nothing_leaked(e)
        if self._settings is not None:
            allowed = self._settings.pipeline.memory.allow_eval_writes
            found += recalled_fairly(e.output, e.split, any_split=allowed)
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
            what = f"{GATE_SUMMARY}: {path_} is {shown(one)}, {GATE} gives {shown(other)}"
            self._say(COUNTS, what)
