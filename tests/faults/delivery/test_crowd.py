"""Many endpoints that break, hang, come back or flap at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import count, pairwise

import pytest

from hookfuse import Outcome, Policy, State, Streak, Transition
from hookfuse.app.station import Station
from hookfuse.testing.receivers import Behaviour, Dead, Failing, Hang, Ok, Order, ReceiversProcess, Script
from tests.faults.delivery.databases import dump
from tests.faults.delivery.latency import WELL, p99, p99_of, send
from tests.faults.delivery.producer import Producer
from tests.faults.delivery.site import SECRET, Site, add_endpoints, counter, mend, until, working
from tests.faults.delivery.station import APP, new_message
from tests.ledgers import Pair

pytestmark = pytest.mark.anyio

SLOTS = 100
BUSY = 40
"""Endpoints whose lanes are wide: together they could hold more slots than there are."""
NOISE = 0.05
"""Seconds that a busy machine may add to a message for one of many, at most."""
QUICKLY = {"delays": [0.2] * 50, "jitter": 0.1}
DRAWS = 1_200
"""Cool-offs that are looked at, to see them reach both ends of their range."""
COMES_BACK_AFTER = 2.0
"""Seconds instead of ten, so that nobody waits for what was put off through our own fault."""


def crowd(site: Site, behaviour: Behaviour, name: str = "ep") -> dict[str, Behaviour]:
    return {f"{name}_{number:04}": behaviour for number in range(site.sizes.crowd)}


async def test_g1_half_of_them_hang(site: Site) -> None:
    """When half of all endpoints hang, the others are served as fast as before, and a tenth of the slots is held."""
    policy = Policy(trip=Streak(3), cool_off=60).to_dict()
    well, chats = crowd(site, Ok(), WELL), {f"chat_{number}": Ok() for number in range(40)}
    with ReceiversProcess(ledger=site.sink) as hanging:
        urls = hanging.add_all({name: Order(each, SECRET.text) for name, each in crowd(site, Ok(), "dead").items()})
        producer, talker = site.producer(names=[*well, *urls]), site.producer("talker", names=list(chats))
        async with site.station(slots=SLOTS, batch=SLOTS) as station, working(station.worker):
            await site.endpoints_of(station, chats, event_types=("chat",))
            await site.endpoints_of(station, well, event_types=("invoice.paid",))
            await add_endpoints(station, urls, site.sizes, policy=policy, retry=QUICKLY, event_types=("invoice.paid",))
            await send(station, producer, "warm", 4, every=0.25)
            alike = await p99(site, station, producer, "alike", count=4, every=0.25)
            hanging.add_all({name: Order(Hang()) for name in urls})
            # Each hanging lane sends one request at a time, and once it has failed it is one of the failing ones.
            await send(station, producer, "begin", 1, every=0)
            async with chatting(station, talker):
                await until(lambda: _all_failing(site, len(urls)), site.sizes.patience)
            async with watching(hanging) as held:
                beside = await p99(site, station, producer, "beside", count=4, every=0.25)
            await mend(station, hanging, urls)
            await site.rest()
    print(  # noqa: T201
        f"p99 all healthy {alike * 1000:.1f} ms, beside those that hang {beside * 1000:.1f} ms, "
        f"held {max(map(sum, held))} in {len(held)} looks"
    )
    assert max(map(sum, held)) <= SLOTS // 10
    assert max(map(max, held)) <= 1
    # A message for thousands is a burst, and accepting it for those that hang is a part of that.
    assert beside <= alike * 1.2 + min(site.sizes.noise, NOISE)
    report = await site.report(producer, talker)
    assert report.sound, report


@asynccontextmanager
async def watching(receivers: ReceiversProcess) -> AsyncIterator[list[list[int]]]:
    """How many requests each endpoint has, again and again while the block lasts."""

    async def watch() -> None:
        while not over.is_set():
            # In a thread, so that waiting for the other process holds up nobody here; for a tenth of the time at most.
            asked = time.monotonic()
            held.append([each.in_flight for each in (await asyncio.to_thread(lambda: receivers.counts)).values()])
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), max(9 * (time.monotonic() - asked), 0.02))

    held: list[list[int]] = []
    over = asyncio.Event()
    watcher = asyncio.create_task(watch())
    try:
        yield held
    finally:
        over.set()
        await watcher


async def test_g1_while_they_begin_to_hang(site: Site) -> None:
    """When busy endpoints begin to hang they soon hold a tenth of the slots, and healthy ones go on."""
    onset = await _onset(site, BUSY, 4)
    # Without slots left, messages would wait for the first deadlines.
    assert onset <= site.sizes.deadline / 2


async def test_g1_more_begin_to_hang_than_there_are_slots(site: Site) -> None:
    """When more endpoints than slots begin to hang at one instant, healthy ones wait a moment, and for no deadline."""
    onset = await _onset(site, SLOTS + SLOTS // 10, 1)
    assert onset <= site.sizes.deadline / 2


async def _onset(site: Site, count: int, messages: int) -> float:
    """How long healthy endpoints wait while as many others begin to hang."""
    well = {f"{WELL}_{number}": Ok() for number in range(BUSY)}
    with ReceiversProcess(ledger=site.sink) as hanging:
        urls = hanging.add_all({f"dead_{number}": Order(Ok(), SECRET.text) for number in range(count)})
        producer = site.producer(names=[*well, *urls])
        async with site.station(slots=SLOTS, batch=SLOTS) as station, working(station.worker):
            # First those that will hang: they are served first.
            await add_endpoints(station, urls, site.sizes, retry=QUICKLY)
            await site.endpoints_of(station, well)
            await send(station, producer, "warm", 4, every=site.sizes.deadline / 4)
            await site.rest()
            hanging.add_all({name: Order(Hang()) for name in urls})
            began = await send(station, producer, "onset", messages, every=site.sizes.deadline / 4)
            await until(lambda: station.worker.in_hand - station.worker.set_aside <= SLOTS // 10)
            out = sum(each.in_flight for each in hanging.counts.values())
            onset = await p99_of(site, began)
            await mend(station, hanging, urls)
            await site.rest()
    print(f"p99 while they begin to hang {onset * 1000:.1f} ms; {out} requests hung in a tenth of the slots")  # noqa: T201
    assert out > SLOTS // 10, "set aside before their deadlines"
    report = await site.report(producer)
    assert report.sound, report
    return onset


@asynccontextmanager
async def chatting(station: Station, talker: Producer) -> AsyncIterator[None]:
    """Some endpoints keep answering, as they do: if nobody did for seconds, the fault would be taken to be ours."""

    async def chat() -> None:
        for number in count():
            message = new_message(f"chat-{number}", f'"chat {number}"'.encode())._replace(event_type="chat")
            await station.acceptor.accept(message)
            talker.note(message.id, message.payload)
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), 1)
            if ended.is_set():
                return

    ended = asyncio.Event()
    talking = asyncio.create_task(chat())
    try:
        yield
    finally:
        ended.set()
        await talking


async def _all_failing(site: Site, count: int) -> bool:
    rows = await site.database.rows("SELECT count(*) FROM {schema}lanes WHERE endpoint_id LIKE 'dead%' AND failing")
    return int(rows[0][0]) == count


async def test_g3_all_open_and_all_recover(site: Site) -> None:
    """When all breakers opened at once, their probes come spread over the jitter, and no endpoint passes its cap."""
    cool_off, jitter = 1.0, 0.5
    policy = Policy(trip=Streak(1), cool_off=cool_off, jitter=jitter).to_dict()
    names = crowd(site, Failing(500))
    await site.endpoints(names, policy=policy, retry=QUICKLY, cap=2)
    producer = site.producer()
    async with site.station(slots=SLOTS, batch=SLOTS) as station, working(station.worker):
        opened: dict[str, float] = {}
        probed: dict[str, float] = {}

        def changed(transition: Transition) -> None:
            seen = opened if transition.after is State.OPEN else probed
            seen.setdefault(transition.key, transition.at)

        with station.breakers.subscribe(changed):
            await producer.send([counter(station)], 3, at_once=1)
            await until(lambda: len(opened) == len(names), site.sizes.patience)
            site.receivers.add_all({name: Order(Ok()) for name in names})
            await site.rest()
        cool_offs = [each for _ in range(-(-DRAWS // len(names))) for each in await _cool_offs(station, names)]
    # With so many draws it happens once in 10^10 runs that none is this near to an edge.
    shortest, longest, edge = cool_off * (1 - jitter), cool_off * (1 + jitter), cool_off * jitter * 0.04
    assert shortest - 0.001 <= min(cool_offs) <= shortest + edge
    assert longest - edge <= max(cool_offs) <= longest
    waits = sorted(probed[key] - opened[key] for key in opened)
    assert waits[0] >= cool_off * (1 - jitter) - 0.01
    assert waits[-1] - waits[0] >= cool_off * jitter, "spread over the jitter"
    tenths = Counter(int((wait - cool_off * (1 - jitter)) * 10) for wait in waits)
    assert max(tenths.values()) <= len(names) * 0.4, tenths
    assert max(each.most_in_flight for each in site.receivers.counts.values()) <= 2
    report = await site.report(producer)
    assert report.sound, report


async def _cool_offs(station: Station, names: Iterable[str]) -> list[float]:
    """Open each breaker once more; returns for how long each is to stay open."""

    async def open_(key: str) -> float:
        await station.breakers.reset(key)
        await station.breakers.record(await station.breakers.admit(key), Outcome.FAILURE)
        seen = await station.breakers.inspect(key)
        assert seen.probe_at is not None
        assert seen.opened_at is not None
        return seen.probe_at - seen.opened_at

    return await asyncio.gather(*(open_(f"{APP}/{name}") for name in names))


async def test_g5_a_flapping_endpoint(site: Site) -> None:
    """An endpoint that takes every probe and fails right after it opens and closes once per cool-off, ever longer."""
    policy = Policy(trip=Streak(1), cool_off=0.3, cool_off_factor=2).to_dict()
    await site.endpoints({"ep_1": Script((Failing(), Ok()) * 20)}, policy=policy, retry={"delays": [0.01] * 50})
    changes: list[Transition] = []
    producer = site.producer()
    async with site.station() as station, working(station.worker):
        with station.breakers.subscribe(changes.append):
            await producer.send([counter(station)], 20, at_once=1)
            await until(lambda: len(_opened(changes)) >= 4)
        await mend(station, site.receivers, ["ep_1"])
        await site.rest()
    opened = _opened(changes)
    turns = [each.at for each in changes if each.after in (State.OPEN, State.CLOSED)]
    gaps = [later - earlier for earlier, later in pairwise(opened)]
    for at, cool_off in zip(opened, (0.3, 0.6, 1.2), strict=False):
        assert sum(at <= turn < at + cool_off for turn in turns) <= 2
    assert all(gap >= cool_off for gap, cool_off in zip(gaps, (0.3, 0.6, 1.2), strict=False)), gaps
    report = await site.report(producer)
    assert report.sound, report


def _opened(changes: list[Transition]) -> list[float]:
    return [each.at for each in changes if each.after is State.OPEN]


@pytest.mark.parametrize("broken", [Dead(), Hang()], ids=["refused", "silent"])
async def test_g7_our_own_network_is_down(site: Site, broken: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    """When everyone fails at once, hardly a breaker opens, it is said aloud, one answer ends it, and all arrives."""
    monkeypatch.setattr("hookfuse.delivery.courier.LOCAL_DELAY", COMES_BACK_AFTER)
    names = crowd(site, Ok())
    await site.endpoints(names, policy=Policy(trip=Streak(3), cool_off=60).to_dict(), retry=QUICKLY)
    told: list[bool] = []
    opened: set[str] = set()
    producer = site.producer()
    settings = site.settings(slots=SLOTS, batch=SLOTS)
    async with Station(settings, on_suspect=told.append) as station, working(station.worker):
        with station.breakers.subscribe(lambda transition: opened.add(transition.key)):
            site.receivers.add_all({name: Order(broken) for name in names})
            await producer.send([counter(station)], 5, at_once=1)
            await until(lambda: told == [True])
            await until(lambda: _all_tried(site), site.sizes.patience)
            assert len(opened) <= len(names) * 0.01
            ignored = await _put_off(site)
            assert ignored, "some wait because it was our fault"
            site.receivers.add_all({name: Order(Ok()) for name in names})
            await producer.send([counter(station)], 1)
            await until(lambda: told == [True, False])
            await site.rest()
    sent = {(row.message, row.endpoint) for row in await dump(site.database) if row.state == "sent"}
    assert ignored <= sent
    report = await site.report(producer)
    assert report.sound, report


async def _put_off(site: Site) -> set[Pair]:
    rows = await site.database.rows(
        "SELECT message_id, endpoint_id FROM {schema}deliveries WHERE reason = 'egress_suspect'"
    )
    return {(message, endpoint) for message, endpoint in rows}


async def _all_tried(site: Site) -> bool:
    rows = await site.database.rows("SELECT count(DISTINCT endpoint_id) FROM {schema}attempts")
    return int(rows[0][0]) == site.sizes.crowd
