"""What claiming promises: each delivery to one worker, lanes apart from one another, fair shares."""

from __future__ import annotations

import asyncio
from collections import Counter

from hookfuse.core.delivery import Deferral, DeliveryState
from hookfuse.testing.delivery.bench import LEASE, Bench, OnBench


class Claiming(OnBench):
    async def test_each_delivery_is_claimed_once(self, bench: Bench) -> None:
        """However many claim at once, no delivery is given to two of them, and none is left."""
        await bench.application()
        for number in range(10):
            await bench.lane(f"ep_{number}", cap=32)
        for _ in range(20):
            await bench.send()
        taken: Counter[tuple[str, str]] = Counter()

        async def work() -> None:
            # Another claim at the same time may hold a lane, so an empty answer is looked at again.
            for _ in range(40):
                claims = await bench.claim(16)
                taken.update((claim.message_id, claim.endpoint_id) for claim in claims)

        await asyncio.gather(*(work() for _ in range(8)))
        assert len(taken) == 200
        assert set(taken.values()) == {1}

    async def test_lanes_grow_with_successes(self, bench: Bench) -> None:
        """A new lane sends one at a time; each success widens it by one, up to the cap; a failure halves it."""
        await bench.application()
        await bench.endpoint("ep_1", cap=4)
        for _ in range(40):
            await bench.send()
        widths = []
        for _ in range(4):
            claims = await bench.claim()
            widths.append(len(claims))
            await bench.settle(*claims)
        assert widths == [1, 2, 4, 4]
        claims = await bench.claim()
        await bench.settle(*claims[:1], state=DeliveryState.PENDING, delay=600, healthy=False)
        await bench.settle(*claims[1:], state=DeliveryState.PENDING, delay=600)
        assert len(await bench.claim()) == 2

    async def test_cap_holds_over_the_fleet(self, bench: Bench) -> None:
        """What is in flight for an endpoint never passes its cap, whoever claims."""
        await bench.lane(cap=5)
        for _ in range(50):
            await bench.send()
        first = await bench.claim()
        assert [claim.in_flight for claim in first] == [1, 2, 3, 4, 5]
        assert await bench.claim() == ()
        await bench.settle(*first[:2])
        assert len(await bench.claim()) == 2

    async def test_a_full_lane_holds_up_nobody(self, bench: Bench) -> None:
        """A lane whose requests all hang leaves the others their turn."""
        await bench.lane("ep_hung", cap=2)
        await bench.lane("ep_well", cap=2)
        for _ in range(10):
            await bench.send()
        taken = await bench.claim()
        assert sum(claim.endpoint_id == "ep_hung" for claim in taken) == 2
        sent = 0
        while well := [claim for claim in taken if claim.endpoint_id == "ep_well"]:
            await bench.settle(*well)
            sent += len(well)
            taken = await bench.claim()
            assert all(claim.endpoint_id == "ep_well" for claim in taken)
        assert sent == 10

    async def test_first_tries_go_first_but_retries_keep_a_share(self, bench: Bench) -> None:
        """With both waiting, one slot in five goes to retries and the others to first tries."""
        await bench.lane("ep_1", cap=200)
        for _ in range(40):
            await bench.send()
        claims = await bench.claim(1000)
        await bench.settle(*claims, state=DeliveryState.PENDING, delay=0)
        for _ in range(40):
            await bench.send()
        claims = await bench.claim(20)
        assert Counter(claim.attempts for claim in claims) == {0: 16, 1: 4}

    async def test_retries_take_what_first_tries_leave(self, bench: Bench) -> None:
        """Without first tries every slot goes to retries, and the other way round."""
        await bench.lane("ep_1", cap=200)
        for _ in range(30):
            await bench.send()
        claims = await bench.claim(20)
        assert len(claims) == 20
        rest = await bench.claim(1000)
        await bench.settle(*claims, *rest, state=DeliveryState.PENDING, delay=0)
        assert len(await bench.claim(20)) == 20

    async def test_applications_take_turns(self, bench: Bench) -> None:
        """An application with many endpoints leaves one with a single endpoint its share of a claim."""
        await bench.application("app_1")
        await bench.application("app_2")
        for number in range(30):
            await bench.endpoint(f"ep_{number:02}", "app_1")
        await bench.send()
        bench.clock.advance(1)
        await bench.endpoint("ep_lone", "app_2")
        await bench.send("app_2")
        claims = await bench.claim(31)
        assert {claim.app_id for claim in claims[:2]} == {"app_1", "app_2"}

    async def test_applications_share_a_claim(self, bench: Bench) -> None:
        """However many endpoints each has, applications that want more than there is get the same."""
        await _crowd(bench, "app_1", 30)
        for number in range(3):
            await bench.lane(f"ep_few_{number}", "app_2", cap=20)
        await bench.lane("ep_lone", "app_3", cap=50)
        for _ in range(25):
            for app in ("app_1", "app_2", "app_3"):
                await bench.send(app)
        claims = await bench.claim(60)
        assert Counter(claim.app_id for claim in claims) == {"app_1": 20, "app_2": 20, "app_3": 20}
        few = Counter(claim.endpoint_id for claim in claims if claim.app_id == "app_2")
        assert sorted(few.values()) == [6, 7, 7]

    async def test_applications_leave_what_they_do_not_want(self, bench: Bench) -> None:
        """Where one application wants little, the others share the rest, and every slot is used."""
        await _crowd(bench, "app_1", 40)
        await _crowd(bench, "app_2", 40)
        await bench.lane("ep_lone", "app_3", cap=50)
        for app, messages in (("app_1", 1), ("app_2", 1), ("app_3", 4)):
            for _ in range(messages):
                await bench.send(app)
        claims = await bench.claim(60)
        assert Counter(claim.app_id for claim in claims) == {"app_1": 28, "app_2": 28, "app_3": 4}

    async def test_applications_behind_a_crowd(self, bench: Bench) -> None:
        """One endpoint has its application's share of every claim, though hundreds of another's have waited longer."""
        await bench.lane("ep_lone", "app_2", cap=50)
        await _crowd(bench, "app_1", 300)
        for _ in range(3):
            await bench.send("app_1")
        bench.clock.advance(1)
        for _ in range(30):
            await bench.send("app_2")
        for _ in range(3):
            claims = await bench.claim(20)
            assert Counter(claim.app_id for claim in claims) == {"app_1": 10, "app_2": 10}
            await bench.settle(*claims)

    async def test_crowds_share_what_is_left(self, bench: Bench) -> None:
        """What small applications leave of a claim goes to large ones alike, not to the one that waited longest."""
        await _crowd(bench, "app_1", 150)
        await bench.send("app_1")
        bench.clock.advance(1)
        for app, lanes in (("app_2", 60), *((f"app_few_{number}", 1) for number in range(7))):
            await _crowd(bench, app, lanes)
            await bench.send(app)
        # The lanes hear of their messages.
        assert len(await bench.claim(1)) == 1
        claims = await bench.claim(21)
        few = {f"app_few_{number}": 1 for number in range(7)}
        assert Counter(claim.app_id for claim in claims) == {**few, "app_1": 7, "app_2": 7}

    async def test_many_applications_take_turns(self, bench: Bench) -> None:
        """With more applications than slots each has its turn before any has its second."""
        apps = [f"app_{number:02}" for number in range(60)]
        for app in apps:
            await _crowd(bench, app, 4)
            await bench.send(app)
        # Lanes hear of their messages in claims, a part of them at a time.
        while not await bench.claim(1):
            pass
        turns: Counter[str] = Counter()
        for _ in range(6):
            claims = await bench.claim(10)
            assert len({claim.app_id for claim in claims}) == 10
            turns.update(claim.app_id for claim in claims)
        assert max(turns.values()) - min(turns[app] for app in apps) <= 1

    async def test_who_waits_for_a_breaker_has_no_turn(self, bench: Bench) -> None:
        """Applications whose endpoints are all blocked take no turn from those that have something due."""
        apps = {f"app_{number:03}" for number in range(120)}
        for app in apps:
            await _crowd(bench, app, 1)
            await bench.send(app)
        blocked = await bench.claim(100)
        await bench.store.defer([Deferral(claim, "open", wait_ms=30_000) for claim in blocked])
        waiting = apps - {claim.app_id for claim in blocked}
        await _crowd(bench, "app_crowd", 100)
        await bench.send("app_crowd")
        served: Counter[str] = Counter()
        while claims := await bench.claim(10):
            served.update(claim.app_id for claim in claims)
        assert served == {**dict.fromkeys(waiting, 1), "app_crowd": 100}

    async def test_failing_lanes_of_applications_take_turns(self, bench: Bench) -> None:
        """Among the slots of failing lanes, an application with many leaves one with a single lane its turn."""
        await _crowd(bench, "app_1", 120)
        await bench.endpoint("ep_lone", (await bench.application("app_2")).id)
        for app in ("app_1", "app_2"):
            await bench.send(app)
            failed = await bench.claim(200)
            await bench.settle(*failed, state=DeliveryState.PENDING, delay=0, healthy=False)
            bench.clock.advance(1)
        claims = await bench.claim(20, failing_limit=4)
        assert Counter(claim.app_id for claim in claims) == {"app_1": 3, "app_2": 1}

    async def test_lanes_take_turns(self, bench: Bench) -> None:
        """A lane that was served goes behind those that were not."""
        for name in ("ep_a", "ep_b", "ep_c"):
            await bench.lane(name, cap=2)
        for _ in range(20):
            await bench.send()
            bench.clock.advance(0.001)
        served: Counter[str] = Counter()
        for _ in range(6):
            claims = await bench.claim(1)
            served.update(claim.endpoint_id for claim in claims)
            bench.clock.advance(0.001)
            await bench.settle(*claims)
        assert served == {"ep_a": 2, "ep_b": 2, "ep_c": 2}

    async def test_failing_lanes_have_a_limit(self, bench: Bench) -> None:
        """Lanes whose last attempt failed share a part of the slots, so that they cannot hold the workers."""
        for number in range(6):
            await bench.lane(f"ep_{number}", cap=4)
        await bench.send()
        claims = await bench.claim()
        await bench.settle(*claims[:4], state=DeliveryState.PENDING, delay=0, healthy=False)
        await bench.settle(*claims[4:])
        failing = {claim.endpoint_id for claim in claims[:4]}
        await bench.send()
        claims = await bench.claim(failing_limit=1)
        assert sum(claim.endpoint_id in failing for claim in claims) == 1
        assert all(claim.failing == (claim.endpoint_id in failing) for claim in claims)
        assert sum(claim.endpoint_id not in failing for claim in claims) == 2

    async def test_blocked_lane_waits(self, bench: Bench) -> None:
        """A deferred claim spends no attempt, and blocks its lane until the time has come or someone lifts it."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        await bench.store.defer([Deferral(claim, "open", wait_ms=30_000)])
        found = await bench.delivery(id_)
        assert (found.state, found.attempts, found.spent, found.reason) == (DeliveryState.PENDING, 0, 0, "open")
        await bench.send()
        bench.clock.advance(29.999)
        assert await bench.claim() == ()
        bench.clock.advance(0.001)
        claims = await bench.claim()
        assert claims[0].message_id == id_
        await bench.store.defer([Deferral(each, "open", wait_ms=30_000) for each in claims])
        assert await bench.claim() == ()
        await bench.store.unblock(["ep_1"])
        assert len(await bench.claim()) == 2

    async def test_deferred_without_a_block(self, bench: Bench) -> None:
        """A claim may be given back for a while without blocking its lane."""
        await bench.lane()
        first, second = await bench.send(), await bench.send()
        claims = await bench.claim()
        await bench.store.defer([Deferral(claims[0], "later", delay_ms=1_000)])
        await bench.settle(claims[1])
        assert await bench.claim() == ()
        assert claims[1].message_id == second
        bench.clock.advance(1)
        assert [claim.message_id for claim in await bench.claim()] == [first]

    async def test_what_comes_back_untouched_keeps_its_turn(self, bench: Bench) -> None:
        """What a lost worker held goes before what was accepted later; what is put off has the retries' share."""
        await bench.application()
        await bench.endpoint()
        first = await bench.send()
        assert len(await bench.claim()) == 1
        for _ in range(5):
            bench.clock.advance(1)
            await bench.send()
        bench.clock.advance(LEASE)
        await bench.store.rescue(deaths=3)
        (claim,) = await bench.claim()
        assert claim.message_id == first
        await bench.store.defer([Deferral(claim, "put off", delay_ms=1_000)])
        bench.clock.advance(1)
        assert (await bench.claim(5))[0].message_id == first

    async def test_rate_limit_spreads_requests(self, bench: Bench) -> None:
        """An endpoint with a rate limit gets that many requests a second, give or take a tenth."""
        await bench.lane("ep_1", cap=1000)
        await bench.store.change_endpoint("ep_1", {"rate_limit": 50})
        for _ in range(300):
            await bench.send()
        sent = []
        for _ in range(300):
            claims = await bench.claim()
            sent.append(len(claims))
            await bench.settle(*claims)
            bench.clock.advance(0.01)
        assert 145 <= sum(sent) <= 156
        assert max(sum(sent[at : at + 100]) for at in range(200)) <= 56

    async def test_a_changed_endpoint_is_seen_at_the_next_claim(self, bench: Bench) -> None:
        """A claim carries the version of its endpoint, which grows with every change."""
        await bench.lane()
        await bench.send()
        (claim,) = await bench.claim()
        changed = await bench.store.change_endpoint("ep_1", {"url": "https://example.com/other"})
        assert changed is not None
        assert changed.version > claim.version
        await bench.settle(claim, state=DeliveryState.PENDING)
        (claim,) = await bench.claim()
        assert claim.version == changed.version
        await bench.store.change_application("app_1", {"retry": {"delays": [1]}})
        await bench.settle(claim, state=DeliveryState.PENDING)
        (claim,) = await bench.claim()
        assert claim.version > changed.version

    async def test_fifo_keeps_the_order(self, bench: Bench) -> None:
        """A FIFO lane sends one at a time in the order of acceptance; a failing one holds up those behind it."""
        await bench.application()
        await bench.endpoint("ep_1", fifo=True)
        ids = []
        for _ in range(3):
            ids.append(await bench.send())
            bench.clock.advance(0.001)
        (claim,) = await bench.claim()
        assert claim.message_id == ids[0]
        assert await bench.claim() == ()
        await bench.settle(claim, state=DeliveryState.PENDING, delay=30, healthy=False)
        assert await bench.claim() == ()
        bench.clock.advance(30)
        for id_ in ids:
            (claim,) = await bench.claim()
            assert claim.message_id == id_
            await bench.settle(claim)
        assert await bench.claim() == ()

    async def test_fifo_can_be_switched(self, bench: Bench) -> None:
        """Switching FIFO on and off orders what already waits."""
        await bench.lane("ep_1", cap=10)
        ids = []
        for _ in range(3):
            ids.append(await bench.send())
            bench.clock.advance(0.001)
        claims = await bench.claim(1)
        await bench.settle(*claims, state=DeliveryState.PENDING, delay=30)
        await bench.store.change_endpoint("ep_1", {"fifo": True})
        assert await bench.claim() == ()
        bench.clock.advance(30)
        (claim,) = await bench.claim()
        assert claim.message_id == ids[0]
        await bench.store.change_endpoint("ep_1", {"fifo": False})
        await bench.settle(claim)
        assert [claim.message_id for claim in await bench.claim()] == ids[1:]

    async def test_paused_application(self, bench: Bench) -> None:
        """Pausing an application stops all of its endpoints, new ones too, and loses nothing."""
        await bench.lane("ep_1")
        await bench.store.pause_application("app_1", True)
        await bench.endpoint("ep_2")
        await bench.send()
        assert await bench.claim() == ()
        await bench.store.pause_application("app_1", False)
        assert {claim.endpoint_id for claim in await bench.claim()} == {"ep_1", "ep_2"}


async def _crowd(bench: Bench, app_id: str, lanes: int) -> None:
    """An application with many endpoints, each of which takes one request at a time."""
    await bench.application(app_id)
    for number in range(lanes):
        await bench.endpoint(f"ep_{app_id}_{number:03}", app_id)
