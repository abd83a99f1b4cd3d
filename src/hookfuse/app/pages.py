"""The dashboard of a station: its pages over the API in the same process."""

from __future__ import annotations

import logging
from hashlib import sha256
from hmac import digest

from starlette.types import ASGIApp

from hookfuse.app.station import Station
from hookfuse.config import SETTINGS, Settings, shown, variable
from hookfuse.core.access import ApiKey, Role, hash_key, make_key_text
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.paging import Mark, Span
from hookfuse.dashboard import Dashboard, Furnishing, Live, Setting
from hookfuse.dashboard.origins import is_loopback
from hookfuse.sealing import read_or_make_key

_ABOUT = b"hookfuse dashboard password"
_NAME = "dashboard password"
# Keys of passwords are as if made at the beginning of time, so they are found apart from all others.
_BEGINNING = 0
_FIRST_OF_OTHERS = Mark(0, make_id(IdKind.KEY, 1, bytes(ENTROPY_BYTES)))

_log = logging.getLogger("hookfuse.app")


def make_dashboard(
    settings: Settings, station: Station, api: ASGIApp, live: Live, password_key: str | None
) -> Dashboard:
    _warn_if_exposed(settings)
    return Dashboard(
        Furnishing(
            api=api,
            sealer=station.sealer,
            live=live,
            settings=tuple(
                Setting(variable(name), shown(settings, name), each.metadata["says"]) for name, each in SETTINGS.items()
            ),
            password=settings.dashboard_password,
            password_key=password_key,
        )
    )


async def keep_password_key(settings: Settings, station: Station) -> str | None:
    """The API key that the dashboard's password stands for, in every process the same; those of others are revoked.

    It is made from the master key and the password, so it need not be kept, and is revoked like any other.
    """
    wanted = None if settings.dashboard_password is None else _key_text(settings, station)
    known = await station.store.keys_page(None, Span(before=_FIRST_OF_OTHERS))
    for each in known:
        if each.revoked_ms is None and (wanted is None or each.hash != hash_key(wanted)):
            await station.store.revoke_key(each.id)
    if wanted is not None and not any(each.hash == hash_key(wanted) for each in known):
        entropy = sha256(wanted.encode()).digest()[:ENTROPY_BYTES]
        id_ = make_id(IdKind.KEY, _BEGINNING, entropy)
        await station.store.add_key(ApiKey(id_, Role(settings.dashboard_role), _NAME, hash_key(wanted)))
    return wanted


def _key_text(settings: Settings, station: Station) -> str:
    assert settings.dashboard_password is not None
    master = read_or_make_key(station.settings.key_file)
    role = Role(settings.dashboard_role)
    made = digest(master.by_id[master.newest], _ABOUT + role.encode() + settings.dashboard_password.encode(), sha256)
    return make_key_text(role, made)


def _warn_if_exposed(settings: Settings) -> None:
    if not is_loopback(settings.host):
        _log.warning(
            "the dashboard and the API listen on %s without TLS: keys cross the network in clear. Put a proxy with TLS "
            "in front, or listen on 127.0.0.1; HOOKFUSE_DASHBOARD=false serves no pages",
            settings.host,
        )
