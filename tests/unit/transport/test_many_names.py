"""More names at once than there are places: they wait in line, and nobody is blamed for our own crowd."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterable
from time import monotonic

import pytest

from hookfuse.core.sending import Trouble
from hookfuse.transport import DnsResolver, HttpSender
from hookfuse.transport.resolver import Answer
from tests.unit.transport.nameserver import NameServer, naming
from tests.unit.transport.plain_nameserver import naming_apart
from tests.unit.transport.receiver import LOOPBACK, request, until

QUICKLY = 2.0
"""Of a busy machine, for thousands of questions. Whoever waits in vain waits for four seconds."""


def narrow(monkeypatch: pytest.MonkeyPatch, places: int, hangs: float = 60.0) -> None:
    monkeypatch.setattr("hookfuse.transport.resolver._PLACES", places)
    monkeypatch.setattr("hookfuse.transport.resolver._HANGS", hangs)


def troubles(answers: Iterable[Answer]) -> set[Trouble | None]:
    return {answer.failure and answer.failure.trouble for answer in answers}


@pytest.mark.parametrize("latency", [0.02, 0.1])
async def test_thousands_of_new_names_are_all_found(latency: float) -> None:
    """However many healthy names are looked up at once, none fails."""
    with naming_apart(latency) as server:
        resolver = DnsResolver([server], hosts={})
        answers = await asyncio.gather(*(resolver.lookup(f"hook{number}.test") for number in range(2_000)))
        await resolver.close()
    assert troubles(answers) == {None}


async def test_healthy_names_in_a_crowd_that_hangs() -> None:
    """Beside thousands of names that hang and came first, healthy ones are found quickly, and none fails."""
    with naming_apart(0.02) as server:
        resolver = DnsResolver([server], hosts={})
        started = monotonic()
        hanging = [asyncio.create_task(resolver.lookup(f"hang-{number}.test")) for number in range(2_000)]
        answers = await asyncio.gather(*(resolver.lookup(f"hook{number}.test") for number in range(50)))
        assert monotonic() - started < QUICKLY
        assert troubles(answers) == {None}
        await resolver.close()
        assert troubles(await asyncio.gather(*hanging)) == {Trouble.LOCAL}


async def test_names_wait_in_the_order_in_which_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a free place a look-up waits for its turn, and asks nobody before."""
    narrow(monkeypatch, 1)
    names_in_order = [f"hook{number}.test" for number in range(10)]
    async with naming() as names:
        names.names = {name: ["192.0.2.1"] for name in names_in_order}
        resolver = DnsResolver([names.address], hosts={})
        answers = await asyncio.gather(*(resolver.lookup(name) for name in names_in_order))
        assert troubles(answers) == {None}
        assert list(dict.fromkeys(name for name, _ in names.asked)) == names_in_order


async def standing(resolver: DnsResolver, names: NameServer, *, answered: list[str], hung: list[str]) -> None:
    """Look names up so that some have answered and others have hung, and nothing of it holds any longer."""
    names.ttl = 0
    names.names |= {name: ["192.0.2.1"] for name in (*answered, *hung)}
    await asyncio.gather(*map(resolver.lookup, answered))
    names.hanging.update(hung)
    waiting = [asyncio.create_task(resolver.lookup(name)) for name in hung]
    await until(lambda: {name for name, _ in names.asked}.issuperset(hung))
    await resolver.close()
    assert troubles(await asyncio.gather(*waiting)) == {Trouble.LOCAL}
    names.hanging.clear()
    names.asked.clear()


