"""How Python is set up in a process that delivers.

Every request in flight is a dozen objects that live for some milliseconds. By default the collector looks after each
700 new ones, finds most of them alive, and promotes them to where looking is expensive: a sixth of a worker's time.
Nothing on the way of a delivery makes cycles, so it may look seldom: at more than all requests in flight are made of.

The thread that writes to SQLite wants the interpreter for moments, between two statements. By default a busy event loop
keeps it waiting for five milliseconds each time.
"""

from __future__ import annotations

import gc
import sys

_NEW_OBJECTS = 50_000
_LONGEST_TURN = 0.0005


def prepare_interpreter() -> None:
    """For the rest of this process; what it has loaded so far is never looked at again for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    sys.setswitchinterval(_LONGEST_TURN)
