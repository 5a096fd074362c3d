"""The switches of the page, and the settings for a choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from absa.nodes.assets import override_profiles
from absa.schemas.context import RunContext, in_force
from absa.schemas.settings import BackendSettings, PipelineSettings, Settings

PROTOCOLS = get_args(PipelineSettings.model_fields["protocol"].annotation)
# The page does not offer these: memory needs a store, human review an interrupted graph.
_NOT_OFFERED = ("human_review", "memory")


class Choice(BaseModel):
    """The choice on the page. A field without a value is as in the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: str | None = None
    backend: Literal["configured", "offline"] = "configured"
    context: RunContext = Field(default_factory=lambda: RunContext())


def chosen(settings: Settings, choice: Choice) -> Settings:
    """The settings with the choice applied.

    Raises:
        ValidationError: Parts of the choice exclude each other.
    """
    pipeline = choice.context.applied_to(settings.pipeline, override_profiles())
    parts = settings.model_dump(mode="json")
    parts["pipeline"] = pipeline.model_dump(mode="json")
    parts["pipeline"]["protocol"] = choice.protocol or pipeline.protocol
    parts["pipeline"]["human_review"] = "off"
    if choice.backend == "offline":
        parts["backend"] = BackendSettings().model_dump(mode="json")
    return Settings.model_validate(parts)


def values(settings: Settings) -> dict[str, Any]:
    """The values in force, by the names of their controls."""
    switches = in_force(settings.pipeline)
    return {
        "protocol": settings.pipeline.protocol,
        **{name: value for name, value in switches.items() if name not in _NOT_OFFERED},
    }


def controls() -> list[dict[str, Any]]:
    """The form: one entry per switch of a run's context."""
    fields = RunContext.model_json_schema()["properties"]
    return [_control(name, field) for name, field in fields.items() if name not in _NOT_OFFERED]


def _control(name: str, field: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {"boolean": "switch", "number": "number", "integer": "whole", "array": "several"}
    options = field.get("enum") or (field.get("items") or {}).get("enum")
    return {
        "name": name,
        "title": field["title"],
        "about": field["description"],
        "kind": kinds.get(field.get("type", ""), "one"),
        "options": options,
        "min": field.get("minimum"),
        "max": field.get("maximum"),
    }
