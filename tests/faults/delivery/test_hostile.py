"""Endpoints that do harm, through the whole worker."""

from __future__ import annotations

import asyncio
import ssl
import struct
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from standardwebhooks import Webhook

from hookfuse import Policy, Streak
from hookfuse.app.station import Station
from hookfuse.core.delivery import Place
from hookfuse.core.endpoint import Stop
from hookfuse.delivery.courier import Attempted
from hookfuse.delivery.worker import Worker
from hookfuse.testing.receivers import (
    Behaviour,
    BigHeader,
    Bomb,
    DripBody,
    DripHeaders,
    FileLedger,
    Gone,
    Hang,
    Huge,
    Malformed,
    Ok,
    Order,
    RateLimited,
    Receivers,
    ReceiversProcess,
    Redirect,
    Reset,
    Unavailable,
)
from hookfuse.transport import Answer, DnsResolver, HttpSender
from tests.faults.delivery.latency import WELL, p99_of, send
from tests.faults.delivery.site import SECRET, Site, add_endpoints, counter, mend, until, working
from tests.memory import Peak

pytestmark = pytest.mark.anyio

HOSTILE: Mapping[str, Behaviour] = {
    "hang": Hang(),
    "drip_headers": DripHeaders(0.02),
    "drip_body": DripBody(0.02),
    "huge": Huge(),
    "bomb": Bomb(),
    "big_header": BigHeader(),
    "malformed": Malformed(),
    "reset": Reset(),
}
NEVER_OPEN = Policy(trip=Streak(1_000_000)).to_dict()
SLOTS = 64
VERIFY = Webhook(SECRET.text).verify
LATE = 0.5
TURNS = 4
"""In which healthy endpoints are measured without hostile ones and beside them."""
NOISE = 0.1
"""Seconds that a busy machine adds in every turn, at most: hostile endpoints take their part of it."""
LOOKED_UP_WITHIN = 0.2
MOST_READ = 65_536
MOST_HELD = 8 << 20
"""Bytes that may be held at one time while endpoints send gigabytes."""


@asynccontextmanager
async def at_work(site: Site, sender: HttpSender | None = None) -> AsyncIterator[tuple[Station, list[Attempted]]]:
    """A station and a worker of this process, and what it attempts."""
    attempts: list[Attempted] = []
    async with site.station(slots=SLOTS, batch=SLOTS) as station:
        worker = Worker(
            station.store,
            station.breakers,
            sender or station.sender,
            station.targets,
            site.settings(slots=SLOTS, batch=SLOTS).worker,
            on_attempt=attempts.append,
        )
        async with working(worker):
            yield station, attempts
    if sender is not None:
        await sender.close()


async def test_k1_answers_that_do_harm(site: Site) -> None:
    """Whatever an endpoint answers, its slot is free soon after the deadline, little is read, and nothing piles up."""
    await site.endpoints(HOSTILE, policy=NEVER_OPEN, retry={"delays": [], "jitter": 0})
    producer = site.producer()
    async with at_work(site) as (station, attempts):
        await producer.send([counter(station)], 3, at_once=1)
        await site.rest()
        timed = list(attempts)
        # By itself: counting what is allocated takes time.
        with Peak() as held:
            await producer.send([counter(station)], 1)
            await site.rest()
    assert len(timed) == 3 * len(HOSTILE)
    assert max(each.result.latency for each in timed) <= site.sizes.deadline + LATE
    assert max(len(each.result.body) for each in attempts) <= MOST_READ
    assert held.bytes < MOST_HELD
    ends = {(each.target.endpoint_id, each.result.trouble or each.result.status) for each in timed}
    assert ends == {
        ("hang", "timeout"),
        ("drip_headers", "timeout"),
        ("drip_body", "timeout"),
        ("huge", 200),
        ("bomb", 200),
        ("big_header", "protocol"),
        ("malformed", "protocol"),
        ("reset", "disconnected"),
    }
    report = await site.report(producer)
    assert report.sound, report


async def test_k1_others_do_not_feel_it(site: Site) -> None:
    """Healthy endpoints are served as fast beside hostile ones as without them."""
    healthy = {f"{WELL}_{number}": Ok() for number in range(20)}
    await site.endpoints(healthy, policy=NEVER_OPEN, cap=8)
    # Hostile ones have a process of their own: what they cost themselves is not the question.
    with ReceiversProcess(ledger=site.sink) as hostile:
        urls = hostile.add_all({name: Order(Ok(), SECRET.text) for name in HOSTILE})
        producer = site.producer(names=[*healthy, *HOSTILE])
        async with at_work(site) as (station, _):
            await add_endpoints(station, urls, site.sizes, cap=8, policy=NEVER_OPEN)
            pairs: list[tuple[float, float]] = []
            for turn in range(TURNS):
                without = await send(station, producer, f"without-{turn}", 25, every=0.02)
                await site.rest()
                hostile.add_all({name: Order(each) for name, each in HOSTILE.items()})
                beside = await send(station, producer, f"beside-{turn}", 25, every=0.02)
                pairs.append((await p99_of(site, without), await p99_of(site, beside)))
                await mend(station, hostile, HOSTILE)
                await site.rest()
    print("p99 without and beside:", *(f"{a * 1000:.1f} {b * 1000:.1f} ms" for a, b in pairs), sep="\n")  # noqa: T201
    # The machine does other things too, but not against the hostile ones in every turn.
    assert min(beside - without * 1.2 for without, beside in pairs) <= min(site.sizes.noise, NOISE)
    report = await site.report(producer)
    assert report.sound, report


