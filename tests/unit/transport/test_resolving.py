"""Names: found fast, remembered for a while, and never held up by those that hang."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from time import monotonic

import pytest

from hookfuse.core.sending import Trouble
from hookfuse.transport import DnsResolver
from hookfuse.transport.nameservers import Lookup
from hookfuse.transport.resolver import ADDRESSES, Answer
from hookfuse.transport.system import WatchedFile, parse_hosts, parse_nameservers
from tests.unit.transport.nameserver import REFUSED, SERVFAIL, naming
from tests.unit.transport.plain_nameserver import naming_apart

SOON = 1.0
"""Whoever waits in vain waits for four seconds; a busy machine may stand still for some tenths of one."""
HEALTHY = 0.2


def found(answer: Answer) -> list[str]:
    assert answer.failure is None, answer.failure
    return sorted(map(str, answer.addresses))


def trouble(answer: Answer) -> Trouble:
    assert answer.failure is not None
    assert answer.addresses == ()
    return answer.failure.trouble


async def test_both_families_are_asked_for() -> None:
    """A name is found with its IPv4 and IPv6 addresses, along its aliases."""
    async with naming(hook_test=["192.0.2.1", "2001:db8::1"]) as names:
        names.aliases = {"www.test": "alias.test", "alias.test": "hook.test"}
        resolver = DnsResolver([names.address], hosts={})
        assert found(await resolver.lookup("hook.test")) == ["192.0.2.1", "2001:db8::1"]
        assert found(await resolver.lookup("www.test")) == ["192.0.2.1", "2001:db8::1"]


async def test_an_answer_is_remembered_and_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many who ask at once cost one question of each kind; who asks later costs none, until it is too old."""
    async with naming(hook_test=["192.0.2.1"]) as names:
        names.ttl = 0
        resolver = DnsResolver([names.address], hosts={})
        answers = await asyncio.gather(*(resolver.lookup("hook.test") for _ in range(50)))
        assert {answer.addresses for answer in answers} == {(ip_address("192.0.2.1"),)}
        assert names.count("hook.test") == 2
        assert await resolver.lookup("hook.test") is answers[0]
        assert 0 < answers[0].until - monotonic() <= 1.0
        monkeypatch.setattr("hookfuse.transport.resolver.monotonic", lambda: answers[0].until)
        await resolver.lookup("hook.test")
        assert names.count("hook.test") == 4


async def test_an_answer_is_not_remembered_for_too_long() -> None:
    """However long a record says it holds, it is asked for again after a minute."""
    async with naming(hook_test=["192.0.2.1"]) as names:
        names.ttl = 86_400
        answer = await DnsResolver([names.address], hosts={}).lookup("hook.test")
        assert 55 < answer.until - monotonic() <= 60


async def test_a_name_that_does_not_exist_is_remembered_too() -> None:
    """A missing name and one without addresses are DNS troubles, found at once and asked for once."""
    async with naming(empty_test=[]) as names:
        resolver = DnsResolver([names.address], hosts={})
        for name, says in (("missing.test", "does not exist"), ("empty.test", "no address")):
            started = monotonic()
            answer = await resolver.lookup(name)
            assert monotonic() - started < SOON
            assert trouble(answer) is Trouble.DNS
            assert answer.failure is not None
            assert says in answer.failure.detail
            asked = names.count(name)
            assert await resolver.lookup(name) is answer
            assert names.count(name) == asked


async def test_names_that_hang_hold_up_nothing() -> None:
    """With thousands of names hanging, a healthy look-up takes no 200 ms; ending takes no longer, and blames nobody."""
    with naming_apart(0.0) as server:
        resolver = DnsResolver([server], hosts={})
        waiting = [asyncio.create_task(resolver.lookup(f"hang-{number}.test")) for number in range(2_000)]
        await asyncio.sleep(0.5)
        times = []
        for number in range(50):
            started = monotonic()
            assert found(await resolver.lookup(f"good{number}.test")) == ["192.0.2.1"]
            times.append(monotonic() - started)
        # Others share our processor: the slowest few are theirs.
        assert sorted(times)[45] < HEALTHY
        started = monotonic()
        await resolver.close()
        assert monotonic() - started < 1
        answers = await asyncio.gather(*waiting)
        assert {trouble(answer) for answer in answers} == {Trouble.LOCAL}


