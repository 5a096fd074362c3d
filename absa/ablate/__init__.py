"""Ablation: compares configurations on the same samples, in quality and cost."""

from absa.ablate.configurations import (
    DEFAULT_NAMES,
    AblationError,
    Configuration,
    load,
    with_analyser,
)
from absa.ablate.study import FILE, Study, study, write
from absa.ablate.sweep import sweep

__all__ = [
    "DEFAULT_NAMES",
    "FILE",
    "AblationError",
    "Configuration",
    "Study",
    "load",
    "study",
    "sweep",
    "with_analyser",
    "write",
]
