"""From names to addresses: the hosts file, what was found lately, and else the name servers.

Every name is asked for once at a time. There is no pool of threads that hanging names could fill: when too many
lookups are under way the next waits in line, and those that have hung for a while give way to it, the oldest first. A
lookup that had to give way, or whose turn did not come in time, says nothing about its name.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from hookfuse.core.addresses import Address
from hookfuse.core.sending import Trouble
from hookfuse.transport.dns import Reply
from hookfuse.transport.nameservers import Lookup, Server
from hookfuse.transport.system import WatchedFile, parse_hosts, parse_nameservers
from hookfuse.transport.troubles import Failure

ADDRESSES: Final = 64
"""How many addresses of a name are used. Those beyond are neither vetted nor dialled."""
_SHORTEST: Final = 1.0
_LONGEST: Final = 60.0
_NAMES: Final = 20_000
_PLACES: Final = 2_048
"""Questions that are open at once, with a socket each: one for every slot of a worker."""
_HANGS: Final = 0.5
"""Seconds after which a lookup gives way. By then it has asked twice, and name servers that are well have answered."""
_AT_A_TIME: Final = 128
_LOOKS_APART: Final = 0.01
"""Seconds in which so many begin. Thousands at once would flood a name server, and hold up all else in this process."""
_LATE: Final = 0.05

_MISSING: Final = Failure(Trouble.DNS, "The name does not exist.")
_EMPTY: Final = Failure(Trouble.DNS, "The name has no address.")
NOT_ASKED: Final = Failure(Trouble.LOCAL, "Too many names were being looked up to ask for this one in time.")


@dataclass(frozen=True, slots=True)
class Answer:
    """The addresses of a name, or why there are none; good until an instant of the monotonic clock."""

    addresses: tuple[Address, ...]
    failure: Failure | None
    until: float


class Resolver(Protocol):
    """Finds addresses. Whether they may be dialled is no question for it."""

    async def lookup(self, name: str) -> Answer: ...

    def asked(self, name: str) -> bool:
        """Whether anybody was asked for a name that is being looked up; False: it still waits for its turn."""
        ...

    async def close(self) -> None: ...


class DnsResolver:
    """Asks `nameservers` (those of the system if None) for what `hosts` (the system's file if None) does not have."""

    def __init__(
        self,
        nameservers: Sequence[Server] | None = None,
        *,
        hosts: Mapping[str, Sequence[Address]] | None = None,
    ) -> None:
        self._nameservers = nameservers
        self._hosts = hosts
        self._system_servers = WatchedFile(Path("/etc/resolv.conf"), parse_nameservers)
        self._system_hosts = WatchedFile(Path("/etc/hosts"), parse_hosts)
        self._known: OrderedDict[str, Answer] = OrderedDict()
        self._flights: dict[str, asyncio.Task[Answer]] = {}
        # Who waits for a place, in the order in which they came; and who has one, with the instant when it was given.
        self._line: OrderedDict[str, tuple[Lookup, asyncio.Future[None]]] = OrderedDict()
        self._places: OrderedDict[Lookup, float] = OrderedDict()
        self._begun = 0
        self._looker: asyncio.TimerHandle | None = None
        self._preferred: Server | None = None

    async def lookup(self, name: str) -> Answer:
        known = self._known.get(name)
        if known is not None and known.until > monotonic():
            return known
        hosts = self._system_hosts.value() if self._hosts is None else self._hosts
        if name in hosts:
            return Answer(tuple(hosts[name])[:ADDRESSES], None, monotonic() + _SHORTEST)
        # Shielded, because others may wait for the same name with more patience.
        return await asyncio.shield(self._flight(name))

    def asked(self, name: str) -> bool:
        return name not in self._line

    async def close(self) -> None:
        waiting = [self._line.popitem(last=False)[1] for _ in range(len(self._line))]
        for lookup in (*self._places, *(lookup for lookup, _ in waiting)):
            lookup.give_up()
        for _, turn in waiting:
            turn.set_result(None)
        if self._flights:
            await asyncio.wait(list(self._flights.values()))

    def _flight(self, name: str) -> asyncio.Task[Answer]:
        if name in self._flights:
            return self._flights[name]
        loop = asyncio.get_running_loop()
        lookup, turn = self._line[name] = Lookup(name, self._servers()), loop.create_future()
        task = self._flights[name] = loop.create_task(self._ask(name, lookup, turn))
        self._move_up()
        return task

    async def _ask(self, name: str, lookup: Lookup, turn: asyncio.Future[None]) -> Answer:
        try:
            await turn
            answer = _judge(await lookup.run())
        finally:
            del self._flights[name]
            self._line.pop(name, None)
            self._places.pop(lookup, None)
            self._move_up()
        self._preferred = lookup.answered_by or self._preferred
        self._known[name] = answer
        self._known.move_to_end(name)
        if len(self._known) > _NAMES:
            self._known.popitem(last=False)
        return answer

    def _move_up(self) -> None:
        """Give free places to those who wait."""
        while self._line and self._begun < _AT_A_TIME and len(self._places) < _PLACES:
            self._begun += 1
            _, (lookup, turn) = self._line.popitem(last=False)
            self._places[lookup] = monotonic()
            if not turn.done():  # cancelled, with the whole loop
                turn.set_result(None)
        if (self._line or self._begun) and self._looker is None:
            look_at = monotonic() + _LOOKS_APART
            self._looker = asyncio.get_running_loop().call_later(_LOOKS_APART, self._look, look_at)

    def _look(self, look_at: float) -> None:
        """Let those that hang give way to those who wait."""
        self._looker = None
        self._begun = 0
        now = monotonic()
        # Who looks late was busy, and answers may lie there unread.
        if now - look_at < _LATE:
            wanting = max(0, len(self._line) + len(self._places) - _PLACES)
            for lookup, since in list(islice(self._places.items(), wanting)):
                if now - since < _HANGS:
                    break
                del self._places[lookup]
                lookup.give_up()
        self._move_up()

    def _servers(self) -> list[Server]:
        servers = list(self._system_servers.value() if self._nameservers is None else self._nameservers)
        # Who answered last is asked first, so that a dead server costs one lookup its patience, not each.
        return sorted(servers, key=lambda server: server != self._preferred)


def _judge(replies: list[Reply] | Failure) -> Answer:
    """One answer of the replies for both kinds of address."""
    now = monotonic()
    if isinstance(replies, Failure):
        # Our own trouble may be over at once. A name that hangs is left alone for a moment.
        return Answer((), replies, now if replies.trouble.ours else now + _SHORTEST)
    if any(reply.missing for reply in replies):
        return Answer((), _MISSING, now + _ttl([reply for reply in replies if reply.missing]))
    addresses = tuple(address for reply in replies for address in reply.addresses[:ADDRESSES])
    if not addresses:
        return Answer((), _EMPTY, now + _ttl(replies))
    return Answer(addresses, None, now + _ttl([reply for reply in replies if reply.addresses]))


def _ttl(replies: list[Reply]) -> float:
    return min(max(min(reply.ttl for reply in replies), _SHORTEST), _LONGEST)