async def asked_in_line(
    resolver: DnsResolver, names: NameServer, monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> list[str]:
    """The order in which names are asked for that wait in this order for the only place."""
    narrow(monkeypatch, 1)
    names.names |= {name: ["192.0.2.1"] for name in ("first.test", *line)}
    assert troubles(await asyncio.gather(*map(resolver.lookup, ("first.test", *line)))) == {None}
    first, *others = dict.fromkeys(name for name, _ in names.asked)
    assert first == "first.test"
    return others


async def test_names_that_answered_go_before_new_ones_and_those_that_hung_go_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In line it counts how it went the last time: a crowd that hangs again and again holds up no name that answers."""
    monkeypatch.setattr("hookfuse.transport.resolver._SHORTEST", 0.0)
    answered, new, hung = ([f"{kind}{number}.test" for number in range(2)] for kind in ("well", "new", "hung"))
    async with naming() as names:
        resolver = DnsResolver([names.address], hosts={})
        await standing(resolver, names, answered=answered, hung=hung)
        order = await asked_in_line(resolver, names, monkeypatch, hung + new + answered)
        assert order == answered + new + hung


async def test_a_name_that_hung_gets_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many better ones come, one of eight turns is that of who has waited longest."""
    monkeypatch.setattr("hookfuse.transport.resolver._SHORTEST", 0.0)
    answered = [f"well{number}.test" for number in range(30)]
    async with naming() as names:
        resolver = DnsResolver([names.address], hosts={})
        await standing(resolver, names, answered=answered, hung=["hung.test"])
        order = await asked_in_line(resolver, names, monkeypatch, ["hung.test", *answered])
        assert order.index("hung.test") < 8
        order.remove("hung.test")
        assert order == answered


async def test_a_crowd_does_not_begin_all_at_once() -> None:
    """Of hundreds of new names so many are asked for in one go that neither a name server nor we are flooded."""
    async with naming() as names:
        resolver = DnsResolver([names.address], hosts={})
        crowd = [f"hang-{number}.test" for number in range(300)]
        waiting = [asyncio.create_task(resolver.lookup(name)) for name in crowd]
        await asyncio.sleep(0)
        assert [resolver.asked(name) for name in crowd] == [True] * 64 + [False] * 236
        await until(lambda: all(map(resolver.asked, crowd)))
        await resolver.close()
        assert troubles(await asyncio.gather(*waiting)) == {Trouble.LOCAL}


async def test_those_that_hang_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has had no answer for a while gives its place to who waits, the oldest first, and is not blamed for it."""
    narrow(monkeypatch, 10, hangs=0.3)
    async with naming(hook_test=["192.0.2.1"], other_test=["192.0.2.1"]) as names:
        resolver = DnsResolver([names.address], hosts={})
        started = monotonic()
        hanging = [asyncio.create_task(resolver.lookup(f"hang-{number}.test")) for number in range(10)]
        await asyncio.sleep(0)
        answers = await asyncio.gather(resolver.lookup("hook.test"), resolver.lookup("other.test"))
        assert 0.3 <= monotonic() - started < QUICKLY
        assert troubles(answers) == {None}
        assert [task.done() for task in hanging] == [True, True] + [False] * 8
        assert troubles([await task for task in hanging[:2]]) == {Trouble.LOCAL}
        await resolver.close()


@pytest.mark.parametrize("late", [True, False])
async def test_nobody_gives_way_to_a_process_that_was_busy(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """After a stall of our own nobody is given up: the answers may be there, and only unread."""
    narrow(monkeypatch, 1, hangs=0.0)
    monkeypatch.setattr("hookfuse.transport.resolver._LOOKS_APART", 60.0)
    async with naming(first_test=["192.0.2.1"], next_test=["192.0.2.1"]) as names:
        resolver = DnsResolver([names.address], hosts={})
        waiting = [asyncio.create_task(resolver.lookup(name)) for name in ("first.test", "next.test")]
        await asyncio.sleep(0)
        resolver._look(monotonic() - late)
        answers = await asyncio.gather(*waiting)
        assert troubles(answers[:1]) == ({None} if late else {Trouble.LOCAL})
        assert troubles(answers[1:]) == {None}


async def test_a_name_that_could_not_be_asked_for_is_our_own_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline that passes in line is not the endpoint's fault; one that passes after asking is, as ever."""
    narrow(monkeypatch, 1)
    async with naming() as names:
        sender = HttpSender(LOOPBACK, resolver=DnsResolver([names.address], hosts={}))
        sending = [sender.send(request(f"http://{name}.test/", timeout=0.2)) for name in ("hang-1", "hook")]
        asked, in_line = await asyncio.gather(*sending)
        assert (asked.trouble, in_line.trouble) == (Trouble.TIMEOUT, Trouble.LOCAL)
        assert "Too many names" in in_line.detail
        await sender.close()
        assert names.count("hook.test") == 0


async def test_names_that_nobody_waits_for_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose callers have all left loses its place in line: it is not asked for, and nobody waits behind it."""
    narrow(monkeypatch, 1)
    async with naming(hook_test=["192.0.2.1"], shared_test=["192.0.2.1"]) as names:
        resolver = DnsResolver([names.address], hosts={})
        first = asyncio.create_task(resolver.lookup("hang-first.test"))
        left = [asyncio.create_task(resolver.lookup(f"left{number}.test")) for number in range(20)]
        left.append(asyncio.create_task(resolver.lookup("shared.test")))
        stays = asyncio.create_task(resolver.lookup("shared.test"))
        await asyncio.sleep(0)
        for task in left:
            task.cancel()
        await asyncio.wait(left)
        assert not any(resolver.asked(f"left{number}.test") for number in range(20))
        last = asyncio.create_task(resolver.lookup("hook.test"))
        await asyncio.sleep(0)
        next(iter(resolver._places)).give_up()
        async with asyncio.timeout(QUICKLY):
            assert troubles(await asyncio.gather(first, stays, last)) == {Trouble.LOCAL, None}
        assert {name for name, _ in names.asked} == {"shared.test", "hook.test"}


async def test_those_that_hang_do_not_give_way_to_names_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once those in line have left, whoever has a place keeps it."""
    narrow(monkeypatch, 1, hangs=0.0)
    monkeypatch.setattr("hookfuse.transport.resolver._LOOKS_APART", 60.0)
    async with naming() as names:
        resolver = DnsResolver([names.address], hosts={})
        first, other = (asyncio.create_task(resolver.lookup(f"hang-{number}.test")) for number in range(2))
        await asyncio.sleep(0)
        other.cancel()
        await asyncio.wait([other])
        resolver._look(monotonic())
        await asyncio.sleep(0)
        assert not first.done()
        await resolver.close()
        await first


async def test_a_name_whose_turn_comes_too_late_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a place becomes free in the very turn of the loop in which a deadline in line passed, the trouble is ours."""
    narrow(monkeypatch, 1)
    monkeypatch.setattr("hookfuse.transport.resolver._LOOKS_APART", 60.0)
    async with naming() as names:
        resolver = DnsResolver([names.address], hosts={})
        first, late = (asyncio.create_task(resolver.lookup(f"hang-{number}.test")) for number in range(2))
        await asyncio.sleep(0)
        late.cancel()
        next(iter(resolver._places)).give_up()
        await asyncio.wait([first, late])
        assert not resolver.asked("hang-1.test")
        assert not resolver._places
        # Who comes back is looked up like anybody else.
        again = asyncio.create_task(resolver.lookup("hang-1.test"))
        await asyncio.sleep(0)
        assert resolver.asked("hang-1.test")
        await resolver.close()
        assert troubles([await again]) == {Trouble.LOCAL}


async def test_a_closed_resolver_leaves_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its end the event loop does not hold a resolver any more, though names were waiting in line."""
    narrow(monkeypatch, 1)
    monkeypatch.setattr("hookfuse.transport.resolver._LOOKS_APART", 60.0)
    async with naming() as names:
        resolver = DnsResolver([names.address], hosts={})
        held = weakref.ref(resolver)
        waiting = [asyncio.create_task(resolver.lookup(f"hang-{number}.test")) for number in range(2)]
        await asyncio.sleep(0)
        await resolver.close()
        await asyncio.wait(waiting)
        del resolver, waiting
        gc.collect()
        assert held() is None


async def test_closing_ends_those_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits when the resolver is closed is told so at once."""
    narrow(monkeypatch, 1)
    async with naming() as names:
        resolver = DnsResolver([names.address], hosts={})
        waiting = [asyncio.create_task(resolver.lookup(f"hang-{number}.test")) for number in range(5)]
        await asyncio.sleep(0)
        started = monotonic()
        await resolver.close()
        assert troubles(await asyncio.gather(*waiting)) == {Trouble.LOCAL}
        assert monotonic() - started < QUICKLY
