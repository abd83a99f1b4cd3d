"""Views over all applications: the sickest endpoints first, and how the service does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hookfuse.core.condition import WORST_FIRST, Condition
from hookfuse.core.endpoint import Stop
from hookfuse.core.outcome import Outcome
from hookfuse.core.state import Snapshot
from hookfuse.testing.receivers import Failing, Receivers
from tests.service.conftest import Service

pytestmark = pytest.mark.anyio


async def test_the_sickest_come_first(idle: Service) -> None:
    """Every endpoint is listed once, by how sick it is and then by id, forwards and backwards, page by page."""
    app = await idle.app()
    ids = [await idle.endpoint(app, description=f"number {n}") for n in range(9)]
    await idle.ok("POST", f"/app/{app}/breaker/{ids[7]}/force", {"to": "open", "reason": "maintenance"})
    await idle.ok("POST", f"/app/{app}/breaker/{ids[6]}/disable", {"reason": "left"})
    await idle.store.stop_endpoint(ids[5], Stop.PAUSED)
    await idle.store.change_endpoint(ids[4], {"flag": "destination_blocked"})
    await idle.store.stop_endpoint(ids[3], Stop.DISABLED, "gone")
    expected = [ids[3], ids[6], ids[7], ids[4], ids[5], ids[0], ids[1], ids[2], ids[8]]
    seen: list[str] = []
    pages: list[list[str]] = []
    answer = await idle.ok("GET", "/endpoint", params={"limit": 2})
    while True:
        pages.append([each["id"] for each in answer["data"]])
        seen += pages[-1]
        if answer["done"]:
            break
        answer = await idle.ok("GET", "/endpoint", params={"limit": 2, "iterator": answer["iterator"]})
    assert seen == expected
    for page in reversed(pages[:-1]):
        answer = await idle.ok("GET", "/endpoint", params={"limit": 2, "iterator": answer["prevIterator"]})
        assert [each["id"] for each in answer["data"]] == page
    words = [each["condition"] for each in (await idle.ok("GET", "/endpoint"))["data"]]
    assert words == ["disabled", "disabled", "forced_open", "blocked", "paused", *["closed"] * 4]
    places = [WORST_FIRST[Condition(word)] for word in words]
    assert places == sorted(places)


@pytest.mark.parametrize("falls_ill", [True, False])
async def test_changes_while_listing(idle: Service, monkeypatch: pytest.MonkeyPatch, falls_ill: bool) -> None:
    """An endpoint that falls ill or recovers while it is being listed is listed once all the same."""
    app = await idle.app()
    changing, other = await idle.endpoint(app), await idle.endpoint(app)
    if not falls_ill:
        await idle.store.stop_endpoint(changing, Stop.PAUSED)
    read = idle.store.sick_endpoints

    async def then_changes(*asked: Any) -> Any:
        found = await read(*asked)
        change = idle.store.stop_endpoint if falls_ill else idle.store.start_endpoint
        await change(changing, Stop.PAUSED)
        return found

    monkeypatch.setattr(idle.store, "sick_endpoints", then_changes)
    listed = [each["id"] for each in (await idle.ok("GET", "/endpoint"))["data"]]
    assert sorted(listed) == sorted([changing, other])


async def test_a_row_is_of_one_instant(idle: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that asks to wait after the sick ones were listed is told as that, not as closed until then."""
    app = await idle.app()
    endpoint = await idle.endpoint(app)
    breakers = idle.station.breakers
    listed = breakers.unhealthy

    async def then_asks_to_wait() -> AsyncIterator[Snapshot]:
        async for each in listed():
            yield each
        admission = await breakers.admit(f"{app}/{endpoint}")
        # The service lists them now and then, too.
        if admission.allowed:
            await breakers.record(admission, Outcome.throttled(retry_after=30))

    monkeypatch.setattr(breakers, "unhealthy", then_asks_to_wait)
    (row,) = (await idle.ok("GET", "/endpoint"))["data"]
    assert row["heldUntil"] is not None
    assert row["condition"] == "held"


