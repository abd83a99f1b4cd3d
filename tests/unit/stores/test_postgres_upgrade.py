"""A database of an older version is brought up to date with everything that was under way in it."""

from __future__ import annotations

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.core.delivery import Chosen, DeliveryState, Place
from hookfuse.errors import StoreError
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.postgres.schema import migrate
from hookfuse.stores.sql import migrations
from tests.unit.stores.postgres_scene import OPEN, execute, opened, sent, until_someone_waits

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

# One delivery is with a worker that never comes back, one is announced by a bell, and one has failed.
UNDER_WAY = """
INSERT INTO hookfuse.applications (id, name, created_ms, updated_ms) VALUES ('app_1', 'x', 1, 1);
INSERT INTO hookfuse.endpoints (id, app_id, url, cap, timeout_ms, created_ms, updated_ms)
VALUES ('ep_1', 'app_1', 'https://example.com', 8, 1000, 1, 1);
INSERT INTO hookfuse.lanes (endpoint_id, app_id, cap, width, in_flight) VALUES ('ep_1', 'app_1', 8, 8, 1);
INSERT INTO hookfuse.messages (id, app_id, event_type, created_ms, payload)
SELECT 'msg_' || n, 'app_1', 'type', 1, '{}' FROM generate_series(1, 3) AS n;
INSERT INTO hookfuse.deliveries (
    message_id, endpoint_id, app_id, state, queue, place, due_ms, token, first_ms, created_ms, ended_ms
)
VALUES ('msg_1', 'ep_1', 'app_1', 'sending', 2, 1000, NULL, 7, 1, 1, NULL),
       ('msg_2', 'ep_1', 'app_1', 'pending', 0, 1, 1, NULL, 1, 1, NULL),
       ('msg_3', 'ep_1', 'app_1', 'failed', NULL, NULL, NULL, NULL, 1, 1, 1);
INSERT INTO hookfuse.bells (endpoint_id, due_ms) VALUES ('ep_1', 1);
CREATE FUNCTION hookfuse.claim(integer, integer, integer, bigint, bigint, integer) RETURNS integer
LANGUAGE sql AS 'SELECT 1';
"""


async def test_from_before_claims_were_written_in_place(postgres_url: str, anyio_backend: str) -> None:
    """What was announced is claimed, what was with a lost worker is rescued, and what had failed can be sent again."""
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(SQL["create_schema"])
    for each in migrations("hookfuse.stores.postgres"):
        if each.number <= 11:
            await connection.execute(each.text)
            await connection.execute(SQL["record_migration"], each.number, each.name)
    await connection.execute(UNDER_WAY)
    await connection.close()
    async with opened(postgres_url) as store:
        old = await asyncpg.connect(postgres_url)
        with pytest.raises(asyncpg.UndefinedFunctionError):
            # A worker of that version could not settle what it claims.
            await old.fetch("SELECT * FROM hookfuse.claim(1, 0, 1, 60000, 42, 1000)")
        await old.close()
        (announced,) = (await store.claim(10, lease_ms=60_000, failing_limit=10)).claims
        assert announced.message_id == "msg_2"
        assert (await store.rescue(deaths=3)).returned == 1
        (rescued,) = (await store.claim(10, lease_ms=60_000, failing_limit=10)).claims
        assert (rescued.message_id, rescued.deaths) == ("msg_1", 1)
        assert await store.settle([sent(announced), sent(rescued)]) == []
        assert await store.count(OPEN) == 0
        (failed,) = await store.deliveries(Chosen("app_1", states=(DeliveryState.FAILED,)))
        assert await store.retry([Place(failed.message_id, failed.endpoint_id)]) == 1
        (again,) = (await store.claim(10, lease_ms=60_000, failing_limit=10)).claims
        assert again.message_id == "msg_3"


async def test_who_waited_for_another_changes_nothing(postgres_url: str, anyio_backend: str) -> None:
    """A process that waits while another brings the schema up to date leaves its functions alone: they are in use."""
    functions = "SELECT oid FROM pg_proc WHERE pronamespace = 'hookfuse'::regnamespace ORDER BY oid"
    async with opened(postgres_url):
        pass
    newest = "(SELECT max(number) FROM hookfuse.migrations)"
    ((number, name),) = await execute(
        postgres_url, f"DELETE FROM hookfuse.migrations WHERE number = {newest} RETURNING number, name"
    )
    first = await asyncpg.connect(postgres_url)
    try:
        async with first.transaction():
            await first.execute(SQL["lock_schema"])
            second = asyncio.ensure_future(migrate(postgres_url, pooled=False, connect_within=5))
            await until_someone_waits(first)
            await first.execute(SQL["record_migration"], number, name)
        before = await first.fetch(functions)
        await second
        assert await first.fetch(functions) == before
    finally:
        await first.close()


async def test_an_old_server(postgres_url: str, monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> None:
    """A server that is older than we support is refused, with its version and ours, and nothing is made on it."""
    monkeypatch.setattr("hookfuse.stores.postgres.schema.OLDEST", 1000)
    with pytest.raises(StoreError, match=r"^This is Postgres \d+; Hookfuse needs 1000 or newer\.$"):
        await migrate(postgres_url, pooled=False, connect_within=5)
    assert await execute(postgres_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'hookfuse'") == []
