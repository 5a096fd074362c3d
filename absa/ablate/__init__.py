"""Configurations side by side on the same samples: did the debate help, and at what cost?"""

from absa.ablate.configurations import DEFAULT_NAMES, AblationError, Configuration, load
from absa.ablate.study import FILE, Study, explore, study, write

__all__ = [
    "DEFAULT_NAMES",
    "FILE",
    "AblationError",
    "Configuration",
    "Study",
    "explore",
    "load",
    "study",
    "write",
]
