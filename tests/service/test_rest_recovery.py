"""An endpoint that stays broken, over the API: it is disabled, tried, offered, enabled, and gets what it missed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hookfuse import Outcome, State
from hookfuse.core.addresses import Networks
from hookfuse.core.endpoint import Stop
from hookfuse.core.standing import Standing
from hookfuse.core.state import Override
from hookfuse.testing.receivers import Failing, Gone, Ok, Receivers
from tests.servers.redis import Server
from tests.service.conftest import Service, running

pytestmark = pytest.mark.anyio

DISABLES_AT_ONCE = {"trip": [{"rule": "streak", "n": 1}], "cool_off": 60.0, "disable_after": 1}
SINCE = "2020-01-01T00:00:00Z"


@pytest.fixture
def redis_alone() -> Iterator[Server]:
    """A Redis that may be taken away."""
    server = Server("redis")
    server.start()
    yield server
    server.remove()


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


async def _disable_itself(service: Service, key: str) -> None:
    """What a worker does with an endpoint whose breaker trips for the last time."""
    breakers = service.station.breakers
    made = await breakers.record(await breakers.admit(key), Outcome.FAILURE)
    assert made is not None
    assert made.after is State.DISABLED
    await service.store.stop_endpoint(key.partition("/")[2], Stop.DISABLED, "breaker: streak", because=made)


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_new_url_is_an_offer(idle: Service, by_hand: bool) -> None:
    """Whoever disabled it, a new URL enables nothing: it is a reason to enable it, which enabling takes away."""
    app = await idle.app()
    await idle.ok("PUT", f"/app/{app}/policy", {"policy": DISABLES_AT_ONCE})
    endpoint = await idle.endpoint(app, "http://127.0.0.1:9/old")
    at, key = f"/app/{app}/endpoint/{endpoint}", f"{app}/{endpoint}"
    await idle.ok("GET", f"/app/{app}/breaker/{endpoint}")
    if by_hand:
        await idle.ok("PATCH", at, {"disabled": True})
    else:
        await _disable_itself(idle, key)
    before = await idle.ok("GET", f"/app/{app}/breaker/{endpoint}")
    moved = await idle.ok("PATCH", at, {"url": "http://127.0.0.1:9/new"})
    assert (moved["disabled"], moved["reenableOffered"]) == (True, "url_changed")
    assert await idle.ok("GET", f"/app/{app}/breaker/{endpoint}") == before
    assert (await idle.ok("PATCH", at, {"disabled": False}))["reenableOffered"] is None
    after = await idle.ok("GET", f"/app/{app}/breaker/{endpoint}")
    assert (after["state"], after["trips"]) == ("closed" if by_hand else "half_open", 0)
    assert (await idle.ok("PATCH", at, {"url": "http://127.0.0.1:9/newer"}))["reenableOffered"] is None


async def test_a_new_url_overrules_nobody(idle: Service) -> None:
    """What an operator forced or disabled stays so under a new URL."""
    app = await idle.app()
    endpoint = await idle.endpoint(app, "http://127.0.0.1:9/old")
    at, breaker = f"/app/{app}/endpoint/{endpoint}", f"/app/{app}/breaker/{endpoint}"
    await idle.ok("POST", f"{breaker}/force", {"to": "open", "reason": "maintenance"})
    await idle.ok("PATCH", at, {"url": "http://127.0.0.1:9/new"})
    assert (await idle.ok("GET", breaker))["override"] == "open"
    await idle.ok("POST", f"{breaker}/unforce")
    await idle.ok("POST", f"{breaker}/disable", {"reason": "fraud"})
    await idle.ok("PATCH", at, {"url": "http://127.0.0.1:9/newer", "disabled": False})
    assert (await idle.ok("GET", breaker))["state"] == "disabled"


async def test_a_trial_is_guarded(idle: Service, receivers: Receivers) -> None:
    """A test message goes to no address that is forbidden by now, and the answer says that it was blocked."""
    app = await idle.app()
    endpoint = await idle.endpoint(app, receivers.add("shop"))
    idle.station.sender.networks = Networks()
    tried = await idle.ok("POST", f"/app/{app}/endpoint/{endpoint}/test")
    assert (tried["ok"], tried["status"], tried["trouble"]) == (False, None, "destination_blocked")
    assert receivers["shop"].counts.requests == 0


async def test_disabled_for_a_time(idle: Service, receivers: Receivers) -> None:
    """A breaker that comes back by itself leaves its endpoint enabled; it comes back sooner if someone asks for it."""
    app = await idle.app()
    await idle.ok("PUT", f"/app/{app}/policy", {"policy": {**DISABLES_AT_ONCE, "reenable_after": 86_400.0}})
    endpoint = await idle.endpoint(app, receivers.add("old"))
    at, breaker = f"/app/{app}/endpoint/{endpoint}", f"/app/{app}/breaker/{endpoint}"
    await idle.ok("GET", breaker)
    breakers = idle.station.breakers
    await breakers.record(await breakers.admit(f"{app}/{endpoint}"), Outcome.FAILURE)
    assert (await idle.ok("POST", f"{at}/test"))["reenableOffered"] == "test_succeeded"
    await idle.ok("PATCH", at, {"url": receivers.add("new")})
    assert (await idle.ok("GET", breaker))["state"] == "disabled"
    await idle.ok("PATCH", at, {"url": receivers.add("newer"), "disabled": False})
    assert (await idle.ok("GET", breaker))["state"] == "half_open"
    assert (await idle.ok("POST", f"{at}/test"))["reenableOffered"] is None


async def test_enabling_a_shared_breaker(idle: Service) -> None:
    """Endpoints that one breaker disabled come back together; one that was disabled by hand does not."""
    app = await idle.app()
    await idle.ok("PUT", f"/app/{app}/policy", {"policy": DISABLES_AT_ONCE})
    ids = [await idle.endpoint(app, "http://127.0.0.1:9/", breakerKey="shared") for _ in range(3)]
    await idle.ok("PATCH", f"/app/{app}/endpoint/{ids[2]}", {"disabled": True})
    await idle.ok("GET", f"/app/{app}/breaker/{ids[0]}")
    await _disable_itself(idle, f"{app}/shared")
    for id_ in ids:
        await idle.store.stop_endpoint(id_, Stop.DISABLED, "breaker: streak")
    await idle.ok("POST", f"/app/{app}/breaker/{ids[0]}/enable")
    shown = [await idle.ok("GET", f"/app/{app}/endpoint/{id_}") for id_ in ids]
    assert [each["disabled"] for each in shown] == [False, False, True]


async def test_enabling_while_redis_is_away(tmp_path: Path, redis_alone: Server) -> None:
    """What needs the breaker is refused while Redis is away, and changes nothing; afterwards it does everything."""
    database = f"sqlite://{tmp_path}/hookfuse.db"
    async with running(database, tmp_path, working=False, redis=redis_alone.url) as service:
        app = await service.app()
        await service.ok("PUT", f"/app/{app}/policy", {"policy": DISABLES_AT_ONCE})
        endpoint = await service.endpoint(app, "http://127.0.0.1:9/old")
        at, breaker = f"/app/{app}/endpoint/{endpoint}", f"/app/{app}/breaker/{endpoint}"
        await service.ok("GET", breaker)
        await _disable_itself(service, f"{app}/{endpoint}")
        before = await service.ok("GET", at)
        redis_alone.signal(signal.SIGSTOP)
        try:
            for method, path, body in (
                ("PATCH", at, {"disabled": False}),
                ("PATCH", at, {"url": "http://127.0.0.1:9/new", "disabled": False}),
                ("PATCH", at, {"url": "http://127.0.0.1:9/new"}),
                ("POST", f"{breaker}/enable", {}),
            ):
                refused = await service.ask(method, path, body)
                assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
                assert await service.ok("GET", at) == before
            renamed = await service.ok("PATCH", at, {"description": "needs no breaker"})
            assert renamed["disabled"]
        finally:
            redis_alone.signal(signal.SIGCONT)

        async def enabled() -> bool:
            return bool((await service.ask("PATCH", at, {"disabled": False})).is_success)

        await service.until(enabled)
        assert not (await service.ok("GET", at))["disabled"]
        assert (await service.ok("GET", breaker))["state"] == "half_open"


async def test_recover_sends_what_failed_and_what_was_held(service: Service, receivers: Receivers) -> None:
    """What is counted first is what is sent again: failed deliveries and those that wait behind an open breaker."""
    app = await service.app()
    await service.ok("PUT", f"/app/{app}/policy", {"policy": {"trip": [{"rule": "streak", "n": 3}], "cool_off": 3600}})
    endpoint = await service.endpoint(app, receivers.add("shop", Failing()))
    at = f"/app/{app}/endpoint/{endpoint}"
    for _ in range(4):
        await service.send(app)

    async def all_wait() -> bool:
        """The lane is blocked, so that no worker takes anything to ask the breaker for it."""
        backlog = await service.station.store.backlog()
        counted = await service.ok("GET", f"{at}/recover", params={"since": SINCE})
        assert counted["failed"] + counted["held"] == counted["total"]
        return backlog.waiting == backlog.held > 0 and counted["total"] == 4

    await service.until(all_wait)
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
