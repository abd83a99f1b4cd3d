"""The service as many processes on Postgres and Redis: nothing is lost, whatever is killed or restarted meanwhile.

`HOOKFUSE_TEST_MESSAGES=1000` is for who is in a hurry.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout

from hookfuse.app.station import Station
from hookfuse.core.delivery import Chosen, Delivery, DeliveryState
from hookfuse.testing.receivers import Failing, Ok, Order, ReceiversProcess, read_ledger
from tests import ledgers
from tests.ledgers import Produced, Stored, Told
from tests.servers import postgres
from tests.servers.redis import Server as RedisServer
from tests.service.programs import Program, Served, delivering, environment, hookfuse, serving, until
from tests.service.seeds import SECRET, within

MESSAGES = int(os.environ.get("HOOKFUSE_TEST_MESSAGES", "10000"))
ENDPOINTS = 10
WORKERS = 3
SLOTS = 64
AT_ONCE = 32
OPEN = (DeliveryState.PENDING, DeliveryState.SENDING)


@pytest.fixture
def postgres_of_ours() -> Iterator[postgres.Server]:
    with postgres.serving() as server:
        yield server


@pytest.fixture
def redis_of_ours() -> Iterator[RedisServer]:
    server = RedisServer("redis")
    server.start()
    yield server
    server.remove()


@contextmanager
def fleet(env: Mapping[str, str], folder: Path) -> Iterator[tuple[list[Served], list[Program]]]:
    """Two APIs and three workers."""
    with ExitStack() as stack:
        apis = [stack.enter_context(serving(env, "api", log=folder / f"api{number}")) for number in range(2)]
        workers = [stack.enter_context(delivering(env, log=folder / f"worker{number}")) for number in range(WORKERS)]
        yield apis, workers


class Producer:
    """Sends each message until it is taken, whichever API answers, and writes down what it was told."""

    def __init__(self, apis: list[Served], key: str) -> None:
        self._urls = [api.url for api in apis]
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        self.told: list[Produced] = []
        self.endpoints: frozenset[str] = frozenset()

    async def ask(self, client: ClientSession, path: str, body: Any, number: int = 0, **headers: str) -> Any:
        said = json.dumps(body, separators=(",", ":"))
        for attempt in range(600):
            url = f"{self._urls[(number + attempt) % len(self._urls)]}/api/v1{path}"
            with suppress(ClientError):
                async with client.post(url, data=said, headers={**self._headers, **headers}) as answer:
                    if answer.status < 500:
                        assert answer.ok, await answer.text()
                        return await answer.json()
            await asyncio.sleep(0.1)
        raise AssertionError("nobody took it for a minute")

    async def send(self, client: ClientSession, number: int) -> None:
        payload = f'{{"n":{number}}}'
        body = {"eventType": "order.paid", "payload": {"n": number}}
        taken = await self.ask(client, "/app/acme/msg", body, number, **{"idempotency-key": f"key-{number}"})
        digest = hashlib.sha256(payload.encode()).hexdigest()
        self.told.append(Produced(taken["id"], digest, Told.OK, self.endpoints))

    async def send_all(self, client: ClientSession, numbers: range) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with room:
                await self.send(client, number)

        await asyncio.gather(*(one(number) for number in numbers))


def admin_key(api: Served) -> str:
    found = re.search(r"^hf\S+$", api.take_all(), re.MULTILINE)
    assert found is not None
    return found[0]


def dump(env: Mapping[str, str], names: Mapping[str, str]) -> list[Stored]:
    async def job(station: Station) -> list[Stored]:
        rows: list[Delivery] = list(await station.store.deliveries(await everything(station), limit=1_000_000))
        contents: dict[str, bytes] = {}
        ids = sorted({row.message_id for row in rows})
        for start in range(0, len(ids), 500):
            contents |= await station.store.payloads(ids[start : start + 500])
        return [
            Stored(
                f"{row.message_id} {row.endpoint_id}",
                row.message_id,
                names[row.endpoint_id],
                row.state.value,
                row.attempts,
                hashlib.sha256(contents[row.message_id]).hexdigest(),
            )
            for row in rows
        ]

    return within(env, job)


async def everything(station: Station) -> Chosen:
    application = await station.store.application("acme")
    assert application is not None
    return Chosen(application.id)


def waiting(env: Mapping[str, str]) -> int:
    async def job(station: Station) -> int:
        application = await station.store.application("acme")
        assert application is not None
        return await station.store.count(Chosen(application.id, states=OPEN))

    return within(env, job)


@pytest.mark.timeout(600)
def test_nothing_is_lost(tmp_path: Path, postgres_of_ours: postgres.Server, redis_of_ours: RedisServer) -> None:
    """A worker is killed, Redis and Postgres are restarted while messages flow: each is delivered, and says so."""
    env = environment(
        tmp_path / "data",
        database_url=postgres_of_ours.url,
        redis_url=redis_of_ours.url,
        worker_slots=str(SLOTS),
        worker_lease="8",
        request_timeout="2",
        retry_delays="0.5,1,2,4,8",
    )
    ledger = tmp_path / "ledger"
    names = [f"shop-{number}" for number in range(ENDPOINTS)]

    async def run(apis: list[Served], workers: list[Program], urls: Mapping[str, str]) -> Producer:
        producer = Producer(apis, admin_key(apis[0]))
        quarter = MESSAGES // 4
        async with ClientSession(timeout=ClientTimeout(20)) as client:
            await producer.ask(client, "/app", {"name": "acme", "uid": "acme"})
            for name in names:
                endpoint = {"url": urls[name], "uid": name, "secret": SECRET.text, "timeout": 2}
                made = await producer.ask(client, "/app/acme/endpoint", endpoint)
                ids[made["id"]] = name
            producer.endpoints = frozenset(names)
            await producer.send_all(client, range(quarter))
            workers[0].stop(signal.SIGKILL)
            await producer.send_all(client, range(quarter, 2 * quarter))
            redis_of_ours.stop()
            await producer.send_all(client, range(2 * quarter, 2 * quarter + quarter // 2))
            assert apis[0].ready()[0] == 200
            redis_of_ours.start()
            sending = asyncio.create_task(producer.send_all(client, range(2 * quarter + quarter // 2, MESSAGES)))
            await asyncio.sleep(0)
            await asyncio.to_thread(postgres_of_ours.stop)
            await asyncio.to_thread(until, lambda: apis[0].ready()[0] == 503)
            await asyncio.to_thread(postgres_of_ours.start)
            await sending
        return producer

    ids: dict[str, str] = {}
    with ReceiversProcess(ledger=ledger) as receivers:
        urls = receivers.add_all({name: Order(Ok(), SECRET.text) for name in names})
        with fleet(env, tmp_path) as (apis, workers):
            producer = asyncio.run(run(apis, workers, urls))
            until(lambda: waiting(env) == 0, seconds=120, pause=0.5)
            assert [api.stop() for api in apis] == [0, 0]
            assert [worker.stop() for worker in workers[1:]] == [0, 0]
    report = ledgers.check(producer.told, read_ledger(ledger), dump(env, ids), duplicates_allowed=WORKERS * SLOTS)
    assert len(producer.told) == MESSAGES
    assert report.sound, str(report)


def test_several_processes_on_one_port(
    tmp_path: Path, log: Path, postgres_url: str, redis_url: str, outside: ReceiversProcess
) -> None:
    """`serve --workers 3` is three processes on one port: one that dies is replaced, and one page counts for all."""
    env = environment(tmp_path / "data", database_url=postgres_url, redis_url=redis_url)
    with serving(env, "serve", "--workers", "3", log=log) as served:
        typed = {**env, "HOOKFUSE_URL": served.url, "HOOKFUSE_API_KEY": admin_key(served)}
        until(lambda: len(children(served)) == 3)
        assert served.ready()[1]["breakers"] == "shared"
        assert hookfuse("app", "create", "acme", env=typed).returncode == 0
        assert hookfuse("endpoint", "create", "acme", outside.add("ep", Ok()), env=typed).returncode == 0
        for number in range(5):
            assert hookfuse("message", "send", "acme", "order.paid", f'{{"n": {number}}}', env=typed).returncode == 0
        until(lambda: served.metric('hookfuse_deliveries_total{state="sent"}') == 5)
        victim = children(served)[0]
        os.kill(victim, signal.SIGKILL)
        until(lambda: victim not in children(served) and len(children(served)) == 3)
        assert served.stop(signal.SIGINT) == 0
        assert "Traceback" not in served.log


def test_a_policy_holds_in_every_process(
    tmp_path: Path, postgres_url: str, redis_url: str, outside: ReceiversProcess
) -> None:
    """A policy that one API is given holds at once for what workers send that had another one in force."""
    env = environment(tmp_path / "data", database_url=postgres_url, redis_url=redis_url, retry_delays="60")
    with fleet(env, tmp_path) as (apis, _):
        typed = {**env, "HOOKFUSE_API_KEY": admin_key(apis[0])}
        first, second = ({**typed, "HOOKFUSE_URL": api.url} for api in apis)

        def say(env: Mapping[str, str], *words: str) -> Any:
            done = hookfuse(*words, "--json", env=env)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        def sent(number: int) -> None:
            for _ in range(number):
                say(first, "message", "send", "acme", "order.paid", "{}")

        say(first, "app", "create", "acme", "--uid", "acme")
        say(first, "endpoint", "create", "acme", outside.add("ep", Failing()), "--uid", "ep")
        # All three workers may have met the endpoint by then, with the default in force.
        sent(3)
        until(lambda: say(first, "breaker", "show", "acme", "ep")["streak"] == 3)
        say(second, "policy", "set", '{"trip": [{"rule": "streak", "n": 4}], "cool_off": 600}', "--app", "acme")
        sent(1)
        until(lambda: say(first, "breaker", "show", "acme", "ep")["state"] == "open")
        found = say(second, "breaker", "show", "acme", "ep")
        assert (found["reason"], found["streak"]) == ("streak", 4)


def children(program: Program) -> list[int]:
    pid = program.process.pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_without_redis(tmp_path: Path, log: Path, postgres_url: str) -> None:
    """On Postgres without Redis it is ready, and says that breakers are not shared; several processes are refused."""
    env = environment(tmp_path / "data", database_url=postgres_url)
    with serving(env, log=log) as served:
        assert served.ready()[1]["breakers"] == "breakers not shared"
        assert served.metric("hookfuse_breakers_shared") == 0
        refused = hookfuse("serve", "--workers", "2", env=env)
        assert refused.returncode == 2
        assert "HOOKFUSE_REDIS_URL" in refused.stderr
        doctor = hookfuse("doctor", env=env)
        assert doctor.returncode == 0
        assert "breakers are not shared" in doctor.stdout


def test_redis_goes_away(tmp_path: Path, log: Path, postgres_url: str, redis_of_ours: RedisServer) -> None:
    """While Redis is away it stays ready and says `degraded`; when it is back, breakers are shared again."""
    env = environment(tmp_path / "data", database_url=postgres_url, redis_url=redis_of_ours.url)
    with serving(env, log=log) as served:
        assert served.ready()[1]["breakers"] == "shared"
        redis_of_ours.stop()
        until(lambda: served.metric("hookfuse_breakers_degraded") == 1)
        status, told = served.ready()
        assert status == 200
        assert told["breakers"].startswith("degraded")
        redis_of_ours.start()
        until(lambda: served.metric("hookfuse_breakers_degraded") == 0)
        assert served.ready()[1]["breakers"] == "shared"
