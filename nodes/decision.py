"""The decision of a protocol, from which `finalize` builds the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from absa.schemas.records import StageResult, ValidatorAggregate


@dataclass(frozen=True)
class Decision:
    """The results of the stages, the final result, and the protocol's part of `meta`."""

    stage1: StageResult
    # None without Stage 2.
    stage2: StageResult | None
    final: StageResult
    conflict_resolved: bool
    meta: Mapping[str, Any]
    stage1_validator: ValidatorAggregate = field(default_factory=ValidatorAggregate)
    stage2_validator: ValidatorAggregate | None = None
    # The calls that saw the advice of memory.
    shown_memory: Sequence[str] = ()
