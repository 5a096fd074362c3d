"""Aspect-based sentiment analysis by agents that debate, as a LangGraph state machine."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from absa.api import aanalyze, analyze, build_graph, checkpoint_serde
    from absa.config import SettingsError, load_settings
    from absa.graph import Wiring
    from absa.nodes.agent import Agent
    from absa.notebook import to_frame
    from absa.schemas.errors import BackendError, InputError, WiringError
    from absa.schemas.output import FinalOutput
    from absa.schemas.settings import Settings
    from absa.wired import wiring

__all__ = [
    "Agent",
    "BackendError",
    "FinalOutput",
    "InputError",
    "Settings",
    "SettingsError",
    "Wiring",
    "WiringError",
    "aanalyze",
    "analyze",
    "build_graph",
    "checkpoint_serde",
    "load_settings",
    "to_frame",
    "wiring",
]

_HOMES = {
    "aanalyze": "absa.api",
    "analyze": "absa.api",
    "build_graph": "absa.api",
    "checkpoint_serde": "absa.api",
    "SettingsError": "absa.config",
    "load_settings": "absa.config",
    "wiring": "absa.wired",
    "Wiring": "absa.graph",
    "Agent": "absa.nodes.agent",
    "to_frame": "absa.notebook",
    "BackendError": "absa.schemas.errors",
    "WiringError": "absa.schemas.errors",
    "InputError": "absa.schemas.errors",
    "FinalOutput": "absa.schemas.output",
    "Settings": "absa.schemas.settings",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `absa --help` should not wait for LangGraph."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
