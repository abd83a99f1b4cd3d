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

from tests.servers.packages import missing
from tests.servers.ports import free_port
from tests.service.programs import ROOT, Served, environment, hookfuse, serving, typed, until

LISTENING = ("127.0.0.1", 8401)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Path]:
    """A file for what a shell's commands print, those too that go on in the background; they end with the test."""
    if not listener_is_free():
        missing("something listens on the port of `hookfuse listen`")
    out = tmp_path / "shell"
    out.touch()
    yield out
    for pid in re.findall(r"end it with: kill (\d+)", out.read_text()):
        try:
            os.kill(int(pid), signal.SIGTERM)
        except ProcessLookupError:
            continue
    until(listener_is_free)


def listener_is_free() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(LISTENING) != 0


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


def see_first_message(commands: list[str], shell: Path, served: Served) -> None:
    """Type the three commands; their message arrives, once and verified."""
    assert len(commands) == 3
    assert type_in(commands, shell) == 0, shell.read_text()
    until(lambda: "verified" in shell.read_text())
    (arrived,) = [line for line in shell.read_text().splitlines() if "verified" in line]
    assert arrived.endswith('{"id": 1, "total": "9.99"}')
    until(lambda: served.metric('hookfuse_deliveries_total{state="sent"}') == 1)


def test_make_run(tmp_path: Path, log: Path, shell: Path) -> None:
    """`make run`, and then the commands that it prints, deliver a signed message; Ctrl-C ends it in good order."""
    if subprocess.run(["make", "-q", ".venv/.dev"], cwd=ROOT, capture_output=True, check=False).returncode:
        # The interpreter of this test would be taken away from under it.
        missing("the clone's .venv is not up to date: run `make test`")
    env = environment(tmp_path / "data")
    del env["HOOKFUSE_ALLOWED_NETWORKS"]
    with typed(env, "make run", log=log) as served:
        commands = printed_commands(served.take_all())
        see_first_message(commands, shell, served)
        # In the shell where they were typed, commands that look after the data find it.
        program = commands[0].partition("; ")[2].removesuffix(" app create demo")
        assert type_in([commands[0], f"{program} config"], shell) == 0
        assert f"sqlite://{env['HOOKFUSE_DATA_DIR']}/hookfuse.db" in shell.read_text()
        served.press_ctrl_c()
        assert served.log.count("stopping; ") == 1
        # What make says of a program that did not end well.
        assert "Error" not in served.log


def test_plain_start(tmp_path: Path, log: Path, shell: Path) -> None:
    """Where nothing may be sent to this machine, the first printed command starts it so that the others work."""
    env = environment(tmp_path / "data", allowed_networks="10.1.0.0/16")
    with serving(env, log=log) as served:
        start, *commands = printed_commands(served.take_all())
        assert served.stop(signal.SIGINT) == 0
    assert start.startswith("HOOKFUSE_ALLOWED_NETWORKS=10.1.0.0/16,127.0.0.1/32 ")
    with typed(env, start, log=log) as served:
        see_first_message(commands, shell, served)


def test_the_start_keeps_what_was_set(tmp_path: Path, log: Path, shell: Path) -> None:
    """The start that it prints listens where the first one did, though that stood in the environment only."""
    port = free_port("127.0.0.2")
    settings = {"host": "127.0.0.2", "port": str(port), "policy": '{"window": 30}'}
    env = environment(tmp_path / "data", **settings, allowed_networks="", dashboard_password="canary, and longer")
    with serving(env, log=log) as served:
        said = served.take_all()
        start, *commands = printed_commands(said)
        served.stop(signal.SIGINT)
    assert "canary" not in said
    plain = {name: value for name, value in env.items() if not name.startswith("HOOKFUSE_")}
    with typed(plain, start, log=log) as served:
        assert served.url == f"http://127.0.0.2:{port}"
        assert type_in(commands, shell) == 0, shell.read_text()


def test_this_machine_is_forbidden(tmp_path: Path, log: Path) -> None:
    """Where nothing can be sent to this machine whatever is allowed, nothing is printed that would not work."""
    env = environment(tmp_path / "data", forbidden_networks="127.0.0.0/8")
    with serving(env, log=log) as served:
        said = served.take_all()
        assert "HOOKFUSE_FORBIDDEN_NETWORKS" in said
        assert printed_commands(said) == []


