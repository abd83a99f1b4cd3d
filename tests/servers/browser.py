"""Real Chromium for the tests of pages.

Found in this order: a path in the environment, a program on the machine, the system's package manager when we may use
it. Nothing found skips the test on a laptop and fails it in CI.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.servers.packages import install, missing

ELSEWHERE = "hooks.example.com"
"""A name that leads to this machine, but is none of its own."""
_NAMED = f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    given = os.environ.get("HOOKFUSE_TEST_CHROMIUM")
    if given:
        return given
    if _on_the_machine() is None:
        install("chromium")
    return _on_the_machine()


def _on_the_machine() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def running() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        missing("no Chromium was found, and none could be installed")
    # Chromium's own sandbox refuses to work for root; containers run tests as root.
    args = [_NAMED, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=args)
        try:
            yield browser
        finally:
            browser.close()
