"""`list` and `show`."""

from __future__ import annotations

import io
import json
import re
import time

import pytest
import redis
from rich.console import Console

from hookfuse import Outcome, Streak
from hookfuse.app.fleet import Fleet
from hookfuse.cli.listing import print_list, worst_first
from hookfuse.cli.showing import print_breaker
from tests.unit.cli.conftest import Run, Workers, fail

EVIL = "ep\x1b[31m\x1b]0;pwned\x07[bold]x[/bold]\r\n\x9b2J\u202e"
INERT = r"ep\x1b[31m\x1b]0;pwned\x07[bold]x[/bold]\r\n\x9b2J\u202e"


def break_everything(workers: Workers) -> None:
    """One breaker in each condition."""
    worker = workers()
    fail(worker, "an-open")
    worker.disable("a-disabled", reason="customer left")
    worker.force_open("a-forced-open", reason="maintenance", until=time.time() + 7200)
    worker.force_closed("a-forced-closed")
    worker.record(worker.admit("a-held"), Outcome.throttled(retry_after=50))
    worker.record(worker.admit("a-closed"), Outcome.OK)
    quick = workers(trip=Streak(1), cool_off=0.001, ramp=3600)
    for key in ("a-half-open", "a-ramp"):
        fail(quick, key, 1)
        probe = quick.admit(key)
        while not probe.probe:
            probe = quick.admit(key)
        if key == "a-ramp":
            quick.record(probe, Outcome.OK)


def terminal(url: str, width: int) -> str:
    """What `list` shows in a terminal of this width."""
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system="truecolor", markup=False)
    with Fleet(url) as fleet:
        print_list(console, worst_first(list(fleet.unhealthy())), fleet.pulse().now)
    return file.getvalue()


def test_list_worst_first(run: Run, workers: Workers) -> None:
    """Every breaker that is not plainly closed is listed, the worst first, with why and what comes next."""
    break_everything(workers)
    result = run("list")
    assert result.exit_code == 0
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["KEY", "STATE", "WHY", "SINCE", "NEXT", "FAILED", "TRIPS"]
    assert [line.split()[1] for line in lines] == [
        "disabled",
        "forced_open",
        "open",
        "half_open",
        "held",
        "forced_closed",
        "ramp",
    ]
    at = head.index("WHY")
    assert {line[at - 2 : at] for line in lines} == {"  "}, "the columns are aligned"
    assert "customer left" in lines[0]
    assert "ends in 2 h" in lines[1]
    assert "failures in a row: 5, limit 5" in lines[2]
    assert "5/5 100%" in lines[2]
    assert "probing now" in lines[3]
    assert "Retry-After" in lines[4]
    assert "10% of the flow" in lines[6]


def test_list_plain_in_a_pipe(run: Run, workers: Workers) -> None:
    """Without a terminal there is no colour, and a line is never cut or wrapped."""
    key = "k" * 200
    fail(workers(), key)
    result = run("list")
    assert "\x1b" not in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["KEY", key]


def test_list_filter(run: Run, workers: Workers) -> None:
    """--state shows only those, and says so when there are none."""
    break_everything(workers)
    assert [json.loads(line)["key"] for line in run("list", "--state", "held", "--json").stdout.splitlines()] == [
        "a-held"
    ]
    run("reset", "an-open")
    assert run("list", "--state", "open").stdout == "No breaker is open.\n"
    assert run("list", "--state", "closed").exit_code == 2


def test_list_empty(run: Run, workers: Workers) -> None:
    """With nothing to list a sentence says so; programs get no line."""
    workers().admit("ep")
    assert run("list").stdout == "All breakers are closed.\n"
    assert run("list", "--json").stdout == ""


