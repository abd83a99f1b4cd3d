"""A folder that is gone afterwards, however this process ends."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Its input ends with this process, also when that is killed.
_SWEEP = 'cat >/dev/null; rm -rf -- "$0"'


@contextmanager
def passing_folder() -> Iterator[Path]:
    made = tempfile.mkdtemp(prefix="hookfuse-demo-")
    sweeper = subprocess.Popen(
        ["/bin/sh", "-c", _SWEEP, made],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,  # Ctrl-C is not for it
    )
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        sweeper.communicate()
