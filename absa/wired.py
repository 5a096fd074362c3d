"""The wiring of the settings: the shipped one, or the result of a user's function."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore

from absa.backends import make_backend, with_second_reader
from absa.config import load_settings
from absa.graph import DirectGraph, Graph, Wiring
from absa.graph import wiring as shipped_wiring
from absa.graph.steps import nearest
from absa.memory import open_memory
from absa.own_files import read_own_files
from absa.schemas.backend import Backend
from absa.schemas.errors import WiringError
from absa.schemas.settings import Settings


def wiring(settings: Settings | None = None) -> Wiring:
    """The nodes and edges of the settings as data, without parts that are switched off.

    Change them with `replace`, `insert`, `remove` and `rewire`, then `compile()` the graph.
    """
    chosen = settings or load_settings()

    def open_store() -> AbstractContextManager[BaseStore | None]:
        return open_memory(chosen.pipeline.memory)

    return replace(
        shipped_wiring(chosen.pipeline),
        default_backend=lambda: make_backend(chosen.backend),
        with_reader=lambda backend: with_second_reader(backend, chosen.backend),
        open_store=open_store,
        own_files=read_own_files(chosen),
    )


def wired(settings: Settings) -> Wiring:
    """The wiring that a run with these settings uses: `settings.wiring` may name a function.

    Raises:
        WiringError: The function cannot be imported, or does not return a `Wiring`.
    """
    if settings.wiring is None:
        return wiring(settings)
    function = _function(settings.wiring)
    try:
        made = function(settings)
    except WiringError:
        raise
    except Exception as error:  # a user's code can raise any error
        raise WiringError(
            f"wiring: {settings.wiring} raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Wiring):
        raise WiringError(
            f"wiring: {settings.wiring} returned {type(made).__name__}: it must return a Wiring, "
            "such as absa.wiring(settings).remove('validator_review')"
        )
    return made


def replaying(
    settings: Settings, backend: Backend, store: BaseStore | None = None
) -> Graph | DirectGraph:
    """The graph for a replay, without LangGraph if that gives the same output."""
    chosen = wired(settings)
    if chosen.only_as_graph is None:
        return chosen.direct(backend)
    return chosen.compile(backend=backend, store=store)


def wiring_file(function: str) -> Path:
    """The source file of `module:function`. Its hash is part of the run's identity."""
    module = sys.modules[_function(function).__module__]
    return Path(str(module.__file__))


def _function(named: str) -> Callable[[Settings], Any]:
    module_name, _, function_name = named.partition(":")
    # The script `absa` does not search the current folder. It is added last, so that a file there
    # cannot shadow an installed package.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise WiringError(
            f"wiring: {module_name!r} cannot be imported ({error}); it must be installed or lie in "
            "the current folder"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise WiringError(
            f"wiring: {module_name} has no function {function_name!r}"
            f"{nearest(function_name, vars(module))}"
        )
    return function  # type: ignore[no-any-return]