async def test_k8_redirects_are_not_followed(site: Site) -> None:
    """A redirect of any kind fails, and nobody is called at the place that it names."""
    trap = site.receivers.add("trap", Ok())
    kinds = {f"to_{status}": Redirect(trap, status) for status in (300, 301, 302, 303, 304, 305, 307, 308)}
    await site.endpoints(kinds, retry={"delays": [], "jitter": 0})
    producer = site.producer()
    async with at_work(site) as (station, attempts):
        await producer.send([counter(station)], 1)
        await site.rest()
    assert {each.result.status for each in attempts} == {300, 301, 302, 303, 304, 305, 307, 308}
    assert site.receivers.counts["trap"].requests == 0
    assert {row[0] for row in await site.database.rows("SELECT state FROM {schema}deliveries")} == {"failed"}
    report = await site.report(producer)
    assert report.sound, report


async def test_k11_certificates_are_verified(site: Site) -> None:
    """An expired, foreign or self-signed certificate is a failure of TLS, and no request leaves."""
    trusted, foreign = trustme.CA(), trustme.CA()
    now = datetime.now(UTC)
    certificates = {
        "expired": trusted.issue_cert("127.0.0.1", not_before=now - timedelta(9), not_after=now - timedelta(1)),
        "wrong_name": trusted.issue_cert("example.com"),
        "unknown": foreign.issue_cert("127.0.0.1"),
        "good": trusted.issue_cert("127.0.0.1"),
    }
    serving = {name: _serving(each) for name, each in certificates.items()}
    serving["self_signed"] = _self_signed(site.folder / "own.pem", now)
    ours = ssl.create_default_context()
    trusted.configure_trust(ours)
    networks = site.settings().networks
    async with Receivers(ledger=FileLedger(site.sink)) as receivers:
        urls = {name: receivers.add(name, tls=each, verify=VERIFY) for name, each in serving.items()}
        producer = site.producer(names=list(urls))
        async with site.station() as station:
            await add_endpoints(station, urls, site.sizes, retry={"delays": [], "jitter": 0})
        async with at_work(site, HttpSender(networks, ssl_context=ours)) as (station, attempts):
            await producer.send([counter(station)], 1)
            await site.rest()
        assert {name: receivers[name].counts.requests for name in urls} == {**dict.fromkeys(urls, 0), "good": 1}
    troubles = {each.target.endpoint_id: each.result.trouble for each in attempts}
    assert troubles == {**dict.fromkeys(urls, "tls"), "good": None}
    report = await site.report(producer)
    assert report.sound, report


