"""The wiring, and nothing else: which node follows which."""

from graph.build import build, build_switchable

__all__ = ["build", "build_switchable"]