async def test_choosing_endpoints(idle: Service) -> None:
    """Endpoints are chosen by condition, application and text; a key of one application sees only its own."""
    mine, other = await idle.app("Mine", uid="mine"), await idle.app("Other")
    a, b = await idle.endpoint(mine, description="berlin"), await idle.endpoint(mine)
    c = await idle.endpoint(other, description="Berlin")
    await idle.ok("POST", f"/app/{other}/breaker/{c}/force", {"to": "open"})

    async def found(key: str | None = None, **params: str) -> list[str]:
        return [each["id"] for each in (await idle.ok("GET", "/endpoint", params=params, key=key))["data"]]

    assert await found() == [c, a, b]
    assert await found(search="BERLIN") == [c, a]
    assert await found(app_id="mine") == [a, b]
    assert await found(condition="forced_open") == [c]
    assert await found(condition="closed,open") == [a, b]
    own = await idle.key("app", mine)
    assert await found(own) == [a, b]
    assert (await idle.ask("GET", "/endpoint", key=own, params={"app_id": other})).status_code == 404
    assert (await idle.ask("GET", "/endpoint", params={"condition": "ill"})).status_code == 422


async def test_why_and_how_near(service: Service, receivers: Receivers) -> None:
    """A tripped endpoint says why in words, when it probes, what it holds, and where its rules stand."""
    app = await service.app()
    endpoint = await service.endpoint(app, receivers.add("bad", Failing(503)))
    for _ in range(4):
        await service.send(app)

    async def tripped() -> bool:
        (row,) = (await service.ok("GET", "/endpoint"))["data"]
        return bool(row["condition"] == "open" and row["held"] == 4)

    await service.until(tripped)
    (row,) = (await service.ok("GET", "/endpoint"))["data"]
    breaker = await service.ok("GET", f"/app/{app}/breaker/{endpoint}")
    assert row["why"] == breaker["why"] == "failures in a row: 3, limit 3"
    assert (row["probeAt"], row["trips"]) == (breaker["probeAt"], breaker["trips"])
    (gauge,) = (await service.ok("GET", f"/app/{app}/breaker/{endpoint}/gauges"))["data"]
    assert gauge == row["gauge"] == {"rule": "streak", "value": 3, "limit": 3, "calls": None, "minCalls": None}


async def test_overview(idle: Service) -> None:
    """The overview counts endpoints by state and what waits; it is for keys of all applications only."""
    app = await idle.app()
    first, second = await idle.endpoint(app), await idle.endpoint(app)
    await idle.ok("POST", f"/app/{app}/breaker/{first}/disable")
    await idle.send(app)
    await idle.store.stop_endpoint(second, Stop.PAUSED)
    seen = await idle.ok("GET", "/overview")
    assert seen["endpoints"] == 2
    assert seen["states"] == {"closed": 1, "open": 0, "halfOpen": 0, "disabled": 1}
    assert seen["conditions"] == {"disabled": 1, "paused": 1}
    assert (seen["waiting"], seen["held"]) == (2, 1)
    assert (seen["successShare"], seen["p50Seconds"]) == (None, None)
    assert (seen["opened"], seen["closed"]) == (1, 0)
    columns = await idle.ok("GET", "/overview/series")
    assert len({len(column) for column in columns.values()}) == 1
    key = await idle.key("read", app)
    assert (await idle.ask("GET", "/overview", key=key)).status_code == 403


async def test_own_key(idle: Service) -> None:
    """A key can ask what it is, and is never told its text."""
    app = await idle.app()
    key = await idle.key("read", app)
    seen = await idle.ok("GET", "/key/self", key=key)
    assert (seen["role"], seen["appId"]) == ("read", app)
    assert key not in str(seen)


async def test_deliveries_newest_first(idle: Service) -> None:
    """Deliveries are listed in either order."""
    app = await idle.app()
    await idle.endpoint(app)
    ids = [await idle.send(app) for _ in range(3)]
    await asyncio.gather(*(idle.send(app) for _ in range(2)))
    newest = await idle.ok("GET", f"/app/{app}/delivery", params={"order": "descending", "limit": 5})
    oldest = await idle.ok("GET", f"/app/{app}/delivery")
    assert [each["msgId"] for each in newest["data"]][2:] == ids[::-1]
    assert newest["data"] == oldest["data"][::-1]
