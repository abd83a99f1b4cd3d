"""Where a destination is, and whether it may be dialled there."""

from __future__ import annotations

from math import inf

from hookfuse.core.addresses import parse_address
from hookfuse.core.destination import Destination
from hookfuse.transport.dialing import Guard, blocked
from hookfuse.transport.resolver import Answer, Resolver


async def find(destination: Destination, resolver: Resolver) -> Answer:
    """The addresses of a destination: its host itself, or what its name resolves to."""
    literal = parse_address(destination.host)
    if literal is not None:
        return Answer((literal,), None, inf)
    return await resolver.lookup(destination.host)


def vet(answer: Answer, port: int, guard: Guard) -> Answer:
    """The answer, unless a single one of its addresses may not be dialled: who mixes them in is up to something."""
    for address in answer.addresses:
        verdict = guard.verdict(address, port)
        if verdict is not None:
            return Answer((), blocked(verdict), answer.until)
    return answer
