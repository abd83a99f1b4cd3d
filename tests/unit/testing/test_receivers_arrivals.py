"""What receivers say about the requests that reached them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from hookfuse.errors import InvalidInput
from hookfuse.testing.receivers import (
    Behaviour,
    DripBody,
    Failing,
    FileLedger,
    Hang,
    Huge,
    MemoryLedger,
    Ok,
    Receipt,
    Receivers,
    Slow,
    read_ledger,
)
from tests.unit.testing.calling import Client, post, request, until
from tests.unit.testing.conftest import Run

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    now = datetime.now(UTC)
    signature = Webhook(secret).sign("msg_1", now, body.decode())
    return {"Webhook-Id": "msg_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}


def test_receipt(run: Run) -> None:
    """A receipt has the id, the endpoint, the time, the hash of the body, the verdict and the answer."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Ok(), verify=Webhook(SECRET).verify)
            before = time.time()
            await post(url, b'{"a": 1}', signed(b'{"a": 1}'))
            (receipt,) = receivers.receipts()
            assert before <= receipt.arrived_at <= time.time()
            assert receipt == Receipt(
                webhook_id="msg_1",
                endpoint="ep",
                arrived_at=receipt.arrived_at,
                sha256=hashlib.sha256(b'{"a": 1}').hexdigest(),
                verified=True,
                status=200,
            )

    run(scenario())


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b"{}"),
        (signed(b"{}", "whsec_AAAA"), b"{}"),
        (signed(b"{}"), b"{ }"),
        (signed(b"{}") | {"webhook-signature": "v1"}, b"{}"),
        (signed(b"{}") | {"webhook-timestamp": "1"}, b"{}"),
    ],
    ids=["unsigned", "other secret", "other body", "broken header", "old"],
)
def test_wrong_signature(headers: dict[str, str], body: bytes) -> None:
    """Whatever the verifier does not accept is written down as wrong; the request is answered all the same."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Ok(), verify=Webhook(SECRET).verify)
            assert (await post(url, body, headers)).status == 200
            assert [receipt.verified for receipt in receivers.receipts()] == [False]

    asyncio.run(scenario())


def test_nobody_can_tell() -> None:
    """Without a verifier nothing is said about the signature, and a request without an id has an empty one."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            await post(receivers.add("ep", Failing()))
            (receipt,) = receivers.receipts()
            assert (receipt.verified, receipt.webhook_id, receipt.status) == (None, "", 500)

    asyncio.run(scenario())


def test_written_before_the_answer(run: Run) -> None:
    """What arrived is in the ledger even if its client never learns of it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Hang())
            client = await Client.connect(url)
            client.send(request(url))
            await receivers["ep"].arrived(1)
            assert [receipt.status for receipt in receivers.receipts()] == [None]
            await client.close()

    run(scenario())


def test_memory_is_bounded() -> None:
    """A ledger in memory keeps the newest receipts and says how many it dropped."""
    ledger = MemoryLedger(keep=2)
    for number in range(5):
        ledger.add(Receipt(f"msg_{number}", "ep", 0.0, "", None, 200))
    assert [receipt.webhook_id for receipt in ledger.receipts()] == ["msg_3", "msg_4"]
    assert ledger.dropped == 3


def test_file(run: Run, tmp_path: Path) -> None:
    """A ledger on file is continued, not begun anew, and reads as what was written."""

    async def scenario() -> None:
        async with Receivers(ledger=FileLedger(tmp_path / "ledger")) as receivers:
            url = receivers.add("ep")
            await post(url, headers={"webhook-id": "msg_é".encode().decode("latin-1")})
            seen.extend(receivers.receipts()[-1:])

    seen: list[Receipt] = []
    run(scenario())
    run(scenario())
    assert read_ledger(tmp_path / "ledger") == seen
    assert len(seen) == 2


def test_counting(run: Run) -> None:
    """Receivers that only count do count, whatever the behaviour, and keep no receipts."""

    async def scenario() -> None:
        async with Receivers(counting=True) as receivers:
            url = receivers.add("ep")
            await post(url, b"x" * 100_000)
            receivers.change("ep", Slow(0.001))
            await post(url)
            assert receivers["ep"].counts.requests == 2
            assert receivers["ep"].counts.answers == {200: 2}
            with pytest.raises(InvalidInput, match="keep no receipts"):
                receivers.receipts()
            with pytest.raises(InvalidInput, match="function that chooses"):
                receivers.change("ep", lambda _: Ok())
            with pytest.raises(InvalidInput, match="verify no signature"):
                receivers.add("two", verify=Webhook(SECRET).verify)

    run(scenario())


@pytest.mark.parametrize("behaviour", [Ok(), Slow(0.001), Huge(300_000), DripBody(0.0001, 10)])
@pytest.mark.parametrize("counting", [True, False])
def test_one_after_the_other(run: Run, behaviour: Behaviour, counting: bool) -> None:
    """A client that sends one request after the other is never seen with two in flight."""

    async def scenario() -> None:
        async with Receivers(counting=counting) as receivers:
            url = receivers.add("ep", behaviour)
            client = await Client.connect(url)
            for _ in range(20):
                client.send(request(url))
                await client.reply()
            assert receivers["ep"].most_in_flight == 1
            assert receivers["ep"].in_flight == 0
            await client.close()

    run(scenario())


def test_most_in_flight(run: Run) -> None:
    """The greatest number at once is kept after it has gone down, for each endpoint apart."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url, other = receivers.add("ep", Hang()), receivers.add("other")
            clients = [await Client.connect(url) for _ in range(5)]
            for client in clients:
                client.send(request(url))
            await receivers["ep"].arrived(5)
            assert receivers.connections == 5
            for client in clients:
                await client.close()
            await until(lambda: receivers["ep"].in_flight == 0)
            await post(other)
            assert receivers["ep"].most_in_flight == 5
            assert receivers["other"].most_in_flight == 1

    run(scenario())


def test_request_that_does_not_end(run: Run) -> None:
    """A request whose body is still to come is in flight but has not arrived."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep")
            client = await Client.connect(url)
            client.send(request(url, b"whole")[:-1])
            await until(lambda: receivers["ep"].in_flight == 1)
            assert receivers["ep"].requests == 0
            await client.close()
            await until(lambda: receivers["ep"].in_flight == 0)
            assert receivers.receipts() == []

    run(scenario())


def test_names() -> None:
    """A name that is no name, or is taken, or is unknown, is refused with a sentence."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            receivers.add("ep")
            with pytest.raises(InvalidInput, match="there already"):
                receivers.add("ep")
            with pytest.raises(InvalidInput, match="a name has"):
                receivers.add("a/b")
            with pytest.raises(InvalidInput, match="no endpoint 'other'"):
                receivers.change("other", Ok())

    asyncio.run(scenario())
    with pytest.raises(InvalidInput, match="not running"):
        Receivers().add("ep")