def test_ports_do_not_collide(tmp_path: Path, log: Path) -> None:
    """A service on the port of `hookfuse listen` sends the receiver elsewhere."""
    env = environment(tmp_path / "data", port=str(LISTENING[1]), host="127.0.0.2")
    with serving(env, log=log) as served:
        assert served.take_all().count(" listen --app demo --background --port 8402\n") == 1


def test_everyday_commands(env: dict[str, str], log: Path) -> None:
    """Applications, endpoints, messages, breakers, policies, notices and keys can be handled from a terminal."""
    with serving(env, log=log) as served:
        key = re.search(r"^hf\S+$", served.take_all(), re.MULTILINE)
        assert key is not None
        known = {**env, "HOOKFUSE_URL": served.url, "HOOKFUSE_API_KEY": key[0]}

        def ask(*words: str) -> list[dict[str, object]]:
            done = hookfuse(*words, "--json", env=known)
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
        assert ask("endpoint", "rotate", "acme", ep) == ask("endpoint", "secret", "acme", ep)
        tried = hookfuse("endpoint", "test", "acme", ep, "--json", env=known)
        assert tried.returncode == 1, "nobody is at that address"
        assert json.loads(tried.stdout)["trouble"] == "connect"
        (sent,) = ask("message", "send", "acme", "order.paid", '{"n": 1.50}', "--id", "first")
        until(lambda: ask("delivery", "list", "acme")[0]["attempts"] == 1)
        (shown,) = ask("message", "show", "acme", "first")
        assert shown["payload"] == {"n": 1.5}
        assert len(shown["attempts"]) == 1  # type: ignore[arg-type]
        assert ask("delivery", "retry", "acme", str(sent["id"]), ep)[0]["state"] in ("pending", "sending")
        until(lambda: ask("delivery", "list", "acme")[0]["attempts"] == 2)
        assert ask("delivery", "cancel", "acme", str(sent["id"]), ep)[0]["state"] == "cancelled"
        lost = ("endpoint", "recover", "acme", ep, "--since", "2020-01-01T00:00:00Z")
        assert ask(*lost, "--dry-run") == [{"failed": 0, "held": 0, "total": 0}]
        assert ask("delivery", "bulk-retry", "acme", "--state", "cancelled", "--dry-run")[0]["count"] == 1
        (task,) = ask("delivery", "bulk-retry", "acme", "--state", "cancelled", "--yes")
        assert (task["status"], task["changed"]) == ("finished", 1)
        (task,) = ask(*lost, "--yes")
        assert (task["status"], task["seen"]) == ("finished", 1)
        assert ask("breaker", "force", "acme", ep, "open", "--for", "1h", "--reason", "maintenance")[0]["why"]
        assert [each["override"] for each in ask("breaker", "list")] == ["open"]
        assert ask("breaker", "reset", "acme", ep)[0]["override"] == "none"
        assert ask("policy", "set", "stoplight", "--app", "acme")[0]["level"] == "application"
        assert ask("policy", "show", "--app", "acme", "--endpoint", ep)[0]["level"] == "application"
        assert ask("notice", "test") == [], "the service has no channels"
        assert ask("notice", "set", "acme", "--chat", url)[0]["channels"] == ["chat"]
        tried = hookfuse("notice", "test", "--app", "acme", env=known)
        assert tried.returncode == 1, "nobody is at that address"
        assert re.search(r"^chat +no +connect", tried.stdout, re.MULTILINE)
        (made,) = ask("key", "create", "for reading", "--role", "read")
        assert len(ask("key", "list")) == 2
        assert hookfuse("key", "revoke", str(made["id"]), env=known).returncode == 0
        assert hookfuse("app", "delete", str(app["id"]), env=known).returncode == 0
        refused = hookfuse("app", "show", "nobody", env=known)
        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1
        refused = hookfuse("app", "show", "nobody", "--json", env=known)
        assert (refused.returncode, json.loads(refused.stderr)["error"]["code"]) == (1, "not_found")
        assert "HOOKFUSE_API_KEY" in hookfuse("app", "list", env={**env, "HOOKFUSE_URL": served.url}).stderr
