"""Who accepts remembers who wants messages, and notices when another process changes that."""

from __future__ import annotations

import asyncio

import pytest

from hookfuse.core.endpoint import Endpoint
from hookfuse.core.message import Accepted, Refused
from hookfuse.stores.postgres import PostgresStore, accept
from hookfuse.stores.postgres.queries import SQL
from tests.unit.stores.postgres_scene import message, opened, prepare

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def reached(store: PostgresStore, number: int) -> int:
    """How many endpoints a message reaches."""
    (answer,) = await store.accept([message(number)])
    assert isinstance(answer, Accepted)
    return answer.deliveries


async def test_another_process_changes_them(postgres_url: str, anyio_backend: str) -> None:
    """A message goes to the endpoints that were there when it was accepted, whichever process added or changed them."""
    await prepare(postgres_url, lanes=1)
    async with opened(postgres_url) as ours, opened(postgres_url) as others:
        assert await reached(ours, 1) == 1
        await others.add_endpoint(Endpoint("ep_other", "app_1", "https://example.com"))
        assert await reached(ours, 2) == 2
        await others.change_endpoint("ep_other", {"event_types": ("another",)})
        assert await reached(ours, 3) == 1
        await others.delete_endpoint("ep_00")
        assert await reached(ours, 4) == 0
        await others.delete_application("app_1")
        assert await ours.accept([message(5)]) == [Refused("unknown_application")]


async def test_they_are_read_once(postgres_url: str, anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing changes, accepting asks for no endpoints, and what does not concern routes changes nothing."""
    await prepare(postgres_url, lanes=1)
    async with opened(postgres_url) as store:
        assert await reached(store, 1) == 1
        monkeypatch.setitem(SQL, "accept_routes", "SELECT 1 / 0")
        assert await reached(store, 2) == 1
        await store.change_endpoint("ep_00", {"description": "other"})
        assert await reached(store, 3) == 1


async def test_they_are_bounded(postgres_url: str, anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many types messages have, what is remembered of them stays small, and they go where they should."""
    monkeypatch.setattr(accept, "_MOST_ROUTES", 50)
    await prepare(postgres_url, lanes=2)
    async with opened(postgres_url) as store:
        for number in range(0, 600, 20):
            batch = [message(each)._replace(event_type=f"type.{each}") for each in range(number, number + 20)]
            answers = await store.accept(batch)
            assert {each.deliveries for each in answers if isinstance(each, Accepted)} == {2}
        kept = store._routes.of(["app_1"])["app_1"].types
        assert len(kept) <= 50


async def test_endless_changes(postgres_url: str, anyio_backend: str) -> None:
    """Someone who changes endpoints all the time holds up no message."""
    await prepare(postgres_url, lanes=1)
    ended = False

    async def change(store: PostgresStore) -> None:
        number = 0
        while not ended:
            number += 1
            await store.change_endpoint("ep_00", {"channels": None if number % 2 else ("eu",)})

    async with opened(postgres_url) as ours, opened(postgres_url) as others:
        changing = asyncio.create_task(change(others))
        for number in range(100):
            assert await reached(ours, number) in (0, 1)
        ended = True
        await changing
