"""Sampled evaluation on the real stores: what is judged, by which numbers, and what is left alone."""

from __future__ import annotations

import dataclasses

import pytest

from hookfuse import Count, Latency, Outcome, Policy, Rate, Slow, State, Streak, profiles
from hookfuse.core.delivery import DeliveryState, Settlement
from hookfuse.core.sample import Sample
from hookfuse.core.window import Counts
from tests.sampling.conftest import FIRST, Fleet

pytestmark = pytest.mark.anyio

HALF = Policy(trip=Rate(0.5, min_calls=10), window=60, cool_off=30, close_rate=0.1, evaluate="sampled", sample_every=30)


async def test_nothing_trips_before_a_sample(fleet: Fleet) -> None:
    """Outcomes alone change nothing under a sampled policy; the sample does, and says what it saw."""
    key = await fleet.endpoint(policy=HALF)
    for _ in range(12):
        await fleet.breakers.record(await fleet.breakers.admit(key), Outcome.FAILURE, latency=0.1)
    await fleet.attempts(failed=12)
    assert (await fleet.state(key)).state is State.CLOSED
    sampled = await fleet.sample()
    (made,) = sampled.judgement.transitions
    assert (made.key, made.after, made.reason) == (key, State.OPEN, "rate")
    assert dict(made.numbers) == {"failed": 12, "calls": 12, "limit": 0.5}
    assert not (await fleet.breakers.admit(key)).allowed


async def test_healthy_endpoints_cost_nothing_more(fleet: Fleet) -> None:
    """Of endpoints that break no rule, none is asked for or written where breakers are kept."""
    for number in range(3):
        await fleet.endpoint(f"ep_{number}", policy=HALF)
        await fleet.attempts(ok=12, failed=2, id_=f"ep_{number}")
    assert (await fleet.sample())[:2] == (3, 0)


async def test_state_outlives_the_window(fleet: Fleet) -> None:
    """In a quiet time much longer than the window an open breaker stays open, and its trips in a row are known."""
    key = await fleet.endpoint(policy=dataclasses.replace(HALF, cool_off=7200.0))
    await fleet.attempts(failed=12)
    await fleet.sample()
    for _ in range(10):
        fleet.clock.advance(600)
        await fleet.sample()
    seen = await fleet.state(key)
    assert (seen.state, seen.trips) == (State.OPEN, 1)


async def test_half_open_lets_probes_through_and_nobody_else(fleet: Fleet) -> None:
    """Between two samples a half-open breaker lets one caller through, whoever asks, and its success closes it."""
    key = await fleet.endpoint(policy=HALF)
    await fleet.attempts(failed=12)
    await fleet.sample()
    fleet.clock.advance(30)
    await fleet.attempts(failed=1)
    await fleet.sample()
    assert (await fleet.state(key)).state is State.HALF_OPEN
    admissions = [await fleet.breakers.admit(key) for _ in range(20)]
    (probe,) = [each for each in admissions if each.allowed]
    await fleet.breakers.record(probe, Outcome.OK, latency=0.1)
    assert (await fleet.state(key)).state is State.CLOSED


async def test_a_long_healthy_time_does_not_hide_an_outage(fleet: Fleet) -> None:
    """However many successes there were before, the window alone decides: the first sample of an outage trips."""
    key = await fleet.endpoint(policy=HALF, cap=200)
    for _ in range(20):
        await fleet.attempts(ok=30)
        fleet.clock.advance(60)
    fleet.clock.advance(20)
    await fleet.attempts(failed=12)
    await fleet.sample()
    assert (await fleet.state(key)).state is State.OPEN


async def test_what_was_closed_is_not_opened_by_old_failures(fleet: Fleet) -> None:
    """After a probe closed a breaker, the failures that had opened it are in the window still, and count no more."""
    key = await fleet.endpoint(policy=dataclasses.replace(HALF, window=600.0))
    await fleet.attempts(failed=12)
    await fleet.sample()
    fleet.clock.advance(30)
    await fleet.breakers.record(await fleet.breakers.admit(key), Outcome.OK, latency=0.1)
    for _ in range(3):
        fleet.clock.advance(30)
        await fleet.attempts(ok=1)
        await fleet.sample()
        assert (await fleet.state(key)).state is State.CLOSED
    fleet.clock.advance(10)
    await fleet.attempts(failed=12)
    await fleet.sample()
    assert (await fleet.state(key)).state is State.OPEN


