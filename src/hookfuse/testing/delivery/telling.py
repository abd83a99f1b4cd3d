"""The outbox as operators see it: how much waits in it, and what it says of the service itself."""

from __future__ import annotations

from hookfuse.core.history import service_is
from hookfuse.core.notice import NOBODYS, Event, NoticeChannel, NoticeSettings, NoticeState, Waiting
from hookfuse.core.paging import Span
from hookfuse.core.state import State
from hookfuse.testing.delivery.bench import Bench, OnBench
from hookfuse.testing.delivery.noticing import listening, transition


class Telling(OnBench):
    async def test_what_waits(self, bench: Bench) -> None:
        """Notices that have not ended are counted by channel; their age is from when they were free to go."""
        await listening(bench, NoticeChannel.CHAT, NoticeChannel.EMAIL)
        assert await bench.store.notices_waiting() == []
        await bench.store.keep_transitions([transition(bench, State.CLOSED, State.OPEN)])
        bench.clock.advance(60)
        await bench.store.keep_transitions([transition(bench, State.HALF_OPEN, State.CLOSED)])
        both = [Waiting(channel, 2, 60_000) for channel in (NoticeChannel.CHAT, NoticeChannel.EMAIL)]
        assert sorted(await bench.store.notices_waiting()) == both
        (claimed,) = await bench.store.claim_notices(NoticeChannel.CHAT, 5, lease_ms=1_000)
        assert sorted(await bench.store.notices_waiting()) == both, "what is under way has not ended"
        await bench.store.settle_notice(claimed, NoticeState.SENT)
        assert sorted(await bench.store.notices_waiting()) == [Waiting(NoticeChannel.CHAT, 1, 0), both[1]]

    async def test_the_service_itself(self, bench: Bench) -> None:
        """What several processes say of the service is told once, under no application; and so is its end."""
        await bench.store.change_notice_settings(NoticeSettings(NOBODYS, (NoticeChannel.CHAT,), b"", quiet_ms=0))
        for troubled in (True, False):
            for _ in range(3):
                bench.clock.advance(1)
                await bench.store.tell(service_is("redis", "it is away", bench.now_ms, troubled=troubled))
        found = await bench.store.notices_page(Span(), app_id=NOBODYS)
        assert [each.event for each in found] == [Event.SERVICE_TROUBLE, Event.SERVICE_RECOVERED]
        assert {(each.facts["reason"], each.endpoint_id) for each in found} == {("redis", None)}
        await bench.store.tell(service_is("backlog", "it is late", bench.now_ms, troubled=True))
        assert len(await bench.store.notices_page(Span(), app_id=NOBODYS)) == 3, "one trouble does not hide another"
