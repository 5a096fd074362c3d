"""What the rules of a protocol decided, in the form that `finalize` builds the output from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from absa.schemas.records import StageResult, ValidatorAggregate


@dataclass(frozen=True)
class Decision:
    """The results of the stages, the final one among them, and the protocol's part of `meta`."""

    stage1: StageResult
    # None where no reviewer was asked.
    stage2: StageResult | None
    final: StageResult
    conflict_resolved: bool
    meta: Mapping[str, Any]
    stage1_validator: ValidatorAggregate = field(default_factory=ValidatorAggregate)
    stage2_validator: ValidatorAggregate | None = None
    # The calls that saw the advice of memory.
    shown_memory: Sequence[str] = ()