def test_list_json(run: Run, workers: Workers) -> None:
    """--json is one object for each breaker, with the names of the library."""
    fail(workers(), "ep", error=TimeoutError("no answer"))
    (line,) = run("list", "--json").stdout.splitlines()
    record = json.loads(line)
    assert record["key"] == "ep"
    assert record["condition"] == record["state"] == "open"
    assert record["counts"]["failed"] == record["totals"]["failed"] == 5
    assert record["failures"][0]["type"] == "TimeoutError"
    assert record["probe_at"] == pytest.approx(record["opened_at"] + 30)


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_terminal_widths(redis_url: str, workers: Workers, width: int) -> None:
    """In a terminal of any width no line is too long and no key is cut."""
    break_everything(workers)
    fail(workers(), "ep_0123456789abcdef0123456789abcdef")
    shown = terminal(redis_url, width)
    assert "\x1b[" in shown, "in colour"
    lines = [line.rstrip() for line in _without_colour(shown).splitlines()]
    assert max(map(len, lines)) <= width
    assert ("KEY" in lines[0]) is (width >= 120)
    joined = "".join(line.strip() for line in lines)
    for key in ("a-forced-closed", "an-open", "a-ramp"):
        assert key in joined
    assert "8 breakers: 1 disabled" in " ".join(lines)
    if width >= 80:
        assert any("ep_0123456789abcdef0123456789abcdef" in line for line in lines)


def _without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("window", [7, 3600, None])
def test_counts_of_any_window(run: Run, workers: Workers, window: float | None) -> None:
    """The counts are those of the workers' window, which the command line is not told."""
    worker = workers(window=window)
    worker.record(worker.admit("ep"), Outcome.OK)
    fail(worker, "ep", 5)
    assert "5/6 83%" in run("list").stdout
    assert "5 of 6 calls failed (83%)" in run("show", "ep").stdout


def test_show(run: Run, workers: Workers) -> None:
    """`show` tells everything, the last failures too."""
    worker = workers(cool_off=600)
    worker.record(worker.admit("ep"), Outcome.OK)
    fail(worker, "ep", 5, ConnectionError("refused"))
    shown = run("show", "ep").stdout
    for words in (
        "ep  open",
        "failures in a row: 5, limit 5",
        "probe in 10 min",
        "5 failures, 1 trip",
        "5 failed, 1 ok",
        "mean latency 250 ms",
        "Last failures",
        "ConnectionError: refused",
    ):
        assert words in shown
    worker.force_closed("ep", reason="we know better")
    shown = run("show", "ep").stdout
    assert "ep  forced_closed" in shown
    assert "closed, until someone ends it: we know better" in shown
    assert "(open beneath)" in shown


def test_show_unknown(redis_url: str, run: Run, workers: Workers) -> None:
    """A key that nobody knows is closed; so is every key where no worker has been, and looking writes nothing."""
    assert run("show", "ep").stdout == "ep is closed; nothing is known of it.\n"
    assert json.loads(run("show", "ep", "--json").stdout)["state"] == "closed"
    assert "No worker has stored breakers" in run("list").stdout
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
    workers().admit("other")
    assert run("show", "ep").stdout == "ep is closed; nothing is known of it.\n"


def test_keys_are_inert(redis_url: str, run: Run, workers: Workers) -> None:
    """Escapes, control characters and markup in keys, reasons and errors reach no terminal."""
    worker = workers()
    fail(worker, EVIL, 5, ValueError(f"bad {EVIL}"))
    worker.force_open(EVIL, reason=f"because {EVIL}", actor=EVIL)
    outputs = [run("list"), run("show", EVIL), run("list", "--json"), run("force-closed", EVIL), run("unforce", EVIL)]
    for result in outputs:
        assert result.exit_code == 0
        assert all(sign.isprintable() or sign == "\n" for sign in result.stdout)
    assert INERT in outputs[0].stdout
    assert f"because {INERT}" in outputs[1].stdout
    assert f"ValueError: bad {INERT}" in outputs[1].stdout
    assert json.loads(outputs[2].stdout)["key"] == EVIL
    worker.force_open(EVIL, reason=f"because {EVIL}")
    file = io.StringIO()
    console = Console(file=file, width=60, force_terminal=True, color_system="truecolor", markup=False)
    with Fleet(redis_url) as fleet:
        print_breaker(console, fleet.breakers.inspect(EVIL), fleet.pulse().now)
    for shown in (file.getvalue(), terminal(redis_url, 60), terminal(redis_url, 300)):
        assert all(sign.isprintable() or sign == "\n" for sign in _without_colour(shown))
        assert "[bold]" in shown
