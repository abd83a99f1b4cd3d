"""The first start prints three commands; copied as they are, they deliver a signed message."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.programs import ROOT, environment, hookfuse, serving, until

LISTENING = ("127.0.0.1", 8401)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Path]:
    """A file for what a shell's commands print, those too that go on in the background; they end with the test."""
    out = tmp_path / "shell"
    out.touch()
    yield out
    for pid in re.findall(r"end it with: kill (\d+)", out.read_text()):
        try:
            os.kill(int(pid), signal.SIGTERM)
        except ProcessLookupError:
            continue


def printed_commands(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines() if line.startswith("  ")]


def type_in(commands: list[str], out: Path) -> int:
    """Type the commands into one shell of someone who has none of our settings."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HOOKFUSE_")}
    with out.open("ab") as file:
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", "\n".join(commands)], env=plain, stdout=file, stderr=file, timeout=60, check=False
        )
    return done.returncode


def listener_is_free() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(LISTENING) != 0


@pytest.mark.skipif(not listener_is_free(), reason="something listens on the port of `hookfuse listen`")
def test_printed_commands(tmp_path: Path, log: Path, shell: Path) -> None:
    """The three commands make an application and an endpoint, and send a message that arrives and is verified."""
    env = environment(tmp_path / "data", allowed_networks="127.0.0.1/32")
    with serving(env, log=log) as served:
        commands = printed_commands(served.take_all())
        assert len(commands) == 3
        assert type_in(commands, shell) == 0, shell.read_text()
        until(lambda: "verified" in shell.read_text())
        (arrived,) = [line for line in shell.read_text().splitlines() if "verified" in line]
        assert arrived.endswith('{"id": 1, "total": "9.99"}')
        assert served.metric('hookfuse_deliveries_total{state="sent"}') == 1
        assert served.stop(signal.SIGINT) == 0


def test_what_is_missing_is_said(tmp_path: Path, log: Path) -> None:
    """Without the network of this machine allowed, the first start says how to allow it."""
    env = environment(tmp_path / "data")
    del env["HOOKFUSE_ALLOWED_NETWORKS"]
    with serving(env, log=log) as served:
        assert "HOOKFUSE_ALLOWED_NETWORKS=127.0.0.1/32" in served.take_all()


def test_make_run() -> None:
    """`make run` starts `hookfuse serve` with the network of this machine allowed."""
    done = subprocess.run(["make", "-n", "run"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "hookfuse serve" in done.stdout
    assert "127.0.0.1/32" in done.stdout


def test_everyday_commands(env: dict[str, str], log: Path) -> None:
    """Applications, endpoints, messages, deliveries, breakers, policies, notices and keys can be handled from a terminal."""
    with serving(env, log=log) as served:
        key = re.search(r"^hf\S+$", served.take_all(), re.MULTILINE)
        assert key is not None
        typed = {**env, "HOOKFUSE_URL": served.url, "HOOKFUSE_API_KEY": key[0]}

        def ask(*words: str) -> list[dict[str, object]]:
            done = hookfuse(*words, "--json", env=typed)
            assert done.returncode == 0, done.stderr
            return [json.loads(line) for line in done.stdout.splitlines()]

        (app,) = ask("app", "create", "Acme Inc")
        assert ask("app", "create", "acme")[0]["uid"] == "acme"
        assert len(ask("app", "list")) == 2
        url = "http://127.0.0.1:9/"
        (endpoint,) = ask("endpoint", "create", "acme", url, "--type", "order.paid")
        ep = str(endpoint["id"])
        assert [each["url"] for each in ask("endpoint", "list", "acme")] == [url]
        assert str(ask("endpoint", "secret", "acme", ep)[0]["key"]).startswith("whsec_")
        (sent,) = ask("message", "send", "acme", "order.paid", '{"n": 1.50}', "--id", "first")
        until(lambda: ask("delivery", "list", "acme")[0]["attempts"] == 1)
        (shown,) = ask("message", "show", "acme", "first")
        assert shown["payload"] == {"n": 1.5}
        assert len(shown["attempts"]) == 1  # type: ignore[arg-type]
        assert ask("delivery", "retry", "acme", str(sent["id"]), ep)[0]["state"] == "pending"
        until(lambda: ask("delivery", "list", "acme")[0]["attempts"] == 2)
        assert ask("delivery", "cancel", "acme", str(sent["id"]), ep)[0]["state"] == "cancelled"
        assert ask("delivery", "bulk-retry", "acme", "--state", "cancelled", "--dry-run")[0]["count"] == 1
        (task,) = ask("delivery", "bulk-retry", "acme", "--state", "cancelled", "--yes")
        assert (task["status"], task["changed"]) == ("finished", 1)
        assert ask("breaker", "force", "acme", ep, "open", "--for", "1h", "--reason", "maintenance")[0]["why"]
        assert [each["override"] for each in ask("breaker", "list")] == ["open"]
        assert ask("breaker", "reset", "acme", ep)[0]["override"] == "none"
        assert ask("policy", "set", "stoplight", "--app", "acme")[0]["level"] == "application"
        assert ask("policy", "show", "--app", "acme", "--endpoint", ep)[0]["level"] == "application"
        assert ask("notice", "test") == [], "the service has no channels"
        assert ask("notice", "set", "acme", "--chat", url)[0]["channels"] == ["chat"]
        tried = hookfuse("notice", "test", "--app", "acme", env=typed)
        assert tried.returncode == 1, "nobody is at that address"
        assert re.search(r"^chat +no +connect", tried.stdout, re.MULTILINE)
        (made,) = ask("key", "create", "for reading", "--role", "read")
        assert len(ask("key", "list")) == 2
        assert hookfuse("key", "revoke", str(made["id"]), env=typed).returncode == 0
        assert hookfuse("app", "delete", str(app["id"]), env=typed).returncode == 0
        refused = hookfuse("app", "show", "nobody", env=typed)
        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1
        assert "HOOKFUSE_API_KEY" in hookfuse("app", "list", env={**env, "HOOKFUSE_URL": served.url}).stderr
