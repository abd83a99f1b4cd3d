"""What tells people of their endpoints, put together. A new channel is one class and one line here."""

from __future__ import annotations

from hookfuse.core.addresses import Networks
from hookfuse.core.notice import NoticeChannel
from hookfuse.delivery.notify_addresses import NoticeDefaults
from hookfuse.delivery.notify_channels import ChatPost, EmailPost, Post, WebhookPost
from hookfuse.ports import Ed25519, Sender
from hookfuse.ports.notices import Mailer
from hookfuse.transport import Proxy, SmtpMailer


def mailer_of(defaults: NoticeDefaults, networks: Networks, proxy: Proxy | None) -> Mailer | None:
    return None if defaults.mail_server is None else SmtpMailer(defaults.mail_server, networks, proxy=proxy)


def posts_of(
    sender: Sender, mailer: Mailer | None, curve: Ed25519, networks: Networks, mail_from: str
) -> dict[NoticeChannel, Post]:
    return {
        NoticeChannel.WEBHOOK: WebhookPost(sender, networks, curve.sign),
        NoticeChannel.EMAIL: EmailPost(mailer, mail_from),
        NoticeChannel.CHAT: ChatPost(sender, networks),
    }
