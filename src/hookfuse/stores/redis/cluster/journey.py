"""Bringing requests to the nodes that serve their slots, once for both faces.

`travel` yields the trips to make and gets what each of them brought: the replies of its node, errors among them as
values, or the error that kept it from the node. What was not run (a redirection, a script that the node does not know)
is sent on while there is time; what may have been run is never sent again.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from redis import exceptions
from redis.crc import key_slot

from hookfuse.errors import StoreError
from hookfuse.stores.redis.cluster.routes import Node, Routes
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.connect import translated
from hookfuse.stores.redis.scripts import Includes, script
from hookfuse.stores.redis.tail import Raw

_MOMENT = 0.005


class Trip(NamedTuple):
    node: Node
    requests: list[Raw]


class Leg(NamedTuple):
    """Trips that may be made at the same time, after a pause."""

    trips: Sequence[Trip]
    pause: float = 0.0


Travel: TypeAlias = Generator[Leg, list[Any], None]


class Errand:
    """One request on its way."""

    __slots__ = ("_source", "asking", "detour", "hops", "request", "result", "slot")

    def __init__(self, request: Raw, key: str, source: Raw | None = None) -> None:
        self.request = request
        self.slot = key_slot(key.encode())
        self.detour: Node | None = None
        self.asking = False
        self.hops = 0
        self.result: Any = None
        self._source = source

    @classmethod
    def call(cls, call: Call, includes: Includes) -> Errand:
        known = script(call.script, includes)
        rest = (len(call.keys), *call.keys, *call.args)
        return cls(("EVALSHA", known.sha, *rest), call.keys[0], ("EVAL", known.source, *rest))

    @classmethod
    def raw(cls, request: Raw) -> Errand:
        """A command names its key first, a script after its source and their number."""
        return cls(request, request[3] if request[0] == "EVAL" else request[1])

    def settle(self, reply: Any, routes: Routes, asked: Node) -> bool:
        """Take a reply; False: it was not run and goes on."""
        self.result, self.detour, self.asking = reply, None, False
        if isinstance(reply, exceptions.NoScriptError) and self._source is not None:
            # Sending the source runs it at once, so no flush of the scripts can come between.
            self.request, self._source = self._source, None
            self.result = exceptions.TimeoutError("no time was left to send the script")
            return False
        if isinstance(reply, exceptions.MovedError):
            self.detour = routes.moved(self.slot, reply.host, reply.port, asked)
        elif isinstance(reply, exceptions.AskError):
            self.detour, self.asking = routes.reached(reply.host, reply.port, asked), True
        elif not isinstance(reply, exceptions.TryAgainError):
            return True
        self.hops += 1
        self.result = exceptions.ClusterDownError(f"slot {self.slot} is being moved")
        return False

    def value(self, doing: str) -> Any:
        """What it brought; raises the error in our words."""
        if isinstance(self.result, Exception):
            with translated(doing):
                # One error may be that of many errands, and must not collect the frames of them all.
                raise self.result.with_traceback(None)
        return self.result

    def outcome(self, doing: str) -> Any:
        """What it brought, or its error in our words."""
        try:
            return self.value(doing)
        except StoreError as error:
            return error


def travel(routes: Routes, errands: Iterable[Errand], seconds: float) -> Travel:
    """Bring all errands to their results. Raises only if nothing at all is known of the cluster."""
    until = time.monotonic() + seconds
    left = list(errands)
    yield from _read_slots(routes, until)
    while groups := _by_node(routes, left):
        # Between two nodes that send it to each other, or to one that is not ready, it waits a moment.
        pause = _MOMENT if any(errand.hops > 1 or _waits(errand) for errand in left) else 0.0
        trips = [Trip(node, _packed(group)) for node, group in groups.items()]
        answers = yield Leg(trips, pause)
        left = []
        for (node, group), replies in zip(groups.items(), answers, strict=True):
            if isinstance(replies, Exception):
                routes.lost(node, replies)
                for errand in group:
                    errand.result = replies
                continue
            routes.met(node)
            left += _settled(group, replies, routes, node)
        if time.monotonic() >= until:
            return


def _waits(errand: Errand) -> bool:
    return errand.hops > 0 and errand.detour is None


def _by_node(routes: Routes, errands: Sequence[Errand]) -> dict[Node, list[Errand]]:
    groups: dict[Node, list[Errand]] = {}
    for errand in errands:
        node = errand.detour or routes.primary(errand.slot)
        if node is None:
            errand.result = exceptions.ClusterDownError(f"no node serves slot {errand.slot}")
            routes.doubt()
            continue
        away = routes.away(node)
        if away is not None:
            errand.result = away
        else:
            groups.setdefault(node, []).append(errand)
    return groups


def _packed(group: Sequence[Errand]) -> list[Raw]:
    requests: list[Raw] = []
    for errand in group:
        if errand.asking:
            requests.append(("ASKING",))
        requests.append(errand.request)
    return requests


def _settled(group: Sequence[Errand], replies: Sequence[Any], routes: Routes, node: Node) -> list[Errand]:
    """Hand out the replies; returns the errands that go on."""
    coming = iter(replies)
    left = []
    for errand in group:
        if errand.asking:
            next(coming)
        reply = next(coming)
        if isinstance(reply, exceptions.ClusterDownError):
            routes.doubt()
        if not errand.settle(reply, routes, node):
            left.append(errand)
    return left


def _read_slots(routes: Routes, until: float) -> Travel:
    if not routes.begin_reading():
        return
    failed: Exception | None = None
    for node in routes.candidates():
        failed = routes.away(node)
        if failed is None:
            (answer,) = yield Leg([Trip(node, [("CLUSTER", "SLOTS")])])
            failed = answer if isinstance(answer, Exception) else _error_in(answer)
            if failed is None:
                routes.learn(answer[0], node)
                return
            routes.lost(node, failed)
        if time.monotonic() >= until:
            break
    if not routes.known and failed is not None:
        raise failed


def _error_in(replies: Sequence[Any]) -> Exception | None:
    return replies[0] if isinstance(replies[0], Exception) else None