async def test_thousands_of_records_come_by_tcp_and_few_are_used() -> None:
    """An answer that no datagram holds is asked for over TCP, and cut to what we use."""
    async with naming() as names:
        names.names["many.test"] = [f"10.{high}.{low}.1" for high in range(16) for low in range(250)]
        names.names["some.test"] = [f"10.0.{low}.1" for low in range(50)]
        resolver = DnsResolver([names.address], hosts={})
        assert len(found(await resolver.lookup("some.test"))) == 50
        assert names.by_stream >= 1
        assert len(found(await resolver.lookup("many.test"))) == ADDRESSES


async def test_a_name_that_hangs_is_given_up() -> None:
    """Without any answer a look-up ends by itself, and is not begun again at once."""
    async with naming() as names:
        names.hanging.add("hang.test")
        resolver = DnsResolver([names.address], hosts={})
        started = monotonic()
        answer = await resolver.lookup("hang.test")
        assert 3 < monotonic() - started < 5
        assert trouble(answer) is Trouble.DNS
        asked = names.count("hang.test")
        await resolver.lookup("hang.test")
        assert names.count("hang.test") == asked


async def test_who_does_not_wait_leaves_the_others_waiting() -> None:
    """A caller that is cancelled does not end the look-up that others share."""
    async with naming(hook_test=["192.0.2.1"]) as names:
        names.lost = 2
        resolver = DnsResolver([names.address], hosts={})
        impatient, patient = (asyncio.create_task(resolver.lookup("hook.test")) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        assert found(await patient) == ["192.0.2.1"]
        assert impatient.cancelled()


async def test_a_lost_datagram_is_sent_again() -> None:
    """A question that got lost is asked again soon."""
    async with naming(hook_test=["192.0.2.1"]) as names:
        names.lost = 2
        started = monotonic()
        assert found(await DnsResolver([names.address], hosts={}).lookup("hook.test")) == ["192.0.2.1"]
        assert monotonic() - started < 1


async def test_one_family_that_hangs_costs_little() -> None:
    """If only one kind of address is answered, a moment later that is enough."""
    async with naming(four_test=["192.0.2.1"], six_test=["2001:db8::1"]) as names:
        names.hanging.update(("four.test/AAAA", "six.test/A"))
        resolver = DnsResolver([names.address], hosts={})
        for name, address in (("four.test", "192.0.2.1"), ("six.test", "2001:db8::1")):
            started = monotonic()
            assert found(await resolver.lookup(name)) == [address]
            assert monotonic() - started < SOON


@pytest.mark.parametrize("code", [SERVFAIL, REFUSED])
async def test_a_server_that_refuses_is_passed_over(code: int) -> None:
    """A server that cannot answer leads to the next at once; if none can, it is a DNS trouble."""
    async with naming() as bad, naming(hook_test=["192.0.2.1"]) as good:
        bad.failing["hook.test"] = code
        times = []
        for _ in range(5):
            started = monotonic()
            resolver = DnsResolver([bad.address, good.address], hosts={})
            assert found(await resolver.lookup("hook.test")) == ["192.0.2.1"]
            times.append(monotonic() - started)
        # A silent server is passed over after 150 ms; whatever else a busy machine does, it does not do five times.
        assert min(times) < 0.1
        assert trouble(await DnsResolver([bad.address], hosts={}).lookup("hook.test")) is Trouble.DNS


async def test_a_dead_server_is_passed_over_and_remembered() -> None:
    """A silent server costs the first look-up a moment, and later ones nothing; so does one that is not there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        async with naming(a_test=["192.0.2.1"], b_test=["192.0.2.1"]) as names:
            resolver = DnsResolver([silent.getsockname(), names.address], hosts={})
            started = monotonic()
            assert found(await resolver.lookup("a.test")) == ["192.0.2.1"]
            first = monotonic() - started
            started = monotonic()
            assert found(await resolver.lookup("b.test")) == ["192.0.2.1"]
            assert monotonic() - started < first < 0.5
            absent = DnsResolver([_nobody(), names.address], hosts={})
            assert found(await absent.lookup("a.test")) == ["192.0.2.1"]


async def test_what_is_no_server_is_passed_over() -> None:
    """What cannot be dialled at all leads to the next server, and without one to a trouble of our own."""
    nonsense = ("127.0.0.1", 70_000)
    async with naming(hook_test=["192.0.2.1"]) as names:
        assert found(await DnsResolver([nonsense, names.address], hosts={}).lookup("hook.test")) == ["192.0.2.1"]
        assert trouble(await DnsResolver([nonsense], hosts={}).lookup("hook.test")) is Trouble.LOCAL


async def test_what_cannot_be_asked_for_is_refused_at_once() -> None:
    """A name that no question can hold is an error of who asks for it, and leaves nothing behind."""
    resolver = DnsResolver([_nobody()], hosts={})
    for name in ("ho\u00f6k.test", "a" * 256 + ".test"):
        for _ in range(2):
            with pytest.raises(ValueError):
                await resolver.lookup(name)


async def test_a_look_up_that_ended_is_let_go() -> None:
    """Nothing of an ended look-up is left to the garbage collector, which seldom looks in a service."""
    async with naming(hook_test=["192.0.2.1"]) as names:
        names.ttl = 0
        resolver = DnsResolver([names.address], hosts={})
        await resolver.lookup("hook.test")
        gc.collect()
        gc.disable()
        try:
            await resolver.lookup("other.test")
            waiting = asyncio.create_task(resolver.lookup("hang-1.test"))
            await asyncio.sleep(0)
            await resolver.close()
            await waiting
            await asyncio.sleep(0)
            assert [each.name for each in gc.get_objects() if isinstance(each, Lookup)] == []
        finally:
            gc.enable()


async def test_without_any_server_the_trouble_is_ours() -> None:
    """If no name server can be reached, no endpoint is to blame, and nothing is remembered."""
    resolver = DnsResolver([_nobody()], hosts={})
    answer = await resolver.lookup("hook.test")
    assert trouble(answer) is Trouble.LOCAL
    assert answer.until <= monotonic()


def _nobody() -> tuple[str, int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        address: tuple[str, int] = unused.getsockname()
    return address


def _with_id(reply: bytes, change: int) -> bytes:
    return bytes((reply[0] ^ change, *reply[1:]))


async def test_a_forged_answer_is_not_taken() -> None:
    """An answer with another number, to another question, or malformed is passed over, and the true one taken."""
    async with naming(hook_test=["192.0.2.1"]) as names:

        def forge(reply: bytes) -> Sequence[bytes]:
            evil = reply.replace(b"\xc0\x00\x02\x01", b"\x06\x06\x06\x06")
            other = evil.replace(b"\x04hook", b"\x04evil")
            query = bytes((*evil[:2], evil[2] & 0x7F, *evil[3:]))
            return [_with_id(evil, 1), other, query, evil[:20], b"", b"\xff" * 40, reply]

        names.forge = lambda reply: list(forge(reply))
        assert found(await DnsResolver([names.address], hosts={}).lookup("hook.test")) == ["192.0.2.1"]


async def test_questions_cannot_be_guessed() -> None:
    """Every question has a random number, and every look-up a port of its own."""
    async with naming(**{f"hook{number}_test": ["192.0.2.1"] for number in range(40)}) as names:
        resolver = DnsResolver([names.address], hosts={})
        for number in range(40):
            await resolver.lookup(f"hook{number}.test")
        assert len(names.numbers) > 60
        assert len(set(names.numbers)) > 0.9 * len(names.numbers)
        assert len(set(names.ports)) > 20


async def test_the_hosts_file_comes_first() -> None:
    """A name in the hosts file is not asked for."""
    async with naming(hook_test=["192.0.2.1"]) as names:
        resolver = DnsResolver([names.address], hosts={"hook.test": (ip_address("192.0.2.9"),)})
        assert found(await resolver.lookup("hook.test")) == ["192.0.2.9"]
        assert names.asked == []


def test_the_files_of_the_system_are_read() -> None:
    """Name servers and hosts are read as the C library reads them, and what makes no sense is passed over."""
    text = (
        "# a comment\nnameserver 10.0.0.1 # here\nnameserver\nsearch x\nnameserver ::1\n;x\nnameserver a\nnameserver b"
    )
    assert parse_nameservers(text) == (("10.0.0.1", 53), ("::1", 53), ("a", 53))
    assert parse_nameservers("") == (("127.0.0.1", 53),)
    hosts = parse_hosts("127.0.0.1 Local.test b # c\n::1 local.test\nfe80::1%lo x\nnonsense\n")
    assert hosts["local.test"] == (ip_address("127.0.0.1"), ip_address("::1"))
    assert set(hosts) == {"local.test", "b"}


def test_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes is seen a little later; what disappears is remembered."""
    path = tmp_path / "resolv.conf"
    now = [100.0]
    monkeypatch.setattr("hookfuse.transport.system.monotonic", lambda: now[0])
    watched = WatchedFile(path, parse_nameservers)
    assert watched.value() == (("127.0.0.1", 53),)
    path.write_text("nameserver 10.0.0.1")
    assert watched.value() == (("127.0.0.1", 53),)
    now[0] += 10
    assert watched.value() == (("10.0.0.1", 53),)
    path.unlink()
    now[0] += 10
    assert watched.value() == (("10.0.0.1", 53),)
