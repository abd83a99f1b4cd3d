"""What tests need of the system: installed where we may, and missed aloud."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest


def install(package: str) -> None:
    """Install a package of the system's, if we are root and it has a package manager that we know.

    Processes that miss it at the same time do so one after the other: the package manager serves one and fails others.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    with (Path(tempfile.gettempdir()) / "hookfuse-tests-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(package)


def _install(package: str) -> None:
    # Installing must not start a server of the system's own.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", package]):
        subprocess.run(command, env=quiet, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def missing(what: str) -> NoReturn:
    """Skip the test on a laptop, fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
