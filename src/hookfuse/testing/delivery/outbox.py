"""What whoever sends notices relies on: a claim is a lease, and only its holder settles it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hookfuse.core.duty import Duty
from hookfuse.core.notice import Event, NoticeChannel, NoticeSettings, NoticeState
from hookfuse.core.state import State
from hookfuse.testing.delivery.bench import Bench, OnBench
from hookfuse.testing.delivery.noticing import listening, outbox, transition

CHAT = NoticeChannel.CHAT


class Posting(OnBench):
    async def test_a_notice_is_claimed_once(self, bench: Bench) -> None:
        """Of many who claim at once one gets a notice; others get it when the lease ends, with the same id."""
        await listening(bench)
        await bench.store.keep_transitions([transition(bench, State.CLOSED, State.OPEN)])
        answers = await asyncio.gather(*(bench.store.claim_notices(CHAT, 5, lease_ms=10_000) for _ in range(5)))
        (first,) = [each for found in answers for each in found]
        assert (first.state, first.attempts) == (NoticeState.SENDING, 1)
        bench.clock.advance(9)
        assert await bench.store.claim_notices(CHAT, 5, lease_ms=10_000) == []
        bench.clock.advance(1)
        (second,) = await bench.store.claim_notices(CHAT, 5, lease_ms=10_000)
        assert (second.id, second.attempts) == (first.id, 2)
        assert not await bench.store.settle_notice(first, NoticeState.SENT)
        assert await bench.store.settle_notice(second, NoticeState.SENT)
        assert not await bench.store.settle_notice(second, NoticeState.FAILED)
        (ended,) = await outbox(bench)
        assert (ended.state, ended.due_ms, ended.ended_ms) == (NoticeState.SENT, None, bench.now_ms)

    async def test_a_notice_that_could_not_be_sent(self, bench: Bench) -> None:
        """It comes back after its delay, with the reason; given up, it stays to be seen."""
        await listening(bench)
        await bench.store.keep_transitions([transition(bench, State.CLOSED, State.OPEN)])
        (claimed,) = await bench.store.claim_notices(CHAT, 5, lease_ms=10_000)
        assert await bench.store.settle_notice(claimed, NoticeState.PENDING, reason="no \x00", delay_ms=30_000)
        bench.clock.advance(29)
        assert await bench.store.claim_notices(CHAT, 5, lease_ms=10_000) == []
        bench.clock.advance(1)
        (again,) = await bench.store.claim_notices(CHAT, 5, lease_ms=10_000)
        assert again.reason.startswith("no ")
        assert await bench.store.settle_notice(again, NoticeState.FAILED, reason="gave up")
        (failed,) = await outbox(bench, NoticeState.FAILED)
        assert (failed.reason, failed.attempts, failed.ended_ms) == ("gave up", 2, bench.now_ms)

    async def test_channels_do_not_wait_for_one_another(self, bench: Bench) -> None:
        """A claim takes notices of one channel, the longest due first, and no more than it asked for."""
        await listening(bench, CHAT, NoticeChannel.EMAIL)
        for number in range(3):
            await bench.store.keep_transitions([transition(bench, State.CLOSED, State.OPEN, f"app_1/{number}")])
            bench.clock.advance(1)
        found = await bench.store.claim_notices(CHAT, 2, lease_ms=1000)
        assert sorted(each.key for each in found) == ["app_1/0", "app_1/1"]
        assert {each.channel for each in found} == {CHAT}
        assert len(await bench.store.claim_notices(NoticeChannel.EMAIL, 9, lease_ms=1000)) == 3

    async def test_a_leader_that_was_replaced(self, bench: Bench) -> None:
        """Whoever no longer holds the duty claims nothing, finds nothing, and forgets nothing."""
        await listening(bench)
        await bench.store.keep_transitions([transition(bench, State.CLOSED, State.OPEN)])
        (old,) = await bench.store.hold_duties([Duty.NOTICES], "one", 1000)
        bench.clock.advance(2)
        (new,) = await bench.store.hold_duties([Duty.NOTICES], "two", 1000)
        assert await bench.store.claim_notices(CHAT, 1, lease_ms=1000, tenure=old) == []
        assert await bench.store.look_for_failing([0], old) == []
        assert await bench.store.prune_history(older_than_ms=bench.now_ms + 1, tenure=old) == 0
        assert len(await bench.store.claim_notices(CHAT, 1, lease_ms=1000, tenure=new)) == 1

    async def test_settings(self, bench: Bench) -> None:
        """What an application chose reads back, is replaced as a whole, resealed if nobody changed it, and deleted."""
        await bench.application()
        assert await bench.store.notice_settings("app_1") is None
        given = NoticeSettings("app_1", (CHAT,), b"\x00\xff", (Event.FAILING,), 5)
        stored = await bench.store.change_notice_settings(given)
        assert stored == replace(given, updated_ms=bench.now_ms)
        assert await bench.store.notice_settings("app_1") == stored
        assert await bench.store.notice_settings_from("", 5) == [stored]
        assert await bench.store.reseal_notices(stored, b"new")
        assert not await bench.store.reseal_notices(stored, b"newer")
        other = await bench.store.change_notice_settings(NoticeSettings("app_1", (), b""))
        assert (other.events, other.quiet_ms, other.sealed) == (None, None, b"")
        assert await bench.store.delete_notice_settings("app_1")
        assert not await bench.store.delete_notice_settings("app_1")
