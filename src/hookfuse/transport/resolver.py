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
from itertools import islice, takewhile
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from hookfuse.core.addresses import Address
from hookfuse.core.sending import Trouble
from hookfuse.transport.dns import Reply
from hookfuse.transport.line import Line, Standing
from hookfuse.transport.nameservers import GIVEN_UP, SILENT, Lookup, Outcome, Server
from hookfuse.transport.system import WatchedFile, parse_hosts, parse_nameservers
from hookfuse.transport.troubles import Failure

ADDRESSES: Final = 64
"""How many addresses of a name are used. Those beyond are neither vetted nor dialled."""
_SHORTEST: Final = 1.0
_LONGEST: Final = 60.0
_NAMES: Final = 20_000
_PLACES: Final = 2_048
"""Questions that are open at once: one for every slot of a worker. Each has a socket for every server that it asked."""
_HANGS: Final = 0.5
"""Seconds after which a lookup gives way. By then it has asked twice, and name servers that are well have answered."""
_AT_A_TIME: Final = 64
_LOOKS_APART: Final = 0.003
"""Seconds in which so many begin: all places are taken within a tenth of a second. Thousands at once would hold up all
else in this process, and be lost: a name server that asks Linux for no more room keeps 256 questions, of 128 names."""
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
        """Whether anybody was asked for a name that is or was just looked up; False: its turn has not come."""
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
        # Who waits for each name that is being looked up, in the order in which they came.
        self._flights: dict[str, dict[asyncio.Future[Answer], None]] = {}
        # Who waits for a place; and who has one, with the instant when it was given.
        self._line = Line()
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
        # One for each who asks, because others may wait for the same name with more patience.
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if name not in self._flights:
            self._line.join(Lookup(name, self._servers(), self._landed), _standing(known))
            self._flights[name] = {answer: None}
            self._move_up()
        else:
            self._flights[name][answer] = None
        try:
            return await answer
        except asyncio.CancelledError:
            self._left(name, answer)
            raise

    def asked(self, name: str) -> bool:
        if name in self._flights:
            return name not in self._line
        # Landed in this instant, or everybody left before its turn came.
        known = self._known.get(name)
        return known is not None and known.until > monotonic()

    async def close(self) -> None:
        lookups = [*self._places, *self._line]
        self._line.clear()
        for lookup in lookups:
            lookup.give_up()
        if self._looker is not None:
            self._looker.cancel()
            self._looker = None

    def _left(self, name: str, answer: asyncio.Future[Answer]) -> None:
        """Note that someone waits no longer. A name that nobody waits for keeps no place in line.

        One that was asked for goes on: its answer may be of use to whoever comes next.
        """
        waiting = self._flights.get(name, {})
        waiting.pop(answer, None)
        if not waiting and name in self._line:
            self._line.leave(name)
            del self._flights[name]

    def _landed(self, lookup: Lookup, outcome: Outcome) -> None:
        """Take the outcome of a lookup, and tell those who wait for it."""
        answer = _judge(outcome)
        self._preferred = lookup.answered_by or self._preferred
        self._known[lookup.name] = answer
        self._known.move_to_end(lookup.name)
        if len(self._known) > _NAMES:
            self._known.popitem(last=False)
        for waiting in self._flights.pop(lookup.name):
            if not waiting.done():
                waiting.set_result(answer)
        self._places.pop(lookup, None)
        self._move_up()

    def _move_up(self) -> None:
        """Give free places to those who wait."""
        if self._looker is None and (self._begun or self._line):
            look_at = monotonic() + _LOOKS_APART
            self._looker = asyncio.get_running_loop().call_later(_LOOKS_APART, self._look, look_at)
        while self._begun < _AT_A_TIME and len(self._places) < _PLACES and self._line:
            lookup = self._line.take()
            if all(waiting.done() for waiting in self._flights[lookup.name]):
                # Their deadlines have passed, and they are about to leave: asked for now, the name would be blamed.
                del self._flights[lookup.name]
                continue
            self._begun += 1
            self._places[lookup] = monotonic()
            lookup.begin()

    def _look(self, look_at: float) -> None:
        """Let those that hang give way to those who wait."""
        self._looker = None
        self._begun = 0
        now = monotonic()
        # Who looks late was busy, and answers may lie there unread.
        if now - look_at < _LATE:
            wanting = max(0, len(self._line) + len(self._places) - _PLACES)
            oldest = islice(self._places.items(), wanting)
            for lookup, _ in list(takewhile(lambda place: now - place[1] >= _HANGS, oldest)):
                lookup.give_up()
        self._move_up()

    def _servers(self) -> list[Server]:
        servers = list(self._system_servers.value() if self._nameservers is None else self._nameservers)
        # Who answered last is asked first, so that a dead server costs one lookup its patience, not each.
        return sorted(servers, key=lambda server: server != self._preferred)


def _standing(known: Answer | None) -> Standing:
    if known is None:
        return Standing.UNKNOWN
    if known.failure in (SILENT, GIVEN_UP):
        return Standing.HUNG
    return Standing.UNKNOWN if known.failure is not None and known.failure.trouble.ours else Standing.ANSWERED


def _judge(outcome: Outcome) -> Answer:
    """One answer of the replies for both kinds of address."""
    now = monotonic()
    if isinstance(outcome, Failure):
        # Our own trouble may be over at once. A name that hangs is left alone for a moment.
        return Answer((), outcome, now if outcome.trouble.ours else now + _SHORTEST)
    replies = outcome
    if any(reply.missing for reply in replies):
        return Answer((), _MISSING, now + _ttl([reply for reply in replies if reply.missing]))
    addresses = tuple(address for reply in replies for address in reply.addresses[:ADDRESSES])
    if not addresses:
        return Answer((), _EMPTY, now + _ttl(replies))
    return Answer(addresses, None, now + _ttl([reply for reply in replies if reply.addresses]))


def _ttl(replies: list[Reply]) -> float:
    return min(max(min(reply.ttl for reply in replies), _SHORTEST), _LONGEST)
