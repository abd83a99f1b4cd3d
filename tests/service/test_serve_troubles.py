"""What goes wrong while the program delivers is said aloud, and counted."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from hookfuse.testing.receivers import Dead, Hang, Ok, Order, ReceiversProcess
from tests.faults.delivery.databases import Database, PostgresDatabase, SqliteDatabase
from tests.service.programs import environment, serving, until
from tests.service.seeds import seed, send

NAMES = [f"ep_{number:02}" for number in range(25)]


def test_a_network_that_is_down(tmp_path: Path, log: Path, outside: ReceiversProcess, postgres_url: str) -> None:
    """That nobody can be reached is logged as our own trouble, once, and so is its end when someone answers."""
    env = environment(tmp_path / "data", database_url=postgres_url)
    seed(env, outside.add_all({name: Order(Dead()) for name in NAMES}))
    send(env, 1)
    with serving(env, log=log) as served:
        until(lambda: served.metric("hookfuse_egress_suspect") == 1)
        assert served.log.count("this machine's network is suspect") == 1
        assert "no longer suspect" not in served.log
        outside.add_all({name: Order(Ok()) for name in NAMES})
        send(env, 1)
        until(lambda: served.metric("hookfuse_egress_suspect") == 0)
        assert served.log.count("this machine's network is suspect") == 1
        assert served.log.count("the network of this machine is no longer suspect") == 1


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path / "data")
    return PostgresDatabase(request.getfixturevalue("postgres_url"))


def test_a_lease_that_was_lost(database: Database, tmp_path: Path, log: Path) -> None:
    """A worker whose claim has come into other hands says so when it settles, and counts it."""
    env = environment(tmp_path / "data", database_url=database.url)
    with ExitStack() as receivers:
        hanging = receivers.enter_context(ReceiversProcess())
        seed(env, {"ep_1": hanging.add("ep_1", Hang())})
        (id_,) = send(env, 1)
        with serving(env, log=log) as served:
            until(lambda: hanging.counts["ep_1"].in_flight == 1)
            assert served.metric("hookfuse_leases_lost_total") == 0
            # As if its lease had ended and another had claimed it.
            asyncio.run(database.rows("UPDATE {schema}deliveries SET token = token + 1"))
            # The request ends when the process is gone that keeps it waiting.
            receivers.close()
            until(lambda: served.metric("hookfuse_leases_lost_total") == 1)
            assert f"the lease of {id_} to ep_1 was lost" in served.log
