"""The command line on a real Redis, and the workers whose breakers it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hookfuse import Breakers, Outcome, Policy
from hookfuse.cli.commands import app
from hookfuse.stores.redis import RedisStore

SHARDS = 8

Run = Callable[..., Result]
Workers = Callable[..., Breakers]


@pytest.fixture
def run(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Type `hookfuse breakers ...`; where Redis is stands in the environment."""
    monkeypatch.setenv("HOOKFUSE_REDIS_URL", redis_url)
    monkeypatch.setenv("USER", "alice")
    runner = CliRunner()

    def typed(*words: str) -> Result:
        return runner.invoke(app, ["breakers", *words])

    return typed


@pytest.fixture
def workers(redis_url: str) -> Iterator[Workers]:
    """Breakers of a worker with this policy."""
    with ExitStack() as stack:

        def make(**policy: Any) -> Breakers:
            store = RedisStore(redis_url, shards=SHARDS)
            return stack.enter_context(Breakers(store, policy=Policy(**policy), consistency="strict"))

        yield make


def fail(breakers: Breakers, key: str, times: int = 5, error: BaseException | str | None = None) -> None:
    for _ in range(times):
        breakers.record(breakers.admit(key), Outcome.FAILURE, latency=0.25, error=error)
