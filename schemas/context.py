"""The run context of the Studio graph. Studio shows its fields as a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from absa.schemas.settings import (
    RULE_NAMES,
    DebateProtocol,
    DebateSettings,
    ModeratorSettings,
    PipelineSettings,
    RuleName,
)

_TOGGLES = (
    *("enable_validator", "enable_stage2", "enable_debate", "enable_debate_override"),
    *("enable_moderator", "human_review", "override_profile"),
)
_THRESHOLDS = (
    *("min_total", "min_margin", "min_target_conf", "ev_threshold"),
    *("l3_conservative", "max_overrides_per_sample", "allow_drop"),
)


def _field(
    default: Any, title: str, description: str, ge: float | None = None, le: float | None = None
) -> Any:
    """A field of the form."""
    return Field(default, title=title, description=description, ge=ge, le=le)


class RunContext(BaseModel):
    """Toggles and thresholds of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enable_validator: bool = _field(True, "Validator", "Let the Validator look for risks.")
    enable_stage2: bool = _field(True, "Stage 2", "Let ATE, ATSA and Validator review Stage 1.")
    enable_debate: bool = _field(True, "Debate", "Hold the debate (EPM, TAN, CJ, judge).")
    enable_debate_override: bool = _field(
        True, "Debate override", "Let the debate override, by the gate."
    )
    enable_moderator: bool = _field(True, "Moderator", "Decide the label by the Moderator's rules.")
    human_review: Literal["off", "on_conflict", "always"] = _field(
        "off", "Human review", "Ask a person before the result is final: never, in doubt, always."
    )
    debate_protocol: DebateProtocol = _field(
        "patch", "Debate: protocol", "Structured edits (patch), or arguments in prose (persona)."
    )
    moderator_rules: tuple[RuleName, ...] = _field(
        RULE_NAMES, "Moderator: rules", "The Moderator's rules in force."
    )
    memory: Literal["off", "silent", "on"] = _field(
        "off",
        "Memory of past cases",
        "Past cases: not looked up, looked up only, or shown to the debate.",
    )
    override_profile: Literal["t0", "t1", "t2"] = _field(
        "t0", "Gate: profile", "Thresholds of the gate: t0 is the strictest, t2 the loosest."
    )
    rounds: int = _field(1, "Debate: rounds", "Rounds of the debate.", ge=1, le=10)
    min_total: float = _field(1.6, "Gate: least total", "Least total weight of the hints.", ge=0)
    min_margin: float = _field(
        0.8, "Gate: least margin", "Least difference of the polarities.", ge=0
    )
    min_target_conf: float = _field(
        0.7, "Gate: confidence", "The confidence of what the gate overrides.", ge=0, le=1
    )
    ev_threshold: float = _field(0.5, "Adoption: threshold", "Least evidence value.", ge=0, le=1)
    l3_conservative: bool = _field(True, "Gate: conservative", "No override under a scope risk.")
    max_overrides_per_sample: int = _field(1, "Gate: most overrides", "Overrides per text.", ge=0)
    allow_drop: bool = _field(False, "Gate: may drop", "Let the debate drop an aspect.")

    def applied_to(self, pipeline: PipelineSettings, profiles: Profiles) -> PipelineSettings:
        """Apply the fields that were set to the pipeline settings.

        `profiles` are the thresholds of each override profile. A form sends every field. So a
        threshold (or number of rounds) overrides the chosen profile (or debate protocol) only if
        it differs from the default that the form showed.
        """
        built = in_force(pipeline)
        switched = {
            n: getattr(self, n) for n in self.model_fields_set if getattr(self, n) != built[n]
        }
        debate = pipeline.debate
        if "debate_protocol" in switched:
            kept = debate.model_dump(include={"when", "hint_weights", "injection"})
            debate = DebateSettings.model_validate({**kept, "protocol": self.debate_protocol})
        rounds = {"rounds": switched["rounds"]} if "rounds" in switched else {}
        override = pipeline.debate_override
        if "override_profile" in switched:
            override = override.model_copy(update=dict(profiles[self.override_profile]))
        thresholds = {name: switched[name] for name in _THRESHOLDS if name in switched}
        return pipeline.model_copy(
            update={
                **{name: switched[name] for name in _TOGGLES if name in switched},
                "debate": debate.model_copy(update=rounds),
                "debate_override": override.model_copy(update=thresholds),
                "moderator": ModeratorSettings(rules=self.moderator_rules)
                if "moderator_rules" in switched
                else pipeline.moderator,
                "memory": pipeline.memory.model_copy(update={"condition": self.memory})
                if "memory" in switched
                else pipeline.memory,
            }
        )


Profiles = Mapping[str, Mapping[str, float | bool]]


def in_force(pipeline: PipelineSettings) -> dict[str, Any]:
    """The value of every field under these settings."""
    return {
        **{name: getattr(pipeline, name) for name in _TOGGLES},
        **{name: getattr(pipeline.debate_override, name) for name in _THRESHOLDS},
        "rounds": pipeline.debate.rounds,
        "debate_protocol": pipeline.debate.protocol,
        "moderator_rules": pipeline.moderator.rules,
        "memory": pipeline.memory.condition,
    }


def context_for(pipeline: PipelineSettings) -> type[RunContext]:
    """The context type with the values of these settings as defaults.

    The server gives every run a context, which can be empty. Fields that are not set keep the
    graph's settings, and the form shows these as defaults.
    """
    built = in_force(pipeline)
    fields: dict[str, Any] = {
        name: (
            Annotated[
                field.annotation,
                Field(title=field.title, description=field.description),
                *field.metadata,
            ],
            built[name],
        )
        for name, field in RunContext.model_fields.items()
    }
    return create_model("RunContext", __base__=RunContext, __doc__=RunContext.__doc__, **fields)
