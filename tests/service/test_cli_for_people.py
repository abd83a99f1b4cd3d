"""What commands over the API show to people. One service, and a receiver's address where nobody is."""

from __future__ import annotations

import itertools
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from hookfuse.cli.commands import app
from tests.service.programs import Program, environment, serving, until

NOBODY = "http://127.0.0.1:9/"


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands are typed that know the service."""

    env: dict[str, str]

    def run(self, *words: str, **more: Any) -> Result:
        return CliRunner().invoke(app, words, env=self.env, **more)

    def read(self, *words: str) -> str:
        done = self.run(*words)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    def endpoint(self, name: str) -> None:
        """An application of this name, with one endpoint of this name."""
        self.read("app", "create", name)
        self.read("endpoint", "create", name, NOBODY, "--uid", name)

    def failed(self, name: str) -> None:
        """Send a message there, and wait until it was tried."""
        self.read("message", "send", name, "order.paid", "{}", "--id", "first")
        until(lambda: "connect" in self.read("message", "show", name, "first"))


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("service")
    env = environment(folder / "data")
    with serving(env, log=folder / "log") as served:
        key = re.search(r"^hf\S+$", served.take_all(), re.MULTILINE)
        assert key is not None
        yield Shell({**env, "HOOKFUSE_URL": served.url, "HOOKFUSE_API_KEY": key[0]})


def test_an_attempt_without_an_answer(shell: Shell) -> None:
    """An attempt that got no answer has a dash for its status, and says in words what went wrong."""
    shell.endpoint("tried")
    shell.failed("tried")
    heading, row = shell.read("message", "show", "tried", "first").splitlines()[-2:]
    assert heading.split() == ["AT", "ENDPOINT", "STATUS", "MS", "TROUBLE", "DETAIL"]
    assert re.search(r" - +\d+ +connect +Connection refused\.$", row)


def test_a_trial_without_an_answer(shell: Shell) -> None:
    """A test that got no answer says in words what went wrong, and after how many milliseconds."""
    shell.endpoint("tested")
    tried = shell.run("endpoint", "test", "tested", "tested")
    assert tried.exit_code == 1
    assert re.search(r"^detail +Connection refused\.$", tried.stdout, re.MULTILINE)
    assert re.search(r"^latency +\d+\.\d ms$", tried.stdout, re.MULTILINE)


def test_since(shell: Shell) -> None:
    """A span of time is named by days, by times, or by how long ago; what is none of these is told what would do."""
    shell.endpoint("past")
    shell.failed("past")
    tomorrow = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86_400))
    listed = ("delivery", "list", "past")
    for since in ("2020-01-31", "2020-01-31T18:00", "2020-01-31T18:00:00+01:00", "1h30m"):
        assert shell.read(*listed, "--since", since).startswith("MESSAGE"), since
        assert shell.read(*listed, "--until", since) == "There is none.\n", since
    assert shell.read(*listed, "--since", tomorrow) == "There is none.\n"
    assert "count  1" in shell.read(
        "delivery", "bulk-retry", "past", "--state", "pending", "--since", "1d", "--dry-run"
    )
    assert "total" in shell.read("endpoint", "recover", "past", "past", "--since", "2020-01-31", "--dry-run")
    refused = shell.run(*listed, "--since", "yesterday")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: --since cannot be read: a time looks like 2030-01-31, ")


def test_history_of_an_override(shell: Shell) -> None:
    """The history of a breaker shows what an operator forced it to, beside the state beneath."""
    shell.endpoint("forced")
    shell.read("breaker", "force", "forced", "forced", "open", "--reason", "maintenance")
    shell.read("breaker", "unforce", "forced", "forced")
    heading, ended, forced = shell.read("breaker", "history", "--app", "forced").splitlines()
    at = heading.index("OVERRIDE")
    assert forced[at:].split()[:2] == ["open", "maintenance"]
    assert ended[at:].split()[0] == "none"


def test_lists_of_things(shell: Shell) -> None:
    """The failures of a breaker and the rules of a policy have a line each, and none of them is JSON."""
    shell.endpoint("listed")
    shell.failed("listed")
    shown = shell.read("breaker", "show", "listed", "listed")
    failure = (
        r"^failures\.1 +type failure, message connect: Connection refused\., at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"
    )
    assert re.search(failure, shown, re.MULTILINE), shown
    policy = shell.read("policy", "show")
    assert re.search(r"^effective\.trip\.1 +rule \w+, ", policy, re.MULTILINE), policy
    assert "{" not in shown + policy


def test_what_a_receiver_answered(shell: Shell) -> None:
    """`listen` shows the status that it answered with, to people and to programs."""
    for words, expected in (([], r" not checked 500  msg_1  \{\}$"), (["--json"], r'"status": 500, ')):
        receiver = subprocess.Popen(
            [sys.executable, "-m", "hookfuse", "listen", "--port", "0", "--status", "500", "--count", "1", *words],
            env=shell.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with receiver:
            assert receiver.stdout is not None
            url = re.search(r"http://\S+/", receiver.stdout.readline())
            assert url is not None
            assert httpx.post(url[0], content=b"{}", headers={"webhook-id": "msg_1"}).status_code == 500
            assert re.search(expected, receiver.stdout.read().rstrip())


def test_deleting_asks_first(shell: Shell) -> None:
    """On a terminal a person is asked before anything is deleted, with what waits there; --yes does not ask."""
    shell.endpoint("kept")
    shell.failed("kept")

    def at_a_terminal(*words: str, answer: str = "") -> tuple[int, str]:
        ours, theirs = pty.openpty()
        os.write(ours, answer.encode())
        done = subprocess.run(
            [sys.executable, "-m", "hookfuse", *words], env=shell.env, stdin=theirs, stderr=theirs, check=False
        )
        os.close(theirs)
        seen = b"" if words[-1] == "--yes" else os.read(ours, 4096)
        os.close(ours)
        return done.returncode, seen.decode()

    code, asked = at_a_terminal("endpoint", "delete", "kept", "kept", answer="n\n")
    assert (code, "Delete kept, and cancel what waits there (1)?" in asked) == (1, True), asked
    code, asked = at_a_terminal("app", "delete", "kept", answer="n\n")
    assert (code, "Delete kept, and cancel what waits there (1)?" in asked) == (1, True), asked
    assert at_a_terminal("endpoint", "delete", "kept", "kept", answer="y\n")[0] == 0
    assert shell.read("endpoint", "list", "kept") == "It has no endpoint yet.\n"
    assert at_a_terminal("app", "delete", "kept", "--yes")[0] == 0
    assert shell.run("app", "show", "kept").exit_code == 1


def test_deleting_by_a_script(shell: Shell) -> None:
    """Without a terminal nobody is asked."""
    shell.endpoint("scripted")
    assert shell.read("endpoint", "delete", "scripted", "scripted") == "scripted is deleted.\n"
    assert shell.read("app", "delete", "scripted") == "scripted is deleted.\n"


def test_policy_is_taken_away(shell: Shell) -> None:
    """A policy of one's own can be taken away again, and what holds then is shown."""
    shell.endpoint("judged")
    mine = ("--app", "judged", "--endpoint", "judged")
    assert re.search(r"^level +endpoint$", shell.read("policy", "set", "stoplight", *mine), re.MULTILINE)
    assert re.search(r"^level +default$", shell.read("policy", "reset", *mine), re.MULTILINE)


@pytest.mark.parametrize("followed", ["message tail", "breaker watch"])
def test_times_of_what_is_followed(shell: Shell, followed: str, log: Path) -> None:
    """What is followed has its times in the form that tables have."""
    name = followed.replace(" ", "-")
    shell.endpoint(name)
    group, command = followed.split()
    words = ("tail", name) if command == "tail" else ("watch", "--app", name)
    program = Program(shell.env, group, *words, log=log)
    turns = itertools.cycle(["open", "closed"])

    def heard() -> bool:
        """It does not say when it has begun to look, so something happens until it has seen it."""
        if command == "tail":
            shell.read("message", "send", name, "order.paid", "{}")
        else:
            shell.read("breaker", "force", name, name, next(turns))
        return bool(program.take_all())

    try:
        until(heard)
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  ", program.said[0])
    finally:
        program.end()
