"""What all tests share: reproducible property tests and a place for snapshots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium for the tests of pages."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "these tests need Chromium: `apt-get install -y chromium` on Debian and Ubuntu "
            f"(any of {', '.join(BROWSERS)} on the PATH will do)"
        )
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, which is who runs tests in a container.
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=args)
        yield browser
        browser.close()
