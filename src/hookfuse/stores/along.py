"""An entry of the audit log that is committed together with what it tells of.

Whoever is about to change something for someone says so with `along`. The first change that the same task makes then
takes the entry into its transaction: after a crash both are there, or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hookfuse.core.record import AuditEntry


class Along:
    """An entry that waits for its change. It is made when it is needed: by then it is known what the change touches."""

    def __init__(self, entry: Callable[[], AuditEntry]) -> None:
        self.entry = entry
        self.written = False


_waiting: ContextVar[Along | None] = ContextVar("hookfuse_along", default=None)


@contextmanager
def along(entry: Callable[[], AuditEntry]) -> Iterator[Along]:
    found = Along(entry)
    token = _waiting.set(found)
    try:
        yield found
    finally:
        _waiting.reset(token)


def waiting() -> Along | None:
    """The entry that the next change of this task has to take along."""
    found = _waiting.get()
    return None if found is None or found.written else found
