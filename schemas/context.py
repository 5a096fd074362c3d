"""What can be switched per run of the Studio graph: its fields are the form that Studio shows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from schemas.settings import PipelineSettings

_TOGGLES = (
    "enable_validator",
    "enable_stage2",
    "enable_debate",
    "enable_debate_override",
    "enable_moderator",
    "human_review",
)
_THRESHOLDS = (
    "min_total",
    "min_margin",
    "min_target_conf",
    "ev_threshold",
    "l3_conservative",
    "max_overrides_per_sample",
    "allow_drop",
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

    def applied_to(self, pipeline: PipelineSettings) -> PipelineSettings:
        """The pipeline with the switches that were set; the others stay as built."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        rounds = {name: given[name] for name in ("rounds",) if name in given}
        thresholds = {name: given[name] for name in _THRESHOLDS if name in given}
        return pipeline.model_copy(
            update={
                **{name: given[name] for name in _TOGGLES if name in given},
                "debate": pipeline.debate.model_copy(update=rounds),
                "debate_override": pipeline.debate_override.model_copy(update=thresholds),
            }
        )


def context_for(pipeline: PipelineSettings) -> type[RunContext]:
    """The switches with the values of these settings as defaults.

    What a run does not switch stays as it was built, and the form shows what is in force: the
    server gives every run a context, if only an empty one.
    """
    in_force = {
        **{name: getattr(pipeline, name) for name in _TOGGLES},
        **{name: getattr(pipeline.debate_override, name) for name in _THRESHOLDS},
        "rounds": pipeline.debate.rounds,
    }
    fields: dict[str, Any] = {
        name: (
            Annotated[
                field.annotation,
                Field(title=field.title, description=field.description),
                *field.metadata,
            ],
            in_force[name],
        )
        for name, field in RunContext.model_fields.items()
    }
    return create_model("RunContext", __base__=RunContext, __doc__=RunContext.__doc__, **fields)
