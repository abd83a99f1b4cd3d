"""`hookfuse demo`, headless: the whole story happens, is counted from the ledgers, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from rich.console import Console

from hookfuse.demo.plan import Plan
from hookfuse.demo.settings import Wanted
from hookfuse.demo.show import play
from hookfuse.demo.story import Turn
from hookfuse.demo.telling import Teller
from tests.service.programs import hookfuse
from tests.service.test_demo_database import databases

TURNS = (
    "Messages flow",
    "phoenix dies",
    "Its breaker opens",
    "Its messages are held",
    "The others notice nothing",
    "A probe fails",
    "phoenix is repaired",
    "A probe succeeds",
    "The backlog drains",
)
RECEIVERS = 6


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its folder."""
    made = tmp_path / "passing"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    return made


def check(done: Any) -> dict[str, int]:
    """It ended well, told every turn in order, and its one line adds up."""
    assert done.returncode == 0, done.stderr
    places = [done.stderr.find(turn) for turn in TURNS]
    assert -1 not in places, done.stderr
    assert places == sorted(places)
    (line,) = done.stdout.splitlines()
    sums: dict[str, int] = json.loads(line)
    assert list(sums) == ["accepted", "sent", "held", "failed", "lost", "avoided", "transitions"]
    assert sums["accepted"] == sums["sent"] + sums["held"] + sums["failed"] + sums["lost"]
    assert sums["accepted"] >= 50 * RECEIVERS
    assert (sums["held"], sums["lost"]) == (0, 0)
    assert sums["avoided"] > 0
    # Closed, open, half open, open again, half open, closed.
    assert sums["transitions"] >= 5
    assert f"{sums['avoided']:,} doomed requests avoided, 0 lost" in done.stderr
    return sums


@pytest.mark.timeout(300)
def test_story(env: dict[str, str], folder: Path) -> None:
    """Embedded, every turn happens, nothing is lost, and the caller's settings and disk are left alone."""
    env = {**env, "TMPDIR": str(folder), "HOOKFUSE_POLICY": "nonsense", "HOOKFUSE_PROXY_URL": "http://127.0.0.1:1"}
    check(hookfuse("demo", "--headless", "--for", "15", env=env, timeout=280))
    assert list(folder.iterdir()) == []
    assert not Path(env["HOOKFUSE_DATA_DIR"]).exists()


@pytest.mark.timeout(300)
def test_three_workers(env: dict[str, str], folder: Path, postgres_url: str, redis_url: str) -> None:
    """On Postgres and Redis three processes share each breaker: all know of the one trip. Its database is dropped."""
    env = {**env, "TMPDIR": str(folder)}
    urls = ("--database-url", postgres_url, "--redis-url", redis_url)
    done = hookfuse("demo", "--json", "--for", "12", "--workers", "3", *urls, env=env, timeout=280)
    check(done)
    assert "3 worker processes know of this one trip" in done.stderr
    assert list(folder.iterdir()) == []
    assert asyncio.run(databases(postgres_url)) == []


class Meddler(Teller):
    """Heals the dead receiver by hand as soon as its breaker is open."""

    def open(self, url: str, key: str, plan: Plan, workers: int) -> None:
        self._url = url

    def turn(self, turn: Turn) -> None:
        super().turn(turn)
        if turn.title == "Its breaker opens":
            # In a thread: who answers is in the loop that calls this.
            Thread(target=self._heal).start()

    def _heal(self) -> None:
        httpx.post(f"{self._url}demo/receivers", json={"name": "phoenix", "behaviour": "healthy"}).raise_for_status()


@pytest.mark.timeout(180)
def test_a_turn_that_does_not_happen(folder: Path) -> None:
    """What is not seen in time ends the story with a sentence; the sums are told all the same."""
    said = io.StringIO()
    ending = asyncio.run(play(Wanted(Plan(20, patience=6)), Meddler(Console(file=said))))
    assert ending.missed == "No probe failed, or the cool-off did not grow (waited for 6 s)."
    assert ending.totals is not None
    assert ending.totals.accepted > 0
    assert ending.totals.lost == 0
    assert "phoenix is repaired" not in said.getvalue()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--for", "3"), "A story takes from 10 to 600 seconds."),
        (("--workers", "3"), "name them with --database-url and --redis-url"),
        (("--database-url", "sqlite:///x"), "--database-url names a Postgres"),
        (("--port", "70000"), "--port"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_bad_options(env: dict[str, str], words: tuple[str, ...], sentence: str) -> None:
    """An option that cannot be used is told in one sentence on stderr, before anything starts."""
    refused = hookfuse("demo", *words, env=env)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words", [("--database-url", "postgresql://x:secret@127.0.0.1:1/x"), ("--redis-url", "redis://127.0.0.1:1")]
)
def test_servers_that_are_away(env: dict[str, str], folder: Path, words: tuple[str, ...]) -> None:
    """A server that is not there is told in one sentence, without a password, and nothing is left behind."""
    refused = hookfuse("demo", "--headless", *words, env={**env, "TMPDIR": str(folder)})
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: ")
    assert refused.stderr.count("\n") == 1
    assert "secret" not in refused.stderr
    assert list(folder.iterdir()) == []
