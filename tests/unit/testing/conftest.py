"""Each scenario runs on asyncio's own loop and on uvloop, whose transports differ in small ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeAlias

import pytest
import uvloop

Run: TypeAlias = Callable[[Coroutine[None, None, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found
