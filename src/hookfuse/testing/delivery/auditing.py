"""Who did what: an entry of the audit log and what it tells of are committed together, or neither is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookfuse.core.access import ApiKey, Role
from hookfuse.core.catalog import EventType
from hookfuse.core.delivery import Place
from hookfuse.core.endpoint import Application, Endpoint, Stop
from hookfuse.core.paging import Span
from hookfuse.core.record import AuditEntry, Task, TaskKind
from hookfuse.errors import Conflict, StoreError
from hookfuse.ports import DeliveryStore
from hookfuse.testing.delivery.bench import Bench, OnBench

CHANGES: dict[str, Callable[[DeliveryStore], Awaitable[Any]]] = {
    "an application": lambda store: store.add_application(Application("app_2", "other")),
    "an endpoint": lambda store: store.add_endpoint(Endpoint("ep_2", "app_1", "https://example.com/")),
    "a setting": lambda store: store.change_endpoint("ep_1", {"description": "new"}),
    "a pause": lambda store: store.stop_endpoint("ep_1", Stop.PAUSED),
    "a default": lambda store: store.change_default_policy({"cool_off": 5}),
    "an event type": lambda store: store.add_event_type(EventType("a.b")),
    "a key": lambda store: store.add_key(ApiKey("key_2", Role.READ, "other", b"hash")),
    "a task": lambda store: store.add_task(Task("qtask_1", TaskKind.RECOVER, "app_1", "ep_1", total=1)),
    "a standing": lambda store: store.keep_standings([]),
    "an end": lambda store: store.delete_endpoint("ep_1"),
}


def entry(action: str) -> AuditEntry:
    return AuditEntry("audit_1", "key_1", action, "", None)


async def actions(store: DeliveryStore) -> list[str]:
    return [each.action for each in await store.audit_page(None, Span())]


class Auditing(OnBench):
    @pytest.mark.parametrize("what", CHANGES)
    async def test_written_down_with_the_change(self, bench: Bench, what: str) -> None:
        """The first change takes the entry along; what is read before and what is changed after it do not."""
        store = bench.store
        await bench.lane()
        with store.writing_down(lambda: entry("change")) as done:
            assert await store.application("app_1") is not None
            assert not done.written
            await CHANGES[what](store)
            assert done.written
            assert await actions(store) == ["change"]
            await store.change_application("app_1", {"name": "once more"})
        await store.change_application("app_1", {"name": "and again"})
        assert await actions(store) == ["change"]

    async def test_nothing_was_changed(self, bench: Bench) -> None:
        """A change that found nothing, or was refused, leaves no entry, and the next one takes it."""
        store = bench.store
        await bench.lane()
        await bench.application("app_3", uid="taken")
        with store.writing_down(lambda: entry("change")) as done:
            assert await store.retry([Place("msg_none", "ep_1")]) == 0
            assert await store.delete_application("app_none") is False
            with pytest.raises(Conflict):
                await store.add_application(Application("app_2", "other", uid="taken"))
            assert not done.written
            assert await actions(store) == []
            await store.change_application("app_1", {"name": "new"})
        assert await actions(store) == ["change"]

    async def test_an_entry_that_cannot_be_written(self, bench: Bench) -> None:
        """Without its entry the change is not made."""
        store = bench.store
        await bench.lane()
        await store.add_audit(entry("first"))
        with store.writing_down(lambda: entry("second")) as done, pytest.raises(StoreError):
            await store.change_application("app_1", {"name": "new"})
        assert not done.written
        found = await store.application("app_1")
        assert found is not None
        assert found.name == "app_1"
        assert await actions(store) == ["first"]
