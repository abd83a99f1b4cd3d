"""The outbox is emptied: by real channels, each for itself, on a schedule that ends, and with the same ids."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from hookfuse import AsyncBreakers
from hookfuse.app.notices import mailer_of, posts_of
from hookfuse.core.addresses import Networks
from hookfuse.core.duty import Duty, Tenure
from hookfuse.core.endpoint import Application, Endpoint, Stop
from hookfuse.core.mail import MailServer
from hookfuse.core.notice import Notice, NoticeChannel, NoticeSettings, NoticeState
from hookfuse.core.paging import Span
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.secret import Secret, SecretRing
from hookfuse.delivery.notify import Notifier, NotifySettings
from hookfuse.delivery.notify_addresses import AddressBook, Addresses, NoticeDefaults
from hookfuse.delivery.reconcile import Reconciler
from hookfuse.sealing import AesGcmSealer, CurveEd25519, MasterKeys
from hookfuse.stores.memory import MemoryStore
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing.receivers import Arrival, Failing, Hang, Ok, Receivers
from hookfuse.transport import HttpSender
from tests.servers.mail import mail_server

pytestmark = pytest.mark.anyio

SECRET = Secret(bytes(range(32)))
LOOPBACK = Networks(allowed=("127.0.0.0/8",))
FAST = NotifySettings(poll=0.01, look_every=0.05, retry=RetrySchedule((0.02, 0.02), 0), lease=5)


@pytest.fixture
async def receivers() -> AsyncIterator[Receivers]:
    async with Receivers() as found:
        yield found


class Office:
    """A store, and a notifier over real channels."""

    def __init__(self, folder: Path, addresses: Addresses, smtp_port: int | None, settings: NotifySettings) -> None:
        server = None if smtp_port is None else MailServer("127.0.0.1", smtp_port, tls=False)
        self.defaults = NoticeDefaults(addresses, mail_server=server, mail_from="hookfuse@example.com")
        self.store = SqliteStore(folder / "hookfuse.db", notices=self.defaults.rules)
        self.breakers = AsyncBreakers(MemoryStore())
        self.sender = HttpSender(LOOPBACK)
        self.mailer = mailer_of(self.defaults, LOOPBACK, None)
        self.sealer = AesGcmSealer(MasterKeys([bytes(32)]))
        self.notifier = Notifier(
            self.store,
            posts_of(self.sender, self.mailer, CurveEd25519(), LOOPBACK, self.defaults.mail_from),
            AddressBook(self.store, self.sealer, addresses),
            Reconciler(self.store, self.breakers),
            settings,
        )

    async def disable(self, id_: str = "ep_1") -> None:
        if await self.store.application("app_1") is None:
            await self.store.add_application(Application("app_1", "Acme", uid="acme"))
        await self.store.add_endpoint(Endpoint(id_, "app_1", "https://example.com/"))
        await self.store.stop_endpoint(id_, Stop.DISABLED, "gone: the endpoint answered 410")

    async def notices(self) -> dict[NoticeChannel, Notice]:
        return {each.channel: each for each in await self.store.notices_page(Span())}

    async def until(self, channel: NoticeChannel, state: NoticeState) -> Notice:
        async with asyncio.timeout(20):
            while (await self.notices())[channel].state is not state:
                await asyncio.sleep(0.005)
        return (await self.notices())[channel]


@asynccontextmanager
async def office(
    folder: Path, addresses: Addresses, *, smtp_port: int | None = None, settings: NotifySettings = FAST
) -> AsyncIterator[Office]:
    made = Office(folder, addresses, smtp_port, settings)
    await made.store.open()
    await made.disable()
    (tenure,) = await made.store.hold_duties([Duty.NOTICES], "test", 60_000)
    running = asyncio.create_task(made.notifier.run(tenure))
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await made.sender.close()
        if made.mailer is not None:
            await made.mailer.close()
        await made.store.close()


async def test_all_channels(tmp_path: Path, receivers: Receivers) -> None:
    """One disabled endpoint is told once by a signed webhook, once by mail and once in the chat."""
    seen: list[Arrival] = []

    def look(arrival: Arrival) -> Any:
        seen.append(arrival)
        return Ok()

    verify = {"ops": Webhook(SECRET.text).verify, "chat": None}
    urls = {name: receivers.add(name, look, verify=check) for name, check in verify.items()}
    with mail_server() as inbox:
        addresses = Addresses(urls["ops"], SecretRing(SECRET), ("a@example.com",), urls["chat"])
        async with office(tmp_path, addresses, smtp_port=inbox.port) as found:
            for channel in NoticeChannel:
                await found.until(channel, NoticeState.SENT)
            notices = await found.notices()
        by_name = {each.endpoint: each for each in seen}
        assert len(seen) == 2
        assert by_name["ops"].headers["webhook-id"] == notices[NoticeChannel.WEBHOOK].id
        (receipt,) = [each for each in receivers.receipts() if each.endpoint == "ops"]
        assert receipt.verified
        assert json.loads(by_name["ops"].body)["type"] == "endpoint.disabled"
        assert json.loads(by_name["chat"].body)["text"].startswith("Endpoint ep_1 was disabled.")
        (mail,) = inbox.mails
        assert mail["message-id"] == f"<{notices[NoticeChannel.EMAIL].id}@example.com>"
        assert "410" in mail.get_content()


async def test_a_broken_channel_blocks_nothing(tmp_path: Path, receivers: Receivers) -> None:
    """While the chat hangs and the mail server is away, the webhook goes out, and the mail is tried again."""
    urls = {"ops": receivers.add("ops", Ok()), "chat": receivers.add("chat", Hang())}
    addresses = Addresses(urls["ops"], SecretRing(SECRET), ("a@example.com",), urls["chat"])
    settings = NotifySettings(poll=0.01, slots=1, retry=RetrySchedule((30.0,), 0))
    async with office(tmp_path, addresses, smtp_port=1, settings=settings) as found:
        await receivers["chat"].arrived(1)
        await found.until(NoticeChannel.WEBHOOK, NoticeState.SENT)
        mail = await found.until(NoticeChannel.EMAIL, NoticeState.PENDING)
        assert (mail.attempts, mail.reason.partition(":")[0]) == (1, "connect")
        await found.disable("ep_2")
        async with asyncio.timeout(5):
            await receivers["ops"].arrived(2)
        assert (await found.notices())[NoticeChannel.CHAT].state is NoticeState.PENDING, "one slot, and it hangs"


async def test_given_up(tmp_path: Path, receivers: Receivers, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody takes is posted as often as the schedule says, with the same id, then given up for all to see."""
    url = receivers.add("ops", Failing(500))
    with caplog.at_level(logging.INFO):
        async with office(tmp_path, Addresses(url, SecretRing(SECRET))) as found:
            notice = await found.until(NoticeChannel.WEBHOOK, NoticeState.FAILED)
    assert (notice.attempts, notice.reason) == (3, "status 500")
    receipts = receivers.receipts()
    assert [each.webhook_id for each in receipts] == [notice.id] * 3
    assert "given up: status 500" in caplog.text
    assert url not in caplog.text
    assert SECRET.text not in caplog.text


