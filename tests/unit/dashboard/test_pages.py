"""What pages say where there is nothing to show, and of what is wrong with the service itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hookfuse.core.upkeep import Concern
from hookfuse.dashboard.pages.overview import REMEDIES, troubles
from hookfuse.dashboard.statics import Statics
from hookfuse.dashboard.views import Views
from hookfuse.dashboard.visits import PLACES, Owner

SEEN: dict[str, Any] = {
    "waiting": 0,
    "held": 0,
    "inFlight": 0,
    "lagSeconds": 0.0,
    "ready": True,
    "version": "1.0",
    "worker": {"name": "web:1:abc", "inHand": 0, "slots": 0},
    "database": "ok",
    "migrations": "ok",
    "breakers": "shared",
    "egress": "ok",
    "alerts": {},
}
FRAME = {
    "owner": Owner("key_1", "first", "admin", None),
    "place": "workers",
    "places": PLACES,
    "theme": "auto",
    "exposed": False,
    "version": "1.0",
}


def test_nobody_has_reported() -> None:
    """Before the first report the page of the workers says that it is still to come."""
    values: dict[str, Any] = {"duties": [], "says": {}, "processes": [], "number": Counter()}
    page = Views(Statics()).render("workers.html", seen=SEEN, **FRAME, **values)
    assert "None has reported yet" in page
    assert "Nobody yet" in page


def test_troubles() -> None:
    """Each alert is a sentence with what to do; why it is not ready comes before; a service that is well has none."""
    assert troubles(SEEN) == []
    alerts = {concern.value: "it is so" for concern in Concern}
    found = troubles({**SEEN, "database": "It cannot be reached.", "alerts": alerts})
    assert found == ["Database: It cannot be reached.", *(f"It is so. {REMEDIES[each]}" for each in Concern)]
    assert REMEDIES.keys() == set(Concern), "none is left without"
