"""How long healthy endpoints wait for their messages."""

from __future__ import annotations

import asyncio
import time

from hookfuse.app.station import Station
from tests.faults.delivery.producer import Producer
from tests.faults.delivery.site import Site, until
from tests.faults.delivery.station import new_message

WELL = "well"
"""How the names of healthy endpoints begin."""


async def send(station: Station, producer: Producer, name: str, count: int, every: float) -> dict[str, float]:
    """Send messages at a steady pace; returns when each was handed in."""
    began: dict[str, float] = {}
    for number in range(count):
        message = new_message(f"{name}-{number}", f'"{name}-{number}"'.encode())
        began[message.id] = time.time()
        await station.acceptor.accept(message)
        producer.note(message.id, message.payload)
        await asyncio.sleep(every)
    return began


async def p99(site: Site, station: Station, producer: Producer, name: str, *, count: int, every: float) -> float:
    """From acceptance to arrival, the best of two runs: what the noise of the machine has spared."""
    runs = [await send(station, producer, f"{name}-{turn}", count, every) for turn in range(2)]
    return min([await p99_of(site, began) for began in runs])


async def p99_of(site: Site, began: dict[str, float]) -> float:
    """From acceptance to arrival, of messages that were handed in then."""
    ids = ", ".join(f"'{id_}'" for id_ in began)
    # The database is asked, because reading the ledger again and again would hold up the worker in this process.
    left = (
        "SELECT count(*) FROM {schema}deliveries"
        f" WHERE endpoint_id LIKE '{WELL}%' AND state <> 'sent' AND message_id IN ({ids})"
    )

    async def all_sent() -> bool:
        return int((await site.database.rows(left))[0][0]) == 0

    await until(all_sent, site.sizes.patience)
    took = sorted(
        receipt.arrived_at - began[receipt.webhook_id]
        for receipt in site.receipts()
        if receipt.webhook_id in began and receipt.endpoint.startswith(WELL)
    )
    return took[int(len(took) * 0.99)]
