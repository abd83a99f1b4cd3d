"""An endpoint to call, a clock to move, and each guarded client in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from hookfuse import Policy, Streak
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock
from tests.unit.integrations.clients import ALL, ASYNC, AsyncClient, Client
from tests.unit.integrations.endpoint import Endpoint

COOL_OFF = 30.0

Connect: TypeAlias = Callable[..., Client]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def policy() -> Policy:
    """Trips at the second failure in a row."""
    return Policy(trip=Streak(2), cool_off=COOL_OFF)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture(params=ALL)
def connect(request: pytest.FixtureRequest, store: MemoryStore, policy: Policy) -> Iterator[Connect]:
    """Make a client of each kind with options of its integration; its key is "ep" unless they say otherwise."""
    opened: list[Client] = []

    def connect(**options: Any) -> Client:
        client = ALL[request.param](store, policy, **{"key": lambda _: "ep", **options})
        opened.append(client)
        return client

    yield connect
    for client in opened:
        client.close()


@pytest.fixture
def client(connect: Connect) -> Client:
    return connect()


@pytest.fixture(params=ASYNC)
def async_client(request: pytest.FixtureRequest, store: MemoryStore, policy: Policy) -> Iterator[AsyncClient]:
    client = ASYNC[request.param](store, policy, key=lambda _: "ep")
    yield client
    client.close()
