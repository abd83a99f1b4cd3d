"""An endpoint that stays broken, over the API: it is disabled, tried, offered, enabled, and gets what it missed."""

from __future__ import annotations

from typing import Any

import pytest

from hookfuse.core.standing import Standing
from hookfuse.core.state import Override
from hookfuse.testing.receivers import Failing, Gone, Ok, Receivers
from tests.service.conftest import Service

pytestmark = pytest.mark.anyio

SINCE = "2020-01-01T00:00:00Z"


async def _disabled(service: Service, at: str) -> dict[str, Any]:
    async def disabled() -> bool:
        return bool((await service.ok("GET", at))["disabled"])

    await service.until(disabled)
    found: dict[str, Any] = await service.ok("GET", at)
    return found


async def test_from_410_to_recovery(service: Service, receivers: Receivers) -> None:
    """A 410 disables with time and reason; a test that succeeds offers enabling; enabled, it gets what was held."""
    app = await service.app()
    endpoint = await service.endpoint(app, receivers.add("shop", Gone()))
    at = f"/app/{app}/endpoint/{endpoint}"
    await service.send(app)
    shown = await _disabled(service, at)
    assert (shown["disabledReason"], shown["reenableOffered"]) == ("gone: the endpoint answered 410", None)
    assert shown["disabledAt"] is not None
    assert (await service.ok("GET", f"/app/{app}/breaker/{endpoint}"))["state"] == "disabled"
    for _ in range(3):
        await service.send(app)
    assert await service.ok("GET", f"{at}/recover", params={"since": SINCE}) == {"failed": 0, "held": 4, "total": 4}
    tried = await service.ok("POST", f"{at}/test")
    assert (tried["ok"], tried["status"], tried["reenableOffered"]) == (False, 410, None)
    receivers.change("shop", Ok())
    tried = await service.ok("POST", f"{at}/test")
    assert (tried["ok"], tried["status"], tried["reenableOffered"]) == (True, 200, "test_succeeded")
    shown = await service.ok("GET", at)
    assert (shown["disabled"], shown["reenableOffered"]) == (True, "test_succeeded")
    before = receivers["shop"].counts.requests
    enabled = await service.ok("PATCH", at, {"disabled": False})
    assert (enabled["disabled"], enabled["reenableOffered"]) == (False, None)
    await service.ok("POST", f"{at}/recover", {"since": SINCE})
    await receivers["shop"].arrived(before + 4)

    async def closed() -> bool:
        seen = await service.ok("GET", f"/app/{app}/breaker/{endpoint}")
        return (seen["state"], seen["trips"]) == ("closed", 0)

    await service.until(closed)


async def test_a_new_url_is_an_offer(idle: Service) -> None:
    """What was disabled by hand stays so under a new URL, which is a reason to enable it; enabling takes it away."""
    app = await idle.app()
    endpoint = await idle.endpoint(app, "http://127.0.0.1:9/old")
    at = f"/app/{app}/endpoint/{endpoint}"
    await idle.ok("PATCH", at, {"disabled": True})
    moved = await idle.ok("PATCH", at, {"url": "http://127.0.0.1:9/new"})
    assert (moved["disabled"], moved["reenableOffered"]) == (True, "url_changed")
    assert (await idle.ok("PATCH", at, {"disabled": False}))["reenableOffered"] is None
    assert (await idle.ok("PATCH", at, {"url": "http://127.0.0.1:9/newer"}))["reenableOffered"] is None


async def test_recover_sends_what_failed_and_what_was_held(service: Service, receivers: Receivers) -> None:
    """What is counted first is what is sent again: failed deliveries and those that wait behind an open breaker."""
    app = await service.app()
    await service.ok("PUT", f"/app/{app}/policy", {"policy": {"trip": [{"rule": "streak", "n": 3}], "cool_off": 3600}})
    endpoint = await service.endpoint(app, receivers.add("shop", Failing()))
    at = f"/app/{app}/endpoint/{endpoint}"
    for _ in range(4):
        await service.send(app)

    async def is_open() -> bool:
        return bool((await service.ok("GET", f"/app/{app}/breaker/{endpoint}"))["state"] == "open")

    await service.until(is_open)
    counted = await service.ok("GET", f"{at}/recover", params={"since": SINCE})
    assert counted["failed"] + counted["held"] == counted["total"] == 4
    receivers.change("shop", Ok())
    task = await service.ok("POST", f"{at}/recover", {"since": SINCE})
    assert task["data"]["total"] == 4
    await service.ok("POST", f"/app/{app}/breaker/{endpoint}/reset")

    async def all_sent() -> bool:
        return bool((await service.ok("GET", f"{at}/stats"))["success"] == 4)

    await service.until(all_sent)


async def test_orders_are_kept(idle: Service) -> None:
    """What an operator says of a breaker is in the database with the answer, and gone once it is taken back."""
    app = await idle.app()
    endpoint = await idle.endpoint(app, "http://127.0.0.1:9/")
    at, key = f"/app/{app}/breaker/{endpoint}", f"{app}/{endpoint}"
    store = idle.station.store
    forced = await idle.ok("POST", f"{at}/force", {"to": "open", "reason": "maintenance"})
    assert await store.standings() == [
        Standing(key, Override.OPEN, None, False, "maintenance", forced["generation"]),
    ]
    await idle.ok("POST", f"{at}/unforce")
    assert await store.standings() == []
    await idle.ok("POST", f"{at}/disable", {"reason": "fraud"})
    (kept,) = await store.standings()
    assert (kept.disabled, kept.reason) == (True, "fraud")
    await idle.ok("POST", f"{at}/enable")
    assert await store.standings() == []


@pytest.mark.parametrize(
    ("body", "field", "bound"),
    [
        ({"profile": "sampled", "settings": {"failure_percent": 101}}, "failure_percent", "100"),
        ({"profile": "sampled", "settings": {"success_percent": 0}}, "success_percent", "1"),
        ({"profile": "sampled", "settings": {"sample_every": 0}}, "sample_every", "0.001"),
        ({"profile": "sampled", "settings": {"cool_off": 0}}, "cool_off", "0.001"),
        ({"profile": "sampled", "settings": {"min_calls": 0}}, "min_calls", "1"),
        ({"profile": "sampled", "settings": {"disable_after": 0}}, "disable_after", "1"),
        ({"profile": "sampled", "settings": {"window": 10}}, "window", "30"),
        ({"profile": "latency", "settings": {"mean": -1}}, "mean", "0.001"),
        ({"profile": "latency", "settings": {"errors": 0}}, "errors", "1"),
        ({"policy": {"window": 10, "evaluate": "sampled"}}, "window", "30"),
        ({"policy": {"close_rate": 1.5}}, "close_rate", "1"),
    ],
)
async def test_bad_thresholds(idle: Service, body: dict[str, Any], field: str, bound: str) -> None:
    """A threshold out of its bounds is refused with its name and the bound, and the old policy stays in force."""
    app = await idle.app()
    endpoint = await idle.endpoint(app, "http://127.0.0.1:9/")
    good = {"profile": "sampled", "settings": {"failure_percent": 42}}
    for at in (f"/app/{app}/policy", f"/app/{app}/endpoint/{endpoint}/policy"):
        await idle.ok("PUT", at, good)
        before = await idle.ok("GET", at)
        refused = await idle.ask("PUT", at, body)
        assert refused.status_code == 422
        (said,) = refused.json()["detail"]
        assert said["loc"][-1] == field
        assert bound in said["msg"]
        assert await idle.ok("GET", at) == before
