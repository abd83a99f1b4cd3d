"""What people rely on: every transition is kept once, and what they want to hear of is in the outbox."""

from __future__ import annotations

import asyncio
from typing import Any

from hookfuse.core.delivery import DeliveryState
from hookfuse.core.endpoint import Stop
from hookfuse.core.history import UNGUARDED, Entry, Head
from hookfuse.core.notice import Event, Notice, NoticeChannel, NoticeSettings, NoticeState
from hookfuse.core.paging import Mark, Span
from hookfuse.core.state import Override, State, Transition
from hookfuse.testing.delivery.bench import Bench, OnBench

KEY = "app_1/ep_1"
QUIET = 600
_WAY = {"open": (State.CLOSED, State.OPEN), "closed": (State.HALF_OPEN, State.CLOSED)}


def transition(bench: Bench, before: State, after: State, key: str = KEY, **more: Any) -> Transition:
    values = {"reason": "streak", "numbers": {"streak": 3.0, "limit": 3.0}, **more}
    generation = values.pop("generation", bench.now_ms)
    return Transition(key, before, after, generation, bench.clock.now(), **values)


async def listening(bench: Bench, *channels: NoticeChannel, **more: Any) -> None:
    """An application with an endpoint that wants to hear of everything."""
    await bench.lane()
    chosen = channels or (NoticeChannel.CHAT,)
    await bench.store.change_notice_settings(
        NoticeSettings("app_1", chosen, b"sealed", **{"quiet_ms": QUIET * 1000, **more})
    )


async def outbox(bench: Bench, state: NoticeState | None = None) -> list[Notice]:
    """Oldest first."""
    found = await bench.store.notices_page(Span(250), app_id="app_1", state=state)
    return sorted(found, key=lambda each: (each.created_ms, each.generation))