async def test_addresses_that_cannot_be_used(tmp_path: Path) -> None:
    """Settings sealed by another key, and a mail where there is no server, are troubles of that notice alone."""
    async with office(tmp_path, Addresses(email=("a@example.com",))) as found:
        mail = await found.until(NoticeChannel.EMAIL, NoticeState.FAILED)
        assert mail.reason == "no mail server is set"
        await found.store.change_notice_settings(NoticeSettings("app_1", (NoticeChannel.CHAT,), b"nonsense"))
        await found.disable("ep_2")
        chat = await found.until(NoticeChannel.CHAT, NoticeState.FAILED)
        assert chat.reason == "the addresses cannot be read"


async def test_blocked_destinations(tmp_path: Path) -> None:
    """A chat at an address that is not dialled is not dialled."""
    async with office(tmp_path, Addresses(chat_url="http://169.254.169.254/latest")) as found:
        chat = await found.until(NoticeChannel.CHAT, NoticeState.FAILED)
        assert "not dialled" in chat.reason


async def test_a_lost_process_is_not_for_ever(tmp_path: Path, receivers: Receivers) -> None:
    """A notice whose poster was lost more often than the schedule has attempts is given up without another try."""
    url = receivers.add("ops", Ok())
    made = Office(tmp_path, Addresses(url, SecretRing(SECRET)), None, FAST)
    await made.store.open()
    await made.disable()
    for _ in range(3):
        assert await made.store.claim_notices(NoticeChannel.WEBHOOK, 1, lease_ms=0)
    tenure = Tenure(Duty.NOTICES, "test", 0, 1, 0)
    await made.store.hold_duties([Duty.NOTICES], "test", 60_000)
    running = asyncio.create_task(made.notifier.run(tenure))
    found = await made.until(NoticeChannel.WEBHOOK, NoticeState.FAILED)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (found.attempts, found.reason) == (4, "every process that posted it was lost")
    assert receivers.receipts() == []
    await made.sender.close()
    await made.store.close()
