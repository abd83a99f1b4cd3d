"""What the API relies on: deliveries made by hand, event types, keys, the audit log, tasks, the default policy."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hookfuse.core.access import ApiKey, Role
from hookfuse.core.catalog import EventType
from hookfuse.core.message import Accepted, Refused
from hookfuse.core.paging import Mark, Span
from hookfuse.core.record import AuditEntry, Task, TaskKind, TaskStatus
from hookfuse.errors import Conflict
from hookfuse.testing.delivery.bench import Bench, OnBench


class Serving(OnBench):
    async def test_a_message_for_one_endpoint(self, bench: Bench) -> None:
        """A message can be stored for one endpoint alone, though its filters would not take it."""
        await bench.lane("ep_a")
        await bench.endpoint("ep_b", event_types=("other",))
        answer = await bench.store.accept_for(bench.message(), "ep_b")
        assert isinstance(answer, Accepted)
        (claim,) = await bench.claim()
        assert (claim.message_id, claim.endpoint_id) == (answer.id, "ep_b")
        await bench.store.delete_endpoint("ep_b")
        assert isinstance(await bench.store.accept_for(bench.message(), "ep_b"), Refused)
        assert isinstance(await bench.store.accept_for(bench.message("app_2"), "ep_a"), Refused)

    async def test_missing_deliveries(self, bench: Bench) -> None:
        """Messages that an endpoint missed are found by its filters, and are delivered, as asked for, once added."""
        await bench.application()
        ids = [await bench.send(event_type="a" if n % 2 else "b", channels=("x",)) for n in range(6)]
        await bench.send(event_type="a", channels=("y",))
        await bench.store.expunge("app_1", ids[5])
        bench.clock.advance(10)
        await bench.endpoint("ep_1", event_types=("a",), channels=("x", "z"))
        arrived = await bench.send(event_type="a", channels=("x",))
        missing = await bench.store.missing_page("app_1", "ep_1", Span())
        assert [each.id for each in missing] == [ids[1], ids[3]]
        last = missing[-1]
        before = Span(1, before=Mark(last.created_ms, last.id), backwards=True)
        assert [each.id for each in await bench.store.missing_page("app_1", "ep_1", before)] == [ids[1]]
        assert await bench.store.add_deliveries("ep_1", [ids[1], ids[3], ids[5], arrived, "msg_none"]) == 2
        assert await bench.store.add_deliveries("ep_1", [ids[1]]) == 0
        assert await bench.store.missing_page("app_1", "ep_1", Span()) == []
        asked: dict[str, bool] = {}
        while claims := await bench.claim():
            asked |= {claim.message_id: claim.manual for claim in claims}
            await bench.settle(*claims)
        assert asked == {ids[1]: True, ids[3]: True, arrived: False}

    async def test_event_types(self, bench: Bench) -> None:
        """An event type reads back as it was given, its name is taken once, and an archived one gives it free."""
        given = EventType("a.b", "it's <b>", schemas={"1": {"type": "object"}}, group_name="g", feature_flags=("f",))
        added = await bench.store.add_event_type(given)
        assert added == replace(given, created_ms=bench.now_ms, updated_ms=bench.now_ms)
        assert await bench.store.event_type("a.b") == added
        with pytest.raises(Conflict, match=r"a\.b"):
            await bench.store.add_event_type(EventType("a.b"))
        bench.clock.advance(1)
        changed = await bench.store.change_event_type("a.b", {"archived": True, "schemas": None, "feature_flags": None})
        assert changed is not None
        assert (changed.archived, changed.schemas, changed.updated_ms) == (True, None, bench.now_ms)
        await bench.store.add_event_type(EventType("c"))
        assert [each.name for each in await bench.store.event_types_page(Span())] == ["c"]
        assert [each.name for each in await bench.store.event_types_page(Span(), archived=True)] == ["a.b", "c"]
        back = await bench.store.event_types_page(Span(1, backwards=True), archived=True)
        assert [each.name for each in back] == ["c"]
        await bench.store.add_event_type(EventType("a.b", "new"))
        assert await bench.store.delete_event_type("c")
        assert not await bench.store.delete_event_type("c")
        assert await bench.store.event_type("c") is None
        assert await bench.store.change_event_type("c", {"archived": True}) is None

    async def test_one_first_key(self, bench: Bench) -> None:
        """Of several processes that start at once, one makes the first key."""
        keys = [ApiKey(f"key_{number}", Role.ADMIN, "first", bytes([number])) for number in range(5)]
        added = await asyncio.gather(*(bench.store.add_first_key(key) for key in keys))
        assert sorted(added) == [False] * 4 + [True]
        assert len(await bench.store.keys_page(None, Span(limit=9))) == 1

    async def test_keys(self, bench: Bench) -> None:
        """A key is found by its hash, tells when it was used and revoked, and is revoked once."""
        admin = await bench.store.add_key(ApiKey("key_1", Role.ADMIN, "first", b"h1" * 16))
        mine = await bench.store.add_key(ApiKey("key_2", Role.APP, "mine", b"h2" * 16, "app_1"))
        assert admin.created_ms == bench.now_ms
        assert await bench.store.key_by_hash(b"h2" * 16) == mine
        assert await bench.store.key_by_hash(b"h3" * 16) is None
        bench.clock.advance(1)
        await bench.store.touch_keys(["key_1"])
        assert await bench.store.key("key_1") == replace(admin, used_ms=bench.now_ms)
        assert await bench.store.revoke_key("key_2")
        assert not await bench.store.revoke_key("key_2")
        assert await bench.store.key_by_hash(b"h2" * 16) == replace(mine, revoked_ms=bench.now_ms)
        assert [each.id for each in await bench.store.keys_page(None, Span())] == ["key_1", "key_2"]
        assert [each.id for each in await bench.store.keys_page("app_1", Span(backwards=True))] == ["key_2"]

    async def test_the_audit_log(self, bench: Bench) -> None:
        """Entries are kept in their order, of one application or of all."""
        for number in range(3):
            app_id = "app_1" if number else None
            await bench.store.add_audit(
                AuditEntry(f"audit_{number}", "key_1", "endpoint.create", "ep_1", app_id, "url")
            )
        found = await bench.store.audit_page(None, Span(backwards=True))
        assert [each.id for each in found] == ["audit_2", "audit_1", "audit_0"]
        assert found[0] == AuditEntry("audit_2", "key_1", "endpoint.create", "ep_1", "app_1", "url", bench.now_ms)
        assert [each.id for each in await bench.store.audit_page("app_1", Span(1))] == ["audit_1"]

    async def test_tasks(self, bench: Bench) -> None:
        """A task tells how far it has come; whoever runs it hears that it was cancelled."""
        given = Task("qtask_1", TaskKind.RECOVER, "app_1", "ep_1", total=7)
        task = await bench.store.add_task(given)
        assert await bench.store.task("qtask_1") == task
        bench.clock.advance(1)
        assert await bench.store.advance_task("qtask_1", TaskStatus.RUNNING, 5, 3)
        found = await bench.store.task("qtask_1")
        assert found == replace(task, seen=5, changed=3, updated_ms=bench.now_ms)
        assert await bench.store.cancel_task("qtask_1")
        assert not await bench.store.cancel_task("qtask_1")
        assert not await bench.store.advance_task("qtask_1", TaskStatus.FINISHED, 7, 4)
        (listed,) = await bench.store.tasks_page("app_1", Span())
        assert (listed.status, listed.seen) == (TaskStatus.CANCELLED, 5)
        assert await bench.store.tasks_page("app_2", Span()) == []
        assert await bench.store.tasks_page(None, Span()) == [listed]

    async def test_the_default_policy(self, bench: Bench) -> None:
        """The default policy can be changed and taken away, and every endpoint gets a new version by it."""
        await bench.lane()
        (before,) = await bench.store.endpoints(["ep_1"])
        assert await bench.store.default_policy() is None
        await bench.store.change_default_policy({"window": 60.5})
        assert await bench.store.default_policy() == {"window": 60.5}
        (after,) = await bench.store.endpoints(["ep_1"])
        assert after.version > before.version
        await bench.store.change_default_policy(None)
        assert await bench.store.default_policy() is None
