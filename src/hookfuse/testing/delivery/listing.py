"""What lists promise: one order, both ways, and pages that neither repeat nor hide anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from hookfuse.core.delivery import Chosen, DeliveryState, Place
from hookfuse.core.listing import AttemptCounts, AttemptFilter, DeliveryCounts, MessageFilter
from hookfuse.core.paging import LAST, Mark, Span
from hookfuse.testing.delivery.bench import Bench, OnBench

T = TypeVar("T")

_EVER = 1 << 60


async def _both_ways(
    read: Callable[[Span], Awaitable[Sequence[T]]], mark: Callable[[T], Mark], limit: int = 3
) -> list[T]:
    """All of a list, read in pages from its beginning, and the same from its end."""
    seen: list[T] = []
    while found := await read(Span(limit, after=mark(seen[-1]))) if seen else await read(Span(limit)):
        assert len(found) <= limit
        seen += found
    back: list[T] = []
    before = LAST
    while found := await read(Span(limit, before=before, backwards=True)):
        back += found
        before = mark(back[-1])
    assert back == seen[::-1]
    return seen


class Listing(OnBench):
    async def test_applications_and_endpoints_in_pages(self, bench: Bench) -> None:
        """Applications, and the endpoints of one, are listed by id in both directions; deleted ones are gone."""
        for number in range(8):
            await bench.application(f"app_{number}")
            await bench.endpoint(f"ep_{number}", "app_1" if number else "app_0")
        await bench.store.delete_application("app_5")
        await bench.store.delete_endpoint("ep_4")
        apps = await _both_ways(bench.store.applications_page, lambda each: Mark(0, each.id))
        assert [each.id for each in apps] == [f"app_{n}" for n in range(8) if n != 5]
        endpoints = await _both_ways(
            lambda span: bench.store.endpoints_page("app_1", span), lambda each: Mark(0, each.id)
        )
        assert [each.id for each in endpoints] == [f"ep_{n}" for n in range(1, 8) if n != 4]
        assert endpoints[0] == await bench.store.endpoint("app_1", "ep_1")
        assert apps[0] == await bench.store.application("app_0")

    async def test_messages_in_pages(self, bench: Bench) -> None:
        """The messages of an application are listed by time, chosen by type, channel and time, without content."""
        await bench.application()
        await bench.application("app_2")
        await bench.send("app_2")
        ids = []
        start = bench.now_ms
        for number in range(9):
            bench.clock.advance(1 if number % 2 else 0)
            channels = ("x", "y") if number % 3 == 0 else ()
            ids.append(await bench.send(event_type="a" if number < 5 else "b", channels=channels))
        await bench.store.expunge("app_1", ids[0])

        async def listed(**chosen: Any) -> list[str]:
            found = await _both_ways(
                lambda span: bench.store.messages_page(MessageFilter("app_1", **chosen), span),
                lambda each: Mark(each.created_ms, each.id),
            )
            assert {each.payload for each in found} <= {None}
            return [each.id for each in found]

        assert await listed() == ids
        assert await listed(event_types=("b", "c")) == ids[5:]
        assert await listed(channel="y") == [ids[0], ids[3], ids[6]]
        assert await listed(channel="z") == []
        early = await bench.store.messages_page(MessageFilter("app_1"), Span(before=Mark(start + 1000, "")))
        assert [each.id for each in early] == ids[:1]
        contents = await bench.store.payloads([*ids[:2], "msg_none"])
        assert list(contents) == [ids[1]]
        assert {each.id for each in await bench.store.messages([*ids[:2], "msg_none"])} == set(ids[:2])

    async def test_attempts_in_pages(self, bench: Bench) -> None:
        """Attempts are listed by time, of an endpoint or of a message, chosen by status, type and channel."""
        await bench.lane("ep_a", cap=20)
        await bench.lane("ep_b", cap=20)
        await bench.store.prune(older_than_ms=bench.now_ms + 1, limit=10_000)
        ids = [await bench.send(event_type="a" if n % 2 else "b", channels=("x",) if n < 2 else ()) for n in range(4)]
        statuses = {ids[0]: 200, ids[1]: 503, ids[2]: None, ids[3]: 404}
        for claim in await bench.claim():
            bench.clock.advance(1)
            status = statuses[claim.message_id]
            await bench.attempted(claim, status=status, trouble="" if status else "timeout")

        async def listed(**chosen: Any) -> list[tuple[str, str]]:
            found = await _both_ways(
                lambda span: bench.store.attempts_page(AttemptFilter("app_1", **chosen), span),
                lambda each: Mark(each.at_ms, each.id),
            )
            assert [each.at_ms for each in found] == sorted(each.at_ms for each in found)
            return sorted((each.message_id, each.endpoint_id) for each in found)

        assert await listed(endpoint_id="ep_a") == [(id_, "ep_a") for id_ in ids]
        assert await listed(message_id=ids[1]) == [(ids[1], "ep_a"), (ids[1], "ep_b")]
        assert await listed(message_id=ids[1], endpoint_id="ep_b") == [(ids[1], "ep_b")]
        assert await listed(endpoint_id="ep_a", succeeded=True) == [(ids[0], "ep_a")]
        assert await listed(endpoint_id="ep_a", succeeded=False) == [(id_, "ep_a") for id_ in ids[1:]]
        assert await listed(endpoint_id="ep_a", status_class=0) == [(ids[2], "ep_a")]
        assert await listed(endpoint_id="ep_a", status_class=500) == [(ids[1], "ep_a")]
        assert await listed(endpoint_id="ep_a", event_types=("b",)) == [(ids[0], "ep_a"), (ids[2], "ep_a")]
        assert await listed(endpoint_id="ep_a", channel="x") == [(ids[0], "ep_a"), (ids[1], "ep_a")]
        other = AttemptFilter("app_2", endpoint_id="ep_a")
        assert await bench.store.attempts_page(other, Span()) == []
        (first, *_) = await bench.store.attempts(ids[0])
        assert await bench.store.attempt(ids[0], first.id) == first
        assert await bench.store.attempt(ids[1], first.id) is None

    async def test_attempted_messages(self, bench: Bench) -> None:
        """Each attempted delivery of an endpoint is listed once, with its last attempt and its state."""
        await bench.lane(cap=20)
        await bench.store.prune(older_than_ms=bench.now_ms + 1, limit=10_000)
        ids = [await bench.send() for _ in range(4)]
        claims = {claim.message_id: claim for claim in await bench.claim()}
        await bench.settle(claims[ids[0]])
        await bench.settle(claims[ids[1]], state=DeliveryState.PENDING, delay=1)
        await bench.settle(claims[ids[2]], state=DeliveryState.FAILED)
        bench.clock.advance(2)
        (again,) = await bench.claim()
        await bench.settle(again)

        async def listed(state: DeliveryState | None = None) -> list[tuple[str, int, DeliveryState]]:
            found = await _both_ways(
                lambda span: bench.store.attempted_page(AttemptFilter("app_1", "ep_1"), state, span),
                lambda each: Mark(each[0].at_ms, each[0].id),
            )
            return [(attempt.message_id, attempt.number, delivery.state) for attempt, delivery in found]

        sent, failed = DeliveryState.SENT, DeliveryState.FAILED
        assert await listed() == [(ids[0], 1, sent), (ids[2], 1, failed), (ids[1], 2, sent)]
        assert await listed(failed) == [(ids[2], 1, failed)]

    async def test_deliveries_in_pages(self, bench: Bench) -> None:
        """Deliveries in any state are listed by message and endpoint, whichever way the store finds them."""
        await bench.lane("ep_a", cap=20)
        await bench.lane("ep_b", cap=20)
        await bench.store.prune(older_than_ms=bench.now_ms + 1, limit=10_000)
        ids = [await bench.send(event_type="a" if n % 2 else "b") for n in range(8)]
        places = [Place(id_, endpoint) for id_ in ids for endpoint in ("ep_a", "ep_b")]
        claims = {Place(each.message_id, each.endpoint_id): each for each in await bench.claim()}
        expected: dict[DeliveryState, list[Place]] = {state: [] for state in DeliveryState}
        for number, place in enumerate(places):
            state = list(DeliveryState)[number % 5]
            expected[state].append(place)
            if state is DeliveryState.SENDING:
                continue
            kept = state in (DeliveryState.PENDING, DeliveryState.CANCELLED)
            await bench.settle(claims[place], state=DeliveryState.PENDING if kept else state, delay=100 if kept else 0)
            if state is DeliveryState.CANCELLED:
                assert await bench.store.cancel([place]) == 1

        async def listed(*states: DeliveryState, **chosen: Any) -> list[Place]:
            found = await _both_ways(
                lambda span: bench.store.deliveries_page(Chosen("app_1", states=states or None, **chosen), span),
                lambda each: Mark(0, each.message_id, each.endpoint_id),
            )
            assert {each.state for each in found} <= set(states or DeliveryState)
            return [Place(each.message_id, each.endpoint_id) for each in found]

        for state in DeliveryState:
            assert await listed(state) == expected[state]
        assert await listed() == places
        assert await listed(DeliveryState.FAILED, DeliveryState.CANCELLED) == sorted(
            expected[DeliveryState.FAILED] + expected[DeliveryState.CANCELLED]
        )
        assert await listed(DeliveryState.PENDING, DeliveryState.SENT) == sorted(
            expected[DeliveryState.PENDING] + expected[DeliveryState.SENT]
        )
        types = {id_: "a" if n % 2 else "b" for n, id_ in enumerate(ids)}
        for state in DeliveryState:
            wanted = [each for each in expected[state] if each.endpoint_id == "ep_a" and types[each.message_id] == "a"]
            assert await listed(state, endpoint_id="ep_a", event_types=("a",)) == wanted
            assert await listed(state, until_ms=bench.now_ms) == []
            assert await listed(state, since_ms=bench.now_ms) == expected[state]
        assert await bench.store.deliveries_page(Chosen("app_2"), Span()) == []
        destinations = await _both_ways(
            lambda span: bench.store.destinations_page(ids[0], span), lambda each: Mark(0, each.endpoint_id), limit=1
        )
        assert [each.endpoint_id for each in destinations] == ["ep_a", "ep_b"]

    async def test_counts(self, bench: Bench) -> None:
        """Deliveries of an endpoint are counted by state and time, its attempts by success, and what waits for it."""
        await bench.lane("ep_a", cap=20)
        await bench.lane("ep_b", cap=20)
        await bench.store.prune(older_than_ms=bench.now_ms + 1, limit=10_000)
        bench.clock.advance(3600)
        start = bench.now_ms
        ids = [await bench.send() for _ in range(5)]
        claims = {each.message_id: each for each in await bench.claim() if each.endpoint_id == "ep_a"}
        await bench.settle(claims[ids[0]])
        await bench.settle(claims[ids[1]], state=DeliveryState.FAILED)
        await bench.settle(claims[ids[2]], state=DeliveryState.PENDING, delay=1)
        await bench.settle(claims[ids[3]], state=DeliveryState.PENDING, delay=1)
        await bench.store.cancel([Place(ids[3], "ep_a")])
        counts = await bench.store.delivery_counts("app_1", "ep_a", start, _EVER)
        assert counts == DeliveryCounts(pending=1, sending=1, sent=1, failed=1, cancelled=1)
        assert await bench.store.delivery_counts("app_1", "ep_a", 0, start) == DeliveryCounts()
        assert await bench.store.attempt_counts("ep_a", start, _EVER) == AttemptCounts(4, 0)
        assert await bench.store.attempt_counts("ep_a", 0, start) == AttemptCounts(0, 0)
        assert await bench.store.waiting(["ep_a", "ep_b", "ep_none"]) == {"ep_a": 1}
