"""A client that keeps a ledger: what it sent, under which key, and what it was told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from tests.ledgers import Produced, Told

Ask: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, Any]]]
"""Hands in a message (key, payload) and returns the reply; ConnectionError: nobody knows."""

_PAUSE = 0.02
_PATIENCE = 60.0


class Producer:
    """Sends messages with bodies of their own, each under its key until it is told that it was taken."""

    def __init__(self, ledger: Path, endpoints: Sequence[str], seed: int) -> None:
        self._ledger = ledger
        self._endpoints = frozenset(endpoints)
        self._random = random.Random(seed)
        self._numbers = 0
        self.produced: list[Produced] = []
        self.unavailable = 0
        """How often it was told to come again."""
        self.cut_off = 0
        """How often the connection ended without an answer."""
        self.slowest = 0.0
        """The longest that any one answer took, in seconds."""
        self.answered_at = 0.0
        """When the last message was taken, in monotonic seconds."""

    async def send(self, asks: Sequence[Ask], count: int, *, at_once: int = 16, mark: str = "") -> None:
        """Send so many, to each of the counters in turn."""
        left = iter(range(count))

        async def client(number: int) -> None:
            for turn in left:
                await self._send_one(asks, number + turn, mark)

        async with asyncio.TaskGroup() as clients:
            for number in range(min(at_once, count)):
                clients.create_task(client(number))

    async def _send_one(self, asks: Sequence[Ask], turn: int, mark: str) -> None:
        self._numbers += 1
        key = f"key-{self._numbers}"
        padding = self._random.randbytes(self._random.choice((1, 50, 500))).hex()
        payload = json.dumps({"number": self._numbers, "mark": mark, "padding": padding})
        until = time.monotonic() + _PATIENCE
        while (reply := await self._ask(asks[turn % len(asks)], key, payload)) is None:
            assert time.monotonic() < until, "nobody took this message in a minute"
            turn += 1
            await asyncio.sleep(_PAUSE)
        self.note(reply.get("id"), payload.encode(), Told.OK if "id" in reply else Told.FAILED)

    async def _ask(self, ask: Ask, key: str, payload: str) -> Mapping[str, Any] | None:
        began = time.monotonic()
        try:
            reply = await ask(key, payload)
        except ConnectionError:
            self.cut_off += 1
            return None
        finally:
            self.slowest = max(self.slowest, time.monotonic() - began)
        if "error" in reply:
            self.unavailable += 1
            return None
        self.answered_at = time.monotonic()
        return reply

    def note(self, id_: str | None, payload: bytes, told: Told = Told.OK) -> None:
        """Write down what was told; for a test that hands in a message in its own way, too."""
        produced = Produced(id_, hashlib.sha256(payload).hexdigest(), told, self._endpoints)
        self.produced.append(produced)
        line = {**asdict(produced), "endpoints": sorted(produced.endpoints)}
        with self._ledger.open("a") as ledger:
            ledger.write(json.dumps(line) + "\n")
