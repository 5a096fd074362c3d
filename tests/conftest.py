"""What all tests share: reproducible property tests and a place for snapshots."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from processes import pytest_configure, pytest_unconfigure

__all__ = ["pytest_configure", "pytest_unconfigure", "same_as_snapshot"]

_COMMON = {
    "deadline": None,
    "max_examples": 60,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
# In CI the same examples every time; at a desk new ones, so that they keep looking.
settings.register_profile("ci", derandomize=True, **_COMMON)
settings.register_profile("desk", **_COMMON)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# No test asks the keyring of whoever runs it.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture
def same_as_snapshot() -> Callable[[str, str], None]:
    """Compare a text with a stored one; `ABSA_UPDATE_SNAPSHOTS=1` replaces the stored one."""

    def check(name: str, text: str) -> None:
        path = SNAPSHOTS / name
        if os.environ.get("ABSA_UPDATE_SNAPSHOTS") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no snapshot {name}: run with ABSA_UPDATE_SNAPSHOTS=1"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs from its snapshot"

    return check
