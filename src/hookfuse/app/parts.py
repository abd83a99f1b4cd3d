"""What the settings mean for the parts of a process: its station, and its port."""

from __future__ import annotations

import socket

from hookfuse.app.station import StationSettings
from hookfuse.config import Settings, variable
from hookfuse.core.addresses import Networks, parse_address
from hookfuse.core.mail import MailServer
from hookfuse.core.notice import Event
from hookfuse.core.secret import Secret, SecretRing
from hookfuse.delivery.notify_addresses import Addresses, NoticeDefaults
from hookfuse.delivery.targets import Defaults
from hookfuse.delivery.worker import WorkerSettings
from hookfuse.errors import InvalidInput
from hookfuse.transport import Proxy

_BACKLOG = 2_048


def station_settings(settings: Settings, own: tuple[str, int] | None = None) -> StationSettings:
    """What the settings mean for delivery. `own` is where this process listens, which is never dialled."""
    return StationSettings(
        database=settings.database_url,
        key_file=settings.key_file,
        redis=settings.redis_url,
        networks=networks_of(settings, own),
        worker=_worker_settings(settings),
        defaults=Defaults(policy=settings.policy, retry=settings.retry_delays),
        proxy=None if settings.proxy_url is None else Proxy.parse(settings.proxy_url),
        pooled=settings.database_pooled,
        listen=settings.database_listen_url,
        retention_days=settings.retention_days,
        notices=notice_defaults(settings),
    )


def _worker_settings(settings: Settings) -> WorkerSettings:
    try:
        return WorkerSettings(
            slots=settings.worker_slots,
            batch=settings.worker_batch,
            lease=settings.worker_lease,
            longest_timeout=settings.request_timeout,
            grace=settings.worker_grace,
        )
    except InvalidInput as error:
        # Each of the others was checked alone, so only these two can be at odds.
        lease, timeout = variable("worker_lease"), variable("request_timeout")
        raise InvalidInput(f"{error} They are {lease} and {timeout}.") from error


def notice_defaults(settings: Settings) -> NoticeDefaults:
    secret = settings.notice_webhook_secret
    return NoticeDefaults(
        Addresses(
            settings.notice_webhook_url,
            None if secret is None else SecretRing(Secret.parse(secret)),
            settings.notice_email,
            settings.notice_chat_url,
        ),
        tuple(map(Event, settings.notice_events)),
        int(settings.notice_quiet * 1000),
        None if settings.smtp_url is None else MailServer.parse(settings.smtp_url),
        settings.notice_from,
    )


def networks_of(settings: Settings, own: tuple[str, int] | None = None) -> Networks:
    return Networks(
        allowed=settings.allowed_networks,
        forbidden=settings.forbidden_networks,
        own=() if own is None or parse_address(own[0]) is None else (own,),
    )


def bind(settings: Settings) -> socket.socket:
    """The socket to serve on; an address that cannot be had is told in a sentence."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings.host, settings.port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise InvalidInput(
            f"Nothing can listen on {settings.host} port {settings.port}: {error.strerror}. "
            "Choose others with HOOKFUSE_HOST and HOOKFUSE_PORT."
        ) from error
    sock.setblocking(False)
    return sock
