"""The orders: force-open, force-closed, unforce, disable, enable, reset."""

from __future__ import annotations

import json

import pytest
import redis

from hookfuse import Override, State, Transition
from hookfuse.cli.times import ago, ahead, read_duration, read_instant, span
from tests.unit.cli.conftest import Run, Workers, fail


def test_force_open_for_a_time(run: Run, workers: Workers) -> None:
    """An override says since what, until when and why, and workers obey it at once."""
    worker = workers()
    fail(worker, "ep")
    result = run("force-open", "ep", "--for", "2h", "--reason", "their [bold]maintenance")
    assert result.exit_code == 0
    assert result.stdout.startswith("ep: open → forced_open, until ")
    assert result.stdout.endswith(" UTC, in 2 h (their [bold]maintenance)\n")
    seen = worker.inspect("ep")
    assert seen.override is Override.OPEN
    assert seen.reason == "their [bold]maintenance"
    assert not worker.admit("ep").allowed


def test_force_closed_until(run: Run, workers: Workers) -> None:
    """--until takes a time with an offset; one without is UTC."""
    worker = workers()
    worker.admit("ep")
    for text in ("2096-02-01T12:00", "2096-02-01T12:00Z", "2096-02-01T13:00+01:00"):
        assert run("force-closed", "ep", "--until", text, "--reason", text).exit_code == 0
        assert worker.inspect("ep").override_until == 3978936000.0


def test_one_after_the_other(run: Run, workers: Workers) -> None:
    """Each order tells what changed in one line, and says when there is nothing to change."""
    workers().admit("ep")
    for order, line in (
        ("force-open", "ep: closed → forced_open\n"),
        ("force-open", "Nothing to change: ep is forced_open.\n"),
        ("force-closed", "ep: forced_open → forced_closed\n"),
        ("unforce", "ep: forced_closed → closed\n"),
        ("unforce", "Nothing to change: ep is closed.\n"),
        ("enable", "Nothing to change: ep is closed.\n"),
        ("disable", "ep: closed → disabled\n"),
        ("enable", "ep: disabled → half_open\n"),
        ("reset", "ep: half_open → closed\n"),
        ("reset", "Nothing to change: ep is closed; its counts are cleared.\n"),
    ):
        result = run(order, "ep")
        assert (order, result.stdout, result.exit_code) == (order, line, 0)


def test_actor(run: Run, workers: Workers) -> None:
    """Who decided is told to everyone: $USER, or who --actor says."""
    worker = workers()
    heard: list[Transition] = []
    with worker.subscribe(heard.append):
        worker.admit("ep")
        worker.catch_up()
        run("disable", "ep", "--reason", "gone")
        run("enable", "ep", "--actor", "bot")
        worker.catch_up()
    assert [(each.after, each.actor) for each in heard] == [(State.DISABLED, "alice"), (State.HALF_OPEN, "bot")]


def test_json(run: Run, workers: Workers) -> None:
    """--json says whether something changed, and what."""
    workers().admit("ep")
    record = json.loads(run("force-open", "ep", "--for", "30m", "--json").stdout)
    assert record["changed"] is True
    assert record["condition"] == "forced_open"
    assert record["override_until"] == pytest.approx(record["at"] + 1800, abs=5)
    record = json.loads(run("enable", "ep", "--json").stdout)
    assert record["changed"] is False
    assert record["override"] == "open"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--for", "soon"], "30m, 2h, 1d"),
        (["--for", "0s"], "longer than nothing"),
        (["--for", "1h", "--until", "2096-01-01"], "not both"),
        (["--until", "tomorrow"], "2030-01-31T18:00Z"),
        (["--until", "2020-01-01"], "in the past"),
        (["--reason", "x" * 501], "at most 500"),
        (["--shards", "9"], "in 8 shards, not 9"),
    ],
)
def test_misuse(run: Run, workers: Workers, options: list[str], words: str) -> None:
    """An order that cannot be meant is refused with what would do, and changes nothing."""
    worker = workers()
    worker.admit("ep")
    result = run("force-open", "ep", *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert worker.inspect("ep").override is Override.NONE


def test_no_order_to_nobody(redis_url: str, run: Run) -> None:
    """Where no worker has been an order is refused, as a guessed number of shards would lock the workers out."""
    result = run("force-open", "ep", "--prefix", "mistyped")
    assert result.exit_code == 1
    assert "'mistyped'" in result.stderr
    assert "--shards 64" in result.stderr
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
    assert run("force-open", "ep", "--shards", "4").stdout == "ep: closed → forced_open\n"
    assert "forced_open" in run("list").stdout, "from then on the number is stored"


def test_durations() -> None:
    """Durations and instants are read and shown as people write them."""
    assert [read_duration(text) for text in ("45s", "30m", "2h", "1d", "1h30m", "0.5h")] == [
        45,
        1800,
        7200,
        86400,
        5400,
        1800,
    ]
    assert read_instant("1970-01-01T00:01") == 60
    assert [span(seconds) for seconds in (0, 59.6, 240, 5_400, 7_199, 90_000, 864_000)] == [
        "0 s",
        "60 s",
        "4 min",
        "90 min",
        "2 h",
        "25 h",
        "10 days",
    ]
    assert ago(100, 100.2) == "just now"
    assert ago(100, 340) == "4 min ago"
    assert ahead(126, 100) == "in 26 s"
