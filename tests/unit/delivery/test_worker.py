"""What a worker does with what is due, and with what goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from standardwebhooks.webhooks import Webhook

from hookfuse import Policy, State, Streak
from hookfuse.core.admission import Admission
from hookfuse.core.delivery import Chosen, Claim, Claims, Deferral, DeliveryState, Place, Settlement
from hookfuse.core.endpoint import Stop
from hookfuse.core.sending import Request, SendResult, Trouble
from hookfuse.delivery.courier import Attempted
from hookfuse.delivery.worker import Worker, WorkerSettings
from hookfuse.errors import InvalidInput, StoreUnavailable
from hookfuse.testing.sender import answer, trouble
from tests.turns import Turns
from tests.unit.delivery.conftest import SECRET, Post, became

pytestmark = pytest.mark.anyio


async def test_delivers_signed_and_byte_for_byte(post: Post) -> None:
    """What was accepted is sent once, with its body untouched and a signature that the official verifier takes."""
    await post.endpoint()
    payload = b'{"b":1, "a":1.10, "a":2}'
    id_ = await post.bench.send(payload=payload)
    async with post.working():
        await post.until(DeliveryState.SENT, 1)
    (request,) = post.sender.requests
    assert request.body == payload
    headers = dict(request.headers)
    assert headers["webhook-id"] == id_
    assert headers["webhook-timestamp"] == str(int(post.clock.now()))
    verifier = Webhook(SECRET.text)
    assert verifier.sign(id_, _instant(headers["webhook-timestamp"]), payload.decode()) == headers["webhook-signature"]


def _instant(timestamp: str):  # type: ignore[no-untyped-def]
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(timestamp), UTC)


async def test_retries_by_the_schedule_and_then_fails(post: Post) -> None:
    """A failing delivery is tried six times, at the times of the schedule, and ends as failed with its reason."""
    await post.endpoint(
        policy=Policy(trip=Streak(100)).to_dict(), retry={"delays": [30, 300, 1800, 7200, 86400], "jitter": 0}
    )
    id_ = await post.bench.send()
    post.sender.answers = answer(500)
    async with post.working() as worker:
        for number, delay in enumerate((30, 300, 1_800, 7_200, 86_400), 1):
            await post.until_attempts(number)
            await post.until_quiet(worker)
            found = await post.bench.delivery(id_)
            assert (found.state, found.attempts, found.reason) == (DeliveryState.PENDING, number, "status_500")
            assert found.due_ms == post.bench.now_ms + delay * 1000
            post.clock.advance(delay)
        await post.until(DeliveryState.FAILED, 1)
    found = await post.bench.delivery(id_)
    assert (found.attempts, found.reason) == (6, "exhausted")
    attempts = await post.store.attempts(id_)
    assert [(attempt.number, attempt.status) for attempt in attempts] == [(n, 500) for n in range(1, 7)]


async def test_statuses_that_end_and_that_are_tried_again(post: Post) -> None:
    """By a response policy one status stops a delivery for good, and others come back thrice, a minute apart."""
    await post.endpoint(
        policy=Policy(trip=Streak(100)).to_dict(),
        retry={"delays": [1800], "jitter": 0},
        response={"final": ["400"], "retry": ["100-599"], "retries": 3, "gap": 60},
    )
    stopped = await post.bench.send()
    post.sender.answers = answer(400)
    async with post.working() as worker:
        await post.until(DeliveryState.FAILED, 1)
        assert (await post.bench.delivery(stopped)).attempts == 1
        reminded = await post.bench.send()
        post.sender.answers = answer(503)
        for number in range(1, 4):
            await post.until_attempts(1 + number)
            await post.until_quiet(worker)
            found = await post.bench.delivery(reminded)
            assert (found.state, found.attempts) == (DeliveryState.PENDING, number)
            assert found.due_ms == post.bench.now_ms + 60_000
            post.clock.advance(60)
        await post.until(DeliveryState.FAILED, 2)
    found = await post.bench.delivery(reminded)
    assert (found.attempts, found.reason) == (4, "exhausted")


async def test_an_open_breaker_spends_no_attempt(post: Post) -> None:
    """Once a breaker is open its deliveries wait untouched; a probe goes when due, and its success frees the rest."""
    await post.endpoint(retry={"delays": [1] * 20, "jitter": 0})
    post.sender.answers = trouble(Trouble.CONNECT)
    ids = [await post.bench.send() for _ in range(20)]
    async with post.working() as worker:
        for _ in range(8):
            await post.until_quiet(worker)
            post.clock.advance(1)
        assert (await post.breakers.inspect("app_1/ep_1")).state is State.OPEN
        tried = len(post.sender.requests)
        assert tried == 3
        for _ in range(10):
            post.clock.advance(1)
            await post.until_quiet(worker)
        assert len(post.sender.requests) == tried
        made = [await post.bench.delivery(id_) for id_ in ids]
        assert sum(each.attempts for each in made) == tried
        assert {each.state for each in made} == {DeliveryState.PENDING}
        post.sender.answers = answer(200)
        post.clock.advance(30)
        await post.until(DeliveryState.SENT, 20)
    assert len(post.sender.requests) == tried + 20


async def test_a_failed_probe_is_one_request(post: Post) -> None:
    """While the endpoint stays dead, each cool-off costs one request however many deliveries wait."""
    await post.endpoint(retry={"delays": [1] * 50, "jitter": 0})
    post.sender.answers = answer(503)
    for _ in range(30):
        await post.bench.send()
    async with post.working() as worker:
        for _ in range(6):
            await post.until_quiet(worker)
            post.clock.advance(1)
        before = len(post.sender.requests)
        for _ in range(4):
            post.clock.advance(31)
            await post.until_quiet(worker)
        assert len(post.sender.requests) == before + 4


async def test_gone_disables_and_keeps(post: Post) -> None:
    """410 disables the endpoint with a reason; its deliveries are kept and go once it is enabled again."""
    await post.endpoint()
    post.sender.answers = answer(410)
    ids = [await post.bench.send() for _ in range(3)]
    async with post.working() as worker:
        await post.until_attempts(1)
        await post.until_quiet(worker)
        endpoint = await post.store.endpoint("app_1", "ep_1")
        assert endpoint is not None
        assert not endpoint.enabled
        assert endpoint.disabled_reason.startswith("gone")
        assert len(post.sender.requests) == 1
        assert {(await post.bench.delivery(id_)).state for id_ in ids} == {DeliveryState.PENDING}
        assert (await post.breakers.inspect("app_1/ep_1")).state is State.DISABLED
        post.sender.answers = answer(200)
        await post.store.start_endpoint("ep_1", Stop.DISABLED)
        await post.breakers.enable("app_1/ep_1")
        assert (await post.breakers.inspect("app_1/ep_1")).state is State.HALF_OPEN
        await post.until(DeliveryState.SENT, 2)
        post.clock.advance(60)
        await post.until(DeliveryState.SENT, 3)


async def test_gone_comes_back_by_itself(post: Post) -> None:
    """Where the policy says so, an endpoint that answered 410 is probed after that time, with a clean count."""
    policy = Policy(trip=Streak(3), cool_off=30, reenable_after=3600)
    await post.endpoint(policy=policy.to_dict())
    post.sender.answers = answer(410)
    await post.bench.send()
    async with post.working() as worker:
        await post.until_attempts(1)
        await post.until_quiet(worker)
        seen = await post.breakers.inspect("app_1/ep_1")
        assert (seen.state, seen.reason) == (State.DISABLED, "gone: the endpoint answered 410")
        post.sender.answers = answer(200)
        await post.bench.send()
        post.clock.advance(3599)
        await post.until_quiet(worker)
        assert len(post.sender.requests) == 1
        post.clock.advance(61)
        await post.until(DeliveryState.SENT, 2)
        seen = await post.breakers.inspect("app_1/ep_1")
        assert (seen.state, seen.trips) == (State.CLOSED, 0)


async def test_gone_spares_those_who_share_a_breaker(post: Post) -> None:
    """A 410 of one endpoint stops that endpoint, and leaves the breaker that it shares alone."""
    await post.endpoint("ep_1", breaker_key="shared")
    post.sender.answers = answer(410)
    await post.bench.send()
    async with post.working() as worker:
        await post.until_attempts(1)
        await post.until_quiet(worker)
    (endpoint,) = await post.store.endpoints(["ep_1"])
    assert not endpoint.enabled
    assert (await post.breakers.inspect("app_1/shared")).state is State.CLOSED


async def test_throttled_is_neither_success_nor_failure(post: Post) -> None:
    """429 with Retry-After holds the endpoint for that long, and does not trip its breaker."""
    await post.endpoint(retry={"delays": [1] * 9, "jitter": 0})
    post.sender.answers = answer(429, retry_after="20")
    for _ in range(5):
        await post.bench.send()
    async with post.working() as worker:
        await post.until_attempts(1)
        await post.until_quiet(worker)
        post.clock.advance(19)
        await post.until_quiet(worker)
        assert len(post.sender.requests) == 1
        snapshot = await post.breakers.inspect("app_1/ep_1")
        assert (snapshot.state, snapshot.counts.failed) == (State.CLOSED, 0)
        post.sender.answers = answer(200)
        post.clock.advance(1.1)
        await post.until(DeliveryState.SENT, 5)


async def test_a_breaker_that_disables_stops_the_endpoint(post: Post) -> None:
    """When trips in a row disable the breaker for good, the endpoint is disabled with the reason."""
    policy = Policy(trip=Streak(1), cool_off=1, disable_after=2, window=3600)
    await post.endpoint(policy=policy.to_dict(), retry={"delays": [1] * 9, "jitter": 0})
    post.sender.answers = answer(500)
    await post.bench.send()
    async with post.working() as worker:
        for _ in range(5):
            await post.until_quiet(worker)
            post.clock.advance(2)
        endpoint = await post.store.endpoint("app_1", "ep_1")
    assert endpoint is not None
    assert (endpoint.enabled, endpoint.disabled_reason) == (False, "breaker: probe_failed")


async def test_a_blocked_destination_is_flagged_and_charges_nobody(post: Post) -> None:
    """An endpoint whose address was forbidden after it was stored is flagged and not dialled; no breaker is charged."""
    await post.endpoint(url="http://10.0.0.1/hook")
    id_ = await post.bench.send()
    async with post.working() as worker:
        await post.until_attempts(1)
        await post.until_quiet(worker)
    assert post.sender.requests == []
    found = await post.bench.delivery(id_)
    assert (found.state, found.spent, found.reason) == (DeliveryState.PENDING, 0, "destination_blocked")
    endpoint = await post.store.endpoint("app_1", "ep_1")
    assert endpoint is not None
    assert endpoint.flag == "destination_blocked"
    assert (await post.breakers.inspect("app_1/ep_1")).totals.failed == 0


async def test_many_blocked_destinations_are_all_flagged(post: Post) -> None:
    """However many destinations are blocked at once, each is flagged, and our own network is not suspected."""
    ids = [f"ep_{number}" for number in range(25)]
    for id_ in ids:
        await post.endpoint(id_, url="http://10.0.0.1/hook")
    await post.bench.send()
    async with post.working() as worker:
        await post.until_attempts(25)
        await post.until_quiet(worker)
    assert {each.flag for each in await post.store.endpoints(ids)} == {"destination_blocked"}
    assert {each.verdict.reason for each in post.attempts} == {"destination_blocked"}


async def test_unreadable_settings_hold_up_nobody(post: Post) -> None:
    """An endpoint whose stored policy cannot be read is not sent to and spends nothing; the others are served."""
    await post.endpoint("ep_bad", policy={"trip": "nonsense"})
    await post.endpoint("ep_well")
    id_ = await post.bench.send()
    async with post.working() as worker:
        await post.until(DeliveryState.SENT, 1)
        await post.until_quiet(worker)
    found = await post.bench.delivery(id_, "ep_bad")
    assert (found.state, found.spent) == (DeliveryState.PENDING, 0)
    assert len(post.sender.requests) == 1


async def test_our_own_fault_charges_nobody(post: Post) -> None:
    """Without file descriptors or network no breaker trips and no attempt is spent."""
    await post.endpoint()
    post.sender.answers = trouble(Trouble.LOCAL)
    id_ = await post.bench.send()
    async with post.working() as worker:
        for number in range(1, 8):
            await post.until_attempts(number)
            await post.until_quiet(worker)
            post.clock.advance(12)
    found = await post.bench.delivery(id_)
    assert (found.state, found.spent) == (DeliveryState.PENDING, 0)
    assert (await post.breakers.inspect("app_1/ep_1")).state is State.CLOSED


async def test_egress_suspect_stops_tripping(post: Post) -> None:
    """When every endpoint fails at once without an answer, none is charged after the first few; one answer ends it."""
    policy = Policy(trip=Streak(2), cool_off=30).to_dict()
    for number in range(100):
        await post.endpoint(f"ep_{number}", policy=policy, retry={"delays": [1] * 9, "jitter": 0})
    post.sender.answers = trouble(Trouble.CONNECT)
    await post.bench.send()
    async with post.working() as worker:
        for _ in range(6):
            await post.until_quiet(worker)
            post.clock.advance(11)
        opened = [each async for each in post.breakers.unhealthy()]
        assert len(opened) <= 1
        post.sender.answers = answer(200)
        post.clock.advance(11)
        await post.until(DeliveryState.SENT, 100 - len(opened))


async def test_stop_lets_requests_end(post: Post) -> None:
    """A worker that is told to stop claims nothing more and settles what is in flight."""
    await post.endpoint(cap=1)
    await post.bench.send()
    second = await post.bench.send()
    post.sender.hold()
    worker = post.worker()
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(10):
        while not post.sender.in_flight:
            await asyncio.sleep(0.002)
        worker.stop()
        await asyncio.sleep(0.05)
        assert not running.done()
        post.sender.let_go()
        await running
    await post.until(DeliveryState.SENT, 1)
    assert (await post.bench.delivery(second)).state is DeliveryState.PENDING
    assert len(post.sender.requests) == 1


async def test_stop_gives_back_what_hangs(post: Post) -> None:
    """What still hangs after the grace is given back at once, so that another worker need not wait for the lease."""
    await post.endpoint()
    id_ = await post.bench.send()
    post.sender.hold()
    worker = post.worker(grace=0.05)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(10):
        while not post.sender.in_flight:
            await asyncio.sleep(0.002)
        worker.stop()
        await running
    found = await post.bench.delivery(id_)
    assert (found.state, found.attempts, found.reason) == (DeliveryState.PENDING, 0, "released")
    assert (await post.breakers.inspect("app_1/ep_1")).totals.failed == 0


async def _wide(post: Post, waiting: int) -> int:
    """A lane that takes all of so many deliveries at once; returns how many were sent to widen it."""
    await post.endpoint(cap=waiting)
    await post.bench.widen("ep_1")
    for _ in range(waiting):
        await post.bench.send()
    return await post.store.count(Chosen("app_1", states=(DeliveryState.SENT,)))


def _begun_at_each_claim(post: Post, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests had begun when each claim was asked for; it grows with every claim."""
    begun: list[int] = []
    claim = post.store.claim

    async def noting(limit: int, **more: int) -> Claims:
        begun.append(len(post.sender.requests))
        return await claim(limit, **more)

    monkeypatch.setattr(post.store, "claim", noting)
    return begun


