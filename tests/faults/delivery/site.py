"""Everything of one ordeal: a database, endpoints in a process of their own, a producer, stations, three ledgers."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hookfuse.app.station import Station, StationSettings
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.secret import Secret, SecretRing
from hookfuse.delivery.worker import Worker
from hookfuse.errors import StoreError
from hookfuse.testing.receivers import Behaviour, Ok, Order, Receipt, ReceiversProcess, read_ledger
from tests.faults.delivery.databases import Database, dump, reopened, unfinished
from tests.faults.delivery.processes import StationProcess
from tests.faults.delivery.producer import Ask, Producer
from tests.faults.delivery.sizes import Sizes
from tests.faults.delivery.station import APP, Orders, answer
from tests.ledgers import Report, check

SECRET = Secret(bytes(range(32)))
AGAIN = {"delays": [0.3] * 50, "jitter": 0.1}
"""A schedule that does not keep a test waiting."""


class Site:
    def __init__(self, folder: Path, database: Database, sizes: Sizes, seed: int) -> None:
        self.folder = folder
        self.database = database
        self.sizes = sizes
        self.seed = seed
        self.random = random.Random(seed)
        self.redis: str | None = None
        self.told: str | None = None
        self._telling: dict[str, Any] = {}
        self.sink = folder / "sink.jsonl"
        self.receivers = ReceiversProcess(ledger=self.sink)
        self.names: list[str] = []
        self._stations: list[StationProcess] = []
        self._watched = False

    async def endpoints(self, behaviours: Mapping[str, Behaviour], **settings: Any) -> None:
        """Add endpoints: real ones, and their rows."""
        async with self.station() as station:
            await self.endpoints_of(station, behaviours, **settings)

    async def endpoints_of(self, station: Station, behaviours: Mapping[str, Behaviour], **settings: Any) -> None:
        """The same with a station that is open already."""
        urls = self.receivers.add_all({name: Order(each, SECRET.text) for name, each in behaviours.items()})
        await add_endpoints(station, {name: urls[name] for name in behaviours}, self.sizes, **settings)
        self.names += behaviours

    async def alike(self, behaviour: Behaviour | None = None, **settings: Any) -> None:
        """As many endpoints as the sizes say, all the same."""
        names = [f"ep_{number:04}" for number in range(self.sizes.endpoints)]
        await self.endpoints(dict.fromkeys(names, behaviour or Ok()), **settings)

    def tell(self, **telling: Any) -> None:
        """Have it said what happened, to one that listens: that endpoints were disabled, unless told otherwise."""
        self._telling = telling
        url = self.receivers.add_all({"ops": Order(Ok(), SECRET.text)})["ops"]
        self.told = f"{url} {SECRET.text}"

    def producer(self, name: str = "producer", *, names: Sequence[str] = ()) -> Producer:
        """Whose messages go to these endpoints; to all that there are, unless some are named."""
        return Producer(self.folder / f"{name}.jsonl", names or self.names, self.seed)

    def worker_settings(self, **changes: Any) -> dict[str, Any]:
        sizes = self.sizes
        return {
            "slots": sizes.slots,
            "batch": sizes.slots,
            "lease": sizes.lease,
            "longest_timeout": sizes.deadline,
            "margin": sizes.margin,
            "grace": sizes.grace,
            "poll": 0.2,
            "rescue_every": 1.0,
            **changes,
        }

    def orders(self, *, accepts: bool = True, works: bool = True, **worker: Any) -> Orders:
        number = len(self._stations)
        return Orders(
            self.database.url,
            str(self.folder / "master.key"),
            str(self.folder / f"events-{number}.jsonl"),
            str(self.folder / f"counter-{number}") if accepts else None,
            works,
            self.redis,
            self.worker_settings(**worker),
            self.told,
            **self._telling,
        )

    def settings(self, **worker: Any) -> StationSettings:
        return self.orders(**worker).settings()

    @asynccontextmanager
    async def station(self, **worker: Any) -> AsyncIterator[Station]:
        """A station in this process."""
        station = Station(self.settings(**worker))
        async with station, station.leader:
            # Before anything has come to an end: every test opens a station to add its endpoints.
            if not self._watched:
                await self.database.watch_ends()
                self._watched = True
            yield station

    def process(self, *, environment: Mapping[str, str] | None = None, **orders: Any) -> StationProcess:
        made = StationProcess(self.orders(**orders), environment)
        self._stations.append(made)
        return made

    async def fleet(self, **worker: Any) -> tuple[list[StationProcess], list[StationProcess]]:
        """Who accepts and who works, all started; on SQLite one process does both."""
        if not self.database.shared:
            both = [self.process(**worker)]
            await both[0].start()
            return both, both
        apis = [self.process(works=False, **worker) for _ in range(self.sizes.apis)]
        workers = [self.process(accepts=False, **worker) for _ in range(self.sizes.workers)]
        await asyncio.gather(*(each.start() for each in (*apis, *workers)))
        return apis, workers

    async def rest(self) -> None:
        """Wait until every delivery has come to its end."""
        await until(self._at_rest, self.sizes.patience)

    async def _at_rest(self) -> bool:
        return await unfinished(self.database) == 0

    def receipts(self) -> list[Receipt]:
        return read_ledger(self.sink)

    async def report(self, *producers: Producer, duplicates: int = 0, retried: int = 0) -> Report:
        """What the ledgers say; `retried` is how many deliveries somebody asked for again after their end."""
        return check(
            [each for producer in producers for each in producer.produced],
            self.receipts(),
            await dump(self.database),
            await reopened(self.database),
            duplicates_allowed=duplicates,
            reopened_allowed=retried,
        )

    async def close(self) -> None:
        for station in self._stations:
            await station.kill()

    def said(self) -> str:
        """The logs of all stations."""
        return "\n".join(station.said() for station in self._stations)


async def add_endpoints(station: Station, urls: Mapping[str, str], sizes: Sizes, **settings: Any) -> None:
    if await station.store.application(APP) is None:
        await station.store.add_application(Application(APP, name="ordeal"))
    ring = json.dumps(SecretRing(SECRET).to_data()).encode()
    chosen = {"retry": AGAIN, "timeout_ms": int(sizes.deadline * 1000), **settings}
    for name, url in urls.items():
        secret = station.sealer.seal(ring, name.encode())
        await station.store.add_endpoint(Endpoint(name, APP, url, secret=secret, **chosen))


async def mend(station: Station, receivers: ReceiversProcess, names: Iterable[str]) -> None:
    """From now on these endpoints answer well, and their breakers hold nothing against them."""
    receivers.add_all({name: Order(Ok()) for name in names})
    for name in names:
        await station.breakers.reset(f"{APP}/{name}")


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[Worker]:
    """A worker at work in this process."""
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await running


def counter(station: Station) -> Ask:
    """The counter of a station in this process."""

    async def ask(key: str, payload: str) -> Mapping[str, Any]:
        return await answer(station, json.dumps({"n": 0, "key": key, "payload": payload}).encode())

    return ask


async def until(true: Callable[[], bool | Awaitable[bool]], within: float = 20.0) -> float:
    """Wait for something in another process; returns how long it took. Asking takes a tenth of the time at most."""
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        try:
            found = true()
            if found if isinstance(found, bool) else await found:
                return time.monotonic() - began
        except (StoreError, OSError):
            # What is asked is being broken on purpose.
            pass
        now = time.monotonic()
        assert now - began < within, f"it did not become true within {within:g} s"
        await asyncio.sleep(min(max(9 * (now - asked), 0.01), 1.0))
