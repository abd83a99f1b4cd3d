"""Notices: who is told of an application's endpoints, on which channels, and what became of each notice."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from hookfuse.api.call import Call, Reader
from hookfuse.api.endpoint_models import SecretText
from hookfuse.api.problems import field, invalid, not_found
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Instant, Iterator, Limit, Page, Wire, instant, instant_or_none
from hookfuse.core.destination import Destination
from hookfuse.core.mail import MOST_RECIPIENTS, check_address
from hookfuse.core.notice import Event, Notice, NoticeChannel, NoticeSettings, NoticeState
from hookfuse.core.paging import Mark
from hookfuse.core.secret import SecretRing
from hookfuse.delivery.notify_addresses import Addresses

routes = Routes("Notices")

# A change that builds on what was there before must not cross another one in this process.
_changing = asyncio.Lock()

Url = Annotated[str, Meta(max_length=2048)]


class NoticeWebhookIn(Wire):
    url: Url
    secret: SecretText | None = None
    """What signs; left out: as it was, or a new one. A replaced one signs on for a day."""


class NoticeEmailIn(Wire):
    to: Annotated[list[Annotated[str, Meta(max_length=254)]], Meta(min_length=1, max_length=MOST_RECIPIENTS)]


class NoticeChatIn(Wire):
    url: Url | None = None
    """The incoming webhook of a chat; left out: as it was."""


class NoticesIn(Wire):
    """Who is told, instead of the defaults. A channel that is left out is not used."""

    webhook: NoticeWebhookIn | None = None
    email: NoticeEmailIn | None = None
    chat: NoticeChatIn | None = None
    events: Annotated[list[Event], Meta(min_length=1, max_length=len(Event))] | None = None
    """Left out: the default."""
    quiet_seconds: Annotated[float, Meta(ge=0, le=604_800)] | None = None
    """How long an endpoint that was told of is not told of again; left out: the default."""


class NoticeWebhookOut(Wire):
    url: str


class NoticeEmailOut(Wire):
    to: list[str]


class NoticeChatOut(Wire):
    host: str
    """Of its URL, which is a secret."""


class NoticesOut(Wire):
    own: bool
    """Whether the application has settings of its own; else those of the service hold, without their addresses."""
    channels: list[NoticeChannel]
    events: list[Event]
    quiet_seconds: float
    webhook: NoticeWebhookOut | None = None
    email: NoticeEmailOut | None = None
    chat: NoticeChatOut | None = None


class NoticeSecretOut(Wire):
    key: str


class NoticeOut(Wire):
    id: str
    """Of an operational webhook the `webhook-id`."""
    type: Event
    channel: NoticeChannel
    app_id: str
    endpoint_id: str | None
    state: NoticeState
    folded: int
    """How many others of the quiet window it speaks for."""
    attempts: int
    reason: str
    """Why it was not sent."""
    at: Instant
    next_at: Instant | None
    ended_at: Instant | None


class OutboxQuery(Wire, rename=None):
    limit: Limit = 50
    iterator: Iterator | None = None
    state: NoticeState | None = None


@routes.get("/app/{app_id}/notices")
async def get_notices(call: Call) -> NoticesOut:
    """Get who is told of an application's endpoints."""
    return _told(call, await call.parts.store.notice_settings(call.app.id))


@routes.put("/app/{app_id}/notices")
async def set_notices(call: Call, body: NoticesIn) -> NoticesOut:
    """Set who is told, on which channels, and of what."""
    async with _changing:
        before = await _addresses(call)
        addresses = _read(call, body, before)
        settings = NoticeSettings(
            call.app.id,
            addresses.channels,
            call.parts.vault.seal_addresses(call.app.id, addresses),
            None if body.events is None else tuple(dict.fromkeys(body.events)),
            None if body.quiet_seconds is None else int(body.quiet_seconds * 1000),
        )
        return _told(call, await call.parts.store.change_notice_settings(settings))


@routes.delete("/app/{app_id}/notices")
async def delete_notices(call: Call) -> None:
    """Return to the defaults of the service."""
    await call.parts.store.delete_notice_settings(call.app.id)


