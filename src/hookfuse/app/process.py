"""How a process that delivers is set up.

Every request in flight is a dozen objects that live for some milliseconds. By default the collector looks after each
700 new ones, finds most of them alive, and promotes them to where looking is expensive: a sixth of a worker's time.
Nothing on the way of a delivery makes cycles, so it may look seldom: at more than all requests in flight are made of.

The thread that writes to SQLite wants the interpreter for moments, between two statements. By default a busy event loop
keeps it waiting for five milliseconds each time.

Every request in flight is an open file. Many systems allow 1,024 at first and more to whoever asks.
"""

from __future__ import annotations

import gc
import resource
import sys
from contextlib import suppress

_NEW_OBJECTS = 50_000
_LONGEST_TURN = 0.0005


def prepare_process() -> None:
    """For the rest of this process; what it has loaded so far is never looked at again for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    sys.setswitchinterval(_LONGEST_TURN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems name a number here that they do not grant.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
