"""The compared configurations, and their roles: debate, single call, vote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from absa.config import load_settings
from absa.schemas.errors import InputError
from absa.schemas.settings import Settings

DEFAULT_NAMES = (
    "default",
    "abl_no_debate",
    "abl_no_debate_override",
    "abl_no_validator",
    "abl_no_stage2",
    "abl_no_moderator",
    "baseline_single",
    "baseline_vote",
)
CONSTANT = "constant"
LEXICON = "lexicon"
ANALYSER = "analyser"
"""The configuration with only the embedded analyzer, which makes no model call."""

_LEXICON: Mapping[str, object] = {
    "backend.kind": "offline",
    "pipeline.protocol": "debate",
    "pipeline.enable_validator": False,
    "pipeline.enable_debate": False,
    "pipeline.enable_debate_override": False,
    "pipeline.enable_stage2": False,
    "pipeline.enable_moderator": False,
}


class AblationError(InputError):
    """The comparison is not possible. A usage error; the message says what to change."""


@dataclass(frozen=True)
class Configuration:
    """One compared configuration. `constant` has no settings and runs nothing."""

    name: str
    settings: Settings | None

    @property
    def protocol(self) -> str:
        """The pipeline's protocol."""
        if self.name == ANALYSER:
            return ANALYSER
        return self.settings.pipeline.protocol if self.settings else CONSTANT

    @property
    def debates(self) -> bool:
        """Whether it has a debate."""
        pipeline = self.settings.pipeline if self.settings else None
        return bool(pipeline and pipeline.protocol == "debate" and pipeline.enable_debate)


def load(names: Sequence[str], overrides: Mapping[str, object]) -> list[Configuration]:
    """Read the configurations. The name of each is the stem of its file.

    Raises:
        AblationError: Two have the same name or the same settings.
        SettingsError: A file or an override is not valid.
    """
    configurations: dict[str, Configuration] = {}
    for name_or_file in names:
        name = (
            name_or_file
            if name_or_file in (CONSTANT, LEXICON, ANALYSER)
            else Path(name_or_file).stem
        )
        if name in configurations:
            raise AblationError(
                f"two configurations have the name {name!r}: the name is the file's stem, and each "
                "gets its own directory; rename one of the files"
            )
        configurations[name] = Configuration(name, _settings(name_or_file, overrides))
    _refuse_twins(list(configurations.values()))
    return list(configurations.values())


def with_analyser(
    chosen: Sequence[Configuration], overrides: Mapping[str, object]
) -> list[Configuration]:
    """The configurations, plus the embedded analyzer if it is not among them."""
    alone = Configuration(ANALYSER, _settings(ANALYSER, overrides))
    if any(one.name == ANALYSER or one.settings == alone.settings for one in chosen):
        return list(chosen)
    return [*chosen, alone]


def _settings(given: str, overrides: Mapping[str, object]) -> Settings | None:
    if given == CONSTANT:
        return None
    if given == ANALYSER:
        own = {key: value for key, value in overrides.items() if key.startswith("resources.")}
        return load_settings(
            None, {**own, "backend.kind": "offline", "pipeline.protocol": "single"}
        )
    if given == LEXICON:
        return load_settings(None, {**overrides, **_LEXICON})
    return load_settings(given, overrides)


def _refuse_twins(configurations: Sequence[Configuration]) -> None:
    """Reject configurations with equal settings, which would give equal results."""
    seen: dict[str, str] = {}
    for one in configurations:
        if one.settings is None:
            continue
        settings = json.dumps(one.settings.model_dump(mode="json"), sort_keys=True)
        twin = seen.setdefault(settings, one.name)
        if twin != one.name:
            raise AblationError(
                f"{twin} and {one.name} have the same settings; remove one of them (or the --set "
                "that makes them equal)"
            )


@dataclass(frozen=True)
class Roles:
    """The names of the debate and its baselines; None for a missing baseline."""

    debate: str
    single: str | None
    vote: str | None


def roles(
    configurations: Sequence[Configuration],
    debate: str | None = None,
    single: str = "single",
    vote: str = "vote",
) -> Roles:
    """Find the debate and its baselines, by name or (the baselines) by protocol.

    Raises:
        AblationError: There is no debate, or a named configuration is missing.
    """
    names = [c.name for c in configurations]
    if debate is not None and debate not in names:
        raise AblationError(f"--debate {debate}: not among the configurations {', '.join(names)}")
    if debate is None:
        held = [c.name for c in configurations if c.debates]
        if not held:
            raise AblationError(
                "no configuration has a debate: add one, such as default, or name with --debate "
                "the configuration to compare with the others"
            )
        debate = "default" if "default" in held else held[0]
    others = [c for c in configurations if c.name != debate]
    return Roles(debate, _baseline(others, single, "single"), _baseline(others, vote, "vote"))


def _baseline(others: Sequence[Configuration], asked: str, protocol: str) -> str | None:
    for one in others:
        if one.name == asked:
            return one.name
    if asked != protocol:
        option = "--baseline" if protocol == "single" else "--vote"
        other_names = ", ".join(c.name for c in others)
        raise AblationError(f"{option} {asked}: not among the other configurations {other_names}")
    return next((c.name for c in others if c.protocol == protocol), None)
