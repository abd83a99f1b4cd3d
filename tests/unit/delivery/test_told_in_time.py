"""From a disabled endpoint to its notice, with the settings of the program, in turned time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hookfuse import AsyncBreakers, Outcome, Policy, Streak
from hookfuse.app.notices import posts_of
from hookfuse.core.addresses import Networks
from hookfuse.core.duty import Duty
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.notice import NoticeChannel, NoticeRules
from hookfuse.core.paging import Span
from hookfuse.delivery.leader import LEASE, Leader
from hookfuse.delivery.notify import Notifier, NotifySettings
from hookfuse.delivery.notify_addresses import AddressBook, Addresses
from hookfuse.delivery.reconcile import Reconciler
from hookfuse.sealing import AesGcmSealer, CurveEd25519, MasterKeys
from hookfuse.stores.memory import MemoryStore
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing.receivers import Ok, ReceiversProcess
from hookfuse.transport import HttpSender
from tests.unit.delivery.turned import TurnedLoop

KEY = "app_1/ep_1"
LATEST = 60.0
LOOPBACK = Networks(allowed=("127.0.0.0/8",))
DISABLES = Policy(trip=Streak(1), cool_off=60, disable_after=1)


async def until_told(folder: Path, url: str, step: str) -> float:
    """The leader dies at this step; returns how many seconds later another one has told of it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TurnedLoop)
    store = SqliteStore(folder / "hookfuse.db", clock=loop, notices=NoticeRules((NoticeChannel.CHAT,)))
    await store.open()
    await store.add_application(Application("app_1", "Acme"))
    await store.add_endpoint(Endpoint("ep_1", "app_1", "https://example.com/"))
    breakers = AsyncBreakers(MemoryStore(clock=loop), policy=DISABLES)
    sender = HttpSender(LOOPBACK)
    (dead,) = await store.hold_duties([Duty.NOTICES], "dead", int(LEASE * 1000))
    made = await breakers.record(await breakers.admit(KEY), Outcome.FAILURE)
    assert made is not None
    began = loop.now()
    if step != "disabled":
        await store.keep_transitions([made])
    if step == "claimed":
        lease_ms = int(NotifySettings().lease * 1000)
        assert await store.claim_notices(NoticeChannel.CHAT, 1, lease_ms=lease_ms, tenure=dead)
    notifier = Notifier(
        store,
        posts_of(sender, None, CurveEd25519(), LOOPBACK, "hookfuse@example.com"),
        AddressBook(store, AesGcmSealer(MasterKeys([bytes(32)])), Addresses(chat_url=url)),
        Reconciler(store, breakers),
    )
    async with Leader(store, {Duty.NOTICES: notifier.run}, holder="next"):
        while not (ended := [each.ended_ms for each in await store.notices_page(Span()) if each.ended_ms]):
            assert loop.now() - began < 10 * LATEST, "it is never told"
            await asyncio.sleep(0.5)
    (found,) = await store.endpoints(["ep_1"])
    assert not found.enabled, "the endpoint is stopped, too"
    await sender.close()
    await store.close()
    return ended[0] / 1000 - began


@pytest.mark.parametrize("step", ["disabled", "written", "claimed"])
def test_g9_within_a_minute(tmp_path: Path, step: str) -> None:
    """With the leader killed at any step, its lease, its claim and the looks of the next one fit into a minute."""
    with ReceiversProcess() as receivers:
        url = receivers.add("chat", Ok())
        with asyncio.Runner(loop_factory=TurnedLoop) as runner:
            seconds = runner.run(until_told(tmp_path, url, step))
        assert receivers.counts["chat"].requests == 1
    print(f"killed when it was {step}: told after {seconds:.1f} s")  # noqa: T201
    assert LEASE - 1 <= seconds < LATEST
