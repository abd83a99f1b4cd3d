"""The same claim as in test_guard, for URLs and records that nobody thought of.

The whole way is real: our grammar, our resolver, a name server, and sockets on loopback. Every attempt to connect is
written down, and each receiver says at which address it was reached.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import AsyncExitStack
from ipaddress import ip_address
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hookfuse.core.addresses import kind_of, parse_address
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request, SendResult, Trouble
from hookfuse.errors import InvalidInput
from hookfuse.transport import DnsResolver, HttpSender
from hookfuse.transport.dns import ALIASES
from tests.unit.transport.nameserver import NameServer, naming
from tests.unit.transport.receiver import OK, Receiver, answering, receiving
from tests.unit.transport.test_guard import FORBIDDEN, GOOD, ONLY_GOOD

EXAMPLES = 800


class World:
    """A name server, receivers on every loopback address at one port, and the attempts to connect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stack = AsyncExitStack()
        self._later = 0.0
        self.dialled: set[str] = set()
        self.reached: set[str] = set()
        self.seen = Counter[str]()
        for module in ("sender", "resolver"):
            monkeypatch.setattr(f"hookfuse.transport.{module}.monotonic", lambda: monotonic() + self._later)
        connect_ex = socket.socket.connect_ex

        def connecting(sock: socket.socket, address: Any) -> int:
            self.dialled.add(address[0])
            return connect_ex(sock, address)

        monkeypatch.setattr(socket.socket, "connect_ex", connecting)

    async def open(self) -> None:
        self.names: NameServer = await self._stack.enter_async_context(naming())
        four = await self._stack.enter_async_context(receiving(self._witness, host="0.0.0.0"))
        await self._stack.enter_async_context(receiving(self._witness, host="::1", port=four.port))
        self.port = four.port

    async def close(self) -> None:
        await self._stack.aclose()

    async def _witness(self, receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reached.add(writer.get_extra_info("sockname")[0])
        await answering(OK)(receiver, reader, writer)

    async def send(self, destination: Destination, turns: list[list[str]], aliases: int) -> list[SendResult]:
        """Send once for each turn of the records, each time when the answer before is too old."""
        # No host may have an underscore, so none of these is ever one.
        chain = [destination.host, *(f"_{number}.test" for number in range(aliases))]
        self.names.aliases = dict(pairwise(chain))
        for noted in (self.names.asked, self.dialled, self.reached):
            noted.clear()
        sender = HttpSender(ONLY_GOOD, resolver=DnsResolver([self.names.address], hosts={}))
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
    st.sampled_from(["http://", "HTTP://"]),
    st.sampled_from(["http:/", "//", "http:\\\\", "http://user@", "http://a.b:1@", "ftp://"]),
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


def test_no_url_and_no_record_leads_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever URL the grammar accepts, and wherever its name leads by turns, only the good address is dialled."""
    world = World(monkeypatch)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        scheme=schemes,
        host=mostly(names, odd_hosts),
        middle=mostly(st.just(""), odd_text),
        path=paths,
        turns=st.lists(record_sets, min_size=1, max_size=3),
        aliases=st.sampled_from([0, 1, 2, ALIASES, ALIASES + 1]),
    )
    def attempt(scheme: str, host: str, middle: str, path: str, turns: list[list[str]], aliases: int) -> None:
        world.count("drawn")
        try:
            destination = Destination.parse(f"{scheme}{host}{middle}:{world.port}{path}")
        except InvalidInput:
            return
        literal = parse_address(destination.host)
        if literal is not None or destination.port != world.port:
            # Nobody's real address is dialled by a test.
            assert literal is None or kind_of(literal) is None
            return
        world.count("sent")
        results = runner.run(world.send(destination, turns, aliases))
        may_be_dialled = aliases <= ALIASES and [GOOD] in turns
        assert world.dialled == world.reached == ({GOOD} if may_be_dialled else set())
        assert world.names.asked
        for records, result in zip(turns, results, strict=True):
            if aliases > ALIASES:
                assert result.trouble is Trouble.DNS
                world.count("too many aliases")
            elif records == [GOOD]:
                assert result.status == 200
                world.count("good")
            else:
                assert result.trouble is Trouble.BLOCKED
                world.count("mixed" if GOOD in records else "inside")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(world.open())
        try:
            attempt()
        finally:
            runner.run(world.close())
    # What is refused by the grammar shows nothing here.
    assert world.seen["sent"] >= world.seen["drawn"] / 4
    assert min(world.seen[what] for what in ("good", "mixed", "inside", "too many aliases")) >= EXAMPLES / 40
