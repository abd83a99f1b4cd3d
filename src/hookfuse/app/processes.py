"""Several processes on one port: `hookfuse serve --workers 4`, on Postgres and Redis.

The parent opens the port, makes the first key, and then only watches: each child is a whole service. Children are in
process groups of their own, so Ctrl-C reaches the parent alone, which asks them to stop and waits. A child that dies is
replaced; one that dies as soon as it starts, again and again, ends them all.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from types import FrameType

_log = logging.getLogger("hookfuse.app")

SHARED_FILES = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus-client keeps the counters of several processes. It looks once, when it is first imported."""

_YOUNG_SECONDS = 5.0
_MOST_YOUNG_DEATHS = 3
_PAUSE = 0.5


class Processes:
    """Keeps `number` children running `work`, which returns an exit code, until it is told to stop."""

    def __init__(self, number: int, work: Callable[[], int]) -> None:
        self._number = number
        self._work = work
        self._born: dict[int, float] = {}
        self._stopping = False
        self._young_deaths = 0

    def run(self) -> int:
        """Returns an exit code: 0 after an orderly end."""
        files = tempfile.mkdtemp(prefix="hookfuse-metrics-")
        os.environ[SHARED_FILES] = files
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._heed)
        try:
            for _ in range(self._number):
                self._start()
            return self._watch()
        finally:
            shutil.rmtree(files, ignore_errors=True)

    def _start(self) -> None:
        # Its signals wait until it has its own handlers, or a stop in between would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        pid = os.fork()
        if pid == 0:
            os._exit(self._live())
        self._born[pid] = time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})

    def _live(self) -> int:
        os.setpgrp()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            return self._work()
        except BaseException:
            _log.exception("a process failed")
            return 1

    def _watch(self) -> int:
        code = 0
        while self._born:
            pid, status = os.wait()
            born = self._born.pop(pid, None)
            if born is None or self._stopping:
                continue
            young = time.monotonic() - born < _YOUNG_SECONDS
            self._young_deaths = self._young_deaths + 1 if young else 0
            _log.error("process %d ended with %d", pid, os.waitstatus_to_exitcode(status))
            if self._young_deaths >= _MOST_YOUNG_DEATHS:
                _log.error("processes keep ending as soon as they start; giving up")
                code = 1
                self._tell_all(signal.SIGTERM)
            else:
                time.sleep(_PAUSE)
                if not self._stopping:
                    self._start()
        return code

    def _heed(self, number: int, frame: FrameType | None) -> None:
        self._tell_all(signal.SIGTERM)

    def _tell_all(self, number: int) -> None:
        self._stopping = True
        for pid in list(self._born):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                # It is waited for in a moment.
                continue
