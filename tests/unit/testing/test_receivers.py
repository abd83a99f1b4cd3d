"""Endpoints that answer, as a client meets them on the wire."""

from __future__ import annotations

import asyncio
import time

import pytest

from hookfuse.errors import InvalidInput
from hookfuse.testing.receivers import (
    Answer,
    Arrival,
    Behaviour,
    Bomb,
    DripBody,
    Failing,
    Flaky,
    Gone,
    Ok,
    RateLimited,
    Receivers,
    Redirect,
    Script,
    Slow,
    Unavailable,
)
from tests.unit.testing.calling import Client, Reply, post, request, until
from tests.unit.testing.conftest import Run

PAST = "Thu, 01 Jan 1970 00:00:00 GMT"


def statuses(behaviour: Behaviour, times: list[float]) -> list[int | None]:
    """What it answers to requests that arrive at these times."""
    begun = behaviour.begin()
    arrivals = [Arrival("ep", at) for at in times]
    return [begun.status if isinstance(begun, Answer) else begun(arrival).status for arrival in arrivals]


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (Ok(), Reply(200, {"content-length": "0"}, b"")),
        (Ok(status=201, body=b"made"), Reply(201, {"content-length": "4"}, b"made")),
        (Ok(status=204), Reply(204, {}, b"")),
        (Failing(), Reply(500, {"content-length": "0"}, b"")),
        (Failing(499), Reply(499, {"content-length": "0"}, b"")),
        (Gone(), Reply(410, {"content-length": "0"}, b"")),
        (Unavailable(), Reply(503, {"content-length": "0"}, b"")),
        (Redirect("http://10.0.0.1/"), Reply(302, {"location": "http://10.0.0.1/", "content-length": "0"}, b"")),
    ],
)
def test_plain_answers(run: Run, behaviour: Behaviour, expected: Reply) -> None:
    """An endpoint that answers at once does so on a connection that stays open."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", behaviour)
            client = await Client.connect(url)
            for _ in range(2):
                client.send(request(url))
                assert await client.reply() == expected
            assert receivers["ep"].counts.answers == {expected.status: 2}
            await client.close()

    run(scenario())


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_redirects(status: int) -> None:
    """Each kind of redirect names its location."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            reply = await post(receivers.add("ep", Redirect("/elsewhere", status)))
            assert (reply.status, reply.headers["location"]) == (status, "/elsewhere")

    asyncio.run(scenario())


@pytest.mark.parametrize("text", ["-1", "nan", "1e309", PAST, "", "7"])
@pytest.mark.parametrize("kind", [Unavailable, RateLimited])
def test_retry_after_as_given(kind: type[Unavailable] | type[RateLimited], text: str) -> None:
    """Retry-After goes out exactly as it was written, sense or nonsense."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            reply = await post(receivers.add("ep", kind(retry_after=text)))
            assert reply.status == (503 if kind is Unavailable else 429)
            assert reply.headers["retry-after"] == text

    asyncio.run(scenario())


def test_retry_after_in_seconds() -> None:
    """A number of seconds is written as one."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            assert (await post(receivers.add("ep", RateLimited()))).headers["retry-after"] == "1"
            assert (await post(receivers.add("half", Unavailable(0.5)))).headers["retry-after"] == "0.5"

    asyncio.run(scenario())


def test_rate_limit() -> None:
    """No second, wherever it begins, has more than the limit."""
    assert statuses(RateLimited(2), [0.0, 0.5, 0.9, 1.0, 1.4, 1.5, 9.0]) == [200, 200, 429, 200, 429, 200, 200]


def test_flaky_follows_its_seed() -> None:
    """A share of the requests fails, the same ones each time, and other ones with another seed."""
    times = [0.0] * 2000
    drawn = statuses(Flaky(0.3, seed=7), times)
    assert set(drawn) == {200, 500}
    assert 0.26 < drawn.count(500) / len(drawn) < 0.34
    assert drawn == statuses(Flaky(0.3, seed=7), times)
    assert drawn != statuses(Flaky(0.3, seed=8), times)
    assert set(statuses(Flaky(1.0, failure=Gone()), times)) == {410}


def test_script() -> None:
    """A script takes its turns, stays with the last, and each endpoint is at its own place in it."""
    script = Script([Failing(), Unavailable(), Ok()])

    async def scenario() -> None:
        async with Receivers() as receivers:
            one, two = receivers.add("one", script), receivers.add("two", script)
            assert [(await post(one)).status for _ in range(4)] == [500, 503, 200, 200]
            assert (await post(two)).status == 500

    asyncio.run(scenario())


@pytest.mark.parametrize("behaviour", [Slow(0.05), Ok(delay=0.05)])
def test_slow(run: Run, behaviour: Behaviour) -> None:
    """A slow endpoint answers well, and not before its time has come."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", behaviour)
            began = time.monotonic()
            assert (await post(url)).status == 200
            assert time.monotonic() - began >= 0.049

    run(scenario())


def test_slow_holds_up_nobody(run: Run) -> None:
    """While one endpoint takes its time, others answer."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            slow, quick = receivers.add("slow", Slow(60)), receivers.add("quick")
            client = await Client.connect(slow)
            client.send(request(slow))
            await receivers["slow"].arrived(1)
            assert (await post(quick)).status == 200
            assert receivers["slow"].in_flight == 1
            await client.close()

    run(scenario())


def test_function_chooses(run: Run) -> None:
    """A test's own function sees the request and chooses what to do with it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", lambda arrival: Ok() if arrival.body == b"good" else Failing(400))
            assert (await post(url, b"good")).status == 200
            assert (await post(url, b"bad")).status == 400

    run(scenario())


def test_function_waits(run: Run) -> None:
    """A coroutine function answers when the test lets it; a client that leaves first does no harm."""

    async def scenario() -> None:
        may_go = asyncio.Event()

        async def choose(arrival: Arrival) -> Behaviour:
            await may_go.wait()
            return Ok(body=arrival.headers["x-name"].encode())

        async with Receivers() as receivers:
            url = receivers.add("ep", choose)
            gone = await Client.connect(url)
            gone.send(request(url))
            waiting = asyncio.create_task(post(url, headers={"X-Name": "here"}))
            await receivers["ep"].arrived(2)
            await gone.close()
            await until(lambda: receivers["ep"].in_flight == 1)
            may_go.set()
            assert (await waiting).body == b"here"

    run(scenario())


def test_function_raises(run: Run) -> None:
    """What a test's own function raises is not lost: it is raised when the receivers close."""

    def choose(arrival: Arrival) -> Behaviour:
        raise ZeroDivisionError(arrival.endpoint)

    async def scenario() -> None:
        async with Receivers() as receivers:
            with pytest.raises(ConnectionResetError):
                await post(receivers.add("ep", choose))

    with pytest.raises(ZeroDivisionError, match="ep"):
        run(scenario())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ok(status=500), "status must be a number from 200 to 299"),
        (lambda: Slow(-1).begin(), "delay must be"),
        (lambda: Failing(200), "status must be"),
        (lambda: Redirect("/", 200), "status must be"),
        (lambda: Flaky(1.5), "share must be"),
        (lambda: RateLimited(-1), "per_second must be"),
        (lambda: Script([]), "at least one"),
        (lambda: DripBody(interval=float("nan")), "interval must be"),
        (lambda: Bomb(0), "size must be"),
    ],
)
def test_misuse(make: type[Behaviour], words: str) -> None:
    """A behaviour that makes no sense is refused with what would do."""
    with pytest.raises(InvalidInput, match=words):
        make()
