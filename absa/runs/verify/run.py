"""Verifies a run directory."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from absa.data import BadLine, DataError, read_samples
from absa.data.source import Source
from absa.demos import Demos
from absa.nodes.assets import OwnFiles, using
from absa.nodes.categories import categories_of
from absa.own_files import read_own_files
from absa.prices import cost_of
from absa.runs.artefacts import gate_summary
from absa.runs.directory import (
    ERRORS,
    GATE,
    GATE_SUMMARY,
    MANIFEST,
    OUTPUTS,
    SCORECARDS,
    TRACES,
    RunDirectory,
    first_problem,
)
from absa.runs.identity import (
    NAMED_FILES,
    TRANSPORT,
    differences,
    folder_hashes,
    named_file_hashes,
    versions,
)
from absa.runs.indexed_file import Artefact, Line
from absa.runs.journal import FILE as JOURNAL_FILE
from absa.runs.verify.again import Replayer, same_prompts
from absa.runs.verify.corrections import corrections_visible
from absa.runs.verify.data import DataChanged, DataGone, find_data, size_of
from absa.runs.verify.files import (
    called_as_set,
    same_calls,
    same_gate_log,
    same_scorecard,
    same_signal,
)
from absa.runs.verify.journal import JournalCheck, record_costs
from absa.runs.verify.leaks import leaks, nothing_leaked, recalled_fairly
from absa.runs.verify.metrics import check_metrics
from absa.runs.verify.person import before_person, person_follows
from absa.runs.verify.records import SampleRecords
from absa.runs.verify.report import CHECKS, COUNTS, JOURNAL, METRICS, Check, VerifyReport, Violation
from absa.runs.verify.stages import follows_directly, overruled_with_reason, tuples_agree
from absa.runs.verify.text import stands_in_text
from absa.runs.verify.words import (
    compared,
    differing,
    digest_of,
    mapping_of,
    number_of,
    numbers_of,
    often,
    shown,
    some_of,
    text_of,
)
from absa.schemas.errors import InputError, WiringError
from absa.schemas.json_text import parse_json
from absa.schemas.output import FinalOutput
from absa.schemas.sample import Sample
from absa.schemas.settings import Settings
from absa.scorecard import gold

PACKAGE = "absa-debate-graph"
_JSON_FILES = (OUTPUTS, SCORECARDS, TRACES, GATE, ERRORS)


def verify(
    directory: Path | str, *, data: Path | None = None, expect: str | None = None
) -> VerifyReport:
    """Check a run directory.

    Args:
        directory: The run directory.
        data: The data file, if it is not where the manifest says.
        expect: The fingerprint of an earlier verification.

    Raises:
        NoRun: It is not a run directory.
    """
    run = RunDirectory(Path(directory), problems=[]).require()
    with using(_own_files(run)):
        return _Verification(run, data, expect).report()


def _own_files(run: RunDirectory) -> OwnFiles:
    """The user's files as they are now. Another check compares them with the run."""
    try:
        return (run.settings and read_own_files(run.settings)) or OwnFiles()
    except InputError:
        return OwnFiles()


class _Digests(NamedTuple):
    """Hashes of the values of a sample in the files, to compare them with the data file."""

    texts: set[bytes]
    gold: set[bytes]


