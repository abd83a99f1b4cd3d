"""A sender that opens no connection: it answers as it is told and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request, SendResult, Trouble


def answer(status: int, *, latency: float = 0.01, **headers: str) -> SendResult:
    """A response with this status; `retry_after="5"` gives a header."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return SendResult(status, None, latency, headers=named)


def trouble(kind: Trouble, *, latency: float = 0.01) -> SendResult:
    return SendResult(None, kind, latency, detail=f"told to answer {kind}")


class FakeSender:
    """`answers` is what every request gets, or a function of the request; `hold` keeps requests in flight.

    With `at_once` it is as if there were always a kept connection; what fails then has to be sent anew.
    """

    def __init__(
        self, answers: SendResult | Callable[[Request], SendResult] | None = None, *, at_once: bool = False
    ) -> None:
        self.answers = answer(200) if answers is None else answers
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.closed = False
        self._at_once = at_once
        self._sending: set[asyncio.Task[None]] = set()
        self._gate = asyncio.Event()
        self._gate.set()

    def hold(self) -> None:
        """From now on requests hang, until `let_go`."""
        self._gate.clear()

    def let_go(self) -> None:
        self._gate.set()

    async def send(self, request: Request) -> SendResult:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self._gate.wait()
            await asyncio.sleep(0)
            return self.answers(request) if callable(self.answers) else self.answers
        finally:
            self.in_flight -= 1

    def send_at_once(
        self, destination: Destination, make: Callable[[], Request], answered: Callable[[SendResult | None], None]
    ) -> Callable[[], None] | None:
        if not self._at_once:
            return None
        task = asyncio.get_running_loop().create_task(self._answer(make(), answered))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

        def give_up() -> None:
            task.cancel()

        return give_up

    async def _answer(self, request: Request, answered: Callable[[SendResult | None], None]) -> None:
        try:
            result = await self.send(request)
        except Exception:
            answered(None)
        else:
            answered(result)

    async def close(self) -> None:
        self.closed = True
