"""Runs each coroutine of a test on plain asyncio and on uvloop, and looks for what it has left behind."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.fixturenames.append("loop_name")
        metafunc.parametrize("loop_name", LOOPS)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    function = pyfuncitem.function
    if not inspect.iscoroutinefunction(function):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(function).parameters}
    with asyncio.Runner(loop_factory=LOOPS[str(pyfuncitem.callspec.params["loop_name"])]) as runner:
        runner.run(_clean(function(**arguments)))
    return True


async def _clean(test: Coroutine[Any, Any, None]) -> None:
    """Fail if tasks or file descriptors outlive the test."""
    async with nothing_left():
        await test


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    before, tasks = _sockets(), asyncio.all_tasks()
    yield
    for _ in range(200):
        gc.collect()
        if _sockets() <= before and asyncio.all_tasks() <= tasks:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"Left behind: {_sockets() - before} sockets, {asyncio.all_tasks() - tasks}")


def _sockets() -> int:
    """How many this process has open. Other descriptors are the event loop's own affair."""
    return sum(_target(name).startswith("socket:") for name in os.listdir("/proc/self/fd"))


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""  # that of the listing itself
