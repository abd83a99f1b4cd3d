"""`hookfuse` itself, with a point at which it ends as if killed, or with little room for messages that wait.

HOOKFUSE_TEST_STOP=after_commit python -m tests.faults.delivery.program api
HOOKFUSE_TEST_WAITING=20 python -m tests.faults.delivery.program serve
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from hookfuse.api.ingest import Answer
from hookfuse.app import station
from hookfuse.app.protocol import MessageProtocol
from hookfuse.cli import main
from hookfuse.delivery.accept import Acceptor
from tests.faults.delivery.points import arm, reach


def _wrap_replies() -> None:
    written = MessageProtocol._written

    def writing(self: MessageProtocol, answer: Answer, keep_alive: bool) -> bytes:
        reach("before_reply")
        return written(self, answer, keep_alive)

    MessageProtocol._written = writing  # type: ignore[method-assign]


def _have_room_for(waiting: int) -> None:
    # The name by which the station makes it; to the type checker it is no export.
    makes: Any = station
    makes.Acceptor = partial(Acceptor, most_waiting=waiting)


if __name__ == "__main__":
    arm(os.environ.get("HOOKFUSE_TEST_STOP", ""))
    _wrap_replies()
    if waiting := os.environ.get("HOOKFUSE_TEST_WAITING"):
        _have_room_for(int(waiting))
    main()
