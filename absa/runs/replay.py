"""`replay`: applies the rules again to the recorded answers of a run, with other settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absa.backends.replay import ReplayBackend
from absa.config import SettingsError, load_settings
from absa.runs.artefacts import write_lines
from absa.runs.directory import ERRORS, MANIFEST, OUTPUTS, SCORECARDS, TRACES, NoRun, RunDirectory
from absa.runs.engine import run
from absa.runs.identity import file_sha256
from absa.runs.plan import Control, Progress, RunMismatch, RunPlan, RunReport
from absa.schemas.backend import Backend
from absa.schemas.memory import Recall
from absa.schemas.settings import BackendSettings, Settings

SAMPLES = "samples.jsonl"
_REFUSED = ("backend.kind", "backend.path")


@dataclass(frozen=True)
class Recorded:
    """A run whose recorded answers are replayed."""

    directory: Path
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    failed: int

    @classmethod
    def read(cls, directory: Path) -> Recorded:
        """Read the manifest and settings of a run directory.

        Raises:
            NoRun: It is not a run directory, or it has no recorded answers.
        """
        files = RunDirectory(directory).require()
        manifest = files.manifest
        try:
            settings, seeds = manifest["settings"], tuple(map(int, manifest["seeds"]))
        except (ValueError, KeyError, TypeError) as error:
            raise files.not_a_manifest(repr(error)) from error
        files.require(OUTPUTS, SCORECARDS, TRACES)
        errors = files.lines(ERRORS) if files.has(ERRORS) else ()
        failed = sum(line.get("kind") == "failed" for line in errors)
        return cls(directory, settings, seeds, failed)

    def samples(self) -> Iterator[dict[str, Any]]:
        """The samples of the run, from its artefacts, each once even with several seeds."""
        seen: set[str] = set()
        for output, card in RunDirectory(self.directory).samples():
            if output["uid"] not in seen:
                seen.add(output["uid"])
                yield sample_line(output, card)

    def recalls(self) -> dict[tuple[str, int], Recall]:
        """What memory recalled for each sample, if the run had memory."""
        return {
            (output["uid"], output["meta"]["seed"]): Recall.model_validate(memory["recall"])
            for output in RunDirectory(self.directory).lines(OUTPUTS)
            if (memory := output["meta"].get("memory"))
        }


def sample_line(output: Mapping[str, Any], card: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as a line of data, without empty fields."""
    gold = card["gold"] or {}
    fields = {
        "uid": output["uid"],
        "text": output["text"],
        "lang": output["lang"],
        "domain": card["domain"],
        "split": card["split"],
        "given_aspects": output["meta"].get("given_aspects"),
        "label": gold.get("label"),
        "aspects": gold.get("aspects"),
        "incomplete_gold": gold.get("incomplete") or None,
        "extra": output.get("extra") or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def replay_settings(
    recorded: Recorded, config: str | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """The settings of the recorded run, or of `config`, with overrides and the replay backend.

    Raises:
        SettingsError: The settings are not valid for a replay.
    """
    changes = dict(overrides or {})
    for key in changes:
        if key in _REFUSED or key == "backend":
            raise SettingsError(
                f"--set {key}: a replay always uses recorded answers; "
                "use absa run for another backend"
            )
    base = {} if config is not None else _as_overrides(recorded.settings)
    answers = {"backend.kind": "replay", "backend.path": str(recorded.directory)}
    return load_settings(config, {**base, **changes, **answers})


def _as_overrides(settings: Mapping[str, Any]) -> dict[str, object]:
    """A manifest's settings without the values of its gate profile, which may be replaced."""
    pipeline = dict(settings.get("pipeline", {}))
    profile = load_settings(None, {"pipeline.override_profile": pipeline.get("override_profile")})
    filled_in = profile.pipeline.debate_override.model_dump(mode="json")
    thresholds = pipeline.pop("debate_override", {})
    pipeline["debate_override"] = {k: v for k, v in thresholds.items() if v != filled_in.get(k)}
    return {**settings, "pipeline": pipeline}


async def replay(
    recorded: Recorded,
    out: Path,
    settings: Settings,
    *,
    control: Control | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> RunReport:
    """Replay a run into another directory. No model is called.

    Raises:
        NoRun: The recorded run cannot be used.
        RunMismatch: `out` holds another run.
    """
    if out.resolve() == recorded.directory.resolve():
        raise RunMismatch(f"{out} is the recorded run itself; use another --out")
    data = _write_samples(recorded, out)
    plan = RunPlan(
        data=data,
        out=out,
        settings=settings,
        seeds=recorded.seeds,
        format="jsonl",
        recalls=recorded.recalls() if settings.pipeline.memory.condition != "off" else {},
    )
    return await run(
        plan, control=control or Control(), on_progress=on_progress, backend_for=_answers
    )


def _answers(settings: BackendSettings) -> Backend:
    return ReplayBackend(str(settings.path), settings.seed)


def _write_samples(recorded: Recorded, out: Path) -> Path:
    """Write the samples as the replay's data file. An existing file must be equal."""
    path, fresh = out / SAMPLES, out / f"{SAMPLES}.new"
    if (out / MANIFEST).exists() and not path.exists():
        raise RunMismatch(f"{out} holds another run, which is not a replay; use another --out")
    out.mkdir(parents=True, exist_ok=True)
    try:
        write_lines(fresh, (json.dumps(s, ensure_ascii=False) for s in recorded.samples()))
        if not path.exists():
            fresh.replace(path)
        elif file_sha256(path) != file_sha256(fresh):
            raise RunMismatch(
                f"{out} holds the replay of another run (its samples differ); use another --out"
            )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, RunMismatch | NoRun):
            raise
        raise NoRun(
            f"{recorded.directory}: {OUTPUTS} or {SCORECARDS} is damaged ({error}): see absa verify"
        ) from error
    finally:
        fresh.unlink(missing_ok=True)
    return path
