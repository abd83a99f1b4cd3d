"""What tests need of the system: installed where we may, and missed aloud."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NoReturn

import pytest


def install(package: str) -> None:
    """Install a package of the system's, if we are root and it has a package manager that we know."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    # Installing must not start a server of the system's own.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", package]):
        subprocess.run(command, env=quiet, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def missing(what: str) -> NoReturn:
    """Skip the test on a laptop, fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