class Noticing(OnBench):
    async def test_a_transition_is_kept_once(self, bench: Bench) -> None:
        """Whoever writes a transition first keeps it whole; whoever comes later, even at once, changes nothing."""
        await listening(bench)
        made = transition(
            bench,
            State.CLOSED,
            State.OPEN,
            reason="it's \x00 <b>",
            actor="key_1",
            override=Override.OPEN,
            numbers={"failed": 2.5},
        )
        answers = await asyncio.gather(*(bench.store.keep_transitions([made, made]) for _ in range(5)))
        assert sum(len(new) for new in answers) == 1
        (entry,) = await bench.store.transitions_page(Span(), key=KEY)
        kept = entry.transition
        assert (entry.app_id, entry.endpoint_id) == ("app_1", "ep_1")
        assert kept.reason.replace("\ufffd", "\x00") == made.reason
        assert (kept.numbers, kept.at, kept.actor, kept.override) == (made.numbers, made.at, "key_1", Override.OPEN)
        assert len(await outbox(bench)) == 1

    async def test_transitions_in_pages(self, bench: Bench) -> None:
        """Transitions are listed by time, of one breaker, of one application, or all, and both ways."""
        await bench.lane()
        made = [
            transition(bench, State.CLOSED, State.OPEN, key, generation=number)
            for number, key in enumerate([KEY, "app_1/shared", "app_2/ep_9", KEY], 1)
        ]
        await bench.store.keep_transitions(made)

        def names(entries: Any) -> list[tuple[str, int]]:
            return [(each.transition.key, each.transition.generation) for each in entries]

        whole = await bench.store.transitions_page(Span())
        assert names(whole) == [(each.key, each.generation) for each in made]
        assert [each.endpoint_id for each in whole] == ["ep_1", None, None, "ep_1"]
        back = Span(2, before=Mark(4, KEY), backwards=True)
        assert names(await bench.store.transitions_page(back)) == [("app_2/ep_9", 3), ("app_1/shared", 2)]
        assert names(await bench.store.transitions_page(Span(), app_id="app_1")) == [
            (KEY, 1),
            ("app_1/shared", 2),
            (KEY, 4),
        ]
        assert names(await bench.store.transitions_page(Span(1, Mark(1, KEY)), key=KEY)) == [(KEY, 4)]

    async def test_heads(self, bench: Bench) -> None:
        """The last transition of a breaker is known by its generation, in whatever order they are written."""
        await bench.store.keep_transitions([transition(bench, State.HALF_OPEN, State.CLOSED, generation=9)])
        await bench.store.keep_transitions([transition(bench, State.CLOSED, State.OPEN, generation=8)])
        await bench.store.keep_transitions([transition(bench, State.CLOSED, State.OPEN, "app_1/b", generation=7)])
        assert await bench.store.heads([KEY, "app_1/none"]) == [Head(KEY, 9, State.CLOSED)]
        assert await bench.store.unhealthy_heads("", 10) == [Head("app_1/b", 7, State.OPEN)]
        assert await bench.store.unhealthy_heads("app_1/b", 10) == []

    async def test_who_is_told_of_what(self, bench: Bench) -> None:
        """A notice is made for each channel that was chosen, of chosen events only; without a channel there is none."""
        await bench.lane()
        await bench.store.keep_transitions([transition(bench, State.CLOSED, State.OPEN, generation=1)])
        assert await outbox(bench) == []
        both = (NoticeChannel.EMAIL, NoticeChannel.WEBHOOK)
        await bench.store.change_notice_settings(
            NoticeSettings("app_1", both, b"", (Event.BREAKER_CLOSED,), quiet_ms=1000)
        )
        await bench.store.keep_transitions(
            [
                transition(bench, State.OPEN, State.HALF_OPEN, generation=2),
                transition(bench, State.HALF_OPEN, State.CLOSED, generation=3),
                transition(bench, State.CLOSED, State.OPEN, generation=4),
            ]
        )
        found = await outbox(bench)
        assert {(each.event, each.channel, each.generation) for each in found} == {
            (Event.BREAKER_CLOSED, channel, 3) for channel in both
        }
        assert len({each.id for each in found}) == 2
        assert found[0].facts["numbers"] == {"streak": 3.0, "limit": 3.0}

    async def test_nobody_is_told_of_what_is_gone(self, bench: Bench) -> None:
        """A breaker that closes because its endpoint was deleted is no recovery, and nobody hears of it."""
        await listening(bench)
        await bench.store.keep_transitions([transition(bench, State.OPEN, State.CLOSED, reason=UNGUARDED)])
        assert await outbox(bench) == []

    async def test_a_flapping_endpoint(self, bench: Bench) -> None:
        """Of fifty changes within the quiet window the first is told at once, and the last when it ends, for all."""
        await listening(bench)
        for number in range(50):
            before, after = _WAY["closed" if number % 2 else "open"]
            await bench.store.keep_transitions([transition(bench, before, after)])
            bench.clock.advance(1)
        assert len(await outbox(bench)) == 50
        first, last = [each for each in await outbox(bench) if each.state is NoticeState.PENDING]
        assert (first.event, first.due_ms, first.folded) == (Event.BREAKER_OPENED, bench.now_ms - 50_000, 0)
        assert (last.event, last.folded) == (Event.BREAKER_CLOSED, 48)
        assert last.due_ms == bench.now_ms - 50_000 + QUIET * 1000
        assert len(await outbox(bench, NoticeState.FOLDED)) == 48

    async def test_probes_that_fail_are_no_news(self, bench: Bench) -> None:
        """A breaker that opens again after each probe was told of once, and again only after something else was."""
        await listening(bench)
        for before, after in ((State.CLOSED, State.OPEN), *[(State.HALF_OPEN, State.OPEN)] * 3):
            await bench.store.keep_transitions([transition(bench, before, after)])
            bench.clock.advance(1)
        assert len(await outbox(bench)) == 1

    async def test_disabled_is_told_at_once(self, bench: Bench) -> None:
        """That an endpoint was disabled waits for no window, unless its owner heard just that last."""
        await listening(bench)
        for before, after in ((State.OPEN, State.DISABLED), (State.DISABLED, State.HALF_OPEN)) * 2:
            await bench.store.keep_transitions([transition(bench, before, after)])
            bench.clock.advance(10)
        pending = await outbox(bench, NoticeState.PENDING)
        assert [each.event for each in pending] == [Event.ENDPOINT_DISABLED, Event.ENDPOINT_ENABLED]
        assert pending[1].folded == 2
        bench.clock.advance(QUIET)
        await bench.store.keep_transitions([transition(bench, State.HALF_OPEN, State.DISABLED)])
        newest = (await outbox(bench, NoticeState.PENDING))[-1]
        assert (newest.event, newest.due_ms) == (Event.ENDPOINT_DISABLED, bench.now_ms)

    async def test_an_endpoint_that_is_stopped(self, bench: Bench) -> None:
        """Disabling and enabling are told once each; pausing, and what was so already, are told to nobody."""
        await listening(bench)
        for _ in range(2):
            await bench.store.stop_endpoint("ep_1", Stop.PAUSED)
            await bench.store.stop_endpoint("ep_1", Stop.DISABLED, "gone")
        (found,) = await outbox(bench)
        assert (found.event, found.key, found.endpoint_id) == (Event.ENDPOINT_DISABLED, "ep_1", "ep_1")
        assert found.facts["reason"] == "gone"
        bench.clock.advance(1)
        for _ in range(2):
            await bench.store.start_endpoint("ep_1", Stop.PAUSED)
            await bench.store.start_endpoint("ep_1", Stop.DISABLED)
        assert [each.event for each in await outbox(bench)] == [Event.ENDPOINT_DISABLED, Event.ENDPOINT_ENABLED]

    async def test_a_breaker_that_disables(self, bench: Bench) -> None:
        """One disabled endpoint makes one notice, though its breaker and its row both say so, and so does enabling."""
        await listening(bench)
        made = transition(bench, State.OPEN, State.DISABLED)
        await bench.store.stop_endpoint("ep_1", Stop.DISABLED, "breaker: streak", because=made)
        await bench.store.keep_transitions([made])
        (found,) = await outbox(bench)
        assert (found.event, found.generation) == (Event.ENDPOINT_DISABLED, made.generation)
        bench.clock.advance(1)
        await bench.store.start_endpoint("ep_1", Stop.DISABLED)
        await bench.store.keep_transitions([transition(bench, State.DISABLED, State.HALF_OPEN)])
        assert [each.event for each in await outbox(bench)] == [Event.ENDPOINT_DISABLED, Event.ENDPOINT_ENABLED]

    async def test_an_endpoint_that_is_disabled_twice(self, bench: Bench) -> None:
        """Its row and then its breaker: whichever says so first is told, and the other has nothing to add."""
        await listening(bench, NoticeChannel.CHAT, NoticeChannel.EMAIL)
        await bench.store.stop_endpoint("ep_1", Stop.DISABLED, "gone")
        bench.clock.advance(1)
        await bench.store.keep_transitions([transition(bench, State.CLOSED, State.DISABLED)])
        found = await outbox(bench)
        assert [(each.event, each.key) for each in found] == [(Event.ENDPOINT_DISABLED, "ep_1")] * 2
        assert len(await bench.store.transitions_page(Span(), key=KEY)) == 1

    async def test_deliveries_that_are_given_up(self, bench: Bench) -> None:
        """The first that fails is told at once, and all others within the window by one row that counts them."""
        await listening(bench)
        for number in range(5):
            for _ in range(3):
                await bench.send()
            claims = await bench.claim()
            assert len(claims) == 3
            await bench.settle(*claims, state=DeliveryState.FAILED if number else DeliveryState.SENT)
            stale = await bench.settle(*claims, state=DeliveryState.FAILED)
            assert len(stale) == 3
            bench.clock.advance(1)
        found = await outbox(bench)
        assert [(each.event, each.folded) for each in found] == [(Event.EXHAUSTED, 2), (Event.EXHAUSTED, 8)]
        assert found[0].facts["attempt"]["status"] == 200

    async def test_a_quarantined_delivery(self, bench: Bench) -> None:
        """A delivery that lost too many workers is told of as given up."""
        await listening(bench)
        message_id = await bench.send()
        await bench.claim(lease=1)
        bench.clock.advance(2)
        await bench.store.rescue(deaths=1)
        (found,) = await outbox(bench)
        assert (found.event, found.facts) == (
            Event.EXHAUSTED,
            {"message_id": message_id, "reason": "quarantined"},
        )

    async def test_stages_of_failing(self, bench: Bench) -> None:
        """An endpoint that nothing reaches is told of at each stage, once; a success begins anew."""
        await listening(bench, quiet_ms=0)
        stages = (10_000, 60_000)
        await bench.send()
        (claim,) = await bench.claim()
        await bench.settle(claim, state=DeliveryState.PENDING, healthy=False)
        assert await bench.store.look_for_failing(stages) == []
        bench.clock.advance(10)
        (reached,) = await bench.store.look_for_failing(stages)
        assert (reached.event, reached.facts["stage_ms"]) == (Event.FAILING, 10_000)
        assert reached.facts["message_id"] == claim.message_id
        assert await bench.store.look_for_failing(stages) == []
        bench.clock.advance(50)
        assert [each.facts["stage_ms"] for each in await bench.store.look_for_failing(stages)] == [60_000]
        (again,) = await bench.claim()
        await bench.settle(again)
        bench.clock.advance(100)
        assert await bench.store.look_for_failing(stages) == []
        assert [each.facts["stage_ms"] for each in await outbox(bench)] == [10_000, 60_000]

    async def test_pruning_history(self, bench: Bench) -> None:
        """What is old is forgotten, but for notices that still wait and for the last word on a broken endpoint."""
        await listening(bench, quiet_ms=0)
        await bench.store.keep_transitions(
            [
                transition(bench, State.CLOSED, State.OPEN, generation=bench.now_ms),
                transition(bench, State.OPEN, State.CLOSED, "app_1/b", generation=bench.now_ms),
            ]
        )
        (sent,) = await bench.store.claim_notices(NoticeChannel.CHAT, 1, lease_ms=1000)
        await bench.store.settle_notice(sent, NoticeState.SENT)
        bench.clock.advance(100)
        kept = transition(bench, State.CLOSED, State.OPEN, "app_1/c")
        await bench.store.keep_transitions([kept])
        assert await bench.store.prune_history(older_than_ms=bench.now_ms - 1) == 3
        assert await bench.store.prune_history(older_than_ms=bench.now_ms - 1) == 0
        assert [each.transition for each in await bench.store.transitions_page(Span())] == [kept]
        assert {each.key for each in await bench.store.heads([KEY, "app_1/b"])} == {KEY}
        assert sent.id not in {each.id for each in await outbox(bench)}

    async def test_an_entry_is_a_value(self, bench: Bench) -> None:
        """What is kept reads back equal to what was made."""
        await bench.lane()
        made = transition(bench, State.CLOSED, State.OPEN)
        await bench.store.keep_transitions([made])
        assert await bench.store.transitions_page(Span()) == [Entry(made, "app_1", "ep_1")]
