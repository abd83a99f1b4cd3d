"""A name server on loopback, over UDP and TCP, that answers what it is told. dnslib speaks for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv6Address
from typing import cast

from dnslib import AAAA, CNAME, QTYPE, RR, SOA, A, DNSRecord  # type: ignore[import-untyped]

NXDOMAIN, SERVFAIL, REFUSED = 3, 2, 5


class NameServer(asyncio.DatagramProtocol):
    """Names with their addresses; what else it does to a name is in the sets."""

    def __init__(self) -> None:
        self.address = ("127.0.0.1", 0)
        self.names: dict[str, list[str]] = {}
        self.aliases: dict[str, str] = {}
        self.hanging: set[str] = set()
        """Names, or names with a kind as in "hook.test/AAAA"."""
        self.hanging_label = b"hang-"
        """Names that begin like this hang too, and cost this server next to nothing."""
        self.failing: dict[str, int] = {}
        self.ttl = 60
        self.asked: list[tuple[str, str]] = []
        self.numbers: list[int] = []
        self.ports: list[int] = []
        self.by_stream = 0
        self.lost = 0
        """How many datagrams to lose before answering."""
        self.forge: Callable[[bytes], list[bytes]] = lambda reply: [reply]
        """What to send instead of a reply."""

    def count(self, name: str) -> int:
        return sum(name == asked for asked, _ in self.asked)

    def reply(self, data: bytes, *, room: int) -> bytes | None:
        query = DNSRecord.parse(data)
        name, kind = str(query.q.qname).rstrip("."), QTYPE[query.q.qtype]
        self.asked.append((name, kind))
        if name in self.hanging or f"{name}/{kind}" in self.hanging:
            return None
        reply = query.reply()
        reply.header.rcode = self.failing.get(name, 0)
        owner = name
        while owner in self.aliases:
            reply.add_answer(RR(owner, QTYPE.CNAME, ttl=self.ttl, rdata=CNAME(self.aliases[owner])))
            owner = self.aliases[owner]
        for address in self.names.get(owner, []):
            if (":" in address) == (kind == "AAAA"):
                rdata = AAAA(IPv6Address(address).exploded) if ":" in address else A(address)
                reply.add_answer(RR(owner, query.q.qtype, ttl=self.ttl, rdata=rdata))
        if not reply.rr and not reply.header.rcode:
            reply.header.rcode = 0 if owner in self.names else NXDOMAIN
            reply.add_auth(RR("test", QTYPE.SOA, ttl=self.ttl, rdata=SOA("a.test", "b.test", (1, 1, 1, 1, self.ttl))))
        packed = bytes(reply.pack())
        if len(packed) > room:
            short = query.reply()
            short.header.tc = 1
            packed = bytes(short.pack())
        return packed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.numbers.append(int.from_bytes(data[:2]))
        self.ports.append(addr[1])
        if self.lost:
            self.lost -= 1
            return
        reply = None if data[13:].startswith(self.hanging_label) else self.reply(data, room=512)
        if reply is not None:
            for forged in self.forge(reply):
                self._transport.sendto(forged, addr)

    async def serve_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.by_stream += 1
        try:
            data = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
            reply = self.reply(data, room=65_535)
            if reply is not None:
                writer.write(len(reply).to_bytes(2) + reply)
                await writer.drain()
            await reader.read()
        except (EOFError, OSError):
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def naming(**names: list[str]) -> AsyncIterator[NameServer]:
    """A name server for `name_test=[address, ...]`, read as name.test."""
    nameserver = NameServer()
    nameserver.names = {name.replace("_", "."): addresses for name, addresses in names.items()}
    streams, datagrams = _one_port()
    nameserver.address = streams.getsockname()
    server = await asyncio.start_server(nameserver.serve_stream, sock=streams)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: nameserver, sock=datagrams)
    try:
        yield nameserver
    finally:
        transport.abort()
        server.close()
        await server.wait_closed()


def _one_port() -> tuple[socket.socket, socket.socket]:
    """A socket for streams and one for datagrams. A port that is free for one may be somebody's for the other."""
    while True:
        streams = socket.create_server(("127.0.0.1", 0))
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            datagrams.bind(streams.getsockname())
        except OSError:
            streams.close()
            datagrams.close()
        else:
            return streams, datagrams
