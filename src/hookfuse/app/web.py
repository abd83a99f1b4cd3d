"""The REST API over a station, as an ASGI application."""

from __future__ import annotations

from dataclasses import dataclass

from hookfuse.api.access import Doorkeeper
from hookfuse.api.cursors import Cursors
from hookfuse.api.overview_models import Watch
from hookfuse.api.parts import Parts
from hookfuse.api.table import Api
from hookfuse.api.tasks import TaskRunner
from hookfuse.api.vault import Vault
from hookfuse.app.health import Health
from hookfuse.app.metrics import Metrics
from hookfuse.app.station import Station
from hookfuse.app.watch import Watcher
from hookfuse.delivery.notify_trial import NoticeTrial
from hookfuse.delivery.trial import Trial
from hookfuse.sealing import read_or_make_key


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How the API behaves."""

    payload_limit: int = 256 * 1024
    """The most bytes that a request may carry, a message with all that surrounds its payload too."""
    rate_limit: int | None = None
    """The most requests a second of one key in this process; None: no limit."""


def make_app(station: Station, *, settings: WebSettings, watch: Watch | None = None) -> Api:
    """The API of a station that someone else opens and closes. Make it within the station's event loop.

    `watch` knows how the process does; without it, only what is stored is known.
    """
    master_keys = read_or_make_key(station.settings.key_file)
    parts = Parts(
        store=station.store,
        acceptor=station.acceptor,
        breakers=station.breakers,
        targets=station.targets,
        trial=Trial(station.sender, station.targets, sign_ed25519=station.curve.sign),
        vault=Vault(station.sealer, station.curve),
        networks=station.settings.networks,
        defaults=station.settings.defaults,
        doorkeeper=Doorkeeper(station.store, rate_limit=settings.rate_limit),
        # The newest first: it comes first in the file.
        cursors=Cursors(list(master_keys.by_id.values())),
        tasks=TaskRunner(station.store),
        watch=watch or Watcher(station, Health(station), Metrics()),
        notices=station.settings.notices,
        notice_trial=NoticeTrial(station.posts),
        body_limit=settings.payload_limit,
        longest_timeout=station.settings.worker.longest_timeout,
    )
    return Api(parts)