def _serving(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def _self_signed(path: Path, now: datetime) -> ssl.SSLContext:
    """One that has the right name and the right dates, and nobody but itself to speak for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    dated = x509.CertificateBuilder().not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    named = dated.subject_name(name).issuer_name(name).add_extension(names, critical=False)
    certificate = named.serial_number(1).public_key(key.public_key()).sign(key, hashes.SHA256())
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(written + certificate.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


HOLDS = {"-1": 1, "nan": 1, "1e309": 3600, "Wed, 21 Oct 2015 07:28:00 GMT": 1, "2": 2, "999999": 3600}
"""What a Retry-After says, and the seconds that it holds an endpoint."""


@pytest.mark.parametrize("status", [429, 503])
async def test_k13_asked_to_come_back_later(site: Site, status: int) -> None:
    """A Retry-After holds its endpoint within bounds, whatever it says, and charges no breaker."""
    names = {f"hold_{number}": text for number, text in enumerate(HOLDS)}
    behaviours = {name: Unavailable(text) if status == 503 else RateLimited(0, text) for name, text in names.items()}
    await site.endpoints(behaviours, retry={"delays": [0.01], "jitter": 0}, policy=Policy(trip=Streak(1)).to_dict())
    producer = site.producer()
    async with at_work(site) as (station, attempts):
        await producer.send([counter(station)], 1)
        await until(lambda: {each.target.endpoint_id for each in attempts} == set(names))
        for name, text in names.items():
            admission = await station.breakers.admit(f"app_1/{name}")
            snapshot = await station.breakers.inspect(f"app_1/{name}")
            assert (admission.reason, snapshot.state) == ("throttled", "closed"), text
            assert admission.retry_after is not None
            assert HOLDS[text] - 0.9 < admission.retry_after <= HOLDS[text], text
        await until(lambda: _all_put_off(site, len(names)))
        await mend(station, site.receivers, names)
        await station.store.retry([Place(each.id, name) for each in producer.produced if each.id for name in names])
        await site.rest()
    report = await site.report(producer)
    assert report.sound, report


async def _all_put_off(site: Site, count: int) -> bool:
    rows = await site.database.rows("SELECT count(*) FROM {schema}deliveries WHERE reason = 'throttled'")
    return int(rows[0][0]) == count


async def test_k13_gone(site: Site) -> None:
    """410 disables the endpoint at once and keeps its deliveries."""
    await site.endpoints({"ep_1": Gone()})
    producer = site.producer()
    async with at_work(site) as (station, attempts):
        await producer.send([counter(station)], 5, at_once=1)
        await until(lambda: len(attempts) == 1)
        await until(lambda: _is_disabled(station))
        assert site.receivers.counts["ep_1"].requests == 1
        site.receivers.change("ep_1", Ok())
        await station.store.start_endpoint("ep_1", Stop.DISABLED)
        await station.breakers.enable("app_1/ep_1")
        await site.rest()
    assert {row[0] for row in await site.database.rows("SELECT state FROM {schema}deliveries")} == {"sent"}
    report = await site.report(producer)
    assert report.sound, report


async def _is_disabled(station: Station) -> bool:
    endpoint = await station.store.endpoint("app_1", "ep_1")
    return endpoint is not None and not endpoint.enabled


# In bytes and made once: the test shares its event loop with what it tests.
_FOR_A = struct.pack(">2H", 1, 1)
_A = struct.pack(">3HIH", 0xC00C, 1, 1, 60, 4)
_RECORDS = [_A + (IPv4Address("127.0.0.1") + number).packed for number in range(4_000)]


class NameServer(asyncio.DatagramProtocol):
    """Answers by the first label of a name: hang, missing, crowd (4,000 addresses), or well."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        question = data[12:]
        kind = question[1:].partition(b"-")[0]
        count = {b"crowd": len(_RECORDS), b"well": 1}.get(kind, 0) if question.endswith(_FOR_A) else 0
        header = data[:2] + struct.pack(">5H", 0x8183 if kind == b"missing" else 0x8180, 1, count, 0, 0)
        if kind != b"hang":
            self._transport.sendto(header + question + b"".join(_RECORDS[:count]), addr)


class Asked(NamedTuple):
    """A look-up, in monotonic seconds."""

    began: float
    ended: float


class TimedResolver(DnsResolver):
    """Knows how long each look-up took."""

    def __init__(self, port: int) -> None:
        super().__init__([("127.0.0.1", port)], hosts={})
        self._asked: dict[str, Asked] = {}

    async def lookup(self, name: str) -> Answer:
        began = time.monotonic()
        try:
            return await super().lookup(name)
        finally:
            self._asked[name] = Asked(began, time.monotonic())

    def of(self, kind: str) -> list[Asked]:
        return [asked for name, asked in self._asked.items() if name.startswith(kind)]


async def test_k18_names_that_hang(site: Site) -> None:
    """Names that hang, do not exist or have thousands of addresses hold up no look-up of a healthy one."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(NameServer, ("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    resolver = TimedResolver(port)
    # One slot for each, so that all are asked at the same time.
    kinds = [f"{kind}-{number}" for kind in ("hang", "missing", "crowd") for number in range(10)]
    kinds += [f"well-{number}" for number in range(SLOTS - len(kinds))]
    async with Receivers(ledger=FileLedger(site.sink)) as receivers:
        urls = {name: receivers.add(name, verify=VERIFY) for name in kinds}
        paths = {name: url.replace("127.0.0.1", f"{name}.example") for name, url in urls.items()}
        producer = site.producer(names=kinds)
        async with site.station() as station:
            await add_endpoints(station, paths, site.sizes, retry={"delays": [], "jitter": 0}, policy=NEVER_OPEN)
        sender = HttpSender(site.settings().networks, resolver=resolver)
        async with at_work(site, sender) as (station, attempts):
            await producer.send([counter(station)], 1)
            await site.rest()
    transport.close()
    by_kind = defaultdict[str, list[Attempted]](list)
    for each in attempts:
        by_kind[each.target.endpoint_id.partition("-")[0]].append(each)
    asked = resolver.of("well")
    assert len(asked) == len(by_kind["well"])
    assert max(each.began for each in asked) < min(each.ended for each in resolver.of("hang")), "at the same time"
    well = sorted(each.ended - each.began for each in asked)
    share = 0.99 if site.sizes.steady else 0.9
    print(f"healthy look-ups: half in {well[len(well) // 2] * 1000:.0f} ms, all in {well[-1] * 1000:.0f} ms")  # noqa: T201
    assert well[int(len(well) * share)] <= LOOKED_UP_WITHIN + site.sizes.noise
    assert well[-1] < site.sizes.deadline + LATE
    assert {each.result.status for each in by_kind["well"]} == {200}
    assert {each.result.trouble for each in by_kind["missing"]} == {"dns"}
    assert {each.result.trouble for each in by_kind["hang"]} <= {"dns", "timeout"}
    assert max(each.result.latency for each in attempts) <= site.sizes.deadline + LATE
    report = await site.report(producer)
    assert report.sound, report
