"""Where notices go: the channels of an application, and the defaults behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hookfuse.core.mail import MailServer, check_address
from hookfuse.core.notice import QUIET_MS, Event, NoticeChannel, NoticeRules, NoticeSettings
from hookfuse.core.secret import SecretRing
from hookfuse.errors import HookfuseError
from hookfuse.ports import Sealer
from hookfuse.ports.notices import Outbox


@dataclass(frozen=True, slots=True)
class Addresses:
    """One for each channel; what is not given is not used."""

    webhook_url: str | None = field(default=None, repr=False)
    ring: SecretRing | None = None
    """What signs operational webhooks."""
    email: tuple[str, ...] = ()
    chat_url: str | None = field(default=None, repr=False)
    """Whoever knows it may write there, so it is a secret."""

    @property
    def channels(self) -> tuple[NoticeChannel, ...]:
        given = {
            NoticeChannel.WEBHOOK: self.webhook_url is not None,
            NoticeChannel.EMAIL: bool(self.email),
            NoticeChannel.CHAT: self.chat_url is not None,
        }
        return tuple(channel for channel, there in given.items() if there)

    def to_data(self) -> dict[str, Any]:
        """Plain data with the secrets in the clear: seal it."""
        return {
            "webhook_url": self.webhook_url,
            "ring": None if self.ring is None else self.ring.to_data(),
            "email": list(self.email),
            "chat_url": self.chat_url,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Addresses:
        ring = data["ring"]
        return cls(
            data["webhook_url"],
            None if ring is None else SecretRing.from_data(ring),
            tuple(check_address(each) for each in data["email"]),
            data["chat_url"],
        )


@dataclass(frozen=True, slots=True)
class NoticeDefaults:
    """What an application gets that chose nothing, and the mail server for all of them."""

    addresses: Addresses = field(default_factory=Addresses)
    events: tuple[Event, ...] = tuple(Event)
    quiet_ms: int = QUIET_MS
    mail_server: MailServer | None = None
    mail_from: str = "hookfuse@localhost"

    @property
    def rules(self) -> NoticeRules:
        return NoticeRules(self.addresses.channels, self.events, self.quiet_ms)


def seal_addresses(sealer: Sealer, app_id: str, addresses: Addresses) -> bytes:
    return sealer.seal(json.dumps(addresses.to_data()).encode(), about(app_id))


def open_addresses(sealer: Sealer, settings: NoticeSettings) -> Addresses:
    return Addresses.from_data(json.loads(sealer.open(settings.sealed, about(settings.app_id))))


def about(app_id: str) -> bytes:
    """What the seal of an application's addresses belongs to."""
    return f"notices of {app_id}".encode()


class AddressBook:
    def __init__(self, store: Outbox, sealer: Sealer, defaults: Addresses) -> None:
        self._store = store
        self._sealer = sealer
        self._defaults = defaults

    async def of(self, app_id: str) -> Addresses | None:
        """None: they cannot be read."""
        own = await self._store.notice_settings(app_id)
        if own is None:
            return self._defaults
        try:
            return open_addresses(self._sealer, own)
        except (HookfuseError, ValueError, KeyError, TypeError):
            return None
