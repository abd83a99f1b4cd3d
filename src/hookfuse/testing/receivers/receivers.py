"""Many simulated endpoints on real ports of this machine."""

from __future__ import annotations

import re
import ssl
from types import TracebackType
from typing import Self

from hookfuse.errors import InvalidInput, shown
from hookfuse.testing.receivers.behaviours import Behaviour, Ok
from hookfuse.testing.receivers.connection import Directory
from hookfuse.testing.receivers.endpoint import Choice, Counts, Endpoint, Verify
from hookfuse.testing.receivers.hostile import Dead
from hookfuse.testing.receivers.ledger import Ledger, MemoryLedger, Receipt
from hookfuse.testing.receivers.listener import Listener

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


class Receivers:
    """Endpoints by name, all on one port, except those that need one of their own.

    What arrived goes to `ledger`, by default one in memory that keeps the newest receipts. Receivers that are only
    `counting` have none, and are fastest.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        ledger: Ledger | None = None,
        counting: bool = False,
    ) -> None:
        self._host = host
        self._wanted_port = port
        self._tls = tls
        self._ledger = None if counting else ledger or MemoryLedger()
        self._directory = Directory(self._ledger)
        self._endpoints: dict[str, Endpoint] = {}
        self._own: dict[str, Listener] = {}
        self._by_tls: dict[ssl.SSLContext | None, Listener] = {}

    async def __aenter__(self) -> Self:
        shared = Listener(self._directory, self._host, self._wanted_port, self._tls)
        shared.open()
        self._by_tls[self._tls] = shared
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for listener in (*self._own.values(), *self._by_tls.values()):
            await listener.close()
        if self._ledger is not None:
            self._ledger.close()
        if self._directory.errors and error is None:
            raise self._directory.errors[0]

    def add(
        self,
        name: str,
        behaviour: Behaviour | Choice | None = None,
        *,
        own_port: bool = False,
        tls: ssl.SSLContext | None = None,
        verify: Verify | None = None,
    ) -> str:
        """A new endpoint; returns its URL.

        `own_port` is for endpoints that will be `Dead`: only a port of their own can refuse connections. One that
        begins dead has it anyway. `tls` serves it with another certificate than the others have.
        """
        self._check(name, behaviour, verify)
        listener = self._listener(name, own_port or isinstance(behaviour, Dead), tls or self._tls)
        endpoint = Endpoint(name, f"{listener.url}/ep/{name}", behaviour or Ok(), verify)
        self._endpoints[name] = endpoint
        self._directory.by_path[f"/ep/{name}".encode()] = endpoint
        self._open_or_shut(name)
        return endpoint.url

    def change(self, name: str, behaviour: Behaviour | Choice) -> None:
        """From the next request on: break it, slow it down, heal it. Requests in flight go on as they began."""
        self._check_choice(behaviour)
        self[name].behave(behaviour)
        self._open_or_shut(name)

    def __getitem__(self, name: str) -> Endpoint:
        if name not in self._endpoints:
            raise InvalidInput(f"there is no endpoint {shown(name)}; add it first.")
        return self._endpoints[name]

    def __contains__(self, name: str) -> bool:
        return name in self._endpoints

    @property
    def port(self) -> int:
        """The one that endpoints share."""
        return self._by_tls[self._tls].port

    @property
    def connections(self) -> int:
        """How many are open now."""
        return sum(listener.connections for listener in (*self._own.values(), *self._by_tls.values()))

    @property
    def strays(self) -> int:
        """Requests for a path that is no endpoint's."""
        return self._directory.strays

    def receipts(self) -> list[Receipt]:
        """What arrived, in order."""
        if self._ledger is None:
            raise InvalidInput("receivers that are only counting keep no receipts.")
        return self._ledger.receipts()

    @property
    def counts(self) -> dict[str, Counts]:
        return {name: endpoint.counts for name, endpoint in self._endpoints.items()}

    @property
    def requests(self) -> int:
        """Those of all endpoints."""
        return sum(endpoint.requests for endpoint in self._endpoints.values())

    def _listener(self, name: str, own_port: bool, tls: ssl.SSLContext | None) -> Listener:
        if own_port:
            return self._own.setdefault(name, Listener(self._directory, self._host, 0, tls))
        if tls not in self._by_tls:
            self._by_tls[tls] = Listener(self._directory, self._host, 0, tls)
            self._by_tls[tls].open()
        return self._by_tls[tls]

    def _open_or_shut(self, name: str) -> None:
        own = self._own.get(name)
        if own is None:
            return
        if isinstance(self._endpoints[name].behaviour, Dead):
            own.shut()
        else:
            own.open()

    def _check(self, name: str, behaviour: Behaviour | Choice | None, verify: Verify | None) -> None:
        if not self._by_tls:
            raise InvalidInput("the receivers are not running; use them in `async with`.")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInput(f"a name has 1 to 200 of the signs A-Z a-z 0-9 . _ -, got {shown(name)}.")
        if name in self._endpoints:
            raise InvalidInput(f"the endpoint {name} is there already; change it instead.")
        if verify is not None and self._ledger is None:
            raise InvalidInput("receivers that are only counting verify no signature.")
        self._check_choice(behaviour)

    def _check_choice(self, behaviour: object) -> None:
        if callable(behaviour) and self._ledger is None:
            raise InvalidInput("receivers that are only counting have nothing to show to a function that chooses.")
