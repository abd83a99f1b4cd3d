"""Follows a task that the service has begun, with a bar."""

from __future__ import annotations

import time
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from hookfuse.cli.remote import Remote, path
from hookfuse.cli.speaking import progress

_LOOK_EVERY = 0.2


def follow_task(remote: Remote, app: str, task: dict[str, Any], count: int) -> dict[str, Any]:
    """Show how far a task has come until it ends; Ctrl-C cancels it."""
    columns = (TextColumn("Sending again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress(*columns) as shown:
        bar = shown.add_task("", total=count)
        try:
            while task["status"] == "running":
                time.sleep(_LOOK_EVERY)
                task = remote.get(path("app", app, "task", task["id"]))
                shown.update(bar, completed=task["seen"])
        except KeyboardInterrupt:
            task = remote.post(path("app", app, "task", task["id"], "cancel"))
    return task