@routes.get("/app/{app_id}/notices/secret", needs=Needs.WRITE, audited=True)
async def get_notice_secret(call: Call) -> NoticeSecretOut:
    """Get the secret that signs operational webhooks. It needs a key that may write, and the audit log tells of it."""
    ring = (await _addresses(call)).ring
    if ring is None:
        raise not_found("secret")
    return NoticeSecretOut(key=ring.current.text)


@routes.get("/app/{app_id}/notices/outbox")
async def list_notices(call: Call, query: OutboxQuery) -> Page[NoticeOut]:
    """List the notices of an application and what became of them, newest first."""
    return await _list(call, query, call.app.id)


@routes.get("/notices/outbox", needs=Needs.OVERVIEW)
async def list_all_notices(call: Call, query: OutboxQuery) -> Page[NoticeOut]:
    """List the notices of all applications, newest first."""
    return await _list(call, query, None)


async def _list(call: Call, query: OutboxQuery, app_id: str | None) -> Page[NoticeOut]:
    about = f"notices {app_id} {query.state}"
    reader = Reader(call, about, limit=query.limit, iterator=query.iterator, newest_first=True)
    found = await call.parts.store.notices_page(reader.span, app_id=app_id, state=query.state)
    return reader.page(found, lambda each: Mark(0, each.id), _notice)


async def _addresses(call: Call) -> Addresses:
    found = await call.parts.store.notice_settings(call.app.id)
    return Addresses() if found is None else call.parts.vault.open_addresses(found)


def _read(call: Call, body: NoticesIn, before: Addresses) -> Addresses:
    webhook_url = ring = chat_url = None
    email: tuple[str, ...] = ()
    if body.webhook is not None:
        webhook_url = _url(call, body.webhook.url, "webhook")
        ring = _ring(call, body.webhook.secret, before.ring)
    if body.email is not None:
        if call.parts.notices.mail_server is None:
            raise invalid("This service has no mail server (HOOKFUSE_SMTP_URL).", "body", "email")
        for at, each in enumerate(body.email.to):
            with field("email", "to", str(at)):
                check_address(each)
        email = tuple(dict.fromkeys(body.email.to))
    if body.chat is not None:
        chat_url = before.chat_url if body.chat.url is None else _url(call, body.chat.url, "chat")
        if chat_url is None:
            raise invalid("There is none yet, so it must be given.", "body", "chat", "url")
    return Addresses(webhook_url, ring, email, chat_url)


def _url(call: Call, text: str, channel: str) -> str:
    with field(channel, "url"):
        return Destination.parse(text, networks=call.parts.networks).url


def _ring(call: Call, secret: str | None, before: SecretRing | None) -> SecretRing:
    if secret is None and before is not None:
        return before
    with field("webhook", "secret"):
        new = call.parts.vault.secret(secret)
        return SecretRing(new) if before is None or before.current == new else before.rotated(new, time.time())


def _told(call: Call, settings: NoticeSettings | None) -> NoticesOut:
    defaults = call.parts.notices.rules
    rules = defaults if settings is None else settings.rules(defaults)
    own = Addresses() if settings is None else call.parts.vault.open_addresses(settings)
    return NoticesOut(
        own=settings is not None,
        channels=list(rules.channels),
        events=list(rules.events),
        quiet_seconds=rules.quiet_ms / 1000,
        webhook=None if own.webhook_url is None else NoticeWebhookOut(url=own.webhook_url),
        email=NoticeEmailOut(to=list(own.email)) if own.email else None,
        chat=None if own.chat_url is None else NoticeChatOut(host=urlsplit(own.chat_url).hostname or ""),
    )


def _notice(notice: Notice) -> NoticeOut:
    return NoticeOut(
        id=notice.id,
        type=notice.event,
        channel=notice.channel,
        app_id=notice.app_id,
        endpoint_id=notice.endpoint_id,
        state=notice.state,
        folded=notice.folded,
        attempts=notice.attempts,
        reason=notice.reason,
        at=instant(notice.at_ms),
        next_at=instant_or_none(notice.due_ms),
        ended_at=instant_or_none(notice.ended_ms),
    )
