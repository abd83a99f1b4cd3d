"""Requests that are sent at once, over a kept connection, and call back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from hookfuse.core.addresses import Networks
from hookfuse.core.sending import Request, SendResult, Trouble
from hookfuse.errors import InvalidInput
from hookfuse.transport import HttpSender
from tests.unit.transport.receiver import LOOPBACK, OK, Receiver, Script, receiving, request, until

WAY = request("http://127.0.0.1/").destination


@dataclass
class Warm:
    """A sender with one kept connection to a receiver, and what was answered."""

    sender: HttpSender
    receiver: Receiver
    made: int = 0
    answers: list[SendResult | None] = field(default_factory=list)

    def send(self, timeout: float = 5.0) -> Callable[[], None] | None:
        asked = request(self.receiver.url())._replace(timeout=timeout)

        def make() -> Request:
            self.made += 1
            return asked

        return self.sender.send_at_once(asked.destination, make, self.answers.append)


def then(*steps: bytes | None) -> Script:
    """Answer the first request, and each later one with its step; None: hang up instead."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for step in (OK, *steps):
            await receiver.read(reader)
            if step is None:
                return
            writer.write(step)
        await receiver.left.wait()

    return script


@asynccontextmanager
async def warm(script: Script) -> AsyncIterator[Warm]:
    sender = HttpSender(LOOPBACK)
    async with receiving(script) as receiver:
        assert (await sender.send(request(receiver.url()))).status == 200
        try:
            yield Warm(sender, receiver)
        finally:
            receiver.left.set()
            await sender.close()


async def test_nothing_is_made_without_a_connection() -> None:
    """A sender that has no kept connection says so, and the request is not even made."""
    sender = HttpSender(LOOPBACK)
    assert sender.send_at_once(WAY, pytest.fail, lambda result: None) is None
    await sender.close()


async def test_a_kept_connection_carries_it() -> None:
    """It goes over the kept connection, which is there for the next one when the answer is told."""
    async with warm(then(OK, OK)) as there:
        assert there.send() is not None
        assert there.send() is None, "the only connection is at work"
        await until(lambda: len(there.answers) == 1)
        assert there.send() is not None
        await until(lambda: len(there.answers) == 2)
        assert [result and result.body for result in there.answers] == [b"ok", b"ok"]
        assert there.receiver.connections == 1
        assert there.made == 2


async def test_a_connection_that_was_closed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who hung up without an answer has it sent anew: that is what None says."""
    # This machine may be busy for longer than it takes to find out.
    monkeypatch.setattr("hookfuse.transport.connection._SOON_AT_LEAST", 1.0)
    async with warm(then(None)) as there:
        assert there.send() is not None
        await until(lambda: len(there.answers) == 1)
        assert there.answers == [None]
        assert there.sender.connections == 0


async def test_what_was_lost_once_goes_on_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that hangs up on all its kept connections gets a request twice, not once for each of them."""
    monkeypatch.setattr("hookfuse.transport.connection._SOON_AT_LEAST", 1.0)
    closing = asyncio.Event()

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        writer.write(OK)
        while not closing.is_set():
            await receiver.read(reader)
            if not closing.is_set():
                writer.write(OK)

    async with warm(script) as there:
        asked = request(there.receiver.url())
        both = await asyncio.gather(there.sender.send(asked), there.sender.send(asked))
        assert [each.status for each in both] == [200, 200]
        assert (there.receiver.connections, len(there.receiver.requests)) == (2, 3)
        closing.set()
        assert there.send() is not None
        await until(lambda: there.answers == [None])
        assert (await there.sender.send(asked._replace(anew=True))).status == 200
        assert (there.receiver.connections, len(there.receiver.requests)) == (3, 5)


async def test_the_deadline_is_told() -> None:
    """An answer that does not come in time is a trouble, and the connection is closed."""
    async with warm(then(b"")) as there:
        assert there.send(timeout=0.02) is not None
        await until(lambda: len(there.answers) == 1)
        assert [result and result.trouble for result in there.answers] == [Trouble.TIMEOUT]
        await until(lambda: there.sender.connections == 0)


async def test_what_is_given_up_is_never_told() -> None:
    """Giving up closes the connection, and nobody hears of an answer."""
    async with warm(then(b"HTTP/1.1 200 OK\r\n")) as there:
        give_up = there.send()
        assert give_up is not None
        await until(lambda: len(there.receiver.requests) == 2)
        give_up()
        await until(lambda: there.sender.connections == 0)
        assert there.answers == []


async def test_a_closed_sender_tells_its_own_trouble() -> None:
    """What is on its way when the sender is closed ends with a trouble of our own."""
    async with warm(then(b"")) as there:
        assert there.send() is not None
        await there.sender.close()
        assert [result and result.trouble for result in there.answers] == [Trouble.LOCAL]
        assert there.send() is None


async def test_a_network_that_was_forbidden_meanwhile() -> None:
    """A kept connection is not used once its network must be vetted anew."""
    async with warm(then(OK)) as there:
        there.sender.networks = Networks()
        assert there.send() is None
        assert there.made == 0


async def test_a_request_that_cannot_be_written() -> None:
    """Misuse is raised, and the connection is still there for others."""
    async with warm(then(OK)) as there:
        bad = request(there.receiver.url())._replace(headers=(("x", "a\r\nb"),))
        with pytest.raises(InvalidInput, match="line break"):
            there.sender.send_at_once(bad.destination, lambda: bad, there.answers.append)
        assert there.send() is not None
        await until(lambda: len(there.answers) == 1)
