"""Real Chromium for the tests of pages.

Found in this order: a path in the environment, a program on the machine, the system's package manager when we may use
it. Nothing found skips the test on a laptop and fails it in CI.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

ELSEWHERE = "hooks.example.com"
"""A name that leads to this machine, but is none of its own."""
_NAMED = f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    given = os.environ.get("HOOKFUSE_TEST_CHROMIUM")
    if given:
        return given
    found = _on_the_machine()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        found = _from_system()
    return found


def _on_the_machine() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def _from_system() -> str | None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
        subprocess.run(command, env=quiet, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _on_the_machine()


@contextmanager
def running() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        message = "no Chromium was found, and none could be installed"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    # Chromium's own sandbox refuses to work for root; containers run tests as root.
    args = [_NAMED, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=args)
        try:
            yield browser
        finally:
            browser.close()
