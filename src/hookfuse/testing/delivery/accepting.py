"""What accepting promises: committed, once, for everyone who should get it."""

from __future__ import annotations

import asyncio
from typing import Any

from hookfuse.core.delivery import Chosen, DeliveryState
from hookfuse.core.endpoint import Stop
from hookfuse.core.message import Accepted, Refused
from hookfuse.testing.delivery.bench import Bench, OnBench


class Accepting(OnBench):
    async def test_payload_is_kept_byte_for_byte(self, bench: Bench) -> None:
        """What was received is what is claimed, whatever bytes it is made of."""
        await bench.lane()
        for payload in (b'{"a":1,"a":2}', b'{"b":1, "a":1.10}', b'{"n":9007199254740993}', b"\x00\xff\xfe", b""):
            id_ = await bench.send(payload=payload)
            (claim,) = await bench.claim()
            assert (claim.message_id, claim.payload) == (id_, payload)
            await bench.settle(claim)
            message = await bench.store.message("app_1", id_)
            assert message is not None
            assert message.payload == payload

    async def test_fans_out_to_matching_endpoints(self, bench: Bench) -> None:
        """A message gets one delivery for each endpoint whose event types and channels match."""
        await bench.application()
        await bench.endpoint("ep_all")
        await bench.endpoint("ep_paid", event_types=("invoice.paid", "invoice.sent"))
        await bench.endpoint("ep_other", event_types=("user.created",))
        await bench.endpoint("ep_eu", channels=("eu", "uk"))
        await bench.application("app_2")
        await bench.endpoint("ep_foreign", "app_2")
        message = bench.message(event_type="invoice.paid", channels=("uk", "us"))
        (answer,) = await bench.store.accept([message])
        assert answer == Accepted(message.id, bench.now_ms, 3)
        found = await bench.store.deliveries(Chosen("app_1"))
        assert {each.endpoint_id for each in found} == {"ep_all", "ep_paid", "ep_eu"}
        (answer,) = await bench.store.accept([bench.message(event_type="user.created")])
        assert isinstance(answer, Accepted)
        assert answer.deliveries == 2

    async def test_a_changed_endpoint_counts_at_once(self, bench: Bench) -> None:
        """Whoever is added, changes its filters or goes is heeded by the very next message of its application."""
        await bench.application()
        await bench.application("app_2")

        async def reached(app_id: str = "app_1", **settings: Any) -> set[str]:
            id_ = await bench.send(app_id, **settings)
            return {each.endpoint_id for each in await bench.store.deliveries(Chosen(app_id)) if each.message_id == id_}

        assert await reached() == set()
        await bench.endpoint("ep_1")
        assert await reached() == {"ep_1"}
        await bench.endpoint("ep_2", event_types=("other",))
        assert (await reached(), await reached(event_type="other")) == ({"ep_1"}, {"ep_1", "ep_2"})
        await bench.store.change_endpoint("ep_2", {"event_types": None, "channels": ("eu",)})
        assert (await reached(), await reached(channels=("eu",))) == ({"ep_1"}, {"ep_1", "ep_2"})
        await bench.store.change_endpoint("ep_1", {"event_types": ("other",)})
        assert (await reached(), await reached(event_type="other")) == (set(), {"ep_1"})
        await bench.store.delete_endpoint("ep_1")
        assert (await reached(event_type="other"), await reached("app_2")) == (set(), set())
        await bench.store.delete_application("app_1")
        assert await bench.store.accept([bench.message()]) == [Refused("unknown_application")]

    async def test_stopped_endpoints_get_their_deliveries(self, bench: Bench) -> None:
        """A disabled or paused endpoint keeps its messages: they are stored, not sent, and go once it is back."""
        await bench.lane()
        for stop in (Stop.DISABLED, Stop.PAUSED):
            await bench.store.stop_endpoint("ep_1", stop, "for a test")
            id_ = await bench.send()
            assert await bench.claim() == ()
            assert (await bench.delivery(id_)).state is DeliveryState.PENDING
            await bench.store.start_endpoint("ep_1", stop)
            (claim,) = await bench.claim()
            assert claim.message_id == id_
            await bench.settle(claim)

    async def test_idempotency_key_accepts_once(self, bench: Bench) -> None:
        """The same key a hundred times at once makes one message and a hundred equal answers."""
        await bench.lane()
        messages = [bench.message(idempotency_key="k", fingerprint=b"same") for _ in range(100)]
        answers = [
            answer
            for answers in await asyncio.gather(*(bench.store.accept([message]) for message in messages))
            for answer in answers
        ]
        assert all(isinstance(answer, Accepted) for answer in answers)
        assert len({(answer.id, answer.created_ms, answer.deliveries) for answer in answers}) == 1  # type: ignore[union-attr]
        assert sum(not answer.repeated for answer in answers) == 1  # type: ignore[union-attr]
        assert await bench.store.count(Chosen("app_1", states=(DeliveryState.PENDING,))) == 1

    async def test_idempotency_key_within_one_batch(self, bench: Bench) -> None:
        """The same key twice in one batch is one message too."""
        await bench.lane()
        first, second = (bench.message(idempotency_key="k", fingerprint=b"same") for _ in range(2))
        answers = await bench.store.accept([first, second])
        assert answers == [Accepted(first.id, bench.now_ms, 1), Accepted(first.id, bench.now_ms, 1, repeated=True)]

    async def test_the_very_same_message_again(self, bench: Bench) -> None:
        """Who does not know whether it was accepted may ask with the same message again, id and all."""
        await bench.lane()
        message = bench.message(uid="order-1", idempotency_key="k", fingerprint=b"same")
        first = Accepted(message.id, bench.now_ms, 1)
        assert await bench.store.accept([message]) == [first]
        again = Accepted(message.id, bench.now_ms, 1, repeated=True)
        assert await bench.store.accept([message, message]) == [again, again]

    async def test_a_refused_message_leaves_its_key(self, bench: Bench) -> None:
        """A key whose message was refused for its uid stands for nothing: the next request with it may be accepted."""
        await bench.lane()
        await bench.send(uid="order-1")
        key: dict[str, Any] = {"idempotency_key": "k", "fingerprint": b"same"}
        for _ in range(2):
            answers = await bench.store.accept([bench.message(uid="order-1", **key) for _ in range(2)])
            assert answers == [Refused("uid_taken")] * 2
        message = bench.message(uid="order-2", **key)
        answers = await bench.store.accept([bench.message(uid="order-1", **key), message])
        assert answers == [Refused("uid_taken"), Accepted(message.id, bench.now_ms, 1)]

    async def test_idempotency_key_with_another_request(self, bench: Bench) -> None:
        """The same key with another body is refused, from another application it is independent."""
        await bench.lane()
        await bench.application("app_2")
        await bench.send(idempotency_key="k", fingerprint=b"one")
        answers = await bench.store.accept(
            [
                bench.message(idempotency_key="k", fingerprint=b"two"),
                bench.message("app_2", idempotency_key="k", fingerprint=b"two"),
            ]
        )
        assert answers[0] == Refused("idempotency_mismatch")
        assert isinstance(answers[1], Accepted)
        assert not answers[1].repeated

    async def test_idempotency_key_is_forgotten_after_a_day(self, bench: Bench) -> None:
        """After a day the same key makes a new message."""
        await bench.lane()
        first = await bench.send(idempotency_key="k", fingerprint=b"one")
        bench.clock.advance(86_400)
        assert await bench.send(idempotency_key="k", fingerprint=b"two") != first

    async def test_uid_is_taken_once(self, bench: Bench) -> None:
        """A second message with the same uid in one application is refused; others in the batch are accepted."""
        await bench.lane()
        await bench.application("app_2")
        answers = await bench.store.accept(
            [
                bench.message(uid="order-1"),
                bench.message(uid="order-1"),
                bench.message("app_2", uid="order-1"),
                bench.message("app_none"),
                bench.message(),
            ]
        )
        assert [isinstance(answer, Accepted) for answer in answers] == [True, False, True, False, True]
        assert answers[1] == Refused("uid_taken")
        assert answers[3] == Refused("unknown_application")
        found = await bench.store.message("app_1", "order-1")
        assert found is not None
        assert found.uid == "order-1"

    async def test_deliver_at(self, bench: Bench) -> None:
        """A message with a time to deliver waits for it, to the millisecond."""
        await bench.lane()
        id_ = await bench.send(deliver_ms=bench.now_ms + 5_000)
        assert (await bench.delivery(id_)).due_ms == bench.now_ms + 5_000
        bench.clock.advance(4.999)
        assert await bench.claim() == ()
        bench.clock.advance(0.001)
        assert [claim.message_id for claim in await bench.claim()] == [id_]

    async def test_claim_says_how_long_nothing_is_due(self, bench: Bench) -> None:
        """A claim that finds nothing says when to come back; with nothing stored, it cannot tell."""
        await bench.lane()
        assert (await bench.store.claim(10, lease_ms=1000, failing_limit=10)).wait_ms is None
        await bench.send(deliver_ms=bench.now_ms + 5_000)
        claims = await bench.store.claim(10, lease_ms=1000, failing_limit=10)
        assert (claims.wait_ms, claims.now_ms) == (5_000, bench.now_ms)

    async def test_wait_ends_when_something_is_accepted(self, bench: Bench) -> None:
        """Who waits for work is woken by an acceptance, long before the time is up."""
        await bench.lane()
        async with asyncio.timeout(10):
            waiting = asyncio.ensure_future(self._until_claimed(bench))
            await asyncio.sleep(0)
            await bench.send()
            assert len(await waiting) == 1

    async def _until_claimed(self, bench: Bench) -> tuple[object, ...]:
        while True:
            claims = await bench.claim()
            if claims:
                return claims
            await bench.store.wait(60)
