"""Accepting in groups, and how long a request may take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from hookfuse.core.message import Accepted, Answer, NewMessage
from hookfuse.delivery.accept import Acceptor
from hookfuse.delivery.targets import Targets
from hookfuse.errors import InvalidField, StoreUnavailable
from tests.unit.delivery.conftest import Post

pytestmark = pytest.mark.anyio


async def test_concurrent_callers_share_commits(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred callers at once are answered one by one, and stored in a few transactions."""
    await post.endpoint()
    accept, sizes = post.store.accept, []

    async def counted(messages: Sequence[NewMessage]) -> Sequence[Answer]:
        sizes.append(len(messages))
        return await accept(messages)

    monkeypatch.setattr(post.store, "accept", counted)
    acceptor = Acceptor(post.store)
    messages = [post.bench.message() for _ in range(100)]
    answers = await asyncio.gather(*(acceptor.accept(message) for message in messages))
    assert [each.id for each in answers if isinstance(each, Accepted)] == [message.id for message in messages]
    assert sum(sizes) == 100
    assert len(sizes) <= 3


async def test_a_lost_store_answers_everyone(post: Post) -> None:
    """When the store fails, every caller of the batch hears it, and the next batch is tried anew."""

    class Broken:
        calls = 0

        async def accept(self, messages: Sequence[NewMessage]) -> Sequence[Answer]:
            self.calls += 1
            if self.calls == 1:
                raise StoreUnavailable("The database is away.")
            return [Accepted(message.id, 0, 0) for message in messages]

    acceptor = Acceptor(Broken())  # type: ignore[arg-type]
    failed = await asyncio.gather(*(acceptor.accept(post.bench.message()) for _ in range(5)), return_exceptions=True)
    assert {type(each) for each in failed} == {StoreUnavailable}
    assert isinstance(await acceptor.accept(post.bench.message()), Accepted)


async def test_a_cancelled_caller_disturbs_nobody(post: Post) -> None:
    """A caller that goes away leaves the others of its batch their answers."""
    await post.endpoint()
    acceptor = Acceptor(post.store)
    calls = [asyncio.ensure_future(acceptor.accept(post.bench.message())) for _ in range(10)]
    await asyncio.sleep(0)
    calls[3].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(each, Accepted) for each in answers) == 9
    await acceptor.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("event_type", "a\0b"),
        ("event_type", "a\ud800"),
        ("event_type", None),
        ("payload", "text"),
        ("payload", None),
        ("uid", "x\0"),
        ("idempotency_key", "\udfff"),
        ("channels", ("fine", "not\0fine")),
        ("deliver_ms", 1 << 70),
        ("deliver_ms", -1),
    ],
)
async def test_a_bad_message_spoils_no_others_commit(post: Post, field: str, value: Any) -> None:
    """What no database can keep is refused by its field's name, and those who share a commit hear nothing of it."""
    await post.endpoint()
    acceptor = Acceptor(post.store)
    before, bad, after = await asyncio.gather(
        acceptor.accept(post.bench.message()),
        acceptor.accept(post.bench.message(**{"event_type": "a", field: value})),
        acceptor.accept(post.bench.message()),
        return_exceptions=True,
    )
    assert isinstance(before, Accepted)
    assert isinstance(after, Accepted)
    assert isinstance(bad, InvalidField)
    assert bad.field == field


async def test_nobody_waits_for_ever(post: Post) -> None:
    """Who has lost patience is told so; what had not left by then is not stored behind its back."""
    asked: list[int] = []
    gate = asyncio.Event()

    class Stuck:
        async def accept(self, messages: Sequence[NewMessage]) -> Sequence[Answer]:
            asked.append(len(messages))
            await gate.wait()
            return [Accepted(message.id, 0, 0) for message in messages]

    acceptor = Acceptor(Stuck(), patience=0.05)  # type: ignore[arg-type]
    first = asyncio.ensure_future(acceptor.accept(post.bench.message()))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(acceptor.accept(post.bench.message()))
    answers = await asyncio.gather(first, second, return_exceptions=True)
    assert {type(each) for each in answers} == {StoreUnavailable}
    gate.set()
    await acceptor.close()
    assert asked == [1]


async def test_too_many_waiting_are_turned_away(post: Post) -> None:
    """Beyond its limit the acceptor refuses at once instead of growing."""
    acceptor = Acceptor(post.store, most_waiting=10)
    calls = [asyncio.ensure_future(acceptor.accept(post.bench.message("app_none"))) for _ in range(12)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(each, StoreUnavailable) for each in answers) == 2


async def test_longest_timeout(post: Post) -> None:
    """No request may take longer than the process allows, whatever its endpoint was stored with."""
    await post.endpoint("ep_1", timeout_ms=60_000)
    await post.endpoint("ep_2", timeout_ms=1_000)
    await post.bench.send()
    claims = (await post.store.claim(10, lease_ms=60_000, failing_limit=10)).claims
    targets = Targets(post.store, post.sealer, longest_timeout=5.0)
    found = await targets.of(claims)
    assert {id_: target.timeout for id_, target in found.items()} == {"ep_1": 5.0, "ep_2": 1.0}
