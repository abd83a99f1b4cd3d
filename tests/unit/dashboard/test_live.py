"""The live stream: it folds, it is bounded, it notices who must leave, and it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from hookfuse.dashboard import live as module
from hookfuse.dashboard.live import CHANGE, LEAVE, Live

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def _welcome() -> bool:
    return True


async def _next(stream: AsyncIterator[bytes], wanted: bytes) -> None:
    async with asyncio.timeout(10):
        async for message in stream:
            if message == wanted:
                return
    raise AssertionError("the stream ended")


async def test_a_storm_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of changes between two messages are one, and messages keep their distance."""
    monkeypatch.setattr(module, "FOLD", 0.05)
    live = Live()
    stream = live.stream(_welcome)
    await _next(stream, CHANGE)
    began = time.monotonic()
    for _ in range(5):
        for _ in range(10_000):
            live.ring()
        await _next(stream, CHANGE)
    assert time.monotonic() - began >= 4 * 0.05
    live.close()
    assert [message async for message in stream] == []


async def test_the_first_message_is_to_look() -> None:
    """A page was made before its stream began; it looks at once, lest it miss what happened in between."""
    stream = Live().stream(_welcome)
    assert (await anext(stream)).startswith(b"retry:")
    async with asyncio.timeout(1):
        assert await anext(stream) == CHANGE
    await stream.aclose()


async def test_quiet_pages_look_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other processes do is not heard, so a page is told to look anyway, and the line is kept open meanwhile."""
    monkeypatch.setattr(module, "_CHECK_EVERY", 0.01)
    monkeypatch.setattr(module, "LOOK_EVERY", 0.05)
    live = Live()
    stream = live.stream(_welcome)
    await _next(stream, CHANGE)
    seen = []
    async with asyncio.timeout(10):
        async for message in stream:
            seen.append(message)
            if message == CHANGE:
                break
    assert any(message.startswith(b":") for message in seen)


async def test_who_is_not_welcome_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A visitor whose key was revoked is told to leave at the next look, and the stream ends."""
    monkeypatch.setattr(module, "_CHECK_EVERY", 0.01)
    live, welcome = Live(), True

    async def asks() -> bool:
        return welcome

    stream = live.stream(asks)
    await anext(stream)
    await anext(stream)
    welcome = False
    await _next(stream, LEAVE)
    assert [message async for message in stream] == []
    assert live.streams == 0


async def test_the_end_comes_at_once() -> None:
    """Streams that wait end when the server does, and leave nothing behind; the same when a browser goes away."""
    live = Live()
    streams = [live.stream(_welcome) for _ in range(3)]
    for stream in streams:
        await anext(stream)
    waiting = [asyncio.ensure_future(anext(stream, None)) for stream in streams[:2]]
    await asyncio.sleep(0)
    await streams[2].aclose()
    assert live.streams == 2
    began = time.monotonic()
    live.close()
    await asyncio.gather(*waiting)
    for stream in streams[:2]:
        assert [message async for message in stream] == []
    assert time.monotonic() - began < 1
    assert live.streams == 0


async def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of open pages of a process is bounded."""
    monkeypatch.setattr(module, "MOST_STREAMS", 2)
    live = Live()
    streams = [live.stream(_welcome) for _ in range(2)]
    assert not live.full
    for stream in streams:
        await anext(stream)
    assert live.full
    for stream in streams:
        await stream.aclose()
    assert not live.full
