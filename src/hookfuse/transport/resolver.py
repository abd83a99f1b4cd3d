"""From names to addresses: the hosts file, what was found lately, and else the name servers.

Every name is asked for once at a time. There is no pool of threads that hanging names could fill: when too many
lookups are under way, the one that has hung for longest is given up, and the new one never waits.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
_UNDER_WAY: Final = 512

_MISSING: Final = Failure(Trouble.DNS, "The name does not exist.")
_EMPTY: Final = Failure(Trouble.DNS, "The name has no address.")


@dataclass(frozen=True, slots=True)
class Answer:
    """The addresses of a name, or why there are none; good until an instant of the monotonic clock."""

    addresses: tuple[Address, ...]
    failure: Failure | None
    until: float


class Resolver(Protocol):
    """Finds addresses. Whether they may be dialled is no question for it."""

    async def lookup(self, name: str) -> Answer: ...

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
        self._under_way: OrderedDict[str, tuple[Lookup, asyncio.Task[Answer]]] = OrderedDict()
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

    async def close(self) -> None:
        flights = [task for _, task in self._under_way.values()]
        for lookup, _ in self._under_way.values():
            lookup.give_up()
        if flights:
            await asyncio.wait(flights)

    def _flight(self, name: str) -> asyncio.Task[Answer]:
        if name in self._under_way:
            return self._under_way[name][1]
        if len(self._under_way) >= _UNDER_WAY:
            _, (oldest, _) = self._under_way.popitem(last=False)
            oldest.give_up()
        lookup = Lookup(name, self._servers())
        task = asyncio.get_running_loop().create_task(self._ask(name, lookup))
        self._under_way[name] = (lookup, task)
        return task

    async def _ask(self, name: str, lookup: Lookup) -> Answer:
        try:
            answer = _judge(await lookup.run())
        finally:
            # Given up, this lookup is no longer listed, and another one may be.
            if self._under_way.get(name, (None,))[0] is lookup:
                del self._under_way[name]
        self._preferred = lookup.answered_by or self._preferred
        self._known[name] = answer
        self._known.move_to_end(name)
        if len(self._known) > _NAMES:
            self._known.popitem(last=False)
        return answer

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
