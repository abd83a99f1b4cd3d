"""Work on many deliveries that goes on after its request was answered, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hookfuse.core.delivery import Place
from tests.faults.delivery.databases import Database, PostgresDatabase, SqliteDatabase
from tests.faults.delivery.station import new_message
from tests.service.conftest import Service, running

pytestmark = pytest.mark.anyio

PAGE = 500
MANY = 2 * PAGE + 200


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path)
    return PostgresDatabase(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def idle(database: Database, tmp_path: Path) -> AsyncIterator[Service]:
    """A service whose worker does not run: what waits stays as it is."""
    async with running(database.url, tmp_path, working=False) as found:
        yield found


async def _failed(service: Service, database: Database, app: str, event_type: str, count: int) -> None:
    """So many deliveries more, all of which have failed."""
    messages = [new_message(f"{event_type}-{number}", b"{}") for number in range(count)]
    await service.store.accept([each._replace(app_id=app, event_type=event_type) for each in messages])
    await database.rows(
        "UPDATE {schema}deliveries SET state = 'failed', queue = NULL, place = NULL, due_ms = NULL,"
        " ended_ms = created_ms WHERE state = 'pending'"
    )


async def _states(database: Database) -> dict[tuple[str, str], int]:
    """How many deliveries there are, by event type and state."""
    rows = await database.rows(
        "SELECT m.event_type, d.state, count(*) FROM {schema}deliveries AS d"
        " JOIN {schema}messages AS m ON m.id = d.message_id GROUP BY m.event_type, d.state"
    )
    return {(event_type, state): count for event_type, state, count in rows}


async def _done(service: Service, app: str, task: str) -> Any:
    """The task, once the process works on it no more."""

    async def rests() -> bool:
        return all(each.get_name() != f"hookfuse-{task}" for each in asyncio.all_tasks())

    await service.until(rests)
    return await service.ok("GET", f"/app/{app}/task/{task}")


async def test_a_task_reaches_everything(idle: Service, database: Database) -> None:
    """What is chosen by a filter is retried, and then cancelled, to the last of several pages; the rest is left."""
    app = await idle.app()
    await idle.endpoint(app)
    await _failed(idle, database, app, "bad", MANY)
    await _failed(idle, database, app, "other", 3)
    choice = {"eventTypes": ["bad"]}
    assert (await idle.ok("POST", f"/app/{app}/delivery/retry", {**choice, "dryRun": True}))["count"] == MANY
    for verb, state in (("retry", "pending"), ("cancel", "cancelled")):
        started = (await idle.ok("POST", f"/app/{app}/delivery/{verb}", choice))["task"]["id"]
        task = await _done(idle, app, started)
        assert task["status"] == "finished"
        assert task["total"] == task["seen"] == task["changed"] == MANY
        assert await _states(database) == {("bad", state): MANY, ("other", "failed"): 3}


async def test_a_task_stopped_half_way(idle: Service, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled during its first page begins no other: what it had not reached stays failed."""
    app = await idle.app()
    endpoint = await idle.endpoint(app)
    await _failed(idle, database, app, "bad", MANY)
    reached, go_on = asyncio.Event(), asyncio.Event()
    retry = idle.store.retry

    async def held(places: Sequence[Place]) -> int:
        reached.set()
        await go_on.wait()
        return await retry(places)

    monkeypatch.setattr(idle.store, "retry", held)
    since = {"since": "2020-01-01T00:00:00Z"}
    started = (await idle.ok("POST", f"/app/{app}/endpoint/{endpoint}/recover", since))["id"]
    await reached.wait()
    assert (await idle.ok("POST", f"/app/{app}/task/{started}/cancel"))["status"] == "cancelled"
    go_on.set()
    assert (await _done(idle, app, started))["status"] == "cancelled"
    assert await _states(database) == {("bad", "pending"): PAGE, ("bad", "failed"): MANY - PAGE}
    assert (await idle.ok("GET", f"/background-task/{started}"))["status"] == "failed", "as SDKs know it"
    assert (await idle.ask("POST", f"/app/{app}/task/{started}/cancel")).status_code == 409


async def test_a_task_of_a_process_that_ends(database: Database, tmp_path: Path) -> None:
    """A task that is running when its process ends is written down as failed."""
    async with running(database.url, tmp_path, working=False) as service:
        app = await service.app()
        endpoint = await service.endpoint(app)
        await service.send(app)
        reached = asyncio.Event()

        async def never(places: Any) -> int:
            reached.set()
            await asyncio.get_running_loop().create_future()
            return 0

        service.store.cancel = never  # type: ignore[method-assign,assignment]
        task = (await service.ok("POST", f"/app/{app}/delivery/cancel", {"endpointId": endpoint}))["task"]
        await reached.wait()
    async with running(database.url, tmp_path, working=False) as service:
        assert (await service.ok("GET", f"/app/{app}/task/{task['id']}"))["status"] == "failed"
