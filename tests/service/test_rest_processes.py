"""The processes of the fleet: over the API, on the command line, in the metrics and by the doctor."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hookfuse.core.member import Part, Report, Sharing
from hookfuse.testing.receivers import ReceiversProcess, Slow
from tests.service.conftest import Service
from tests.service.programs import Served, delivering, environment, hookfuse, serving, until
from tests.service.seeds import silence

SAID = Report("web:1:abc", "web", 1, "1.0", (Part.WORKER,), 5_000, 3, 64, True, Sharing.DEGRADED, suspect=True)


@pytest.mark.anyio
async def test_what_is_told(idle: Service) -> None:
    """Each process is told as it reported, with the duties that it leads; only those who see all may ask."""
    await idle.store.report_in(SAID, age_ms=60_000)
    own = replace(SAID, name=idle.station.name, host="api", draining=False)
    await idle.store.report_in(own, age_ms=0)

    async def leads() -> bool:
        return bool((await idle.ok("GET", "/duties"))["data"])

    await idle.until(leads)
    first, second = (await idle.ok("GET", "/processes"))["data"]
    assert (first["name"], first["state"]) == (idle.station.name, "running")
    assert first["leads"] == [each["duty"] for each in (await idle.ok("GET", "/duties"))["data"]]
    assert (second["host"], second["pid"], second["version"], second["parts"]) == ("web", 1, "1.0", ["worker"])
    assert (second["state"], second["inHand"], second["slots"]) == ("draining", 3, 64)
    assert (second["breakers"], second["suspect"], second["leads"]) == ("degraded", True, [])
    assert second["startedAt"] < first["startedAt"] == first["heardAt"]
    app = await idle.app()
    assert (await idle.ask("GET", "/processes", key=await idle.key("app", app))).status_code == 403
    assert (await idle.ok("GET", "/processes", key=await idle.key("read")))["data"]


def admin_key(api: Served) -> str:
    found = re.search(r"^hf\S+$", api.take_all(), re.MULTILINE)
    assert found is not None
    return found[0]


def listed(env: Mapping[str, str]) -> list[dict[str, Any]]:
    shown = hookfuse("workers", "--json", env=env)
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


def counted(served: Served) -> dict[str, float]:
    return {state: served.metric(f'hookfuse_processes{{state="{state}"}}') for state in ("running", "silent")}


def test_a_fleet(tmp_path: Path, postgres_url: str, redis_url: str) -> None:
    """An API and two workers are listed; a stopped one is gone, a killed one is silent, and all say the same."""
    env = environment(tmp_path / "data", database_url=postgres_url, redis_url=redis_url, worker_slots="32")
    with (
        serving(env, "api", log=tmp_path / "api") as api,
        delivering(env, log=tmp_path / "first") as first,
        delivering(env, log=tmp_path / "second") as second,
    ):
        typed = {**env, "HOOKFUSE_URL": api.url, "HOOKFUSE_API_KEY": admin_key(api)}
        until(lambda: len(listed(typed)) == 3, pause=0.5)
        found = {each["pid"]: each for each in listed(typed)}
        assert set(found) == {each.process.pid for each in (api, first, second)}
        assert {each["host"] for each in found.values()} == {socket.gethostname()}
        assert found[api.process.pid]["parts"] == ["api"]
        assert found[first.process.pid]["parts"] == ["worker"]
        assert (found[first.process.pid]["slots"], found[api.process.pid]["slots"]) == (32, 0)
        assert {each["breakers"] for each in found.values()} == {"shared"}
        assert sum("rescue" in each["leads"] for each in found.values()) == 1
        assert counted(api) == {"running": 3, "silent": 0}
        assert "processes: 3 of the fleet running, none silent" in hookfuse("doctor", env=env).stdout
        assert second.stop() == 0
        assert first.stop(signal.SIGKILL) == -signal.SIGKILL
        silence(postgres_url, first.process.pid)
        assert {each["pid"]: each["state"] for each in listed(typed)} == {
            api.process.pid: "running",
            first.process.pid: "silent",
        }
        assert counted(api) == {"running": 1, "silent": 1}
        table = hookfuse("workers", env=typed).stdout.splitlines()
        assert re.split(r"\s{2,}", table[0])[:5] == ["HOST", "PID", "STATE", "RUNS", "IN FLIGHT"]
        assert re.split(r"\s{2,}", table[-1])[1:5] == [str(first.process.pid), "silent", "worker", "0 of 32"]
        doctor = hookfuse("doctor", env=env).stdout
        assert f"1 of 2 fell silent: {socket.gethostname()} (pid {first.process.pid})" in doctor


def test_draining(tmp_path: Path, postgres_url: str, outside: ReceiversProcess) -> None:
    """A worker that was asked to stop says that it drains, and what it still has in flight; then it is gone."""
    env = environment(tmp_path / "data", database_url=postgres_url)
    with serving(env, "api", log=tmp_path / "api") as api, delivering(env, log=tmp_path / "worker") as stopped:
        typed = {**env, "HOOKFUSE_URL": api.url, "HOOKFUSE_API_KEY": admin_key(api)}
        assert hookfuse("app", "create", "acme", env=typed).returncode == 0
        assert hookfuse("endpoint", "create", "acme", outside.add("slow", Slow(6)), env=typed).returncode == 0
        assert hookfuse("message", "send", "acme", "order.paid", "{}", env=typed).returncode == 0
        until(lambda: api.metric("hookfuse_deliveries_in_flight") == 1)
        stopped.process.terminate()
        until(lambda: {each["state"] for each in listed(typed)} == {"running", "draining"}, pause=0.1)
        assert {each["pid"]: each["inHand"] for each in listed(typed)} == {api.process.pid: 0, stopped.process.pid: 1}
        assert stopped.process.wait(20) == 0
        assert [each["pid"] for each in listed(typed)] == [api.process.pid]
