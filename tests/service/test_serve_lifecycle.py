"""`hookfuse serve` on SQLite: the first start, restarts, refusals, and both ways to end."""

from __future__ import annotations

import json
import re
import signal
import stat
from pathlib import Path

import pytest

from hookfuse.app.station import Station
from hookfuse.core.access import well_formed
from hookfuse.core.delivery import DeliveryState
from hookfuse.core.state import Override, Snapshot, State
from hookfuse.testing.receivers import Failing, Ok, ReceiversProcess, Slow
from tests.service.programs import environment, hookfuse, serving, until
from tests.service.seeds import deliveries, seed, send, within


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_first_start(env: dict[str, str], log: Path) -> None:
    """The first start makes a folder and a master key for their owner alone, and shows an admin key once."""
    data = Path(env["HOOKFUSE_DATA_DIR"])
    with serving(env, log=log) as served:
        said = served.take_all()
        keys = re.findall(r"^hf[A-Za-z0-9]*_[A-Za-z0-9_-]+$", said, re.MULTILINE)
        assert len(keys) == 1
        assert well_formed(keys[0])
        assert mode(data) == 0o700
        assert {mode(file) for file in data.iterdir()} == {0o600}
        assert (data / "master.key").read_text().strip() not in said + served.log
        assert keys[0] not in served.log
        assert served.stop() == 0
    with serving(env, log=log) as served:
        assert "hfadmin" not in served.take_all()


def test_second_start_is_refused(env: dict[str, str], log: Path) -> None:
    """A second process on the same file is refused with a sentence, and the first one goes on."""
    with serving(env, log=log) as served:
        second = hookfuse("serve", env=env)
        assert second.returncode == 1
        assert second.stderr.startswith("Error: Another process uses ")
        assert second.stderr.count("\n") == 1
        assert served.ready()[0] == 200


@pytest.mark.parametrize("words", [("serve", "--workers", "2"), ("api",), ("worker",)], ids=lambda words: words[0])
def test_one_process_on_sqlite(env: dict[str, str], words: tuple[str, ...]) -> None:
    """More than one process, or a part of one, is refused on SQLite with a sentence that says what would do."""
    refused = hookfuse(*words, env=env)
    assert refused.returncode == 2
    assert "SQLite serves exactly one process" in refused.stderr
    assert "HOOKFUSE_DATABASE_URL" in refused.stderr


def test_port_is_taken(env: dict[str, str], log: Path, tmp_path: Path) -> None:
    """A port that is taken is told with the variable that chooses another."""
    with serving(env, log=log) as served:
        refused = hookfuse("serve", env=environment(tmp_path / "other", port=str(served.port)))
    assert refused.returncode == 2
    assert "HOOKFUSE_PORT" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_drains(env: dict[str, str], log: Path, outside: ReceiversProcess, number: int) -> None:
    """Asked to stop, it lets the request in flight end, writes it down, begins no other, and exits with 0."""
    seed(env, {"ep_1": outside.add("ep_1", Slow(1.0))}, cap=1)
    send(env, 3)
    with serving(env, log=log) as served:
        until(lambda: outside.counts["ep_1"].in_flight == 1)
        assert served.stop(number) == 0
        assert "Traceback" not in served.log
    states = [each.state for each in deliveries(env)]
    assert states.count(DeliveryState.SENT) == 1
    assert states.count(DeliveryState.PENDING) == 2
    assert outside.counts["ep_1"].requests == 1


def test_asked_twice_it_ends_at_once(env: dict[str, str], log: Path, outside: ReceiversProcess) -> None:
    """A second Ctrl-C does not wait for what is in flight."""
    seed(env, {"ep_1": outside.add("ep_1", Slow(10.0))})
    send(env, 1)
    with serving(env, log=log) as served:
        until(lambda: outside.counts["ep_1"].in_flight == 1)
        served.process.send_signal(signal.SIGINT)
        until(served.stopping)
        assert served.process.poll() is None
        assert served.stop(signal.SIGINT) == 130


def test_killed_in_mid_request(env: dict[str, str], log: Path, outside: ReceiversProcess) -> None:
    """What a killed process had in hand is sent again after a restart, without waiting for its lease to end."""
    seed(env, {"ep_1": outside.add("ep_1", Slow(30.0))})
    (id_,) = send(env, 1)
    with serving(env, log=log) as served:
        until(lambda: outside.counts["ep_1"].in_flight == 1)
        served.stop(signal.SIGKILL)
    outside.change("ep_1", Ok())
    with serving(env, log=log) as served:
        until(lambda: served.metric('hookfuse_deliveries_total{state="sent"}') == 1)
        served.stop()
    assert [(each.message_id, each.state) for each in deliveries(env)] == [(id_, DeliveryState.SENT)]


def test_breakers_survive_a_kill(env: dict[str, str], log: Path, outside: ReceiversProcess) -> None:
    """An open breaker is still open after kill -9 and a restart: same probe_at, generation not lower, no request."""
    env = {**env, "HOOKFUSE_POLICY": json.dumps({"trip": [{"rule": "streak", "n": 2}], "cool_off": 3600})}
    seed(env, {id_: outside.add(id_, Failing(500)) for id_ in ("ep_1", "ep_forced", "ep_off")}, cap=1)
    send(env, 3)

    async def give_orders(station: Station) -> None:
        await station.breakers.force_open("app_1/ep_forced", reason="maintenance")
        await station.breakers.disable("app_1/ep_off", reason="customer left")

    within(env, give_orders)
    with serving(env, log=log) as served:
        # An attempt counts as made when its breaker is written, and before it is settled.
        until(lambda: served.metric('hookfuse_attempts_total{outcome="failure"}') == 2)
        served.stop(signal.SIGKILL)
    before = within(env, look)
    tried = outside.counts["ep_1"].requests
    assert tried == 2
    with serving(env, log=log) as served:
        assert served.metric('hookfuse_breakers{state="open"}') == 1
        until(lambda: served.metric("hookfuse_deliveries_waiting") == 9)
        served.stop(signal.SIGKILL)
    after = within(env, look)
    assert outside.counts["ep_1"].requests == tried
    assert after["app_1/ep_1"].state is State.OPEN
    assert after["app_1/ep_1"].probe_at == before["app_1/ep_1"].probe_at
    assert after["app_1/ep_1"].generation >= before["app_1/ep_1"].generation
    assert after["app_1/ep_forced"].override is Override.OPEN
    assert after["app_1/ep_off"].state is State.DISABLED
    assert {key: each.why for key, each in after.items()} == {key: each.why for key, each in before.items()}


async def look(station: Station) -> dict[str, Snapshot]:
    return {seen.key: seen async for seen in station.breakers.unhealthy()}


def test_wrong_master_key(env: dict[str, str], outside: ReceiversProcess) -> None:
    """With another master key than the one that sealed its secrets it does not start, and says what to do."""
    seed(env, {"ep_1": outside.add("ep_1", Ok())})
    (Path(env["HOOKFUSE_DATA_DIR"]) / "master.key").unlink()
    refused = hookfuse("serve", env=env)
    assert refused.returncode == 1
    assert "Copy the key file" in refused.stderr
