"""Breaker keys and endpoint ids."""

from __future__ import annotations

from typing import Any

import pytest

from hookfuse import Breakers, endpoint_id
from hookfuse.errors import InvalidInput, InvalidKey


@pytest.mark.parametrize(
    "same",
    [
        "HTTPS://Hooks.Example.COM/in",
        "https://hooks.example.com:443/in",
        "https://hooks.example.com/in/",
        "https://hooks.example.com/in#part",
        "  https://hooks.example.com/in  ",
    ],
)
def test_spellings_of_one_endpoint(same: str) -> None:
    """Spellings that always mean the same endpoint share an id."""
    assert endpoint_id("t", same) == endpoint_id("t", "https://hooks.example.com/in")


@pytest.mark.parametrize(
    "other",
    [
        "http://hooks.example.com/in",
        "https://hooks.example.com:8443/in",
        "https://hooks.example.com/IN",
        "https://hooks.example.com/in?token=1",
        "https://user@hooks.example.com/in",
        "https://hooks.example.com",
    ],
)
def test_other_endpoints(other: str) -> None:
    """What may mean another endpoint has another id: the path's case, the query, the port, the scheme."""
    assert endpoint_id("t", other) != endpoint_id("t", "https://hooks.example.com/in")


def test_query_is_dropped_only_when_asked() -> None:
    """The query counts, unless it is to be dropped."""
    one, two = "https://e.com/h?tok=1", "https://e.com/h?tok=2"
    assert endpoint_id("t", one) != endpoint_id("t", two)
    assert endpoint_id("t", one, drop_query=True) == endpoint_id("t", "https://e.com/h")


def test_tenants_never_collide() -> None:
    """No choice of tenant and URL makes two tenants share an id."""
    assert endpoint_id("a|https://x.com/", "https://y.com") != endpoint_id("a", "https://x.com/|https://y.com")
    assert endpoint_id("a", "https://x.com") != endpoint_id("b", "https://x.com")
    assert endpoint_id("1:a", "https://x.com") != endpoint_id("1", "https://a.x.com")


@pytest.mark.parametrize("url", ["", "example.com/in", "ftp://example.com", "https://", "https://[::1", "https://e:x/"])
def test_no_url(url: str) -> None:
    """What is no absolute http URL is refused."""
    with pytest.raises(InvalidInput, match="absolute http or https URL"):
        endpoint_id("t", url)


@pytest.mark.parametrize("key", ["", None, 3, b"ep", ["ep"], "x" * 513, "\ud800"])
def test_bad_keys(key: Any) -> None:
    """A key that is no usable string is refused in every verb, and nothing is stored."""
    breakers = Breakers()
    for verb in (breakers.admit, breakers.inspect, breakers.force_open, breakers.reset, breakers.evaluate):
        with pytest.raises(InvalidKey):
            verb(key)
    with pytest.raises(InvalidKey), breakers.guard(key):
        pytest.fail("the block must not run")
    with pytest.raises(InvalidKey):
        breakers.protect(key=lambda: key)(lambda: None)()
    assert list(breakers.unhealthy()) == []