class _Verification:
    def __init__(self, run: RunDirectory, data: Path | None, expect: str | None) -> None:
        self._dir = directory = run.path
        self._data = data
        self._expect = expect
        self._checks = {
            name: Check(name=name, title=title, unit=unit) for name, (title, unit) in CHECKS.items()
        }
        self._notes: list[str] = []
        self._warnings: list[str] = []
        self._manifest = run.manifest
        self._status = str(self._manifest.get("status", "unknown"))
        self._seeds = numbers_of(self._manifest.get("seeds")) or [0]
        self._settings = run.settings
        for problem in run.problems or ():
            self._say(COUNTS, problem)
        self._files = {name: Artefact(directory / name) for name in _JSON_FILES}
        self._journal = JournalCheck(directory, self._manifest, self._files)
        self._scored: dict[str, list[int]] = {}
        self._failed: dict[str, list[int]] = {}
        self._bad_lines: list[dict[str, Any]] = []
        self._texts: list[str] = []
        self._costs: list[float | None] = []
        self._digests: dict[str, _Digests] = {}
        self._usage: Counter[str] = Counter()
        self._prompts_unchanged = False

    def report(self) -> VerifyReport:
        try:
            self._index()
            self._compare_journal()
            self._compare_identity()
            expected = self._data_uids()
            self._count(expected)
            self._check_samples()
            self._count_totals()
            self._check_the_rest()
            self._check_metrics()
        finally:
            for file in self._files.values():
                file.close()
        return VerifyReport(
            directory=str(self._dir),
            run_id=text_of(self._manifest.get("run_id")),
            status=self._status,
            samples=self._files[OUTPUTS].count,
            checks=list(self._checks.values()),
            fingerprint=self._journal.fingerprint,
            warnings=self._warnings,
            notes=list(dict.fromkeys(self._notes)),
        )

    def _say(self, check: str, what: str, uid: str | None = None, seed: int | None = None) -> None:
        shown = seed if len(self._seeds) > 1 else None
        self._checks[check].violations.append(Violation(uid=uid, seed=shown, what=what))

    @property
    def _finished(self) -> bool:
        return self._status == "finished"

    # The manifest ---------------------------------------------------------------------------

    def _compare_identity(self) -> None:
        """Compare the manifest's settings with the run's identity, and its version with ours."""
        identity = self._manifest.get("identity")
        if not isinstance(identity, dict) or self._settings is None:
            if self._settings is not None:
                self._say(COUNTS, f"{MANIFEST}: the identity of the run is missing")
            return
        for part, recorded in self._identified(identity).items():
            for difference in differences(identity.get(part), recorded, part):
                self._say(COUNTS, f"{MANIFEST}: against the run's identity, {difference}")
        made_by = mapping_of(self._manifest.get("versions")).get(PACKAGE)
        if made_by != versions()[PACKAGE]:
            self._notes.append(
                f"the run was made by version {made_by}, this is {versions()[PACKAGE]}: its rules "
                "may decide otherwise"
            )
        # Only those resources that the rules read.
        changed = [
            f"{part}/{name}"
            for part in ("prompts", "resources")
            for name, sha256 in mapping_of(identity.get(part)).items()
            if folder_hashes(part).get(name) != sha256
            and (part == "prompts" or name.startswith("patterns"))
        ]
        self._prompts_unchanged = not changed
        if changed:
            self._notes.append(
                "changed since the run, so that decisions and prompts may differ: "
                f"{some_of(changed)}"
            )
        self._compare_named_files(mapping_of(identity.get("files")))

    def _compare_named_files(self, recorded: Mapping[str, Any]) -> None:
        """Compare the files that settings name with the run. They can have been edited."""
        assert self._settings is not None
        for key in recorded.keys() & NAMED_FILES.keys():
            try:
                now = named_file_hashes(self._settings, [key]).get(key)
            except InputError as error:
                self._notes.append(f"not compared with the run: {error}")
                continue
            for difference in differences(recorded[key], now, key):
                self._notes.append(f"changed since the run: {difference}")

    def _identified(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """The manifest's settings and data in the form that an identity has."""
        settings = dict(mapping_of(self._manifest.get("settings")))
        backend_settings = mapping_of(settings.get("backend"))
        backend = {k: v for k, v in backend_settings.items() if k not in TRANSPORT}
        if backend.get("kind") == "openai" and backend.get("base_url") is None:
            # The environment named the server of the run; its current value does not matter.
            then = mapping_of(mapping_of(identity.get("settings")).get("backend"))
            backend["base_url"] = then.get("base_url")
        data = {k: v for k, v in mapping_of(self._manifest.get("data")).items() if k != "path"}
        return {"settings": {**settings, "backend": backend}, "data": data}

    # The journal ----------------------------------------------------------------------------

    def _compare_journal(self) -> None:
        for uid, seed, what in self._journal.problems(finished=self._finished):
            self._say(JOURNAL, what, uid, seed)
        self._notes += self._journal.notes
        self._checks[JOURNAL].checked = len(self._journal.records)
        for (uid, seed), record in self._journal.records.items():
            name, listed = (
                (ERRORS, self._failed) if record.status == "failed" else (SCORECARDS, self._scored)
            )
            if self._files[name].exists and seed not in listed.get(uid, ()):
                what = f"{JOURNAL_FILE} has it as {record.status} under seed {seed}, {name} has not"
                self._say(JOURNAL, what, uid, seed)
        if self._expect is not None and self._expect != self._journal.fingerprint:
            self._say(JOURNAL, f"the fingerprint is {self._journal.fingerprint}, not the expected")

    def _compare_costs(self, output: FinalOutput, seed: int) -> None:
        """Compare the cost of a sample with its calls at the current prices."""
        usage, cost = output.meta.usage, cost_of(output.process_trace)
        self._costs.append(cost)
        record = self._journal.records.get((output.uid, seed))
        if record is None:
            return
        spent: dict[str, float] = {
            "calls": usage.calls - usage.cached_calls,
            "cached_calls": usage.cached_calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        }
        if cost is not None and record.spent.cost_usd is not None:
            spent["cost_usd"] = cost
        for uid, _, what in record_costs(output.uid, seed, record, spent):
            self._say(JOURNAL, what, uid, seed)

    # Counts ---------------------------------------------------------------------------------

    def _index(self) -> None:
        for output in self._files[OUTPUTS].index():
            self._digests_of(output).texts.add(digest_of(output.get("text")))
            self._count_spent(mapping_of(output.get("meta")).get("usage"))
        for card in self._files[SCORECARDS].index():
            facts = [card.get("gold"), card.get("domain"), card.get("split")]
            self._digests_of(card).gold.add(digest_of(facts))
            self._scored.setdefault(str(card["uid"]), []).append(number_of(card.get("seed")))
        for error in self._files[ERRORS].index():
            if error.get("kind") == "bad_line":
                self._bad_lines.append(error)
            else:
                self._index_failure(str(error["uid"]), error)
        for name in (TRACES, GATE):
            for _ in self._files[name].index():
                pass
        for file in self._files.values():
            if not file.exists and self._finished:
                self._say(COUNTS, f"{file.path.name} is missing")
            for problem in file.broken:
                self._say(COUNTS, problem)

    def _index_failure(self, uid: str, error: dict[str, Any]) -> None:
        seed = number_of(error.get("seed"))
        self._failed.setdefault(uid, []).append(seed)
        spent = mapping_of(error.get("spent"))
        self._count_spent(spent)
        self._costs.append(spent.get("cost_usd", 0.0))

    def _count_spent(self, usage: Any) -> None:
        self._usage.update({k: v for k, v in mapping_of(usage).items() if isinstance(v, int)})

    def _digests_of(self, record: dict[str, Any]) -> _Digests:
        return self._digests.setdefault(str(record["uid"]), _Digests(set(), set()))

    def _data_uids(self) -> list[str] | None:
        """The uids of the data file, None if it is gone or changed. Texts and gold are compared."""
        about = mapping_of(self._manifest.get("data"))
        if not about.get("path"):
            return None
        try:
            path = find_data(self._dir, about, self._data)
            name = self._journal.facts.get("file_name")
            if name is not None and Source(path).stem != name:
                raise DataGone(f"{path} must be called {name}: its samples are named after it")
        except DataGone as error:
            self._warnings.append(
                f"NOT COMPARED WITH THE DATA: {error}. Whether texts, gold and unreadable lines "
                "are those of the data is not known; name the file with --data"
            )
            return None
        except DataChanged as error:
            what = "texts and gold cannot be compared; name the original with --data"
            self._say(COUNTS, f"{error}: {what}")
            return None
        uids: list[str] = []
        limit = self._limit if self._limit is not None else math.inf
        bad_lines: list[BadLine] = []
        asked_bad_lines = 0
        columns = about.get("columns")
        columns = columns if isinstance(columns, dict) else None
        try:
            for row in read_samples(path, text_of(about.get("format")), columns, size_of(about)):
                if isinstance(row, BadLine):
                    bad_lines.append(row)
                    asked_bad_lines += len(uids) <= limit
                else:
                    uids.append(row.uid)
                    if self._settings is not None and self._settings.demos.k:
                        self._texts.append(row.text)
                    self._compare_with_data(row)
        except (DataError, InputError) as error:
            self._warnings.append(f"NOT COMPARED WITH THE DATA: {error}")
            return None
        self._compare_bad_lines(bad_lines, asked_bad_lines)
        self._compare_positions(uids)
        return uids

    def _compare_bad_lines(self, lines: list[BadLine], asked: int) -> None:
        listed = len(self._bad_lines)
        if self._finished and not asked <= listed <= len(lines):
            what = f"{ERRORS} lists {listed} unreadable lines, the data has {len(lines)}"
            self._say(COUNTS, what)
        for error, line in zip(self._bad_lines, lines, strict=False):
            # The path of the file can have been written differently.
            recorded = {k: v for k, v in error.items() if k not in ("uid", "kind", "file")}
            for what in compared(recorded, line.model_dump(exclude={"file"}), "not"):
                self._say(COUNTS, f"{ERRORS}: line {line.line} of the data: {what}")

    def _compare_positions(self, uids: list[str]) -> None:
        for (uid, seed), record in self._journal.records.items():
            if uid in self._digests and uids[record.position : record.position + 1] != [uid]:
                what = f"{JOURNAL_FILE}: it is not sample {record.position} of the data"
                self._say(JOURNAL, what, uid, seed)

    @property
    def _limit(self) -> int | None:
        limit = self._manifest.get("limit")
        return limit if isinstance(limit, int) else None

    def _compare_with_data(self, sample: Sample) -> None:
        recorded = self._digests.get(sample.uid)
        if recorded is None:
            return
        if recorded.texts - {digest_of(sample.text)}:
            self._say(COUNTS, "the text of the output is not that of the data", sample.uid)
        if recorded.gold - {digest_of([gold(sample), sample.domain, sample.split])}:
            what = "gold, domain or split of the scorecard is not that of the data"
            self._say(COUNTS, what, sample.uid)

    def _count(self, data: list[str] | None) -> None:
        """Check that every sample is there once per seed: analyzed or failed."""
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
        """The seeds under which each sample must be present.

        A run can have been started several times with other limits and seeds. Under each seed, all
        samples up to the last one with a record must be present. Under all seeds of the last start,
        its number of samples must be present, if the manifest counts them as finished.
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
                    yield f"{name}: seed {seed} does not belong to the run"
        for seed in scored.keys() & failed.keys():
            yield f"both analyzed and failed{self._under(seed)}"
        if outputs != len(scored):
            yield f"{often(outputs)} in {OUTPUTS}, but {often(len(scored))} in {SCORECARDS}"
        missing = [s for s in expected if s not in scored and s not in failed]
        if missing and self._finished and not outputs > len(scored):
            yield "missing: neither analyzed nor failed" + self._under(*missing)
        if outputs and not traces:
            yield f"not in {TRACES}"
        for name in (TRACES, GATE):
            if self._files[name].times(uid) and not outputs:
                yield f"in {name}, but not in {OUTPUTS}"

    def _under(self, *seeds: int) -> str:
        return f" (seed {', '.join(map(str, seeds))})" if len(self._seeds) > 1 else ""

    def _count_totals(self) -> None:
        """Compare the manifest's numbers. In an unfinished run they can be older than the files."""
        if not self._finished or not self._manifest:
            return
        parts = {part: mapping_of(self._manifest.get(part)) for part in ("counts", "usage")}
        failed = sum(map(len, self._failed.values()))
        done = self._files[OUTPUTS].count
        facts = {
            ("counts", "samples"): done + failed,
            ("counts", "done"): done,
            ("counts", "failed"): failed,
            ("counts", "bad_lines"): len(self._bad_lines),
            ("usage", "calls"): self._usage["calls"] - self._usage["cached_calls"],
            ("usage", "cached_calls"): self._usage["cached_calls"],
            ("usage", "prompt_tokens"): self._usage["prompt_tokens"],
            ("usage", "completion_tokens"): self._usage["completion_tokens"],
        }
        for (part, name), value in facts.items():
            recorded = parts[part].get(name)
            if recorded != value or isinstance(recorded, bool):
                what = f"{MANIFEST} says {part}.{name} {recorded}, the files have {value}"
                self._say(COUNTS, what)
        self._count_costs(parts["usage"])

    def _count_costs(self, usage: Mapping[str, Any]) -> None:
        """Compare costs: all starts together must have spent at least as much as the samples."""
        recorded = usage.get("cost_usd")
        cost = None if None in self._costs else math.fsum(c for c in self._costs if c is not None)
        if cost is None and recorded is not None:
            self._notes.append(
                "prices of models are not known here: costs were compared with the journal only "
                "(ABSA_PRICES names the price list)"
            )
        else:
            for _, one, other in differing(recorded, cost):
                what = f"usage.cost_usd {shown(one)}, the calls cost {shown(other)} at these prices"
                self._say(COUNTS, f"{MANIFEST} says {what}")
        spent = mapping_of(self._manifest.get("spent"))
        for name in ("calls", "prompt_tokens", "completion_tokens"):
            if number_of(spent.get(name)) < number_of(usage.get(name)):
                what = f"spent.{name} {spent.get(name)}, less than its samples cost"
                self._say(COUNTS, f"{MANIFEST} says {what}")

    # Sample by sample -----------------------------------------------------------------------

    def _demos(self, settings: Settings) -> dict[int, Demos] | None:
        """The demos in the prompts. They are never taken from the evaluated texts."""
        outputs = self._files[OUTPUTS]
        texts: Iterable[str] = self._texts
        if settings.demos.k and not self._texts:
            lines = (line for uid in outputs.uids for line in outputs.of(uid))
            texts = [str(line.record.get("text")) for line in lines]
        are_used = settings.backend.kind != "offline"
        try:
            return {
                seed: Demos(settings.demos, seed=seed, evaluated=texts, are_used=are_used)
                for seed in self._seeds
            }
        except (DataError, InputError, OSError) as error:
            self._warnings.append(
                f"NOT REPLAYED: the demos of the prompts are not available: {error}"
            )
            return None

    def _replayer(self) -> Replayer | None:
        settings = self._settings
        demos = self._demos(settings) if settings is not None else None
        if settings is None or demos is None:
            return None
        try:
            return Replayer(settings, demos)
        except WiringError as error:
            self._warnings.append(f"NOT REPLAYED: {error}")
            return None

    def _check_samples(self) -> None:
        replayer = self._replayer()
        settings = self._settings
        min_probability = settings.pipeline.min_name_probability if settings else 0.0
        categories = categories_of(settings.pipeline) if settings else None
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
                about = SampleRecords(
                    line, output, card, asked, judged, min_probability, categories
                )
                self._check_one(about, replayer, seed)

    def _check_seeds(self, uid: str, lines: Iterable[Line]) -> None:
        for seed in {line.seed for line in lines} - set(self._seeds):
            self._say(COUNTS, f"{TRACES} or {GATE}: seed {seed} does not belong to the run", uid)

    def _check_one(self, e: SampleRecords, replayer: Replayer | None, seed: int) -> None:
        violations: list[tuple[str, str]] = []
        for check in (same_calls, same_scorecard, same_gate_log):
            violations += check(e)
        # Decisions must follow from answers, so they are checked before a person's changes.
        agents = before_person(e)
        violations += follows_directly(agents)
        again: FinalOutput | None = None
        if replayer is not None:
            again, changed = replayer.compare(agents, seed)
            violations += changed
        for check in (overruled_with_reason, corrections_visible):
            violations += check(agents)
        for check in (person_follows, tuples_agree, stands_in_text, nothing_leaked):
            violations += check(e)
        if self._settings is not None:
            allowed = self._settings.pipeline.memory.allow_eval_writes
            violations += recalled_fairly(e.output, e.split, any_split=allowed)
            violations += called_as_set(e, self._settings.backend, seed)
            violations += same_signal(e, self._settings.aux_hf)
        if (
            again is not None
            and self._prompts_unchanged
            and not any(c == "S1" for c, _ in violations)
        ):
            violations += same_prompts(e, again)
        self._compare_costs(e.output, seed)
        for name, number in e.sizes().items():
            self._checks[name].checked += number
        for name, what in dict.fromkeys(violations):
            self._say(name, what, e.output.uid, seed)

    def _check_the_rest(self) -> None:
        for uid in self._files[ERRORS].uids:
            for line in self._files[ERRORS].of(uid):
                for what in leaks(line.raw, ""):
                    self._say("S6", f"{ERRORS}: {what}", None if uid == "None" else uid)
        manifest = (self._dir / MANIFEST).read_text(encoding="utf-8", errors="replace")
        for what in leaks(manifest, ""):
            self._say("S6", f"{MANIFEST}: {what}")
        self._check_gate_summary()

    def _check_metrics(self) -> None:
        cost = mapping_of(self._manifest.get("usage")).get("cost_usd")
        checked, problems, notes = check_metrics(self._dir, cost_known=cost is not None)
        self._checks[METRICS].checked = checked
        for what in problems:
            self._say(METRICS, what)
        self._notes += notes

    def _check_gate_summary(self) -> None:
        path = self._dir / GATE_SUMMARY
        if not path.is_file():
            if self._finished:
                self._say(COUNTS, f"{GATE_SUMMARY} is missing")
            return
        if not self._files[GATE].exists:
            return
        try:
            recorded = parse_json(path.read_text(encoding="utf-8"))
            gate = self._files[GATE]
            made = gate_summary(line.record for uid in gate.uids for line in gate.of(uid))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._say(COUNTS, f"{GATE_SUMMARY} or {GATE}: cannot be read ({error})")
            return
        for what in compared(recorded, parse_json(json.dumps(made)), f"{GATE} gives"):
            self._say(COUNTS, f"{GATE_SUMMARY}: {what}")
