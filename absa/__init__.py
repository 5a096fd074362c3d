"""Aspect-based sentiment analysis by agents that debate, as a LangGraph state machine."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from absa.api import aanalyze, analyze, build_graph, checkpoint_serde
    from absa.config import SettingsError, load_settings
    from absa.wired import wiring
    from graph import Wiring
    from nodes.agent import Agent
    from schemas.errors import BackendError, InputError, WiringError
    from schemas.output import FinalOutput
    from schemas.settings import Settings

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
    "Wiring": "graph",
    "Agent": "nodes.agent",
    "BackendError": "schemas.errors",
    "WiringError": "schemas.errors",
    "InputError": "schemas.errors",
    "FinalOutput": "schemas.output",
    "Settings": "schemas.settings",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: `absa --help` should not wait for LangGraph."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
