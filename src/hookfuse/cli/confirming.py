"""Asks before something is deleted, if there is someone to ask."""

from __future__ import annotations

import sys

import typer

from hookfuse.cli.remote import Remote, path
from hookfuse.cli.speaking import inert
from hookfuse.core.delivery import DeliveryState

_COUNTED = 100
"""One page: whoever deletes wants to know whether anything waits, hardly how many thousands."""


def ask_before_deleting(remote: Remote, app: str, endpoint: str = "") -> None:
    """Ends the command unless a person says yes. A script is not asked: it would wait for ever, or fail."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    whose = {"endpoint_id": endpoint} if endpoint else {}
    found = remote.get(path("app", app, "delivery"), state=[DeliveryState.PENDING.value], limit=_COUNTED, **whose)
    number, more = len(found["data"]), "" if found["done"] else " or more"
    asking = f"Delete {inert(endpoint or app)}"
    asking += f", and cancel what waits there ({number}{more})?" if number else "? Nothing waits there."
    if not typer.confirm(asking, err=True):
        raise typer.Exit(1)
