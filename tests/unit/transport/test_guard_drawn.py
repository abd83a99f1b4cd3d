"""The same claim as in test_guard, for URLs and records that nobody thought of.

The whole way is real: our grammar, our resolver, a name server, and sockets on loopback. Every attempt to connect is
written down at the system call and judged by tables that are not ours, and each receiver says at which address it was
reached. What is not one of our receivers is refused before the system call: nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest
import trustme
import uvloop
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request, SendResult, Trouble
from hookfuse.errors import InvalidInput
from hookfuse.transport import DnsResolver, HttpSender
from hookfuse.transport.dns import ALIASES
from tests.unit.transport.certificates import serving
from tests.unit.transport.inside import METADATA, OTHER_PROTOCOLS, leads_inside
from tests.unit.transport.nameserver import NameServer, naming
from tests.unit.transport.receiver import OK, Receiver, answering, receiving
from tests.unit.transport.test_guard import FORBIDDEN, GOOD, ONLY_GOOD

EXAMPLES = 800


class World:
    """A name server, receivers on every loopback address at two ports, and the attempts to connect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stack = AsyncExitStack()
        self._later = 0.0
        self.dialled: set[tuple[str, int]] = set()
        self.reached: set[tuple[str, int]] = set()
        self.seen = Counter[str]()
        for module in ("sender", "resolver"):
            monkeypatch.setattr(f"hookfuse.transport.{module}.monotonic", lambda: monotonic() + self._later)
        connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

        def connecting(sock: socket.socket, address: Any) -> None:
            if not self._let_through(sock, address):
                raise ConnectionRefusedError(errno.ECONNREFUSED, "not by a test")
            connect(sock, address)

        def connecting_ex(sock: socket.socket, address: Any) -> int:
            return connect_ex(sock, address) if self._let_through(sock, address) else errno.ECONNREFUSED

        monkeypatch.setattr(socket.socket, "connect", connecting)
        monkeypatch.setattr(socket.socket, "connect_ex", connecting_ex)

    def _let_through(self, sock: socket.socket, address: Any) -> bool:
        """Write an attempt down; whether it goes to somebody of this test."""
        host, port = ip_address(address[0]), address[1]
        if sock.type is socket.SOCK_DGRAM:
            return bool(address == self.names.address)
        self.dialled.add((str(host), port))
        return host.is_loopback and port in self.ports.values()

    async def open(self) -> None:
        self.names: NameServer = await self._stack.enter_async_context(naming())
        certificate = serving(trustme.CA().issue_cert("hook.test"))
        self.ports = {scheme: await self._listen(tls) for scheme, tls in (("http", None), ("https", certificate))}
        # Whose certificate it is has tests of its own.
        self._trusting = ssl.create_default_context()
        self._trusting.check_hostname = False
        self._trusting.verify_mode = ssl.CERT_NONE

    async def _listen(self, tls: ssl.SSLContext | None) -> int:
        four = await self._stack.enter_async_context(receiving(self._witness, host="0.0.0.0", tls=tls))
        await self._stack.enter_async_context(receiving(self._witness, host="::1", port=four.port, tls=tls))
        return four.port

    async def close(self) -> None:
        await self._stack.aclose()

    async def _witness(self, receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port, *_ = writer.get_extra_info("sockname")
        self.reached.add((host, port))
        await answering(OK)(receiver, reader, writer)

    async def send(self, destination: Destination, turns: list[list[str]], aliases: int) -> list[SendResult]:
        """Send once for each turn of the records, each time when the answer before is too old."""
        # No host may have an underscore, so none of these is ever one.
        chain = [destination.host, *(f"_{number}.test" for number in range(aliases))]
        self.names.aliases = dict(pairwise(chain))
        for noted in (self.names.asked, self.dialled, self.reached):
            noted.clear()
        resolver = DnsResolver([self.names.address], hosts={})
        sender = HttpSender(ONLY_GOOD, resolver=resolver, ssl_context=self._trusting)
        results = []
        for records in turns:
            self.names.names = {chain[-1]: records}
            self._later += 61
            results.append(await sender.send(Request(destination, (), b"", 2.0)))
        await sender.close()
        return results

    def count(self, what: str) -> None:
        self.seen[what] += 1
        event(what)


@contextmanager
def world_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, Callable[..., list[SendResult]]]]:
    """A world, and how to send in it."""
    world = World(monkeypatch)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(world.open())
        try:
            yield world, lambda *what: runner.run(world.send(*what))
        finally:
            runner.run(world.close())


