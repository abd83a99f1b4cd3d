"""No connection to an address that may not be dialled, whatever the URL and the name servers say.

Sockets that listen on loopback are the witnesses: they must see nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from time import monotonic

import pytest

from hookfuse.core.addresses import PUBLIC, Networks
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request, SendResult, Trouble
from hookfuse.transport import DnsResolver, HttpSender, Limits, Proxy
from hookfuse.transport.dialer import Dialer
from hookfuse.transport.pool import Pool
from hookfuse.transport.troubles import Failure
from tests.unit.transport.nameserver import NameServer, naming
from tests.unit.transport.receiver import LOOPBACK, OK, Receiver, answering, receiving, request

FORBIDDEN = [
    *("127.0.0.1", "127.255.255.254", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "224.0.0.1", "255.255.255.255", "198.18.0.1", "168.63.129.16", "100.100.100.200"),
    *("::1", "::", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "2001::1", "fe80::1"),
    *("fd00:ec2::254", "fc00::1", "ff02::1", "2606:4700::5efe:127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::7f00:1"),
]
GOOD = "127.7.7.7"
"""Stands for a public address: no test may dial a real one."""
ONLY_GOOD = Networks(allowed=(f"{GOOD}/32",))


@asynccontextmanager
async def witnesses() -> AsyncIterator[list[Receiver]]:
    """One port on loopback addresses of both families, and on the good one."""
    async with (
        receiving(answering(OK)) as four,
        receiving(answering(OK), host="::1", port=four.port) as six,
        receiving(answering(OK), host=GOOD, port=four.port) as good,
    ):
        yield [four, six, good]


async def send(url: str, names: NameServer, networks: Networks) -> SendResult:
    sender = HttpSender(networks, resolver=DnsResolver([names.address], hosts={}))
    try:
        return await sender.send(request(url, timeout=2.0, networks=PUBLIC))
    finally:
        await sender.close()


@pytest.mark.parametrize("address", FORBIDDEN)
async def test_a_name_that_leads_inside_is_blocked(address: str) -> None:
    """A name with a forbidden address, alone or beside a good one, is blocked, and the address is not named."""
    async with witnesses() as seen, naming() as names:
        url = f"http://hook.test:{seen[0].port}/"
        for records in ([address], [GOOD, address], [address, GOOD]):
            names.names["hook.test"] = records
            result = await send(url, names, ONLY_GOOD)
            assert (result.status, result.trouble) == (None, Trouble.BLOCKED)
            assert result.trouble is not None
            assert result.trouble.ours
            assert address not in result.detail
        assert [receiver.connections for receiver in seen] == [0, 0, 0]
        names.names["hook.test"] = [GOOD]
        assert (await send(url, names, ONLY_GOOD)).status == 200


async def test_an_allowed_network_allows_no_disguise() -> None:
    """A name that leads to an allowed address is dialled; one that leads there in disguise is not."""
    async with witnesses() as seen, naming(good_test=["127.0.0.1"], bad_test=["::ffff:127.0.0.1"]) as names:
        assert (await send(f"http://good.test:{seen[0].port}/", names, LOOPBACK)).status == 200
        assert (await send(f"http://bad.test:{seen[0].port}/", names, LOOPBACK)).trouble is Trouble.BLOCKED
    assert [receiver.connections for receiver in seen] == [1, 0, 0]


async def test_a_name_that_is_bound_anew_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was public and now leads inside is blocked as soon as it is looked up again, also with a TTL of 0."""
    networks = Networks(allowed=("127.0.0.1/32",))
    async with receiving(answering(OK), host="0.0.0.0") as receiver, naming(hook_test=["127.0.0.1"]) as names:
        names.ttl = 0
        sender = HttpSender(networks, resolver=DnsResolver([names.address], hosts={}))
        rebound = request(receiver.url(host="hook.test"))
        assert (await sender.send(rebound)).status == 200
        names.names["hook.test"] = ["127.0.0.2"]
        for module in ("sender", "resolver"):
            monkeypatch.setattr(f"hookfuse.transport.{module}.monotonic", lambda: monotonic() + 1.1)
        assert (await sender.send(rebound)).trouble is Trouble.BLOCKED
        assert len(receiver.requests) == 1
        await sender.close()


async def test_the_own_listening_address_is_blocked() -> None:
    """A request to where this service listens is blocked, by its address and by any name for it."""
    async with witnesses() as seen, naming(self_test=["127.0.0.1"]) as names:
        port = seen[0].port
        networks = Networks(allowed=("127.0.0.0/8", "::1/128"), own=(("0.0.0.0", port),))
        sender = HttpSender(networks, resolver=DnsResolver([names.address], hosts={}))
        for host in ("127.0.0.1", "127.0.0.9", "[::1]", "self.test"):
            assert (await sender.send(request(f"http://{host}:{port}/"))).trouble is Trouble.BLOCKED
        await sender.close()
    assert [receiver.connections for receiver in seen] == [0, 0, 0]


async def test_a_destination_of_yesterday_is_vetted_today() -> None:
    """An address that was stored when its network was allowed is blocked once it is not."""
    async with witnesses() as seen:
        stored = request(seen[0].url(), networks=LOOPBACK)
        sender = HttpSender(PUBLIC)
        result = await sender.send(stored)
        await sender.close()
    assert result.trouble is Trouble.BLOCKED
    assert "127.0.0.1" not in result.detail
    assert seen[0].connections == 0


async def test_a_refused_port_is_blocked_when_dialling_too() -> None:
    """A destination with a refused port that got stored somehow is not dialled."""
    sender = HttpSender(PUBLIC)
    smuggled = Destination("http://8.8.8.8:25/", False, "8.8.8.8", 25, "/", "8.8.8.8:25")
    result = await sender.send(Request(smuggled, (), b"", 1.0))
    await sender.close()
    assert result.trouble is Trouble.BLOCKED


@pytest.mark.parametrize("proxied", [False, True])
async def test_the_dialer_itself_asks_for_the_verdict(proxied: bool) -> None:
    """An address that came past the guard is not dialled all the same, straight or through the proxy."""
    async with witnesses() as seen:
        proxy = Proxy("127.0.0.1", seen[0].port) if proxied else None
        dialer = Dialer(Limits(), DnsResolver(hosts={}), proxy, None)
        inside = request(seen[0].url()).destination
        pool = Pool(asyncio.get_running_loop(), Limits(), dialer.sessions)
        failure = await dialer.dial(inside, (ip_address("127.0.0.1"), ip_address("::1")), ONLY_GOOD, pool)
    assert isinstance(failure, Failure)
    assert failure.trouble is Trouble.BLOCKED
    assert [receiver.connections for receiver in seen] == [0, 0, 0]