async def test_an_attempt_from_before_closes_nothing(fleet: Fleet) -> None:
    """A success of a request that began before the trip, and ended in half_open, is not taken for a recovery."""
    key = await fleet.endpoint(policy=HALF, cap=13)
    await fleet.bench.widen("ep_1")
    await fleet.forget_tallies()
    for _ in range(13):
        await fleet.bench.send("app_ep_1")
    claim, *others = await fleet.bench.claim()
    began = fleet.bench.attempt(claim)
    await fleet.bench.settle(*others, state=DeliveryState.FAILED, healthy=False)
    await fleet.sample()
    assert (await fleet.state(key)).state is State.OPEN
    fleet.clock.advance(30)
    await fleet.sample()
    fleet.clock.advance(1)
    await fleet.store.settle([Settlement(claim, DeliveryState.SENT, "sent", began, healthy=True)])
    await fleet.breakers.release(await fleet.breakers.admit(key))
    await fleet.sample()
    assert (await fleet.state(key)).state is State.HALF_OPEN


async def test_inline_and_sampled_side_by_side(fleet: Fleet) -> None:
    """A sample leaves inline policies alone, and changing an endpoint's mode keeps the state of its breaker."""
    inline = Policy(trip=Streak(3), cool_off=60)
    one, two = await fleet.endpoint("ep_1", inline), await fleet.endpoint("ep_2", HALF)
    for id_ in ("ep_1", "ep_2"):
        await fleet.attempts(failed=12, id_=id_)
    await fleet.sample()
    assert [(await fleet.state(key)).state for key in (one, two)] == [State.CLOSED, State.OPEN]
    for _ in range(3):
        await fleet.breakers.record(await fleet.breakers.admit(one), Outcome.FAILURE)
    before = [await fleet.state(key) for key in (one, two)]
    assert [seen.state for seen in before] == [State.OPEN, State.OPEN]
    await fleet.change("ep_1", HALF)
    await fleet.change("ep_2", inline)
    await fleet.sample()
    after = [await fleet.state(key) for key in (one, two)]
    assert [seen.generation for seen in after] == [seen.generation for seen in before]
    fleet.clock.advance(60)
    await fleet.attempts(ok=2, id_="ep_1")
    await fleet.sample()
    assert [(await fleet.state(key)).state for key in (one, two)] == [State.HALF_OPEN, State.OPEN]


async def test_thresholds_of_application_and_endpoint(fleet: Fleet) -> None:
    """Mean latency and errors are judged by the endpoint's thresholds, else the application's, else the default."""
    default, of_app = profiles.latency(mean=5, errors=50), profiles.latency(mean=1, errors=50)
    fleet.sampler = fleet.another(default)
    keys = [
        await fleet.endpoint("ep_default"),
        await fleet.endpoint("ep_app", app_policy=of_app.to_dict()),
        await fleet.endpoint("ep_own", profiles.latency(mean=9, errors=3), app_id="app_ep_app"),
    ]
    for id_ in ("ep_default", "ep_app", "ep_own"):
        await fleet.attempts(ok=2, id_=id_, latency_ms=2_000)
    await fleet.sample()
    assert [(await fleet.state(key)).state for key in keys] == [State.CLOSED, State.OPEN, State.CLOSED]
    assert (await fleet.state(keys[1])).why == "mean latency 2 s over 2 calls, limit 1 s"
    await fleet.attempts(failed=3, id_="ep_own", latency_ms=1)
    await fleet.sample()
    assert [(await fleet.state(key)).state for key in keys] == [State.CLOSED, State.OPEN, State.OPEN]


async def test_slow_ones_and_streaks(fleet: Fleet) -> None:
    """Every rule works on samples: slow shares, counts, means, and streaks that the sample itself can know."""
    rules = {
        "slow": Slow(0.5, over=1.0, min_calls=4),
        "latency": Latency(1.0, min_calls=4),
        "count": Count(4),
        "streak": Streak(4),
    }
    keys = {
        name: await fleet.endpoint(f"ep_{name}", dataclasses.replace(HALF, trip=rule)) for name, rule in rules.items()
    }
    await fleet.attempts(ok=4, id_="ep_slow", slow=True)
    await fleet.attempts(ok=4, id_="ep_latency", latency_ms=1_000)
    await fleet.attempts(ok=4, failed=4, id_="ep_count")
    await fleet.attempts(failed=4, id_="ep_streak")
    await fleet.sample()
    assert {name: (await fleet.state(key)).reason for name, key in keys.items()} == {name: name for name in rules}


