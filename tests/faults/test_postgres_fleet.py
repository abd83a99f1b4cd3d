"""Many processes on one Postgres: nothing twice, nothing lost."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from multiprocessing.synchronize import Barrier
from typing import Any

from hookfuse.core.delivery import Place
from hookfuse.core.message import Accepted, Answer
from hookfuse.stores.sql import migrations
from tests.unit.stores.postgres_scene import OPEN, execute, message, opened, prepare, sent

fork = multiprocessing.get_context("fork")


def run_processes(count: int, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> list[Any]:
    """Run `work(number, barrier, *args)` in many processes at once, and collect what they return."""
    barrier = fork.Barrier(count)
    results = fork.SimpleQueue()

    def run(number: int) -> None:
        try:
            results.put(asyncio.run(work(number, barrier, *args)))
        except BaseException as error:
            barrier.abort()
            results.put(error)

    processes = [fork.Process(target=run, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    collected = [results.get() for _ in processes]
    for process in processes:
        process.join()
    for each in collected:
        if isinstance(each, BaseException):
            raise each
    return collected


async def deliver_all(number: int, barrier: Barrier, url: str) -> list[Place]:
    """Work until nothing is left; returns what was delivered."""
    done = []
    async with opened(url) as store:
        await asyncio.to_thread(barrier.wait)
        while await store.count(OPEN):
            found = await store.claim(16, lease_ms=60_000, failing_limit=16)
            assert await store.settle([sent(claim) for claim in found.claims]) == []
            done += [Place(claim.message_id, claim.endpoint_id) for claim in found.claims]
    return done


def test_processes_share_the_work(postgres_url: str) -> None:
    """Four processes deliver 1,200 deliveries of 12 lanes: every one of them once."""
    asyncio.run(prepare(postgres_url, lanes=12, messages=100))
    delivered = Counter(place for one in run_processes(4, deliver_all, postgres_url) for place in one)
    assert len(delivered) == 1_200
    assert set(delivered.values()) == {1}
    lanes = asyncio.run(execute(postgres_url, "SELECT sum(in_flight) AS busy FROM hookfuse.lanes"))
    assert lanes[0]["busy"] == 0


async def repeat_keys(number: int, barrier: Barrier, url: str) -> list[Answer]:
    """Accept the same twenty keys, in an order of one's own, as one batch and one by one."""
    order = list(range(20))
    random.Random(number).shuffle(order)
    messages = [
        message(number * 1000 + key, idempotency_key=f"key_{key}", fingerprint=b"same", uid=f"uid_{key}")
        for key in order
    ]
    async with opened(url) as store:
        await asyncio.to_thread(barrier.wait)
        answers = list(await store.accept(messages[:10]))
        for each in await asyncio.gather(*(store.accept([each]) for each in messages[10:])):
            answers += each
    return answers


def test_idempotency_keys_hold_between_processes(postgres_url: str) -> None:
    """Eight processes send the same twenty keys at once: twenty messages, and everyone is told the same ids."""
    asyncio.run(prepare(postgres_url, lanes=1))
    answers = [answer for one in run_processes(8, repeat_keys, postgres_url) for answer in one]
    assert len(answers) == 160
    assert all(isinstance(answer, Accepted) for answer in answers)
    assert sum(not answer.repeated for answer in answers) == 20
    assert Counter(Counter(answer.id for answer in answers).values()) == {8: 20}
    stored = asyncio.run(execute(postgres_url, "SELECT count(*) FROM hookfuse.deliveries"))
    assert stored[0][0] == 20


async def start_store(number: int, barrier: Barrier, url: str) -> bool:
    barrier.wait()
    async with opened(url) as store:
        return await store.application("app_none") is None


def test_processes_start_at_once(postgres_url: str) -> None:
    """Eight processes that find an empty database make the schema once."""
    assert run_processes(8, start_store, postgres_url) == [True] * 8
    applied = asyncio.run(execute(postgres_url, "SELECT number FROM hookfuse.migrations ORDER BY number"))
    assert [row["number"] for row in applied] == [each.number for each in migrations("hookfuse.stores.postgres")]