async def test_stop_gives_back_what_has_not_begun(post: Post) -> None:
    """A worker that is told to stop in the midst of a large claim gives back what it has not begun."""
    before = await _wide(post, 200)
    worker = post.worker()

    def stop(request: Request) -> SendResult:
        worker.stop()
        return answer(200)

    post.sender.answers = stop
    await asyncio.wait_for(worker.run(), 20)
    sent = len(post.sender.requests)
    assert 0 < sent < 100
    await post.until(DeliveryState.SENT, before + sent)
    await post.until(DeliveryState.PENDING, 200 - sent)
    assert worker.in_hand == 0


async def test_a_cancelled_worker_gives_back_its_claims(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is cancelled with one claim about to begin, and another behind it, gives back both."""
    await _wide(post, 200)

    async def never(claims: Sequence[Claim]) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(post.targets, "of", never)
    worker = post.worker(slots=200, batch=100)
    running = asyncio.create_task(worker.run())
    await post.until(DeliveryState.SENDING, 200)
    await became(lambda: worker.in_hand == 200)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await post.until(DeliveryState.PENDING, 200)
    assert post.sender.requests == []


async def test_a_crash_costs_no_more_than_the_slots(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing can be written down, no more is sent than there are slots: only that may be sent twice."""
    before = await _wide(post, 50)
    begun, away, settle = asyncio.Event(), asyncio.Event(), post.store.settle

    async def settling(settlements: Sequence[Settlement]) -> Sequence[Claim]:
        begun.set()
        await away.wait()
        return await settle(settlements)

    async def send(request: Request) -> SendResult:
        post.sender.requests.append(request)
        if len(post.sender.requests) == 10:
            # It ends while the others are being written down.
            await begun.wait()
        return answer(200)

    monkeypatch.setattr(post.store, "settle", settling)
    post.sender.send = send  # type: ignore[method-assign]
    async with post.working(slots=10, batch=10):
        await post.until_attempts(10)
        # Time enough for a claim, if one were asked for.
        for _ in range(3):
            assert await post.store.count(Chosen("app_1", states=(DeliveryState.SENDING,))) == 10
        assert len(post.sender.requests) == 10
        away.set()
        await post.until(DeliveryState.SENT, before + 50)


async def test_the_next_claim_does_not_wait_for_the_first(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a large claim begins, the next is asked for, and no claim is begun twice or left behind."""
    before = await _wide(post, 200)
    begun = _begun_at_each_claim(post, monkeypatch)
    async with post.working(slots=200, batch=100):
        await post.until(DeliveryState.SENT, before + 200)
    assert begun[0] == 0
    assert begun[1] < 100
    assert len({request.headers for request in post.sender.requests}) == len(post.sender.requests) == 200


async def test_few_begin_in_one_turn(post: Post, request: pytest.FixtureRequest) -> None:
    """In one turn of the loop few requests begin, and fewer where each needs a task: answers are read between."""
    most = 32 if "kept connections" in request.node.name else 4
    before = await _wide(post, 200)
    begun: Counter[int] = Counter()
    with Turns() as turns:

        def note(request: Request) -> SendResult:
            begun[turns.now] += 1
            return answer(200)

        post.sender.answers = note
        async with post.working(slots=200, batch=200):
            await post.until(DeliveryState.SENT, before + 200)
    assert sum(begun.values()) == 200
    assert max(begun.values()) <= most


async def test_a_hanging_endpoint_holds_up_nobody(post: Post) -> None:
    """While one endpoint hangs, the others' deliveries all arrive."""
    await post.endpoint("ep_hung", url="https://hung.example.com/")
    await post.endpoint("ep_well", url="https://well.example.com/")
    hang = asyncio.Event()

    async def send(request: Request) -> SendResult:
        assert request.destination is not None
        if request.destination.host == "hung.example.com":
            await hang.wait()
        return answer(200)

    post.sender.send = send  # type: ignore[method-assign]
    for _ in range(30):
        await post.bench.send()
    async with post.working(slots=8, batch=8):
        await post.until(DeliveryState.SENT, 30)
        hang.set()
        await post.until(DeliveryState.SENT, 60)


async def test_few_slots_serve_failing_lanes_too(post: Post) -> None:
    """A worker of a few slots tries an endpoint again that had failed, and finds it recovered."""
    await post.endpoint(retry={"delays": [1], "jitter": 0})
    post.sender.answers = answer(500)
    await post.bench.send()
    async with post.working(slots=4, batch=4) as worker:
        await post.until_attempts(1)
        await post.until_quiet(worker)
        post.sender.answers = answer(200)
        post.clock.advance(1)
        await post.until(DeliveryState.SENT, 1)


async def test_the_cap_is_never_passed(post: Post) -> None:
    """However much waits, no more requests are in flight than the endpoint's cap."""
    await post.endpoint(cap=3)
    for _ in range(60):
        await post.bench.send()
    async with post.working():
        await post.until(DeliveryState.SENT, 60)
    assert 2 <= post.sender.most_in_flight <= 3


async def test_an_error_of_our_own_ends_by_the_schedule(post: Post) -> None:
    """A message that breaks the courier spends its attempts and fails; it does not come back for ever."""
    await post.endpoint(retry={"delays": [1, 1], "jitter": 0})
    id_ = await post.bench.send()

    def broken(request: Request) -> SendResult:
        raise RuntimeError("this sender is broken")

    post.sender.answers = broken
    async with post.working() as worker:
        for _ in range(3):
            await post.until_quiet(worker)
            post.clock.advance(1)
        await post.until(DeliveryState.FAILED, 1)
    assert (await post.bench.delivery(id_)).reason == "internal_error"


async def test_suspects_are_taken_one_by_one(post: Post) -> None:
    """Deliveries that lost two workers are never in hand together, so that a killer is charged alone."""
    await post.endpoint(cap=20)
    await post.bench.widen("ep_1")
    for _ in range(10):
        await post.bench.send()
    for _ in range(2):
        assert len(await post.bench.claim()) == 10
        post.clock.advance(60)
        await post.store.rescue(deaths=3)
    post.sender.requests.clear()
    async with post.working() as worker:
        for _ in range(60):
            await post.until_quiet(worker)
            post.clock.advance(0.05)
            if len(post.sender.requests) >= 10:
                break
    assert len(post.sender.requests) == 10
    assert post.sender.most_in_flight == 1


async def test_a_suspect_is_tried_alone(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a delivery that lost two workers is tried, no other is in hand: its neighbours are not charged with it."""
    await post.endpoint(cap=20)
    await post.bench.widen("ep_1")
    for _ in range(10):
        await post.bench.send()
    for _ in range(2):
        assert len(await post.bench.claim()) == 10
        post.clock.advance(60)
        await post.store.rescue(deaths=3)
    for _ in range(5):
        await post.bench.send()
    tried, released = asyncio.Event(), asyncio.Event()
    claims = _begun_at_each_claim(post, monkeypatch)

    async def send(request: Request) -> SendResult:
        tried.set()
        await released.wait()
        return answer(200)

    post.sender.send = send  # type: ignore[method-assign]
    async with post.working() as worker:
        await tried.wait()
        # Time enough for a claim, if one were asked for.
        for _ in range(3):
            assert await post.store.count(Chosen("app_1", states=(DeliveryState.SENDING,))) == 1
        assert len(claims) == 1
        released.set()
        await post.until_quiet(worker)


async def test_opening_by_hand_and_closing_again(post: Post) -> None:
    """An operator's override parks an endpoint at once, and releasing it sends what waited without a delay."""
    await post.endpoint()
    async with post.working() as worker:
        await post.bench.send()
        await post.until(DeliveryState.SENT, 1)
        await post.breakers.force_open("app_1/ep_1", reason="maintenance")
        id_ = await post.bench.send()
        await post.until_quiet(worker)
        found = await post.bench.delivery(id_)
        assert (found.state, found.reason, found.attempts) == (DeliveryState.PENDING, "breaker_forced_open", 0)
        await post.breakers.reset("app_1/ep_1")
        await post.until(DeliveryState.SENT, 2)


async def test_a_breaker_that_changes_while_a_refusal_is_written(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused before the breaker closed, and is written after it, does not hold the lane."""
    await post.endpoint()
    await post.targets.read(["ep_1"])
    writing, closed = asyncio.Event(), asyncio.Event()
    defer = post.store.defer

    async def slowly(deferrals: Sequence[Deferral]) -> None:
        writing.set()
        await closed.wait()
        await defer(deferrals)

    monkeypatch.setattr(post.store, "defer", slowly)
    await post.breakers.force_open("app_1/ep_1", reason="maintenance")
    async with post.working() as worker, asyncio.timeout(20):
        await post.bench.send()
        await writing.wait()
        await post.breakers.unforce("app_1/ep_1")
        while not worker._settler._to_unblock:
            await asyncio.sleep(0)
        closed.set()
        await post.until(DeliveryState.SENT, 1)


async def test_a_refusal_that_is_read_after_the_breaker_changed(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal that arrives after everyone has heard that the breaker changed does not hold the lane."""
    await post.endpoint()
    await post.targets.read(["ep_1"])
    admit, unblock = post.breakers.admit, post.store.unblock
    unblocked = asyncio.Event()

    async def told(endpoint_ids: Sequence[str]) -> None:
        await unblock(endpoint_ids)
        unblocked.set()

    async def late(key: str) -> Admission:
        admission = await admit(key)
        if not unblocked.is_set():
            assert not admission.allowed
            await post.breakers.unforce(key)
            await unblocked.wait()
        return admission

    monkeypatch.setattr(post.store, "unblock", told)
    monkeypatch.setattr(post.breakers, "admit", late)
    await post.breakers.force_open("app_1/ep_1", reason="maintenance")
    async with post.working(), asyncio.timeout(20):
        await post.bench.send()
        await post.until(DeliveryState.SENT, 1)


async def test_the_ramp_limits_the_flow_after_closing(post: Post) -> None:
    """After a breaker closed, no more requests are in flight than the ramp's share of the cap."""
    policy = Policy(trip=Streak(1), cool_off=10, ramp=100)
    await post.endpoint(cap=20, policy=policy.to_dict(), retry={"delays": [1] * 30, "jitter": 0})
    await post.bench.widen("ep_1")
    post.sender.answers = answer(500)
    await post.bench.send()
    async with post.working() as worker:
        await post.until_attempts(1)
        await post.until_quiet(worker)
        post.sender.answers = answer(200)
        for _ in range(40):
            await post.bench.send()
        post.sender.most_in_flight = 0
        post.clock.advance(10)
        for _ in range(20):
            await post.until_quiet(worker)
            post.clock.advance(0.1)
        assert 1 <= post.sender.most_in_flight <= 2


async def test_what_waits_for_a_probe_goes_on_when_it_failed(post: Post) -> None:
    """A lane that was turned away beside a probe is looked at after the next cool-off, not after the probe's lease."""
    policy = Policy(trip=Streak(1), cool_off=4, probe_lease=300)
    await post.endpoint(cap=5, policy=policy.to_dict(), retry={"delays": [0.1] * 30, "jitter": 0})
    await post.bench.widen("ep_1")
    post.sender.answers = answer(500)
    sent = [await post.bench.send()]
    async with post.working() as worker:
        await post.until_attempts(1)
        await post.until_quiet(worker)
        sent.append(await post.bench.send())
        post.sender.hold()
        # A little more than the cool-off: the second may have been turned away, until a moment after it.
        post.clock.advance(4.1)
        async with asyncio.timeout(10):
            while not post.sender.in_flight:
                await asyncio.sleep(0.002)
            # Either may be the probe: the second may have been claimed before the clock went on.
            while "breaker_probing" not in [(await post.bench.delivery(each)).reason for each in sent]:
                await asyncio.sleep(0.002)
        post.sender.let_go()
        await post.until_attempts(2)
        await post.until_quiet(worker)
        post.clock.advance(4.1)
        await post.until_attempts(3)


async def test_who_listens_and_fails_harms_no_delivery(post: Post) -> None:
    """What hears of attempts may go wrong: the delivery is settled all the same, once."""
    await post.endpoint()
    await post.bench.send()
    told: list[Attempted] = []

    def broken(attempted: Attempted) -> None:
        told.append(attempted)
        raise RuntimeError("this metric is broken")

    worker = Worker(post.store, post.breakers, post.sender, post.targets, WorkerSettings(poll=0.01), on_attempt=broken)
    running = asyncio.create_task(worker.run())
    await post.until(DeliveryState.SENT, 1)
    worker.stop()
    await running
    assert len(post.sender.requests) == len(told) == 1
    assert await post.store.count(Chosen("app_1", states=(DeliveryState.SENT,))) == 1


async def test_a_lost_database_loses_nothing(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent while the database was away is settled once it is back, and not sent again."""
    await post.endpoint()
    id_ = await post.bench.send()
    away = asyncio.Event()
    settle = post.store.settle

    async def failing(settlements):  # type: ignore[no-untyped-def]
        if not away.is_set():
            raise StoreUnavailable("The database is away.")
        return await settle(settlements)

    monkeypatch.setattr(post.store, "settle", failing)
    async with post.working():
        await post.until_attempts(1)
        await asyncio.sleep(0.1)
        assert (await post.bench.delivery(id_)).state is DeliveryState.SENDING
        away.set()
        await post.until(DeliveryState.SENT, 1)
    assert len(post.sender.requests) == 1


async def test_manual_retry_of_a_sent_delivery(post: Post) -> None:
    """A retry by hand sends again, with the same id."""
    await post.endpoint()
    id_ = await post.bench.send()
    async with post.working():
        await post.until(DeliveryState.SENT, 1)
        await post.store.retry([Place(id_, "ep_1")])
        await post.until_attempts(2)
        await post.until(DeliveryState.SENT, 1)
    assert [dict(request.headers)["webhook-id"] for request in post.sender.requests] == [id_, id_]


@pytest.mark.parametrize("lease", [30, 34.9, 35])
def test_a_lease_must_outlast_the_request(lease: float) -> None:
    """A lease that is not longer than the longest request and a margin is refused with the numbers."""
    says = rf"lease \({lease:g} s\) must be longer than the longest request \(30 s\) and 5 s"
    with pytest.raises(InvalidInput, match=says):
        WorkerSettings(lease=lease, longest_timeout=30, margin=5)


def test_a_lease_that_outlasts_the_request_is_taken() -> None:
    """A lease that is a little longer than the longest request and the margin will do."""
    assert WorkerSettings(lease=35.1, longest_timeout=30, margin=5).lease == 35.1


async def test_more_endpoints_than_are_remembered(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that brings endpoints which push others of the same claim out of memory is delivered all the same."""
    monkeypatch.setattr("hookfuse.delivery.targets._MOST_KEPT", 3)
    for number in range(6):
        await post.endpoint(f"ep_{number}", event_types=["a"] if number < 3 else ["b"])
    async with post.working():
        await post.bench.send(event_type="a")
        await post.until(DeliveryState.SENT, 3)
        await post.store.accept([post.bench.message(event_type="a"), post.bench.message(event_type="b")])
        await post.until(DeliveryState.SENT, 9)
    assert all(post.targets.known(f"ep_{number}") is None for number in range(3))


async def test_a_default_policy_that_cannot_be_read(post: Post) -> None:
    """A stored default policy of another version does not end the worker: the one of the settings holds."""
    await post.endpoint()
    await post.store.change_default_policy({"trip": "of a later version"})
    async with post.working():
        await post.bench.send()
        await post.until(DeliveryState.SENT, 1)


async def test_a_settlement_that_cannot_be_written(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """One end that the database does not take keeps no other from being written, and no slot."""
    await post.endpoint(cap=10)
    await post.bench.widen("ep_1")
    settle, before = post.store.settle, await post.store.count(Chosen("app_1", states=(DeliveryState.SENT,)))
    bad = ""

    async def fussy(settlements: Sequence[Settlement]) -> Sequence[Claim]:
        if any(each.claim.message_id == bad for each in settlements):
            raise OverflowError("a number that does not fit")
        return await settle(settlements)

    monkeypatch.setattr(post.store, "settle", fussy)
    sent = [post.bench.message() for _ in range(4)]
    bad = sent[1].id
    await post.store.accept(sent)
    async with post.working(slots=4) as worker:
        await post.until(DeliveryState.SENT, before + 3)
        await post.until_quiet(worker)
        assert (worker.in_hand, worker._settler.waiting) == (0, 0)
        await post.bench.send()
        await post.until(DeliveryState.SENT, before + 4)


async def test_what_was_sent_is_written_though_the_grace_is_over(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is stopped while it tells a breaker of an answer writes the answer down, and gives nothing back."""
    await post.endpoint()
    recording = asyncio.Event()

    async def never(*_: object, **__: object) -> None:
        recording.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(post.breakers, "record", never)
    monkeypatch.setattr(post.breakers, "count_at_once", lambda *_: False)
    async with post.working(grace=0.01):
        await post.bench.send()
        await recording.wait()
    await post.until(DeliveryState.SENT, 1)


async def test_endpoints_that_begin_to_hang_leave_slots_to_others(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide lanes whose endpoints stop answering get nothing more, hold a tenth of the slots, and others go on."""
    for number in range(2):
        url = f"http://127.0.0.1:8{number}/"
        await post.endpoint(f"ep_bad_{number}", url=url, event_types=["invoice.paid"], timeout_ms=1000)
    for number in range(2):
        await post.bench.widen(f"ep_bad_{number}")
    await post.endpoint("ep_well", url="http://127.0.0.1:90/", event_types=["well"])
    before = await post.store.count(Chosen("app_1", states=(DeliveryState.SENT,)))
    hang, send = asyncio.Event(), post.sender.send
    hanging = 0

    async def sent(request: Request) -> SendResult:
        nonlocal hanging
        if request.destination.port != 90:
            hanging += 1
            await hang.wait()
        return await send(request)

    monkeypatch.setattr(post.sender, "send", sent)
    async with post.working(slots=20) as worker:
        for _ in range(5):
            await post.bench.send()
        await became(lambda: hanging >= 10 and worker.set_aside >= 8)
        for _ in range(20):
            await post.bench.send()
        for number in range(10):
            await post.bench.send(event_type="well")
            await post.until(DeliveryState.SENT, before + number + 1)
            post.clock.advance(0.5)
        await became(lambda: worker.in_hand == 10)
        assert hanging == 10
        assert worker.in_hand - worker.set_aside == 2
        hang.set()
        async with asyncio.timeout(20):
            while await post.store.count(Chosen("app_1", states=(DeliveryState.SENT,))) < before + 60:
                post.clock.advance(0.5)
                await asyncio.sleep(0.01)
        await post.until_quiet(worker)


async def test_a_slow_claim_makes_nobody_silent(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker knows of the database's clock may jump; requests that have just begun are no older for it."""
    for number in range(6):
        await post.endpoint(f"ep_{number}")
    claim = post.store.claim

    async def jumped(limit: int, **more: int) -> Claims:
        claims = await claim(limit, **more)
        # As after an answer that took three seconds: it told of an earlier time than the next one does.
        return replace(claims, now_ms=claims.now_ms + 3000) if post.sender.in_flight else claims

    monkeypatch.setattr(post.store, "claim", jumped)
    post.sender.hold()
    async with post.working(slots=20) as worker:
        while worker._offset == 0:
            await asyncio.sleep(0.001)
        before = worker.now()
        await post.bench.send()
        while len(post.sender.requests) < 6 or worker.now() < before + 2:
            await asyncio.sleep(0.001)
        worker._look_at = 0.0
        assert worker.set_aside == 0
        post.sender.let_go()
        await post.until(DeliveryState.SENT, 6)


async def test_looking_takes_a_small_part_of_the_time(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a look at all that is out takes, the next one is not before twenty times as long."""
    worker, looks = post.worker(), 0

    def look(*_: object) -> None:
        nonlocal looks
        looks += 1
        time.sleep(0.03)

    monkeypatch.setattr(worker._silence, "look", look)
    began = time.monotonic()
    while time.monotonic() < began + 0.3:
        assert worker.busy == 0
        await asyncio.sleep(0.001)
    assert looks == 1


@pytest.mark.parametrize("post", [True], indirect=True, ids=["kept connections"])
async def test_what_a_kept_connection_lost_is_sent_once_more(post: Post) -> None:
    """A request that a closed connection swallowed is made once more, on a new one, within the same deadline."""
    await post.endpoint()

    def answers(asked: Request) -> SendResult:
        if not asked.anew:
            raise ConnectionError
        return answer(200)

    post.sender.answers = answers
    async with post.working():
        await post.bench.send()
        await post.until(DeliveryState.SENT, 1)
    first, second = post.sender.requests
    assert (first.anew, second.anew) == (False, True)
    assert 0 < second.timeout < first.timeout
    assert len(post.attempts) == 1
