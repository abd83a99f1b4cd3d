"""Commands that go on for a while: what is accepted, as it is accepted, and how far a task has come."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.service.programs import Program, Served, environment, serving, until

MESSAGES = 250
"""More than one page."""

Send = Callable[[int], list[str]]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    # Nobody is at the endpoint, and nothing is tried a second time.
    env = environment(tmp_path / "data", retry_delays="", log_level="error")
    with serving(env, log=tmp_path / "log") as found:
        yield found


@pytest.fixture
def known(served: Served, tmp_path: Path) -> Mapping[str, str]:
    """What a command needs to know of the service."""
    key = re.search(r"^hf\S+$", served.take_all(), re.MULTILINE)
    assert key is not None
    return {**environment(tmp_path / "data"), "HOOKFUSE_URL": served.url, "HOOKFUSE_API_KEY": key[0]}


@pytest.fixture
def send(served: Served, known: Mapping[str, str]) -> Iterator[Send]:
    """Sends so many messages to the application acme, which has one endpoint; returns their ids."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=30)
    headers = {"authorization": f"Bearer {known['HOOKFUSE_API_KEY']}", "content-type": "application/json"}

    def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection.request("POST", f"/api/v1/{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        read: dict[str, Any] = json.loads(answer.read())
        assert answer.status in (201, 202), read
        return read

    post("app", {"name": "Acme", "uid": "acme"})
    post("app/acme/endpoint", {"url": "http://127.0.0.1:9/"})
    yield lambda count: [
        post("app/acme/msg", {"eventType": "order.paid", "payload": {"n": number}})["id"] for number in range(count)
    ]
    connection.close()


def test_tail(known: Mapping[str, str], send: Send, tmp_path: Path) -> None:
    """Every message is told once and in order, also if more come between two looks than a page has."""
    send(3)
    tail = Program(known, "message", "tail", "acme", "--json", log=tmp_path / "tail")
    try:
        began: list[str] = []

        def heard() -> bool:
            began.extend(send(1))
            tail.take_all()
            return bool(tail.said)

        until(heard)
        sent = send(MESSAGES)
        until(lambda: tail.take_all().count("\n") + 1 >= MESSAGES + 1 and json.loads(tail.said[-1])["id"] == sent[-1])
        told = [json.loads(line)["id"] for line in tail.said]
        assert told == began[-(len(told) - MESSAGES) :] + sent
        assert tail.stop(signal.SIGINT) == 0
        assert tail.log == ""
    finally:
        tail.end()


def test_progress(served: Served, known: Mapping[str, str], send: Send) -> None:
    """On a terminal a bar tells how far sending again has come, and what remains in the end is the task."""
    send(MESSAGES)
    # A few have failed, and the others are held since their breaker opened.
    until(lambda: served.metric("hookfuse_deliveries_held") > 0 == served.metric("hookfuse_deliveries_in_flight"))
    states = ("--state", "failed", "--state", "pending")
    shown = on_a_terminal(known, "delivery", "bulk-retry", "acme", *states, "--yes")
    assert "Sending again" in shown
    assert f"/{MESSAGES}" in shown
    assert re.search(rf"changed\S* +\S*{MESSAGES}", shown)
    assert "finished" in shown


def on_a_terminal(env: Mapping[str, str], *words: str, seconds: float = 60) -> str:
    """All that a command shows to someone who sits in front of it."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hookfuse", *words]
    process = subprocess.Popen(command, env={**env, "TERM": "xterm", "COLUMNS": "120"}, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([ours], [], [], 0.5)
            try:
                read = os.read(ours, 65_536) if ready else b""
            except OSError:
                # The other end is closed: it has ended.
                break
            shown += read
        assert process.wait(10) == 0, shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return shown.decode()
