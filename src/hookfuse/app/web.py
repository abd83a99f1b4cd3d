"""The REST API over a station, as an ASGI application."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.applications import Starlette

from hookfuse.api.access import Doorkeeper
from hookfuse.api.cursors import Cursors
from hookfuse.api.history import History
from hookfuse.api.keys import make_key
from hookfuse.api.parts import Parts
from hookfuse.api.table import Api
from hookfuse.api.tasks import TaskRunner
from hookfuse.api.vault import Vault
from hookfuse.app.station import Station
from hookfuse.core.access import Role
from hookfuse.core.paging import Span
from hookfuse.sealing import read_or_make_key


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How the API behaves."""

    body_limit: int = 256 * 1024
    """The most bytes that a request may carry."""
    rate_limit: int | None = None
    """The most requests a second of one key in this process; None: no limit."""


def make_app(station: Station, *, settings: WebSettings) -> Starlette:
    """The API of a station that someone else opens and closes. Make it within the station's event loop."""
    master_keys = read_or_make_key(station.settings.key_file)
    parts = Parts(
        store=station.store,
        acceptor=station.acceptor,
        breakers=station.breakers,
        targets=station.targets,
        vault=Vault(station.sealer, station.curve),
        networks=station.settings.networks,
        defaults=station.settings.defaults,
        doorkeeper=Doorkeeper(station.store, rate_limit=settings.rate_limit),
        # The newest first: it comes first in the file.
        cursors=Cursors(list(master_keys.by_id.values())),
        tasks=TaskRunner(station.store),
        history=History(station.breakers),
        body_limit=settings.body_limit,
        longest_timeout=station.settings.worker.longest_timeout,
    )
    return Api(parts)


async def first_admin_key(station: Station) -> str | None:
    """An admin key for a store that has no key at all, to be shown once; None: there are keys."""
    if await station.store.keys_page(None, Span(1)):
        return None
    _, text = await make_key(station.store, Role.ADMIN, "first")
    return text
