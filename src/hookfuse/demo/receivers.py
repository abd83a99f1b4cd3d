"""Six simulated receivers, each on a port of its own, because only such a port can refuse connections."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

from hookfuse.core.secret import Secret
from hookfuse.core.signing import verify
from hookfuse.errors import InvalidInput, shown
from hookfuse.testing.receivers import Behaviour, Counts, Dead, Flaky, Ledger, Ok, RateLimited, Receivers, Slow
from hookfuse.testing.receivers import Verify as Verifier


class Conduct(StrEnum):
    """How a receiver behaves, as the page and the REST calls name it."""

    HEALTHY = "healthy"
    SLOW = "slow"
    FLAKY = "flaky"
    DEAD = "dead"
    RATE_LIMITED = "rate_limited"


_BEHAVIOURS: dict[Conduct, Behaviour] = {
    Conduct.HEALTHY: Ok(delay=0.002),
    Conduct.SLOW: Slow(0.8),
    Conduct.FLAKY: Flaky(share=0.1),
    Conduct.DEAD: Dead(),
    Conduct.RATE_LIMITED: RateLimited(per_second=12, retry_after=1),
}
IN_WORDS = {
    Conduct.HEALTHY: "answers at once",
    Conduct.SLOW: "answers after 0.8 s",
    Conduct.FLAKY: "fails one request in ten",
    Conduct.DEAD: "refuses every connection",
    Conduct.RATE_LIMITED: "takes 12 requests a second, and asks to wait above that",
}

VICTIM = "phoenix"
HEALTHY = ("acme", "globex")
CAST = {
    "acme": Conduct.HEALTHY,
    "globex": Conduct.HEALTHY,
    "tortoise": Conduct.SLOW,
    "coinflip": Conduct.FLAKY,
    "turnstile": Conduct.RATE_LIMITED,
    VICTIM: Conduct.HEALTHY,
}
"""Who plays, and how each begins. The victim dies later, and rises again."""


@dataclass(frozen=True, slots=True)
class Change:
    """From this instant (Unix seconds) on, a receiver behaves so."""

    at: float
    name: str
    conduct: Conduct


class DemoReceivers:
    """The six of them. `changes` is the history of how they behaved."""

    def __init__(self, ledger: Ledger) -> None:
        self._receivers = Receivers(ledger=ledger)
        self._conducts = dict(CAST)
        self.secrets = {name: Secret(secrets.token_bytes(32)) for name in CAST}
        self.changes: list[Change] = []

    async def __aenter__(self) -> Self:
        await self._receivers.__aenter__()
        for name, conduct in CAST.items():
            verifier = _verifier(self.secrets[name])
            self._receivers.add(name, _BEHAVIOURS[conduct], own_port=True, verify=verifier)
            self.changes.append(Change(time.time(), name, conduct))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._receivers.__aexit__(kind, error, trace)

    def change(self, name: str, conduct: Conduct) -> None:
        """From the next request on."""
        if name not in self._conducts:
            raise InvalidInput(f"There is no receiver {shown(name)}; there are {', '.join(CAST)}.")
        self._receivers.change(name, _BEHAVIOURS[conduct])
        self._conducts[name] = conduct
        self.changes.append(Change(time.time(), name, conduct))

    def conduct(self, name: str) -> Conduct:
        return self._conducts[name]

    def url(self, name: str) -> str:
        return self._receivers[name].url

    def counts(self, name: str) -> Counts:
        return self._receivers[name].counts

    def in_flight(self, name: str) -> int:
        return self._receivers[name].in_flight


def _verifier(secret: Secret) -> Verifier:
    def check(body: bytes, headers: dict[str, str]) -> None:
        found = verify((secret,), headers, body, time.time())
        if not found:
            raise InvalidInput(f"The signature was refused: {found.rejection}.")

    return check
