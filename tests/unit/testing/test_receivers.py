"""Every behaviour, as a client meets it on the wire."""

from __future__ import annotations

import asyncio
import time
import zlib

import pytest

from hookfuse.errors import InvalidInput
from hookfuse.testing.receivers import (
    Answer,
    Arrival,
    Behaviour,
    BigHeader,
    Bomb,
    Dead,
    DripBody,
    DripHeaders,
    Failing,
    Flaky,
    Gone,
    Hang,
    Huge,
    Malformed,
    Ok,
    RateLimited,
    Receivers,
    Redirect,
    Reset,
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


def test_dead_on_its_own_port(run: Run) -> None:
    """A dead endpoint refuses connections, a healed one answers at the same address, and dying drops who is there."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Dead())
            for _ in range(3):
                with pytest.raises(ConnectionRefusedError):
                    await Client.connect(url)
                receivers.change("ep", Ok())
                client = await Client.connect(url)
                client.send(request(url))
                assert (await client.reply()).status == 200
                receivers.change("ep", Dead())
                with pytest.raises(ConnectionResetError):
                    await client.rest()
                await client.close()

    run(scenario())


def test_dead_on_a_shared_port(run: Run) -> None:
    """Where others live on the port, a dead endpoint resets the connections that ask for it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url, other = receivers.add("ep"), receivers.add("other")
            receivers.change("ep", Dead())
            with pytest.raises(ConnectionResetError):
                await post(url)
            assert (await post(other)).status == 200

    run(scenario())


def test_hang(run: Run) -> None:
    """A hanging endpoint takes the request, says nothing, and counts it until the client leaves."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Hang())
            client = await Client.connect(url)
            client.send(request(url))
            await receivers["ep"].arrived(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.rest()
            assert receivers["ep"].in_flight == 1
            receivers.change("ep", Ok())
            assert (await post(url)).status == 200
            assert receivers["ep"].in_flight == 1
            await client.close()
            await until(lambda: receivers["ep"].in_flight == 0)

    run(scenario())


def test_drip_headers(run: Run) -> None:
    """Headers come byte by byte, each one in time to keep a careless client waiting, and never end."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", DripHeaders(interval=0.001))
            client = await Client.connect(url)
            client.send(request(url))
            dripped = await client.exactly(200)
            assert dripped.startswith(b"HTTP/1.1 200 OK\r\nx-drip: drop\r\nx-drip: ")
            assert b"\r\n\r\n" not in dripped
            await client.close()

    run(scenario())


def test_drip_body(run: Run) -> None:
    """The headers come at once and the body byte by byte, to its end if there is one."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", DripBody(interval=0.01, size=5))
            client = await Client.connect(url)
            began = time.monotonic()
            client.send(request(url))
            assert b"content-length: 5\r\n" in await client.head()
            assert await client.exactly(5) == b"....."
            assert time.monotonic() - began >= 0.045
            client.send(request(url))
            assert (await client.reply()).body == b"....."
            await client.close()

    run(scenario())


@pytest.mark.parametrize("size", [0, 1, 1 << 16, 200_001])
def test_huge_keeps_its_word(run: Run, size: int) -> None:
    """A body is as long as it was announced, and the connection serves on after it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Huge(size))
            client = await Client.connect(url)
            for _ in range(2):
                client.send(request(url))
                assert len((await client.reply()).body) == size
            await client.close()

    run(scenario())


def test_huge_holds_up_nobody(run: Run) -> None:
    """While a client reads a huge body, or does not, others are answered."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            huge, other = receivers.add("huge", Huge()), receivers.add("other")
            client = await Client.connect(huge)
            client.send(request(huge))
            assert b"content-length: 10737418240\r\n" in await client.head()
            for _ in range(3):
                await client.exactly(1 << 20)
                assert (await post(other)).status == 200
            await client.close()

    run(scenario())


def test_bomb() -> None:
    """A small body claims gzip and unpacks to a thousand times its size, every byte of it valid."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            reply = await post(receivers.add("ep", Bomb(size=(32 << 20) + 1)))
            assert reply.headers["content-encoding"] == "gzip"
            assert len(reply.body) < (48 << 20) / 900
            unpacked, packed = 0, reply.body
            while packed:
                member = zlib.decompressobj(wbits=31)
                unpacked += len(member.decompress(packed))
                assert member.eof
                packed = member.unused_data
            assert unpacked == 48 << 20

    asyncio.run(scenario())


def test_big_header(run: Run) -> None:
    """One header has a mebibyte."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            reply = await post(receivers.add("ep", BigHeader()))
            assert len(reply.headers["x-big"]) == 1 << 20

    run(scenario())


def test_malformed(run: Run) -> None:
    """What is given goes out as it is, and then the connection is closed."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Malformed(b"\x00not http"))
            client = await Client.connect(url)
            client.send(request(url))
            assert await client.rest() == b"\x00not http"
            await client.close()

    run(scenario())


def test_reset_in_the_response(run: Run) -> None:
    """The client gets a beginning, and then RST."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Reset())
            client = await Client.connect(url)
            client.send(request(url))
            assert b"content-length: 1000\r\n" in await client.head()
            with pytest.raises(ConnectionResetError):
                await client.exactly(1000)
            await client.close()

    run(scenario())


def test_reset_instead_of_a_response(run: Run) -> None:
    """The client gets RST, and nothing before it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            with pytest.raises(ConnectionResetError):
                await post(receivers.add("ep", Reset(in_response=False)))

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
