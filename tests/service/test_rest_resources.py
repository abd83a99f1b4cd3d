"""What this API has beside what SDKs know: breakers, policies, pauses, deliveries, tasks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookfuse import profiles
from hookfuse.core.delivery import DeliveryState, Settlement
from hookfuse.testing.receivers import Failing, Gone, Ok, Receivers
from tests.service.conftest import Service

pytestmark = pytest.mark.anyio


async def _deliveries(service: Service, app: str, state: str) -> list[Any]:
    found: list[Any] = (await service.ok("GET", f"/app/{app}/delivery", params={"state": state}))["data"]
    return found


async def _tripped(service: Service, receivers: Receivers, app: str) -> str:
    """An endpoint whose breaker has opened, with four deliveries that wait."""
    await service.ok("PUT", f"/app/{app}/policy", {"policy": {"trip": [{"rule": "streak", "n": 1}], "cool_off": 60}})
    endpoint = await service.endpoint(app, receivers.add("bad", Failing()))
    for _ in range(4):
        await service.send(app)

    async def is_open() -> bool:
        found = await service.ok("GET", f"/app/{app}/breaker/{endpoint}")
        return (found["state"], found["held"]) == ("open", 4)

    await service.until(is_open)
    return endpoint


async def test_what_waits_says_when_it_goes(service: Service, receivers: Receivers) -> None:
    """A delivery behind an open breaker goes at its probe, one behind a pause when someone ends it."""
    app = await service.app()
    endpoint = await _tripped(service, receivers, app)
    probe_at = (await service.ok("GET", f"/app/{app}/breaker/{endpoint}"))["probeAt"]

    async def all_say(next_attempt: str | None, reason: str) -> Any:
        # One of them may be with the worker, which has not asked the breaker yet.
        found = await _deliveries(service, app, "pending")
        return [(each["nextAttempt"], each["reason"]) for each in found] == [(next_attempt, reason)] * 4 and found

    found = await service.until(lambda: all_say(probe_at, "breaker_open"))
    (there,) = (await service.ok("GET", f"/app/{app}/msg/{found[0]['msgId']}/endpoint"))["data"]
    assert there["nextAttempt"] == probe_at
    await service.ok("POST", f"/app/{app}/endpoint/{endpoint}/pause")
    await service.until(lambda: all_say(None, "endpoint_paused"))


async def test_held_is_what_a_breaker_holds(service: Service, receivers: Receivers) -> None:
    """What waits for a retry behind a closed breaker is not held, here as in the overview; behind an open one it is."""
    app = await service.app()
    await service.ok("PUT", f"/app/{app}/retry-schedule", {"delays": [600]})
    endpoint = await service.endpoint(app, receivers.add("bad", Failing()))
    message = await service.send(app)

    async def has_failed() -> bool:
        found = await service.ok("GET", f"/app/{app}/delivery/{message}/{endpoint}")
        return bool(found["attempts"] == 1 and found["state"] == "pending")

    await service.until(has_failed)
    shown = await service.ok("GET", f"/app/{app}/breaker/{endpoint}")
    assert (shown["state"], shown["held"]) == ("closed", 0)
    assert (await service.ok("GET", "/overview"))["held"] == 0
    await service.ok("PATCH", f"/app/{app}/endpoint/{endpoint}", {"breakerKey": "shared"})
    await service.ok("POST", f"/app/{app}/breaker/{endpoint}/force", {"to": "open"})
    (listed,) = (await service.ok("GET", f"/app/{app}/breaker"))["data"]
    assert (listed["key"], listed["held"]) == (f"{app}/shared", 1)


@pytest.mark.parametrize("deleted", ["endpoint", "application"])
@pytest.mark.parametrize("forced", [False, True])
async def test_what_is_deleted_takes_its_breaker_along(
    service: Service, receivers: Receivers, deleted: str, forced: bool
) -> None:
    """The breaker of a deleted endpoint or application is in no list and no count, and nobody hears that it closed."""
    app = await service.app()
    endpoint = await _tripped(service, receivers, app)
    if forced:
        await service.ok("POST", f"/app/{app}/breaker/{endpoint}/force", {"to": "open", "reason": "maintenance"})
    assert (await service.ok("GET", "/breaker"))["data"]
    # What is on its way could trip it again, and would be found by whoever leads.
    service.station.worker.stop()

    async def has_nothing_in_hand() -> bool:
        return service.station.worker.in_hand == 0

    await service.until(has_nothing_in_hand)
    await service.ok("DELETE", f"/app/{app}/endpoint/{endpoint}" if deleted == "endpoint" else f"/app/{app}")
    assert (await service.ok("GET", "/breaker"))["data"] == []
    assert (await service.ok("GET", "/overview"))["states"].get("open", 0) == 0
    assert await service.station.store.standings() == []


async def test_a_breaker_from_trip_to_probe(service: Service, receivers: Receivers) -> None:
    """An open breaker is listed with its reason and what it holds; a probe by hand heals it; its history says so."""
    app, other = await service.app(), await service.app("Other")
    endpoint = await _tripped(service, receivers, app)
    at = f"/app/{app}/breaker/{endpoint}"
    shown = await service.ok("GET", at)
    assert (shown["reason"], shown["streak"], shown["key"]) == ("streak", 1, f"{app}/{endpoint}")
    assert shown["probeAt"] > shown["openedAt"]
    assert shown["failures"][0]["message"] == "status 500"
    for path in (f"/app/{app}/breaker", "/breaker"):

        async def is_listed(path: str = path) -> bool:
            # One of the four may be with the worker, which has not asked the breaker yet.
            (listed,) = (await service.ok("GET", path, params={"state": "open"}))["data"]
            return (listed["key"], listed["held"]) == (shown["key"], 4)

        await service.until(is_listed)
        assert (await service.ok("GET", path, params={"state": "disabled,half_open"}))["data"] == []
    assert (await service.ok("GET", f"/app/{other}/breaker"))["data"] == []
    await service.ok("POST", f"{at}/probe", {"reason": "too early"})

    async def failed_again() -> bool:
        found = await service.ok("GET", at)
        return (found["state"], found["streak"], found["trips"]) == ("open", 2, 2)

    await service.until(failed_again)
    receivers.change("bad", Ok())
    await service.ok("POST", f"{at}/probe", {"reason": "mended"})

    async def all_sent() -> bool:
        return len(await _deliveries(service, app, "sent")) == 4

    await service.until(all_sent)
    assert (await service.ok("GET", at))["state"] == "closed"
    history = await service.ok("GET", f"{at}/history")
    states = [(each["before"], each["after"]) for each in history["transitions"]]
    assert states[0] == ("half_open", "closed")
    assert states[-3:] == [("half_open", "open"), ("open", "half_open"), ("closed", "open")]
    assert "mended" in {each["reason"] for each in history["transitions"]}


async def test_orders(idle: Service) -> None:
    """A breaker is forced open and closed, let go, disabled, enabled and reset; each order says who gave it."""
    app = await idle.app()
    endpoint = await idle.endpoint(app, uid="main")
    at = f"/app/{app}/breaker/main"
    forced = await idle.ok("POST", f"{at}/force", {"to": "open", "reason": "works", "until": "2099-01-01T00:00:00Z"})
    assert (forced["override"], forced["reason"], forced["overrideUntil"]) == ("open", "works", "2099-01-01T00:00:00Z")
    assert (await idle.ok("POST", f"{at}/force", {"to": "closed"}))["override"] == "closed"
    assert (await idle.ok("POST", f"{at}/unforce"))["override"] == "none"
    assert (await idle.ok("POST", f"{at}/disable", {"reason": "gone"}))["state"] == "disabled"
    assert (await idle.ok("POST", f"{at}/enable", {}))["state"] == "half_open"
    assert (await idle.ok("POST", f"{at}/reset"))["state"] == "closed"
    history = (await idle.ok("GET", f"{at}/history"))["transitions"]
    (admin,) = (await idle.ok("GET", "/key"))["data"]
    assert {each["actor"] for each in history} == {admin["id"]}
    assert (await idle.ok("GET", at))["key"] == f"{app}/{endpoint}"
    assert (await idle.ask("POST", f"{at}/force", {"to": "ajar"})).status_code == 422


async def test_a_policy_holds_at_once(service: Service, receivers: Receivers) -> None:
    """A policy of an endpoint goes before that of its application, which goes before the default; workers follow."""
    app = await service.app()
    endpoint = await service.endpoint(app, receivers.add("bad", Failing()))
    levels = {
        "default": "/policy",
        "application": f"/app/{app}/policy",
        "endpoint": f"/app/{app}/endpoint/{endpoint}/policy",
    }
    before = await service.ok("GET", levels["endpoint"])
    assert (before["own"], before["level"]) == (None, "default")
    assert before["effective"]["trip"] == [{"rule": "streak", "n": 3}]
    for number, (level, path) in enumerate(levels.items()):
        policy = {"trip": [{"rule": "streak", "n": 100 + number}]}
        await service.ok("PUT", path, {"policy": policy})
        found = await service.ok("GET", levels["endpoint"])
        assert (found["level"], found["effective"]["trip"]) == (level, policy["trip"])
    for _ in range(5):
        await service.send(app)

    async def tried() -> bool:
        return len(await _deliveries(service, app, "failed")) == 5

    await service.until(tried)
    assert (await service.ok("GET", f"/app/{app}/breaker/{endpoint}"))["state"] == "closed"
    for path in (levels["endpoint"], levels["application"]):
        await service.ok("DELETE", path)
    await service.ok("PUT", levels["default"], {"profile": "stoplight", "settings": {"threshold": 1}})
    assert (await service.ok("GET", levels["endpoint"]))["effective"]["trip"][0]["n"] == 1
    await service.ok("POST", f"/app/{app}/breaker/{endpoint}/reset")
    await service.send(app)

    async def opened() -> bool:
        return bool((await service.ok("GET", f"/app/{app}/breaker/{endpoint}"))["state"] == "open")

    await service.until(opened)
    await service.ok("DELETE", levels["default"])
    assert (await service.ok("GET", levels["endpoint"]))["effective"]["trip"] == [{"rule": "streak", "n": 3}]


async def test_schedules(service: Service, receivers: Receivers) -> None:
    """An endpoint's schedule goes before its application's, and its response policy ends a delivery at once."""
    app = await service.app()
    at = f"/app/{app}/endpoint/{await service.endpoint(app, receivers.add('bad', Failing(status=400)))}"
    assert (await service.ok("GET", f"{at}/retry-schedule"))["effective"]["delays"] == [0.05, 0.05]
    for path, delays in ((f"/app/{app}", [60, 600]), (at, [120])):
        await service.ok("PUT", f"{path}/retry-schedule", {"delays": delays})
        assert (await service.ok("GET", f"{at}/retry-schedule"))["effective"]["delays"] == delays
    await service.ok("PUT", f"{at}/response-policy", {"final": ["4xx"]})
    await service.send(app)

    async def failed() -> list[Any]:
        return await _deliveries(service, app, "failed")

    (delivery,) = await service.until(failed)
    assert (delivery["attempts"], delivery["reason"]) == (1, "final_status")
    for path in (f"{at}/response-policy", f"{at}/retry-schedule", f"/app/{app}/retry-schedule"):
        await service.ok("DELETE", path)
        assert (await service.ok("GET", path))["own"] is None
    for path, body, field in (
        (f"{at}/retry-schedule", {"delays": [-1]}, "delays[0]"),
        (f"{at}/retry-schedule", {"delays": [1], "jitter": 2}, "jitter"),
        (f"{at}/response-policy", {"final": ["200"]}, "final[0]"),
        (f"{at}/response-policy", {"retries": 3}, "retries"),
    ):
        response = await service.ask("PUT", path, body)
        assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["body", field])


async def test_profiles(idle: Service) -> None:
    """Every profile of the library is listed with its settings and can be set by name."""
    listed = {each["name"]: each for each in (await idle.ok("GET", "/profile"))["data"]}
    assert list(listed) == profiles.__all__
    for name, profile in listed.items():
        set_ = await idle.ok("PUT", "/policy", {"profile": name, "settings": profile["settings"]})
        made = getattr(profiles, name)().to_dict()
        assert set_["effective"]["trip"] == made["trip"]


async def test_pausing(service: Service, receivers: Receivers) -> None:
    """A paused endpoint or application takes messages and sends none; resuming sends what waited."""
    app = await service.app()
    endpoint = await service.endpoint(app, receivers.add("shop"))
    for path in (f"/app/{app}", f"/app/{app}/endpoint/{endpoint}"):
        await service.ok("POST", f"{path}/pause")
        assert (await service.ok("GET", f"/app/{app}/endpoint/{endpoint}"))["paused"]
        before = receivers["shop"].counts.requests
        await service.send(app)
        assert len(await _deliveries(service, app, "pending")) == 1
        await asyncio.sleep(0.1)
        assert receivers["shop"].counts.requests == before
        await service.ok("POST", f"{path}/resume")
        await receivers["shop"].arrived(before + 1)
    assert (await service.ok("GET", f"/app/{app}"))["pausedAt"] is None


async def test_an_endpoint_that_is_gone_comes_back_at_a_new_url(service: Service, receivers: Receivers) -> None:
    """A 410 disables the endpoint and keeps its deliveries; with a new URL it is enabled by whoever asks for that."""
    app = await service.app()
    at = f"/app/{app}/endpoint/{await service.endpoint(app, receivers.add('gone', Gone()))}"
    await service.send(app)

    async def disabled() -> bool:
        return bool((await service.ok("GET", at))["disabled"])

    await service.until(disabled)
    assert "410" in (await service.ok("GET", at))["disabledReason"]
    moved = await service.ok("PATCH", at, {"url": receivers.add("new")})
    assert (moved["disabled"], moved["reenableOffered"]) == (True, "url_changed")
    moved = await service.ok("PATCH", at, {"url": receivers.add("newer"), "disabled": False})
    assert (moved["disabled"], moved["disabledReason"], moved["reenableOffered"]) == (False, "", None)
    await receivers["newer"].arrived(1)
    assert receivers["new"].counts.requests == 0


async def test_bulk_retry(service: Service, receivers: Receivers) -> None:
    """Many failed deliveries are counted first, then retried by a task that tells how far it has come."""
    app = await service.app()
    await service.ok("PUT", f"/app/{app}/policy", {"policy": {"trip": [{"rule": "streak", "n": 1000}]}})
    endpoint = await service.endpoint(app, receivers.add("shop", Failing()))
    for number in range(12):
        await service.send(app, eventType="a" if number % 2 else "b")

    async def failed() -> bool:
        return len(await _deliveries(service, app, "failed")) == 12

    await service.until(failed)
    receivers.change("shop", Ok())
    at = f"/app/{app}/delivery/retry"
    assert await service.ok("POST", at, {"dryRun": True, "eventTypes": ["a"]}) == {"count": 6, "task": None}
    assert (await service.ok("POST", at, {"dryRun": True, "until": "2020-01-01T00:00:00Z"}))["count"] == 0
    assert len(await _deliveries(service, app, "failed")) == 12
    started = await service.ok("POST", at, {"eventTypes": ["a"], "endpointId": endpoint})
    assert (started["count"], started["task"]["total"]) == (6, 6)

    async def finished() -> Any:
        task = await service.ok("GET", f"/app/{app}/task/{started['task']['id']}")
        return task if task["status"] == "finished" else None

    task = await service.until(finished)
    assert (task["seen"], task["changed"]) == (6, 6)

    async def sent() -> bool:
        return len(await _deliveries(service, app, "sent")) == 6

    await service.until(sent)
    assert (await service.ask("POST", f"/app/{app}/task/{task['id']}/cancel")).status_code == 409
    (listed,) = (await service.ok("GET", f"/app/{app}/task"))["data"]
    assert listed == task


async def test_one_delivery(idle: Service) -> None:
    """One delivery is shown, cancelled and retried by hand; what ended cannot be cancelled."""
    app = await idle.app()
    endpoint = await idle.endpoint(app)
    message = await idle.send(app, eventId="evt-1")
    at = f"/app/{app}/delivery/evt-1/{endpoint}"
    assert (await idle.ok("GET", at))["state"] == "pending"
    cancelled = await idle.ok("POST", f"{at}/cancel")
    assert (cancelled["state"], cancelled["msgId"]) == ("cancelled", message)
    assert (await idle.ask("POST", f"{at}/cancel")).status_code == 409
    retried = await idle.ok("POST", f"{at}/retry")
    assert (retried["state"], retried["reason"]) == ("pending", "retry_asked")
    (claim,) = (await idle.store.claim(1, lease_ms=60_000, failing_limit=1)).claims
    assert (await idle.ask("POST", f"{at}/retry")).status_code == 409
    assert (await idle.ask("POST", f"/app/{app}/msg/{message}/endpoint/{endpoint}/resend")).status_code == 409
    await idle.store.settle([Settlement(claim, DeliveryState.FAILED, "failed")])
    await idle.ok("DELETE", f"/app/{app}/msg/{message}/content")
    expunged = await idle.ask("POST", f"/app/{app}/msg/{message}/endpoint/{endpoint}/resend")
    assert (expunged.status_code, expunged.json()["code"]) == (409, "expunged")


async def test_bulk_cancel(idle: Service) -> None:
    """Waiting deliveries are cancelled by filter, after being counted."""
    app = await idle.app()
    await idle.endpoint(app)
    for number in range(4):
        await idle.send(app, eventType="a" if number % 2 else "b")
    at = f"/app/{app}/delivery/cancel"
    assert (await idle.ok("POST", at, {"dryRun": True}))["count"] == 4
    await idle.ok("POST", at, {"eventTypes": ["a"]})

    async def cancelled() -> bool:
        return len(await _deliveries(idle, app, "cancelled")) == 2

    await idle.until(cancelled)
    assert len(await _deliveries(idle, app, "pending")) == 2
