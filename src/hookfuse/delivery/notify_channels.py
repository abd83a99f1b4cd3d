"""The ways a notice can travel. Each posts one notice and says what came of it; nothing here raises."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Final, Protocol

from hookfuse.core import signing
from hookfuse.core.addresses import Networks
from hookfuse.core.destination import Destination
from hookfuse.core.mail import Mail
from hookfuse.core.sending import Request
from hookfuse.delivery.notify_addresses import Addresses
from hookfuse.delivery.notify_texts import Story
from hookfuse.errors import HookfuseError
from hookfuse.ports import Sender
from hookfuse.ports.notices import Mailer

DEADLINE: Final = 10.0
_JSON: Final = ("content-type", "application/json")


@dataclass(frozen=True, slots=True)
class Posted:
    """What came of it: the receiver took it, or `trouble` says why not."""

    trouble: str = ""

    @property
    def taken(self) -> bool:
        return not self.trouble


class Post(Protocol):
    async def post(self, story: Story, addresses: Addresses) -> Posted: ...


class WebhookPost:
    """Signed as every webhook is; the id is that of the notice, so a repeat is known by it."""

    def __init__(self, sender: Sender, networks: Networks, sign_ed25519: signing.SignEd25519 | None = None) -> None:
        self._sender = sender
        self._networks = networks
        self._sign_ed25519 = sign_ed25519

    async def post(self, story: Story, addresses: Addresses) -> Posted:
        if addresses.webhook_url is None or addresses.ring is None:
            return Posted("no webhook is set")
        now, body = time.time(), story.payload
        signed = signing.headers(addresses.ring, story.notice.id, int(now), body, now, self._sign_ed25519)
        return await _post(self._sender, self._networks, addresses.webhook_url, (_JSON, *signed), body)


class ChatPost:
    """A JSON object with a text, which is what the incoming webhooks of chats take."""

    def __init__(self, sender: Sender, networks: Networks) -> None:
        self._sender = sender
        self._networks = networks

    async def post(self, story: Story, addresses: Addresses) -> Posted:
        if addresses.chat_url is None:
            return Posted("no chat is set")
        body = json.dumps({"text": story.chat}).encode()
        return await _post(self._sender, self._networks, addresses.chat_url, (_JSON,), body)


class EmailPost:
    def __init__(self, mailer: Mailer | None, mail_from: str) -> None:
        self._mailer = mailer
        self._from = mail_from

    async def post(self, story: Story, addresses: Addresses) -> Posted:
        if self._mailer is None:
            return Posted("no mail server is set")
        if not addresses.email:
            return Posted("no e-mail address is set")
        content = compose(story, self._from, addresses.email)
        mailed = await self._mailer.send(Mail(self._from, addresses.email, content))
        return Posted(mailed.trouble)


def compose(story: Story, mail_from: str, to: tuple[str, ...]) -> bytes:
    """A mail whose headers hold nothing but what is meant to be there: the library refuses line ends in them."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = mail_from
    mail["To"] = ", ".join(to)
    mail["Subject"] = f"[Hookfuse] {story.subject}"
    mail["Date"] = formatdate(time.time())
    mail["Message-ID"] = f"<{story.notice.id}@{mail_from.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Hookfuse-Event"] = story.notice.event.value
    mail.set_content("\n".join(story.lines) + "\n", cte="quoted-printable")
    return mail.as_bytes()


async def _post(
    sender: Sender, networks: Networks, url: str, headers: tuple[tuple[str, str], ...], body: bytes
) -> Posted:
    try:
        destination = Destination.parse(url, networks=networks)
    except HookfuseError as error:
        return Posted(str(error))
    result = await sender.send(Request(destination, headers, body, DEADLINE))
    if result.succeeded:
        return Posted()
    return Posted(f"status {result.status}" if result.trouble is None else f"{result.trouble}: {result.detail}")
