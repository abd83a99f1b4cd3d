"""The command line looks at the breakers of a cluster as it does at those of one server."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hookfuse import Breakers
from hookfuse.app.fleet import describe
from hookfuse.cli.commands import app
from hookfuse.stores.redis import RedisStore


def test_orders_and_listing(cluster_url: str) -> None:
    """Breakers of all nodes are listed, orders reach them, and workers hear of it."""
    with Breakers(RedisStore(cluster_url, shards=8)) as worker:
        for number in range(8):
            worker.force_open(f"ep_{number}")
        result = CliRunner().invoke(app, ["breakers", "list", "--json", "--redis", cluster_url])
        assert result.exit_code == 0, result.output
        listed = [json.loads(line)["key"] for line in result.stdout.splitlines()]
        assert sorted(listed) == [f"ep_{number}" for number in range(8)]
        result = CliRunner().invoke(app, ["breakers", "reset", "ep_3", "--redis", cluster_url])
        assert result.exit_code == 0, result.output
        worker.catch_up()
        assert worker.admit("ep_3").allowed


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis+cluster://:secret@one:7000,two", "redis+cluster://one:7000,two:6379"),
        ("rediss+cluster://user:sec,ret@[::1]:7000/0", "rediss+cluster://[::1]:7000/0"),
    ],
)
def test_place(url: str, shown: str) -> None:
    """A cluster's place is told with all its nodes and without secrets."""
    assert describe(url) == shown