async def test_endpoints_that_share_a_breaker(fleet: Fleet) -> None:
    """What is counted of endpoints with one breaker is summed: no one of them had enough calls alone."""
    key = await fleet.endpoint("ep_a", HALF, app_id="app_1", breaker_key="shared")
    assert await fleet.endpoint("ep_b", HALF, app_id="app_1", breaker_key="shared") == key
    await fleet.attempts(failed=6, id_="ep_a")
    await fleet.sample()
    assert (await fleet.state(key)).state is State.CLOSED
    await fleet.attempts(failed=6, id_="ep_b")
    await fleet.sample()
    assert (await fleet.state(key)).state is State.OPEN


async def test_policies_of_different_windows(fleet: Fleet) -> None:
    """Each endpoint is counted in its own window, and nothing is forgotten that the longest of them needs."""
    short = await fleet.endpoint("ep_short", HALF)
    long = await fleet.endpoint("ep_long", dataclasses.replace(HALF, window=600.0))
    for id_ in ("ep_short", "ep_long"):
        await fleet.attempts(failed=8, id_=id_)
    await fleet.sample()
    fleet.clock.advance(120)
    for id_ in ("ep_short", "ep_long"):
        await fleet.attempts(failed=4, id_=id_)
    await fleet.sample()
    assert [(await fleet.state(key)).state for key in (short, long)] == [State.CLOSED, State.OPEN]


async def test_trips_in_a_row_disable(fleet: Fleet) -> None:
    """The nth trip in a row disables the endpoint with time and reason; what comes for it is stored and waits."""
    key = await fleet.endpoint(policy=dataclasses.replace(HALF, disable_after=2))
    await fleet.attempts(failed=12)
    await fleet.sample()
    assert (await fleet.disabled())[0] is False
    fleet.clock.advance(30)
    probe = await fleet.breakers.admit(key)
    assert probe.probe
    await fleet.breakers.release(probe)
    fleet.clock.advance(10)
    await fleet.attempts(failed=12)
    await fleet.sample()
    assert (await fleet.state(key)).state is State.DISABLED
    assert await fleet.disabled() == (True, "breaker: rate")
    id_ = await fleet.bench.send("app_ep_1")
    assert await fleet.bench.claim() == ()
    assert (await fleet.bench.delivery(id_)).state is DeliveryState.PENDING


async def test_a_replaced_leader_is_refused(fleet: Fleet) -> None:
    """Once a newer fence has sampled, an older one changes nothing, in no shard."""
    keys = [await fleet.endpoint(f"ep_{number}", HALF) for number in range(8)]
    later = dataclasses.replace(FIRST, fence=2)
    await fleet.sample(later)
    for number in range(8):
        await fleet.attempts(failed=12, id_=f"ep_{number}")
    late = await fleet.sample(FIRST)
    assert (late.judgement.replaced, late.judgement.transitions) == (True, ())
    assert {(await fleet.state(key)).state for key in keys} == {State.CLOSED}
    assert len((await fleet.sample(later)).judgement.transitions) == 8


async def test_a_breaker_that_changed_meanwhile_is_not_judged(fleet: Fleet) -> None:
    """A sample that was counted before a transition does not undo it, even with the right fence."""
    key = await fleet.endpoint(policy=HALF)
    await fleet.attempts(failed=12)
    counted = Sample(key, HALF, Counts(failed=12, timed=12), (await fleet.state(key)).generation)
    await fleet.sample()
    fleet.clock.advance(30)
    await fleet.breakers.record(await fleet.breakers.admit(key), Outcome.OK)
    judged = await fleet.breakers.judge([counted], fence=FIRST.fence)
    assert (judged.transitions, judged.replaced) == ((), False)
    assert (await fleet.state(key)).state is State.CLOSED


async def test_generations_go_on_above_the_floor(fleet: Fleet) -> None:
    """A store that is told a floor gives out no generation below it, on any shard."""
    floor = 10**15
    await fleet.breakers.judge([], fence=1, floor=floor)
    for number in range(8):
        made = await fleet.breakers.force_open(f"app/{number}")
        assert made is not None
        assert made.generation > floor


async def test_unreadable_policies_end_nothing(fleet: Fleet) -> None:
    """An endpoint whose stored policy cannot be read is judged by the default; others are sampled all the same."""
    fleet.sampler = fleet.another(HALF)
    await fleet.bench.application()
    await fleet.bench.endpoint("ep_bad", policy={"window": "long"})
    key = await fleet.endpoint("ep_1", HALF)
    for id_ in ("ep_bad", "ep_1"):
        await fleet.attempts(failed=12, id_=id_)
    sampled = await fleet.sample()
    assert {made.key for made in sampled.judgement.transitions} == {key, "app_1/ep_bad"}
