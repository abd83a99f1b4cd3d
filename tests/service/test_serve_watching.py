"""What the program tells of itself: health, readiness, metrics, logs; and the commands that look after it."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import httpx
import pytest

from hookfuse.app.station import Station
from hookfuse.core.upkeep import Sealed
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing import ManualClock
from hookfuse.testing.receivers import Failing, Ok, ReceiversProcess
from tests.servers.mail import mail_server
from tests.service.programs import ROOT, environment, hookfuse, serving, typed, until
from tests.service.seeds import message, seed, send, within


def test_health(env: dict[str, str], log: Path) -> None:
    """It is alive and ready, and says that its breakers are its own and kept."""
    with serving(env, log=log) as served:
        assert served.get("/healthz") == (200, '{"status":"ok"}')
        status, told = served.ready()
        assert status == 200
        assert told["status"] == "ready"
        assert (told["database"], told["migrations"]) == ("ok", "ok")
        assert told["breakers"] == "of this process, kept in the database"
        asked = {**env, "HOOKFUSE_URL": served.url}
        assert hookfuse("healthcheck", env=asked).returncode == 0
        shown = hookfuse("status", "--json", env=asked)
        assert shown.returncode == 0
        assert json.loads(shown.stdout)["status"] == "ready"
        assert not any(name.startswith("leads") for name in json.loads(shown.stdout)), "who leads needs a key"
        key = re.search(r"^hf\S+$", served.take_all(), re.MULTILINE)
        assert key is not None
        known = hookfuse("status", "--json", env={**asked, "HOOKFUSE_API_KEY": key[0]})
        assert " since 2" in json.loads(known.stdout)["leads_rescue"]
    assert hookfuse("healthcheck", env=asked).returncode == 1
    assert "cannot be reached" in hookfuse("status", env=asked).stderr


def test_only_looking(env: dict[str, str], log: Path) -> None:
    """Health and metrics are for looking: any other method is refused as everywhere else, with those that would do."""
    with serving(env, log=log) as served:
        for path in ("/healthz", "/readyz", "/metrics"):
            for method in ("POST", "DELETE"):
                answer = httpx.request(method, f"{served.url}{path}")
                assert answer.status_code == 405
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["code"] == "method_not_allowed"
                assert "GET" in answer.headers["allow"]


def test_open_files(env: dict[str, str], log: Path) -> None:
    """It opens as many files as the system lets it, though few were allowed at first; the doctor knows how many."""
    program = f"exec {sys.executable} -m hookfuse"
    with typed(env, f"ulimit -Sn 256 && {program} serve", log=log) as served:
        soft, hard = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
        assert soft == hard > 256
    doctor = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -n 1000 && {program} doctor --json"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1000 are allowed, and 4096 requests may be in flight" in doctor.stdout


def test_metrics_and_logs(env: dict[str, str], log: Path, outside: ReceiversProcess) -> None:
    """Each attempt is one JSON line with all its fields and is counted; no name of ours is undocumented."""
    seed(env, {"ep_1": outside.add("ep_1", Ok()), "ep_2": outside.add("ep_2", Failing(503))})
    (id_,) = send(env, 1)
    with serving(env, log=log) as served:
        until(lambda: served.metric("hookfuse_attempt_seconds_count") == 2)
        assert served.metric('hookfuse_attempts_total{outcome="ok"}') == 1
        assert served.metric('hookfuse_attempts_total{outcome="failure"}') == 1
        assert served.metric('hookfuse_deliveries_total{state="sent"}') == 1
        assert served.metric("hookfuse_retries_total") == 1
        until(lambda: served.metric("hookfuse_deliveries_waiting") == 1)
        page = served.get("/metrics")[1]
        assert "ep_1" not in page
        assert "app_1" not in page
        served.stop()
        lines = [json.loads(line) for line in served.log.splitlines()]
    attempts = {line["endpoint_id"]: line for line in lines if line["event"] == "attempt"}
    assert attempts["ep_1"]["message_id"] == id_
    assert (attempts["ep_1"]["status"], attempts["ep_1"]["outcome"]) == (200, "ok")
    assert (attempts["ep_2"]["status"], attempts["ep_2"]["delivery"]) == (503, "retry")
    assert attempts["ep_2"]["next_in"] > 0
    documented = (ROOT / "docs" / "operating.md").read_text()
    names = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE hookfuse_")}
    assert {name for name in names if f"`{name.removesuffix('_total')}" not in documented} == set()


@pytest.mark.parametrize(
    ("name", "value"), [("PORT", "many"), ("WORKER_LEASE", "30"), ("DATABASE_URL", "mysql://u:canary@h/d")]
)
def test_wrong_settings(env: dict[str, str], name: str, value: str) -> None:
    """A wrong setting ends the start with one sentence, before anything is made."""
    refused = hookfuse("serve", env={**env, f"HOOKFUSE_{name}": value})
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("Error: ")
    assert refused.stderr.count("\n") == 1
    assert "canary" not in refused.stderr


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"WORKER_LEASE": "10"}, ["HOOKFUSE_WORKER_LEASE", "HOOKFUSE_REQUEST_TIMEOUT"]),
        ({"DATABASE_URL": "postgresql://u:canary@127.0.0.1:1/d"}, ["HOOKFUSE_DATABASE_URL"]),
        ({"REDIS_URL": "redis://:canary@127.0.0.1:1/0?db=x"}, ["HOOKFUSE_REDIS_URL"]),
        ({"REDIS_URL": "redis://:canary@127.0.0.1:1/0?nonsense=1"}, ["HOOKFUSE_REDIS_URL"]),
    ],
    ids=["lease", "Postgres", "Redis", "Redis's options"],
)
def test_what_ends_a_start_is_named(env: dict[str, str], settings: dict[str, str], named: list[str]) -> None:
    """What a start cannot be made with is told with the variables that say otherwise, in one line."""
    wrong = {**env, **{f"HOOKFUSE_{name}": value for name, value in settings.items()}}
    refused = hookfuse("serve", env=wrong)
    assert refused.returncode in (1, 2)
    assert refused.stderr.startswith("Error: ")
    assert refused.stderr.count("\n") == 1
    assert all(name in refused.stderr for name in named)
    assert "canary" not in refused.stderr


def test_config(env: dict[str, str]) -> None:
    """`config` tells every setting with its value and where it came from."""
    shown = hookfuse("config", "--json", env={**env, "HOOKFUSE_REDIS_URL": "redis://:canary@host/0"})
    rows = {each["setting"]: each for each in map(json.loads, shown.stdout.splitlines())}
    assert rows["data_dir"]["value"] == env["HOOKFUSE_DATA_DIR"]
    assert rows["data_dir"]["from"] == "HOOKFUSE_DATA_DIR"
    assert rows["redis_url"]["value"] == "redis://:***@host/0"
    assert rows["host"]["from"] == "default"
    assert "canary" not in shown.stdout + hookfuse("config", env=env).stdout


def test_doctor(env: dict[str, str], tmp_path: Path) -> None:
    """The doctor finds no more than no database before the first start, nothing after it, and names a cure."""
    data = Path(env["HOOKFUSE_DATA_DIR"])
    before = hookfuse("doctor", "--json", env=env)
    assert before.returncode == 0
    (missed,) = [each for each in map(json.loads, before.stdout.splitlines()) if each["standing"] != "ok"]
    assert missed["says"] == f"{data}/hookfuse.db is not there yet"
    assert "HOOKFUSE_DATA_DIR" in missed["remedy"]
    assert not data.exists()
    assert hookfuse("migrate", env=env).returncode == 0
    found = [json.loads(line) for line in hookfuse("doctor", "--json", env=env).stdout.splitlines()]
    assert {each["standing"] for each in found} == {"ok"}
    data.chmod(0o755)
    open_to_all = hookfuse("doctor", env=env)
    assert open_to_all.returncode == 0
    assert f"chmod 700 {data}" in open_to_all.stdout
    data.chmod(0o700)
    assert hookfuse("reseal", env=env).returncode == 0
    (data / "master.key").chmod(0o644)
    exposed = [json.loads(line) for line in hookfuse("doctor", "--json", env=env).stdout.splitlines()]
    (found_key,) = [each for each in exposed if each["standing"] != "ok"]
    assert found_key["about"] == "master key"
    assert found_key["remedy"] == f"Run: chmod 600 {data}/master.key"
    (data / "master.key").chmod(0o600)
    wrong = {**env, "HOOKFUSE_WORKER_LEASE": "20", "HOOKFUSE_ALLOWED_NETWORKS": "0.0.0.0/0"}
    wrong["HOOKFUSE_DATABASE_URL"] = "postgresql://user:canary@127.0.0.1:1/none"
    wrong["HOOKFUSE_REDIS_URL"] = "redis://:canary@127.0.0.1:1/0"
    sick = hookfuse("doctor", "--json", env=wrong)
    assert sick.returncode == 1
    about = {each["about"]: each for each in map(json.loads, sick.stdout.splitlines()) if each["standing"] != "ok"}
    assert about.keys() == {"lease", "egress guard", "database", "Redis"}
    assert all(each["remedy"] for each in about.values())
    assert "canary" not in sick.stdout + sick.stderr


def test_doctor_looks_at_the_mail_server(env: dict[str, str]) -> None:
    """The doctor says whether mails would be taken, over what, and what to do if not."""

    def found(**more: str) -> dict[str, str]:
        lines = hookfuse("doctor", "--json", env={**env, **more}).stdout.splitlines()
        (line,) = [each for each in map(json.loads, lines) if each["about"] == "mail server"]
        return dict(line)

    with mail_server() as inbox:
        url = f"smtp://127.0.0.1:{inbox.port}"
        blocked = found(HOOKFUSE_SMTP_URL=url, HOOKFUSE_ALLOWED_NETWORKS="10.0.0.0/8")
        assert (blocked["standing"], blocked["remedy"]) == ("error", "Add its network to HOOKFUSE_ALLOWED_NETWORKS.")
        plain = found(HOOKFUSE_SMTP_URL=url, HOOKFUSE_ALLOWED_NETWORKS="127.0.0.0/8")
        assert plain["standing"] == "warning"
        assert "offers no STARTTLS" in plain["says"]
        assert inbox.envelopes == []
    away = found(HOOKFUSE_SMTP_URL="smtp://hook:canary@127.0.0.1:1", HOOKFUSE_ALLOWED_NETWORKS="127.0.0.0/8")
    assert away["standing"] == "error"
    assert "HOOKFUSE_SMTP_URL" in away["remedy"]
    assert "canary" not in str(away)


def test_doctor_listens_past_a_pooler(env: dict[str, str], postgres_url: str) -> None:
    """The doctor says whether Postgres itself would wake workers, and what it means if not."""

    def found(listen_url: str) -> dict[str, str]:
        there = {**env, "HOOKFUSE_DATABASE_URL": postgres_url, "HOOKFUSE_DATABASE_POOLED": "true"}
        lines = hookfuse("doctor", "--json", env={**there, "HOOKFUSE_DATABASE_LISTEN_URL": listen_url}).stdout
        (line,) = [each for each in map(json.loads, lines.splitlines()) if each["about"] == "waking"]
        return dict(line)

    assert found(postgres_url)["standing"] == "ok"
    away = found("postgresql://me:canary@127.0.0.1:1/none")
    assert away["standing"] == "warning"
    assert "HOOKFUSE_DATABASE_LISTEN_URL" in away["remedy"]
    assert "canary" not in str(away)


def test_migrate(env: dict[str, str], log: Path) -> None:
    """`migrate` brings a database up to date, shows which and what it has; where a service runs it is refused."""
    shown = hookfuse("migrate", "--json", env=env)
    names = [json.loads(line)["name"] for line in shown.stdout.splitlines()]
    assert names == sorted(names)
    assert "0001_delivery" in names
    assert hookfuse("migrate", env=env).stdout.startswith(f"sqlite://{env['HOOKFUSE_DATA_DIR']}/hookfuse.db is up to")
    with serving(env, log=log):
        assert hookfuse("migrate", env=env).returncode == 1


def test_migrate_on_postgres(env: dict[str, str], postgres_url: str) -> None:
    """On Postgres too `migrate` makes what is missing, shows what there is, and says so if nothing is missing."""
    there = {**env, "HOOKFUSE_DATABASE_URL": postgres_url}
    first, second = (hookfuse("migrate", "--json", env=there) for _ in range(2))
    names = [json.loads(line)["name"] for line in first.stdout.splitlines()]
    assert names == sorted(names)
    assert {"0001_delivery", "0014_lighter"} <= set(names)
    assert (first.returncode, second.returncode, second.stdout) == (0, 0, first.stdout)
    assert "is up to date" in hookfuse("migrate", env=there).stdout


def test_reseal(env: dict[str, str], log: Path, outside: ReceiversProcess) -> None:
    """With a new master key above the old one, every secret is sealed anew; then the old key can go."""
    seed(env, {f"ep_{number}": outside.add(f"ep_{number}", Ok()) for number in range(3)})
    file = Path(env["HOOKFUSE_DATA_DIR"]) / "master.key"
    old = file.read_text()
    before = within(env, sealed)
    file.write_text(b64encode(os.urandom(32)).decode() + "\n" + old)
    done = hookfuse("reseal", "--json", env=env)
    assert json.loads(done.stdout) == {"endpoints": 3, "resealed": 3}
    assert json.loads(hookfuse("reseal", "--json", env=env).stdout)["resealed"] == 0
    assert all(now.secret != was.secret for now, was in zip(within(env, sealed), before, strict=True))
    file.write_text(file.read_text().splitlines()[0])
    send(env, 1)
    with serving(env, log=log) as served:
        until(lambda: served.metric('hookfuse_deliveries_total{state="sent"}') == 3)


async def sealed(station: Station) -> list[Sealed]:
    return list(await station.store.sealed_page("", 100))


def test_prune(env: dict[str, str]) -> None:
    """`prune` forgets old messages that have ended, with a bar on a terminal, and says how many."""
    seed(env, {})

    async def send_long_ago() -> None:
        store = SqliteStore(Path(env["HOOKFUSE_DATA_DIR"]) / "hookfuse.db", clock=ManualClock())
        await store.open()
        await store.accept([message(number) for number in range(2_500)])
        await store.close()

    asyncio.run(send_long_ago())
    send(env, 1)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hookfuse", "prune", "--days", "1", "--json"]
    shown = b""
    with subprocess.Popen(command, env={**env, "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=theirs) as prune:
        os.close(theirs)
        # A terminal holds little: whoever does not read it holds up the program.
        with suppress(OSError):
            while piece := os.read(ours, 65_536):
                shown += piece
        said = prune.communicate()[0]
    os.close(ours)
    assert json.loads(said) == {"messages": 2_500, "days": 1.0}
    assert b"/2500" in shown


_TRACED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

provider = TracerProvider()
exporter = ConsoleSpanExporter(out=open({file!r}, "w"), formatter=lambda span: span.to_json(indent=None) + "\\n")
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""


def test_spans_of_a_running_service(env: dict[str, str], tmp_path: Path, log: Path, outside: ReceiversProcess) -> None:
    """Whoever sets up OpenTelemetry in the process finds a span for each attempt, and nothing has to be switched on."""
    seed(env, {"ep_1": outside.add("ep_1", Ok())})
    (message_id,) = send(env, 1)
    (tmp_path / "sitecustomize.py").write_text(_TRACED.format(file=str(tmp_path / "spans")))
    with serving({**env, "PYTHONPATH": str(tmp_path)}, log=log) as served:
        until(lambda: served.metric('hookfuse_deliveries_total{state="sent"}') == 1)
        until(lambda: (tmp_path / "spans").read_text().endswith("\n"))
    (span,) = map(json.loads, (tmp_path / "spans").read_text().splitlines())
    assert (span["name"], span["kind"]) == ("hookfuse.attempt", "SpanKind.CLIENT")
    assert span["attributes"]["hookfuse.message_id"] == message_id
    assert span["attributes"]["http.response.status_code"] == 200


def test_unknown_variable(tmp_path: Path, log: Path) -> None:
    """A misspelt variable is told at the start, with the one that was perhaps meant."""
    with serving(environment(tmp_path / "data", worker_slot="1"), log=log) as served:
        assert "perhaps HOOKFUSE_WORKER_SLOTS is meant" in served.log
        assert served.stop(signal.SIGINT) == 0


def test_migrations_of_another_version(tmp_path: Path, log: Path, postgres_url: str) -> None:
    """A process whose database has too few migrations is not ready; one that is behind the others says so."""
    env = environment(tmp_path / "data", database_url=postgres_url)

    def change(statement: str) -> None:
        async def execute() -> None:
            db = await asyncpg.connect(postgres_url)
            await db.execute(statement)
            await db.close()

        asyncio.run(execute())

    with serving(env, log=log) as served:
        assert served.ready()[1]["migrations"] == "ok"
        change("INSERT INTO hookfuse.migrations VALUES (9999, 'of the future', 0)")
        until(lambda: "newer" in served.ready()[1]["migrations"])
        assert served.ready()[0] == 200
        change("DELETE FROM hookfuse.migrations WHERE number > 1")
        until(lambda: served.ready()[0] == 503)
        assert "hookfuse migrate" in served.ready()[1]["migrations"]
        assert served.metric("hookfuse_ready") == 0
