"""How often a process that delivers looks for garbage.

Every request in flight is a dozen objects that live for some milliseconds. By default the collector looks after each
700 new ones, finds most of them alive, and promotes them to where looking is expensive: a sixth of a worker's time.
Nothing on the way of a delivery makes cycles, so it may look seldom: at more than all requests in flight are made of.
"""

from __future__ import annotations

import gc

_NEW_OBJECTS = 50_000


def collect_seldom() -> None:
    """For the rest of this process; what it has loaded so far is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
