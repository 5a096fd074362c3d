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


class RunContext(BaseModel):
    """Toggles and thresholds of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enable_validator: bool = Field(
        True, title="Validator", description="Let the Validator look for risks."
    )
    enable_stage2: bool = Field(
        True, title="Stage 2", description="Let ATE, ATSA and Validator review Stage 1."
    )
    enable_debate: bool = Field(
        True, title="Debate", description="Hold the debate (EPM, TAN, CJ, judge)."
    )
    enable_debate_override: bool = Field(
        True, title="Debate override", description="Let the debate override, by the gate."
    )
    enable_moderator: bool = Field(
        True, title="Moderator", description="Decide the label by the Moderator's rules."
    )
    human_review: Literal["off", "on_conflict", "always"] = Field(
        "off",
        title="Human review",
        description="Ask a person before the result is final: never, in doubt, always.",
    )
    debate_protocol: DebateProtocol = Field(
        "patch",
        title="Debate: protocol",
        description="Structured edits (patch), or arguments in prose (persona).",
    )
    moderator_rules: tuple[RuleName, ...] = Field(
        RULE_NAMES, title="Moderator: rules", description="The Moderator's rules in force."
    )
    memory: Literal["off", "silent", "on"] = Field(
        "off",
        title="Memory of past cases",
        description="Past cases: not looked up, looked up only, or shown to the debate.",
    )
    override_profile: Literal["t0", "t1", "t2"] = Field(
        "t0",
        title="Gate: profile",
        description="Thresholds of the gate: t0 is the strictest, t2 the loosest.",
    )
    rounds: int = Field(1, ge=1, le=10, title="Debate: rounds", description="Rounds of the debate.")
    min_total: float = Field(
        1.6, ge=0, title="Gate: least total", description="Least total weight of the hints."
    )
    min_margin: float = Field(
        0.8, ge=0, title="Gate: least margin", description="Least difference of the polarities."
    )
    min_target_conf: float = Field(
        0.7,
        ge=0,
        le=1,
        title="Gate: confidence",
        description="The confidence of what the gate overrides.",
    )
    ev_threshold: float = Field(
        0.5, ge=0, le=1, title="Adoption: threshold", description="Least evidence value."
    )
    l3_conservative: bool = Field(
        True, title="Gate: conservative", description="No override under a scope risk."
    )
    max_overrides_per_sample: int = Field(
        1, ge=0, title="Gate: most overrides", description="Overrides per text."
    )
    allow_drop: bool = Field(
        False, title="Gate: may drop", description="Let the debate drop an aspect."
    )

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
