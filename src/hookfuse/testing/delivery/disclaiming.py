"""What giving back by token promises: a claim whose answer was lost leaves no trace."""

from __future__ import annotations

import asyncio

from hookfuse.core.delivery import DeliveryState
from hookfuse.testing.delivery.bench import LEASE, Bench, OnBench

TOKEN = 1 << 61


class Disclaiming(OnBench):
    async def test_a_claim_carries_the_token_that_was_chosen(self, bench: Bench) -> None:
        """Who claims may choose the token; who does not gets one that nobody else has."""
        await bench.lane(cap=3)
        for _ in range(3):
            await bench.send()
        tokens = [(await bench.claim(1, token=token))[0].token for token in (TOKEN, None, None)]
        assert tokens[0] == TOKEN
        assert len(set(tokens)) == 3

    async def test_a_lost_claim_leaves_no_trace(self, bench: Bench) -> None:
        """What a token holds comes back at once, with no death and no attempt, and its lanes have their room again."""
        for name in ("ep_a", "ep_b"):
            await bench.lane(name, cap=2)
        ids = [await bench.send() for _ in range(3)]
        lost = await bench.claim(token=TOKEN)
        assert len(lost) == 4
        assert await bench.claim() == ()
        assert dict(await bench.store.disclaim([TOKEN])) == {TOKEN: 4}
        for id_ in ids:
            found = await bench.delivery(id_, "ep_a")
            assert (found.state, found.attempts, found.spent, found.deaths) == (DeliveryState.PENDING, 0, 0, 0)
        again = await bench.claim()
        assert [claim[:2] for claim in again] == [claim[:2] for claim in lost]
        assert [claim.in_flight for claim in again] == [claim.in_flight for claim in lost]
        bench.clock.advance(LEASE)
        assert (await bench.store.rescue(deaths=3)).returned == 4

    async def test_what_was_given_back_keeps_its_turn(self, bench: Bench) -> None:
        """A first try and a retry go before what was accepted, or became due, after them."""
        await bench.lane(cap=2)
        retried = await bench.send()
        await bench.settle(*await bench.claim(), state=DeliveryState.PENDING, delay=5)
        bench.clock.advance(5)
        first = await bench.send()
        assert len(await bench.claim(token=TOKEN)) == 2
        bench.clock.advance(1)
        for _ in range(5):
            await bench.send()
        await bench.store.disclaim([TOKEN])
        assert {claim.message_id for claim in await bench.claim()} == {first, retried}
        found = await bench.delivery(retried)
        assert (found.attempts, found.spent, found.deaths) == (1, 1, 0)

    async def test_a_fifo_lane_goes_on_with_the_same(self, bench: Bench) -> None:
        """In a FIFO lane what was given back is the next, and nothing has overtaken it."""
        await bench.application()
        await bench.endpoint(fifo=True)
        ids = []
        for _ in range(3):
            ids.append(await bench.send())
            bench.clock.advance(0.001)
        for id_ in ids:
            assert len(await bench.claim(token=TOKEN)) == 1
            assert await bench.claim() == ()
            await bench.store.disclaim([TOKEN])
            (claim,) = await bench.claim()
            assert claim.message_id == id_
            await bench.settle(claim)

    async def test_others_are_left_alone(self, bench: Bench) -> None:
        """Only what these tokens hold is given back: not others' claims in the same lane, nor what was settled."""
        await bench.lane(cap=6)
        for _ in range(6):
            await bench.send()
        others = await bench.claim(2)
        first, *rest = await bench.claim(2, token=TOKEN)
        await bench.claim(2, token=TOKEN + 1)
        assert await bench.settle(first) == []
        assert dict(await bench.store.disclaim([TOKEN, TOKEN + 1, TOKEN + 2])) == {TOKEN: 1, TOKEN + 1: 2}
        assert await bench.settle(*others) == []
        assert await bench.settle(*rest) == rest
        assert (await bench.delivery(first.message_id)).state is DeliveryState.SENT
        assert len(await bench.claim()) == 3

    async def test_what_is_not_held_is_not_found(self, bench: Bench) -> None:
        """Tokens that hold nothing, no longer or not yet, change nothing, however often they are asked for."""
        await bench.lane(cap=2)
        id_ = await bench.send()
        before = await bench.delivery(id_)
        assert not await bench.store.disclaim([])
        assert not await bench.store.disclaim([TOKEN])
        assert await bench.delivery(id_) == before
        assert len(await bench.claim(token=TOKEN)) == 1
        assert dict(await bench.store.disclaim([TOKEN])) == {TOKEN: 1}
        (claim,) = await bench.claim()
        assert not await bench.store.disclaim([TOKEN])
        assert await bench.settle(claim) == []

    async def test_a_lost_claim_of_many_lanes(self, bench: Bench) -> None:
        """However many lanes a lost claim served, and however much waits behind it, all of it is found at once."""
        await bench.application()
        for number in range(150):
            await bench.endpoint(f"ep_{number}")
        for _ in range(3):
            await bench.send()
        held = await bench.claim(100)
        assert len(await bench.claim(50, token=TOKEN)) == 50
        assert dict(await bench.store.disclaim([TOKEN])) == {TOKEN: 50}
        assert len(await bench.claim(1_000)) == 50
        assert await bench.settle(*held) == []

    async def test_who_gives_back_at_once(self, bench: Bench) -> None:
        """While others claim and settle, everyone may give back their own: nothing is taken twice, nothing is lost."""
        await bench.lane(cap=40)
        for _ in range(40):
            await bench.send()
        taken: list[str] = []

        async def work(token: int) -> None:
            for turn in range(6):
                claims = await bench.claim(2, token=token)
                if turn % 2:
                    found = await bench.store.disclaim([token])
                    assert sum(found.values()) == len(claims)
                else:
                    assert await bench.settle(*claims) == []
                    taken.extend(claim.message_id for claim in claims)

        await asyncio.gather(*(work(TOKEN + number) for number in range(5)))
        while claims := await bench.claim():
            assert await bench.settle(*claims) == []
            taken.extend(claim.message_id for claim in claims)
        assert len(taken) == len(set(taken)) == 40

    async def test_a_lane_that_is_gone(self, bench: Bench) -> None:
        """What comes back to an endpoint that was deleted meanwhile is cancelled, as with any claim."""
        await bench.lane()
        id_ = await bench.send()
        assert len(await bench.claim(token=TOKEN)) == 1
        await bench.store.delete_endpoint("ep_1")
        await bench.store.disclaim([TOKEN])
        found = await bench.delivery(id_)
        assert (found.state, found.reason) == (DeliveryState.CANCELLED, "endpoint_deleted")