def mostly(plain: st.SearchStrategy[str], odd: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.sampled_from([*[plain] * 9, odd]).flatmap(lambda chosen: chosen)


odd_text = st.lists(
    st.sampled_from(
        [*"./:@#?\\%[]0x1\t\n\0 ", "。", "①", "%00", "//", "127.0.0.1", "localhost", "[::1]", "0x7f.1", "::", "xn--"]
    ),
    min_size=1,
    max_size=4,
).map("".join)
odd_hosts = st.one_of(
    st.sampled_from(
        ["127.0.0.1", "[::1]", "localhost", "127.1", "0", "2130706433", "[::ffff:127.0.0.1]", "a.local", "a.0x7f"]
    ),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
    st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True),
    odd_text,
)
labels = st.from_regex(r"[a-zA-Z0-9]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)
names = st.builds(
    lambda front, last: ".".join([*front, last]),
    st.lists(labels, min_size=1, max_size=4),
    st.sampled_from(["test", "Example", "com", "xn--p1ai"]),
)
schemes = mostly(
    st.sampled_from(["http://", "HTTP://", "https://", "HttpS://"]),
    st.sampled_from(["http:/", "//", "http:\\\\", "https://user@", "http://a.b:1@", "ftp://"]),
)
ours = st.just("")
"""Stands for the port of the receiver."""
ports = mostly(
    ours,
    st.sampled_from([":", ":80", ":443", ":8080", ":22", ":25", ":6379", ":0", ":65536", ":080", ":1:2"]),
)
paths = mostly(st.sampled_from(["", "/", "/a/b?c=d", "/@127.0.0.1/", "?x=//[::1]"]), odd_text)

INSIDE = ["127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"]
inside = st.sampled_from(INSIDE).flatmap(lambda network: st.ip_addresses(network=network))

DISGUISES = ["::ffff:{}", "::{}", "64:ff9b::{}", "64:ff9b:1::{}", "::ffff:0:{}", "2606:4700::5efe:{}", "2001::{}"]
disguised = st.builds(
    lambda form, address: form.format(address), st.sampled_from(DISGUISES), st.just(GOOD) | inside.map(str)
)
six_to_four = inside.map(lambda address: f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::1")
forbidden = st.one_of(
    st.sampled_from(FORBIDDEN), inside.map(str).filter(lambda text: text != GOOD), disguised, six_to_four
).map(lambda text: str(ip_address(text)))
record_sets = st.one_of(
    st.just([GOOD]),
    st.lists(forbidden, min_size=1, max_size=3),
    st.lists(forbidden, min_size=1, max_size=3).flatmap(lambda some: st.permutations([GOOD, *some])),
)


literals = st.one_of(
    st.ip_addresses(v=4),
    st.ip_addresses(v=6, network="2000::/3"),
    st.ip_addresses(v=6),
    forbidden.map(ip_address),
    st.sampled_from(sorted(METADATA)).map(ip_address),
    st.builds(
        lambda network, low: ip_network(network)[low],
        st.sampled_from(["2606:4700::/64", "2001:4860::/64", "2a00::/64", "fec0::/64", "100::/64", "3fff::/64"]),
        st.integers(0, 2**64 - 1),
    ),
)


def spelled(address: IPv4Address | IPv6Address) -> str:
    return f"[{address}]" if address.version == 6 else str(address)


def literal_of(destination: Destination) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(destination.host)
    except ValueError:
        return None


def test_no_url_and_no_record_leads_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever URL the grammar accepts, and wherever its name leads by turns, only the good address is dialled."""

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        scheme=schemes,
        host=mostly(names, odd_hosts),
        middle=mostly(st.just(""), odd_text),
        port=ports,
        path=paths,
        turns=st.lists(record_sets, min_size=1, max_size=3),
        aliases=st.sampled_from([0, 1, 2, ALIASES, ALIASES + 1]),
    )
    def attempt(
        scheme: str, host: str, middle: str, port: str, path: str, turns: list[list[str]], aliases: int
    ) -> None:
        world.count("drawn")
        receiver = world.ports["https" if scheme.lower().startswith("https") else "http"]
        try:
            destination = Destination.parse(f"{scheme}{host}{middle}{port or f':{receiver}'}{path}")
        except InvalidInput:
            return
        world.count("sent")
        world.count("https" if destination.tls else "http")
        results = send(destination, turns, aliases)
        assert destination.port not in OTHER_PROTOCOLS
        literal = literal_of(destination)
        if literal is not None:
            world.count("literal")
            assert not leads_inside(literal)
            assert world.dialled == {(str(literal), destination.port)}
            assert not world.names.asked
            return
        may_be_dialled = aliases <= ALIASES and [GOOD] in turns
        answered = destination.port == receiver
        assert world.dialled == ({(GOOD, destination.port)} if may_be_dialled else set())
        assert world.reached == (world.dialled if answered else set())
        assert world.names.asked
        for records, result in zip(turns, results, strict=True):
            if aliases > ALIASES:
                assert result.trouble is Trouble.DNS
                world.count("too many aliases")
            elif records == [GOOD]:
                assert (result.status, result.trouble) == ((200, None) if answered else (None, Trouble.CONNECT))
                world.count("good")
            else:
                assert result.trouble is Trouble.BLOCKED
                world.count("mixed" if GOOD in records else "inside")

    with world_of(monkeypatch) as (world, send):
        attempt()
    # What is refused by the grammar shows nothing here.
    assert world.seen["sent"] >= world.seen["drawn"] / 4
    assert min(world.seen[what] for what in ("good", "mixed", "inside", "too many aliases")) >= EXAMPLES / 40
    assert min(world.seen[what] for what in ("http", "https")) >= EXAMPLES / 20


def test_no_address_in_a_url_leads_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that leads inside, by the judgement of others, is refused by the grammar and once more when dialling.

    One that is dialled is the very address of the URL.
    """

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        scheme=st.sampled_from(["http", "https"]),
        address=literals.filter(lambda address: str(address) != GOOD),
        port=st.sampled_from([80, 443, 8080, 65_535])
        | st.sampled_from(sorted(OTHER_PROTOCOLS))
        | st.integers(1, 65_535),
    )
    def attempt(scheme: str, address: IPv4Address | IPv6Address, port: int) -> None:
        authority = f"{spelled(address)}:{port}"
        url = f"{scheme}://{authority}/"
        smuggled = Destination(url, scheme == "https", str(address), port, "/", authority)
        (result,) = send(smuggled, [[GOOD]], 0)
        assert not world.reached
        forbidden = leads_inside(address) or port in OTHER_PROTOCOLS
        try:
            Destination.parse(url)
        except InvalidInput:
            # It may know more than the others, but both looks see the same.
            assert (result.trouble, world.dialled) == (Trouble.BLOCKED, set())
            world.count("inside" if forbidden else "doubtful")
        else:
            assert not forbidden
            assert (result.trouble, world.dialled) == (Trouble.CONNECT, {(str(address), port)})
            world.count("public")

    with world_of(monkeypatch) as (world, send):
        attempt()
    assert min(world.seen[what] for what in ("inside", "public")) >= EXAMPLES / 10
    assert world.seen["doubtful"] <= EXAMPLES / 10
