"""Which duties a process offers to do for the fleet."""

from __future__ import annotations

import os
import secrets
import socket
from functools import partial

from hookfuse.app.retention import keep_pruning
from hookfuse.core.duty import Duty
from hookfuse.delivery.leader import LEASE, Leader, Work
from hookfuse.delivery.notify import Notifier
from hookfuse.delivery.rescue import Rescuer
from hookfuse.delivery.sampler import Sampler
from hookfuse.delivery.worker import WorkerSettings
from hookfuse.ports import DeliveryStore

_LEASE_ALONE = 60.0
"""Where one process has the file to itself, nobody waits to take over, and each renewal is a write to the disk."""


def leader_of(
    store: DeliveryStore,
    sampler: Sampler,
    notifier: Notifier,
    worker: WorkerSettings,
    *,
    holder: str,
    retention_days: float,
    shared: bool,
) -> Leader:
    alone = _alone(store)
    work: dict[Duty, Work] = {
        Duty.RESCUE: Rescuer(store, worker.deaths, worker.rescue_every).run,
        Duty.NOTICES: notifier.run,
    }
    if retention_days:
        work[Duty.RETENTION] = partial(keep_pruning, store, retention_days)
    if shared or alone:
        work[Duty.SAMPLING] = sampler.run
    return Leader(
        store,
        work,
        holder=holder,
        lease=_LEASE_ALONE if alone else LEASE,
        # Breakers that are not shared are each process's own, and so are their samples.
        beside=() if Duty.SAMPLING in work else (sampler.run,),
    )


def process_name() -> str:
    """Where it runs, and what tells it from one that ran there before."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def _alone(store: DeliveryStore) -> bool:
    from hookfuse.stores.sqlite import SqliteStore

    return isinstance(store, SqliteStore)
