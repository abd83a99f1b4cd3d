"""Each scenario runs on asyncio's own loop and on uvloop, whose transports differ in small ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest
import uvloop

Run: TypeAlias = Callable[[Coroutine[None, None, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a scenario; an error that the loop would only have logged is an error."""

    async def watched(scenario: Coroutine[None, None, None]) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        await scenario
        return seen

    def run(scenario: Coroutine[None, None, None]) -> None:
        assert request.param(watched(scenario)) == []

    return run
