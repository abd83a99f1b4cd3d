"""Following a task that the service works on."""

from __future__ import annotations

from typing import Any

import pytest

from hookfuse.cli import following
from hookfuse.cli.following import follow_task

RUNNING = {"id": "qtask_1", "status": "running", "seen": 0}


class Service:
    """Answers for the service, and remembers what it was asked to do."""

    def __init__(self, *looks: dict[str, Any] | KeyboardInterrupt) -> None:
        self._looks = iter(looks)
        self.ordered: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        look = next(self._looks)
        if isinstance(look, KeyboardInterrupt):
            raise look
        return look

    def post(self, path: str) -> dict[str, Any]:
        self.ordered.append(path)
        return {**RUNNING, "status": "cancelled"}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LOOK_EVERY", 0)


def test_until_it_ends() -> None:
    """A task is followed until it no longer runs, and nothing is asked of it."""
    service = Service({**RUNNING, "seen": 5}, {**RUNNING, "status": "finished", "seen": 10})
    assert follow_task(service, "acme", RUNNING, 10)["status"] == "finished"  # type: ignore[arg-type]
    assert service.ordered == []


def test_ctrl_c_cancels() -> None:
    """Ctrl-C cancels the task in the service, once, and what became of it is shown."""
    service = Service({**RUNNING, "seen": 5}, KeyboardInterrupt())
    assert follow_task(service, "acme", RUNNING, 10)["status"] == "cancelled"  # type: ignore[arg-type]
    assert service.ordered == ["/api/v1/app/acme/task/qtask_1/cancel"]
