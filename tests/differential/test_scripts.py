"""The Redis scripts are the machine in Lua: random histories through both must leave no difference.

A failure names its seed and the shortest history that still differs. HOOKFUSE_DIFFERENTIAL_SEED replays one seed,
HOOKFUSE_DIFFERENTIAL_HISTORIES says how many to try.
"""

from __future__ import annotations

from functools import partial

import redis

from tests.differential.draw import draw_history
from tests.differential.replay import Scripts


def test_single_steps(client: redis.Redis) -> None:
    """Every verb decides, writes and announces what the machine says, one call at a time."""
    difference = Scripts(client).first_difference(draw_history)
    assert difference is None, difference


def test_batches(client: redis.Redis) -> None:
    """A batch does what its actions would do singly, in their order and at one instant."""
    difference = Scripts(client).first_difference(partial(draw_history, batched=True))
    assert difference is None, difference
