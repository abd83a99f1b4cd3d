"""The processes of a running service's fleet, over its API."""

from __future__ import annotations

from typing import Any

from hookfuse.cli.options import Json
from hookfuse.cli.remote import Remote, path
from hookfuse.cli.rows import print_rows
from hookfuse.cli.speaking import errors_in_one_sentence

_COLUMNS = {
    "HOST": "host",
    "PID": "pid",
    "STATE": "state",
    "RUNS": "parts",
    "IN FLIGHT": "inFlight",
    "BREAKERS": "breakers",
    "EGRESS": "egress",
    "LEADS": "leads",
    "VERSION": "version",
    "STARTED": "startedAt",
    "HEARD": "heardAt",
}


def workers(json: Json = False) -> None:
    """Every process of the fleet, workers and APIs: what it has in flight, what it leads, and who fell silent."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        found = remote.get(path("processes"))["data"]
    print_rows(found if json else map(_row, found), _COLUMNS, as_json=json, none="No process has reported yet.")


def _row(each: dict[str, Any]) -> dict[str, Any]:
    """With what people read in one cell."""
    in_flight = f"{each['inHand']} of {each['slots']}" if each["slots"] else None
    return {**each, "inFlight": in_flight, "egress": "suspect" if each["suspect"] else "ok"}
