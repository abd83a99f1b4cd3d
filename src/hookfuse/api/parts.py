"""What the API works with. Whoever puts the program together fills it in."""

from __future__ import annotations

from dataclasses import dataclass

from hookfuse.api.access import Doorkeeper
from hookfuse.api.cursors import Cursors
from hookfuse.api.overview_models import Watch
from hookfuse.api.tasks import TaskRunner
from hookfuse.api.vault import Vault
from hookfuse.breakers import AsyncBreakers
from hookfuse.core.addresses import Networks
from hookfuse.delivery.accept import Acceptor
from hookfuse.delivery.notify_addresses import NoticeDefaults
from hookfuse.delivery.notify_trial import NoticeTrial
from hookfuse.delivery.targets import Defaults, Targets
from hookfuse.delivery.trial import Trial
from hookfuse.ports import DeliveryStore


@dataclass(frozen=True, slots=True)
class Parts:
    store: DeliveryStore
    acceptor: Acceptor
    breakers: AsyncBreakers
    targets: Targets
    trial: Trial
    vault: Vault
    networks: Networks
    defaults: Defaults
    doorkeeper: Doorkeeper
    cursors: Cursors
    tasks: TaskRunner
    watch: Watch
    notices: NoticeDefaults
    notice_trial: NoticeTrial
    body_limit: int
    longest_timeout: float
    """The longest deadline, in seconds, that an endpoint may ask for."""

    async def close(self) -> None:
        """End what still runs; the store and the breakers belong to someone else."""
        await self.tasks.close()
        await self.doorkeeper.close()
