"""Receivers in a process of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from standardwebhooks import Webhook

from hookfuse.errors import HookfuseError, InvalidInput
from hookfuse.testing.receivers import (
    Dead,
    Failing,
    Huge,
    Ok,
    Order,
    ReceiversProcess,
    read_ledger,
)
from hookfuse.testing.receivers.spec import write_orders
from tests.unit.testing.calling import PATIENCE, Client, post, request

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
COMMAND = [sys.executable, "-m", "hookfuse.testing.receivers"]

OWNER = """
import signal
from hookfuse.testing.receivers import ReceiversProcess
with ReceiversProcess() as receivers:
    print(receivers.port, flush=True)
    signal.pause()
"""


def memory_peak(pid: int) -> int:
    """The most memory that a process ever had, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def refuses(port: int) -> bool:
    async def attempt() -> bool:
        try:
            client = await Client.connect(f"http://127.0.0.1:{port}")
        except ConnectionRefusedError:
            return True
        await client.close()
        return False

    return asyncio.run(attempt())


def test_life_of_a_process(tmp_path: Path) -> None:
    """Endpoints are added, changed, counted and written down over there as they are in this process."""

    async def scenario(receivers: ReceiversProcess) -> None:
        url = receivers.add("ep", Ok(), secret=SECRET)
        assert f":{receivers.port}/" in url
        now = datetime.now(UTC)
        signature = Webhook(SECRET).sign("msg_1", now, "{}")
        headers = {"webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}
        assert (await post(url, b"{}", {"webhook-id": "msg_1", **headers})).status == 200
        assert (await post(url, b"{}", {"webhook-id": "msg_2", **headers})).status == 200
        receivers.change("ep", Failing(503))
        assert (await post(url)).status == 503
        dead = receivers.add("dead", Dead())
        with pytest.raises(ConnectionRefusedError):
            await post(dead)
        receivers.change("dead", Ok())
        assert (await post(dead)).status == 200
        await post(f"{url}x")
        counts = receivers.counts["ep"]
        assert (counts.requests, counts.answers, counts.most_in_flight) == (3, {200: 2, 503: 1}, 1)
        assert receivers.strays == 1
        assert receivers.connections == 0

    ledger = tmp_path / "ledger"
    with ReceiversProcess(ledger=ledger) as receivers:
        asyncio.run(scenario(receivers))
        with pytest.raises(InvalidInput, match="a name has"):
            receivers.add("a b", Ok())
        assert receivers.counts["ep"].requests == 3
        assert receivers.requests == sum(counts.requests for counts in receivers.counts.values()) == 4
    told = [(receipt.webhook_id, receipt.verified, receipt.status) for receipt in read_ledger(ledger)]
    assert told == [("msg_1", True, 200), ("msg_2", False, 200), ("", False, 503), ("", None, 200)]


def test_many_at_once() -> None:
    """Thousands of endpoints are added in one go."""
    with ReceiversProcess() as receivers:
        urls = receivers.add_all({f"ep{number}": Order(Ok()) for number in range(5000)})
        assert len(urls) == 5000
        assert asyncio.run(post(urls["ep4999"])).status == 200


def test_killed_process(tmp_path: Path) -> None:
    """What was answered before a kill -9 is in the ledger; asking the dead raises."""
    ledger = tmp_path / "ledger"
    with ReceiversProcess(ledger=ledger) as receivers:
        url = receivers.add("ep", Ok())
        for number in range(20):
            asyncio.run(post(url, headers={"webhook-id": f"msg_{number}"}))
        os.kill(receivers.pid, signal.SIGKILL)
        with pytest.raises(HookfuseError, match="has ended"):
            while True:
                assert receivers.counts
    assert [receipt.webhook_id for receipt in read_ledger(ledger)] == [f"msg_{number}" for number in range(20)]


def test_two_processes_one_ledger(tmp_path: Path) -> None:
    """Two processes may write to the same ledger at once without spoiling a line."""

    async def fill(urls: list[str]) -> None:
        await asyncio.gather(*(post(url, headers={"webhook-id": "m" * 500}) for url in urls * 100))

    ledger = tmp_path / "ledger"
    with ReceiversProcess(ledger=ledger) as one, ReceiversProcess(ledger=ledger) as two:
        asyncio.run(fill([one.add("one", Ok()), two.add("two", Ok())]))
    endpoints = [receipt.endpoint for receipt in read_ledger(ledger)]
    assert (endpoints.count("one"), endpoints.count("two")) == (100, 100)


def test_huge_takes_no_memory() -> None:
    """A huge body leaves the memory flat, for a client that reads fast and for one that does not read."""

    async def scenario(receivers: ReceiversProcess) -> None:
        url = receivers.add("ep", Huge())
        lazy, eager = await Client.connect(url), await Client.connect(url)
        before = memory_peak(receivers.pid)
        lazy.send(request(url))
        eager.send(request(url))
        for _ in range(200):
            await eager.exactly(1 << 20)
        assert memory_peak(receivers.pid) - before < 16 << 10
        await eager.close()
        await lazy.close()

    with ReceiversProcess() as receivers:
        asyncio.run(scenario(receivers))


def test_ends_with_its_owner() -> None:
    """A killed test run leaves no receivers behind."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        port = int(owner.stdout.readline())
        assert not refuses(port)
        owner.kill()
    deadline = time.monotonic() + PATIENCE
    while not refuses(port):
        assert time.monotonic() < deadline, "the receivers are still there"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("control", [[], ["--control"]], ids=["plain", "control"])
def test_command_line(tmp_path: Path, number: signal.Signals, control: list[str]) -> None:
    """The command prints its port, serves the endpoints of a file, and ends in good order when told to."""
    spec = tmp_path / "spec.json"
    spec.write_text(write_orders({"ep": Order(Failing(418))}))
    with subprocess.Popen(
        [*COMMAND, "--port", "0", "--spec", f"@{spec}", *control],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout is not None
        port = int(command.stdout.readline())
        assert asyncio.run(post(f"http://127.0.0.1:{port}/ep/ep")).status == 418
        command.send_signal(number)
        assert command.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--spec", '{"ep": {"kind": "nice"}}'], "a behaviour has a kind out of"),
        (["--spec", '{"ep": {"kind": "ok", "secret": "whsec_AAAA"}}'], "verify no signature"),
        (["--spec", '{"ep": {"kind": "ok", "secret": "a"}}', "--verifier", "nowhere:Webhook"], "nowhere:Webhook"),
    ],
)
def test_command_line_misuse(arguments: list[str], words: str) -> None:
    """A wrong command line ends with one sentence."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_certificate(tmp_path: Path) -> None:
    """With a certificate the process speaks TLS."""
    authority = trustme.CA()
    certificate = tmp_path / "certificate.pem"
    authority.issue_cert("hooks.example").private_key_and_cert_chain_pem.write_to_path(certificate)
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def scenario(url: str) -> None:
        client = await Client.connect(url, tls=context, name="hooks.example")
        client.send(request(url))
        assert (await client.reply()).status == 200
        await client.close()

    with ReceiversProcess(certificate=certificate) as receivers:
        asyncio.run(scenario(receivers.add("ep", Ok())))
