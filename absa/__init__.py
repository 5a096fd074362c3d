"""Aspect-based sentiment analysis by agents that debate, as a LangGraph state machine."""

from absa.api import aanalyze, analyze, build_graph
from absa.config import SettingsError, load_settings
from schemas.errors import BackendError, InputError
from schemas.output import FinalOutput
from schemas.settings import Settings

__all__ = [
    "BackendError",
    "FinalOutput",
    "InputError",
    "Settings",
    "SettingsError",
    "aanalyze",
    "analyze",
    "build_graph",
    "load_settings",
]
