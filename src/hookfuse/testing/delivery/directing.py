"""What the directory promises: applications and endpoints as they were given, and no name twice."""

from __future__ import annotations

import pytest

from hookfuse.core.delivery import DeliveryState, Place
from hookfuse.core.endpoint import Application, Endpoint, Stop
from hookfuse.errors import Conflict, InvalidInput
from hookfuse.testing.delivery.bench import Bench, OnBench


class Directing(OnBench):
    async def test_an_endpoint_reads_back_as_it_was_given(self, bench: Bench) -> None:
        """Every setting of an endpoint is stored and found by id and by uid, within its application only."""
        await bench.store.add_application(
            Application(
                "app_1", "Acme <b>", uid="acme", metadata={"plan": "gold"}, policy={"window": 60}, retry={"delays": [1]}
            )
        )
        await bench.application("app_2")
        given = Endpoint(
            "ep_1",
            "app_1",
            "https://example.com/hook?a=1",
            uid="main",
            description='it\'s "quoted"',
            metadata={"a": "b"},
            event_types=("a.b", "c"),
            channels=("x",),
            headers=b"\x00sealed",
            secret=b"\xffsealed",
            policy={"window": 60, "trip": [{"rule": "streak", "n": 5}]},
            retry={"delays": [1, 2]},
            response={"final": ["400"]},
            breaker_key="client-7",
            cap=7,
            rate_limit=20,
            timeout_ms=2_000,
            fifo=True,
        )
        added = await bench.store.add_endpoint(given)
        assert added.created_ms == added.updated_ms == bench.now_ms
        assert added == Endpoint(
            **{name: getattr(given, name) for name in given.__slots__}
            | {"created_ms": bench.now_ms, "updated_ms": bench.now_ms}
        )
        for name in ("ep_1", "main"):
            assert await bench.store.endpoint("app_1", name) == added
            assert await bench.store.endpoint("app_2", name) is None
        assert await bench.store.endpoints(["ep_1", "ep_none"]) == [added]
        found = await bench.store.application("acme")
        assert found == await bench.store.application("app_1")
        assert found is not None
        assert (found.name, found.metadata, found.policy, found.retry) == (
            "Acme <b>",
            {"plan": "gold"},
            {"window": 60},
            {"delays": [1]},
        )

    async def test_a_uid_is_taken_once(self, bench: Bench) -> None:
        """A uid names one application, and one endpoint of an application; a deleted one gives it free."""
        await bench.application("app_1", uid="acme")
        await bench.application("app_2")
        with pytest.raises(Conflict, match="acme"):
            await bench.application("app_3", uid="acme")
        with pytest.raises(Conflict):
            await bench.store.change_application("app_2", {"uid": "acme"})
        await bench.endpoint("ep_1", "app_1", uid="main")
        await bench.endpoint("ep_2", "app_2", uid="main")
        with pytest.raises(Conflict, match="main"):
            await bench.endpoint("ep_3", "app_1", uid="main")
        await bench.store.delete_endpoint("ep_1")
        await bench.endpoint("ep_3", "app_1", uid="main")
        await bench.store.delete_application("app_1")
        await bench.application("app_3", uid="acme")

    async def test_changes(self, bench: Bench) -> None:
        """Some fields can be changed, others say that they cannot; what is missing is None."""
        await bench.lane()
        bench.clock.advance(1)
        changed = await bench.store.change_endpoint(
            "ep_1", {"url": "https://example.org/", "cap": 3, "event_types": None, "metadata": {"k": "v"}}
        )
        assert changed is not None
        assert (changed.url, changed.cap, changed.metadata) == ("https://example.org/", 3, {"k": "v"})
        assert changed.updated_ms == bench.now_ms
        with pytest.raises(InvalidInput, match="app_id must be left alone"):
            await bench.store.change_endpoint("ep_1", {"app_id": "app_2"})
        assert await bench.store.change_endpoint("ep_none", {"cap": 3}) is None
        assert await bench.store.change_application("app_none", {"name": "x"}) is None
        application = await bench.store.change_application("app_1", {"name": "New"})
        assert application is not None
        assert application.name == "New"

    async def test_change_what_was_read(self, bench: Bench) -> None:
        """Of two who read an endpoint and change what they have read, the second is told to read it again."""
        await bench.application()
        read = await bench.endpoint()
        first = await bench.store.change_endpoint(read.id, {"secret": b"one"}, version=read.version)
        assert first is not None
        assert await bench.store.change_endpoint(read.id, {"secret": b"two"}, version=read.version) is None
        (found,) = await bench.store.endpoints([read.id])
        assert (found.secret, found.version) == (b"one", first.version)

    async def test_an_endpoint_needs_its_application(self, bench: Bench) -> None:
        """An endpoint of an unknown application is refused by name."""
        with pytest.raises(InvalidInput, match="app_id must be that of an application that there is, got 'app_1'"):
            await bench.endpoint()

    async def test_a_changed_cap_holds_at_once(self, bench: Bench) -> None:
        """A smaller cap narrows the lane for the next claim."""
        await bench.lane(cap=8)
        await bench.store.change_endpoint("ep_1", {"cap": 2})
        for _ in range(8):
            await bench.send()
        assert len(await bench.claim()) == 2

    async def test_disabling_says_when_and_why(self, bench: Bench) -> None:
        """A disabled endpoint carries the time and the reason of the first disabling; enabling clears both."""
        await bench.lane()
        stopped = await bench.store.stop_endpoint("ep_1", Stop.DISABLED, "gone")
        assert stopped is not None
        assert (stopped.enabled, stopped.disabled_ms, stopped.disabled_reason) == (False, bench.now_ms, "gone")
        bench.clock.advance(5)
        again = await bench.store.stop_endpoint("ep_1", Stop.DISABLED, "other")
        assert again == stopped
        started = await bench.store.start_endpoint("ep_1", Stop.DISABLED)
        assert started is not None
        assert (started.enabled, started.disabled_ms, started.disabled_reason) == (True, None, "")
        assert await bench.store.stop_endpoint("ep_none", Stop.PAUSED) is None

    async def test_a_deleted_endpoint(self, bench: Bench) -> None:
        """Deleting an endpoint cancels what waits for it; what is in flight is cancelled when it fails."""
        await bench.lane(cap=1)
        first, second = await bench.send(), await bench.send()
        (claim,) = await bench.claim()
        assert await bench.store.delete_endpoint("ep_1")
        assert await bench.store.endpoint("app_1", "ep_1") is None
        waiting = await bench.delivery(second)
        assert (waiting.state, waiting.reason) == (DeliveryState.CANCELLED, "endpoint_deleted")
        await bench.settle(claim, state=DeliveryState.PENDING, delay=1)
        assert (await bench.delivery(first)).state is DeliveryState.CANCELLED
        assert await bench.store.retry([Place(second, "ep_1")]) == 0
        await bench.send()
        assert await bench.claim() == ()
        assert not await bench.store.delete_endpoint("ep_none")

    async def test_a_deleted_application(self, bench: Bench) -> None:
        """A deleted application takes no messages and no endpoints, and its endpoints are gone."""
        await bench.lane()
        id_ = await bench.send()
        assert await bench.store.delete_application("app_1")
        assert await bench.store.application("app_1") is None
        assert (await bench.delivery(id_)).state is DeliveryState.CANCELLED
        with pytest.raises(InvalidInput):
            await bench.endpoint("ep_2")
        assert not await bench.store.delete_application("app_1")
