"""What is particular to requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from urllib3 import Retry

from hookfuse import AsyncBreakers, Breakers, Policy
from hookfuse.errors import InvalidInput
from hookfuse.integrations.requests import BreakerAdapter
from hookfuse.stores.memory import MemoryStore
from tests.unit.integrations.endpoint import Endpoint


@pytest.fixture
def breakers(store: MemoryStore, policy: Policy) -> Breakers:
    return Breakers(store, policy=policy)


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def test_refusal_has_the_request(breakers: Breakers, session: requests.Session, endpoint: Endpoint) -> None:
    """A refusal names its request, as every error of requests does, and has no response."""
    breakers.force_open("ep")
    session.mount("http://", BreakerAdapter(breakers, key=lambda _: "ep"))
    with pytest.raises(requests.ConnectionError) as caught:
        session.get(f"{endpoint.url}/asked")
    assert caught.value.request is not None
    assert str(caught.value.request.url).endswith("/asked")
    assert caught.value.response is None


def test_retries_of_the_adapter_count_once(breakers: Breakers, session: requests.Session, endpoint: Endpoint) -> None:
    """The options of HTTPAdapter work as before, and its retries are inside one call."""
    endpoint.answer(500)
    retry = Retry(2, status_forcelist=[500], backoff_factor=0)
    session.mount("http://", BreakerAdapter(breakers, key=lambda _: "ep", max_retries=retry))
    with pytest.raises(requests.exceptions.RetryError):
        session.get(endpoint.url)
    assert len(endpoint.paths) == 3
    assert breakers.inspect("ep").totals.failed == 1


def test_timeout_is_a_failure(breakers: Breakers, session: requests.Session, endpoint: Endpoint) -> None:
    """A request that runs into its timeout is a failure with its class kept."""
    endpoint.hang()
    session.mount("http://", BreakerAdapter(breakers, key=lambda _: "ep"))
    with pytest.raises(requests.ReadTimeout):
        session.get(endpoint.url, timeout=0.05)
    assert [failure.type for failure in breakers.inspect("ep").failures] == ["ReadTimeout"]


def test_only_mounted_prefixes_are_guarded(breakers: Breakers, session: requests.Session, endpoint: Endpoint) -> None:
    """The session's other requests do not pass through the adapter."""
    session.mount(f"{endpoint.url}/guarded", BreakerAdapter(breakers, key=lambda _: "ep"))
    session.get(f"{endpoint.url}/free")
    assert breakers.inspect("ep").totals.ok == 0
    session.get(f"{endpoint.url}/guarded")
    assert breakers.inspect("ep").totals.ok == 1


def test_adapter_takes_breakers_for_threads(store: MemoryStore) -> None:
    """Breakers for asyncio are refused with a sentence."""
    wrong: Any = AsyncBreakers(store)
    with pytest.raises(InvalidInput, match="BreakerAdapter runs in threads and takes Breakers, got "):
        BreakerAdapter(wrong, key=lambda _: "ep")
