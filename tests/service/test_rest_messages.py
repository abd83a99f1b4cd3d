"""Sending messages: once for a key, later if asked, and never after a 2xx that was not committed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hookfuse.app.web import WebSettings
from hookfuse.testing.receivers import Ok, Receivers
from tests.service.conftest import Service, running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_one_message_for_one_key(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A hundred requests at once with one idempotency key make one message and get equal answers."""
    database = f"sqlite://{tmp_path}/hookfuse.db"
    if store == "postgres":
        database = await asyncio.to_thread(request.getfixturevalue, "postgres_url")
    async with running(database, tmp_path, working=False) as service:
        app, other = await service.app(uid="acme"), await service.app("Other")
        body = {"eventType": "a", "payload": {"n": 1}}
        keyed: dict[str, Any] = {"headers": {"idempotency-key": "k-1"}}
        answers = await asyncio.gather(*(service.ask("POST", f"/app/{app}/msg", body, **keyed) for _ in range(100)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.content for answer in answers}) == 1
        by_uid = await service.ask("POST", "/app/acme/msg", body, **keyed)
        assert by_uid.content == answers[0].content
        assert len((await service.ok("GET", f"/app/{app}/msg"))["data"]) == 1
        different = await service.ask("POST", f"/app/{app}/msg", {**body, "payload": {"n": 2}}, **keyed)
        assert (different.status_code, different.json()["code"]) == (409, "idempotency_mismatch")
        elsewhere = await service.ask("POST", f"/app/{other}/msg", body, **keyed)
        assert elsewhere.status_code == 202
        assert elsewhere.json()["id"] != answers[0].json()["id"]
        for key in ("x" * 257, "a\tb", "é"):
            refused = await service.ask("POST", f"/app/{app}/msg", body, headers={b"idempotency-key": key.encode()})
            assert refused.status_code == 422, key


async def test_an_event_id_is_used_once(idle: Service) -> None:
    """A second message with the same eventId is a conflict, and the first is found by it."""
    app = await idle.app()
    id_ = await idle.send(app, eventId="evt-1")
    again = await idle.ask("POST", f"/app/{app}/msg", {"eventType": "a", "payload": {}, "eventId": "evt-1"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert (await idle.ok("GET", f"/app/{app}/msg/evt-1"))["id"] == id_


async def test_later(idle: Service) -> None:
    """A message may be sent later; its delivery says when."""
    app = await idle.app()
    endpoint = await idle.endpoint(app)
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    id_ = await idle.send(app, deliverAt=at.isoformat())
    delivery = await idle.ok("GET", f"/app/{app}/delivery/{id_}/{endpoint}")
    assert datetime.fromisoformat(delivery["nextAttempt"]) == at
    assert datetime.fromisoformat((await idle.ok("GET", f"/app/{app}/msg/{id_}"))["deliverAt"]) == at


async def test_with_its_application(idle: Service) -> None:
    """An admin may send a message to an application that is made on the way; others may not."""
    app = await idle.app()
    body = {"eventType": "a", "payload": {}, "application": {"name": "New"}}
    assert (await idle.ask("POST", "/app/new-one/msg", body, key=await idle.key("app", app))).status_code == 404
    assert (await idle.ask("POST", "/app/new-one/msg", body)).status_code == 202
    made = await idle.ok("GET", "/app/new-one")
    assert made["name"] == "New"
    (newest, *_) = (await idle.ok("GET", "/audit"))["data"]
    assert (newest["action"], newest["subject"]) == ("create_application", made["id"])
    assert (await idle.ask("POST", "/app/new-one/msg", body)).status_code == 202
    assert len((await idle.ok("GET", "/app/new-one/msg"))["data"]) == 2


async def test_lists(idle: Service) -> None:
    """Messages are listed newest first, by channel, type and time, with their content unless told otherwise."""
    app = await idle.app()
    first = await idle.send(app, {"n": 1}, channels=["x"])
    middle = (await idle.ok("GET", f"/app/{app}/msg/{first}"))["timestamp"]
    await asyncio.sleep(0.005)
    second = await idle.send(app, {"n": 2}, eventType="other")
    listed = await idle.ok("GET", f"/app/{app}/msg")
    assert [(each["id"], each["payload"]) for each in listed["data"]] == [(second, {"n": 2}), (first, {"n": 1})]
    for params, ids in (
        ({"channel": "x"}, [first]),
        ({"event_types": "other,none"}, [second]),
        ({"after": middle}, [second]),
        ({"before": middle}, []),
        ({"with_content": "false", "channel": "x"}, [first]),
    ):
        found = (await idle.ok("GET", f"/app/{app}/msg", params=params))["data"]
        assert [each["id"] for each in found] == ids, params
        assert "with_content" not in params or found[0]["payload"] == {}


async def test_a_stopped_database_is_told(idle: Service) -> None:
    """When the database is away a message is refused with 503 and a time to come back; nothing is said to be stored."""
    app = await idle.app()
    await idle.store.close()
    for method, path in (("POST", f"/app/{app}/msg"), ("GET", f"/app/{app}/msg")):
        response = await idle.ask(method, path, {"eventType": "a", "payload": {}})
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert response.json()["code"] == "unavailable"


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_flood_is_shed(
    store: str,
    tmp_path: Path,
    receivers: Receivers,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Of a flood of messages each is taken, or refused with 503 and a time to come back; what is taken is delivered."""
    database = f"sqlite://{tmp_path}/hookfuse.db"
    if store == "postgres":
        database = await asyncio.to_thread(request.getfixturevalue, "postgres_url")
    async with running(database, tmp_path) as service:
        app = await service.app()
        await service.endpoint(app, receivers.add("well", Ok()))
        # Few, because a flood of ten thousand clients is more than a test can make.
        monkeypatch.setattr(service.station.acceptor, "_most_waiting", 4)
        body = {"eventType": "a", "payload": {}}
        answers = await asyncio.gather(*(service.ask("POST", f"/app/{app}/msg", body) for _ in range(300)))
        taken = {answer.json()["id"] for answer in answers if answer.status_code == 202}
        refused = [answer for answer in answers if answer.status_code != 202]
        assert {(answer.status_code, answer.headers["retry-after"]) for answer in refused} == {(503, "1")}
        assert taken

        async def is_settled() -> bool:
            backlog = await service.store.backlog()
            return not backlog.waiting and not backlog.in_flight

        await service.until(is_settled)
        assert {arrival.webhook_id for arrival in receivers.receipts()} == taken


async def test_rate_limits(tmp_path: Path) -> None:
    """With a limit answers tell what is left of it, and who asks too often is told when to come back."""
    limited = WebSettings(rate_limit=5)
    async with running(f"sqlite://{tmp_path}/hookfuse.db", tmp_path, settings=limited, working=False) as service:
        answers = [await service.ask("GET", "/app") for _ in range(8)]
        assert (answers[0].headers["ratelimit-limit"], answers[0].headers["ratelimit-remaining"]) == ("5", "4")
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert refused[0].headers["retry-after"] == "1"
        sent = await service.ask("POST", "/app/none/msg", {"eventType": "a", "payload": {}})
        assert "ratelimit-remaining" in sent.headers
