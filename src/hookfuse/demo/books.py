"""Who was told what: the producer's count, the receivers' ledger, the breakers' transitions. The store is asked last.

Every number of the end is one of deliveries: one message for one receiver. What the producer was told is accepted must
be in the store, and what the store says is sent must have arrived, with a right signature, and been answered with 2xx.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hookfuse.core.delivery import DeliveryState
from hookfuse.testing.receivers import Receipt


class Arrival(NamedTuple):
    """The first good arrival of a message at a receiver; `in_flight` are the requests that the receiver had then."""

    at: float
    in_flight: int


@dataclass(frozen=True, slots=True)
class Totals:
    """How it ended, in deliveries. accepted = sent + held + failed + lost."""

    accepted: int
    """Messages that the producer was told are stored, times receivers."""
    sent: int
    """The store says so, and the receiver has it."""
    held: int
    """Still waiting."""
    failed: int
    """Ended without being sent: the schedule is used up, or someone cancelled it."""
    lost: int
    """Accepted and not in the store, or sent by the store's word alone."""
    avoided: int
    """Doomed requests that were not made."""
    transitions: int
    """Changes of breakers."""


class Books:
    """Implements the receivers' `Ledger`, so that an arrival is known the moment it is written down."""

    def __init__(self) -> None:
        self.heard: Callable[[], None] = lambda: None
        """Called for each arrival."""
        self.in_flight: Callable[[str], int] = lambda name: 0
        """How many requests a receiver has now."""
        self.accepted: dict[str, float] = {}
        """When each accepted message was sent, by its id."""
        self.arrived: dict[tuple[str, str], Arrival] = {}
        """By message and receiver."""
        self._open = True

    def close_accounts(self) -> None:
        """Note nothing more: what comes now is not part of the story."""
        self._open = False

    def took(self, message_id: str, sent_at: float) -> None:
        if self._open:
            self.accepted[message_id] = sent_at

    def add(self, receipt: Receipt) -> None:
        well = receipt.verified and receipt.status is not None and 200 <= receipt.status < 300
        pair = (receipt.webhook_id, receipt.endpoint)
        if self._open and well and pair not in self.arrived:
            self.arrived[pair] = Arrival(receipt.arrived_at, self.in_flight(receipt.endpoint))
            self.heard()

    def receipts(self) -> list[Receipt]:
        """None are kept: what the sums need is noted."""
        return []

    def close(self) -> None:
        """There is nothing to close."""

    def on_the_way(self, name: str, before: float) -> int:
        """Messages sent before this instant that have not arrived there."""
        return sum(at < before and (message, name) not in self.arrived for message, at in self.accepted.items())

    def reached(self) -> set[str]:
        """Receivers that got something."""
        return {name for _, name in self.arrived}

    def latencies(self, names: tuple[str, ...], since: float) -> list[float]:
        """From sending to arrival, of messages sent since then."""
        return [
            self.arrived[message, name].at - sent_at
            for message, sent_at in self.accepted.items()
            for name in names
            if sent_at >= since and (message, name) in self.arrived
        ]

    def since(self, name: str, begin: float) -> list[Arrival]:
        """The arrivals at one receiver from then on, in order."""
        found = (each for (_, at_name), each in self.arrived.items() if at_name == name)
        return sorted(each for each in found if each.at >= begin)

    def totals(
        self, states: Mapping[tuple[str, str], DeliveryState], names: tuple[str, ...], *, avoided: int, transitions: int
    ) -> Totals:
        """The sums; `states` are the store's, by message and receiver."""
        sent = held = failed = lost = 0
        for pair in ((message, name) for message in self.accepted for name in names):
            state = states.get(pair)
            if state is None or (state is DeliveryState.SENT and pair not in self.arrived):
                lost += 1
            elif state is DeliveryState.SENT:
                sent += 1
            elif state.ended:
                failed += 1
            else:
                held += 1
        return Totals(len(self.accepted) * len(names), sent, held, failed, lost, avoided, transitions)
