"""Each profile behaves as its document says, in the document's own examples."""

from __future__ import annotations

import pytest

from hookfuse import Breakers, Count, Outcome, Policy, Rate, State, Streak, endpoint_id, profiles
from hookfuse.core.window import Counts
from hookfuse.errors import InvalidPolicy
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


def fail(breakers: Breakers, key: str = "ep", times: int = 1) -> State:
    for _ in range(times):
        breakers.record(breakers.admit(key), Outcome.FAILURE)
    return breakers.inspect(key).state


def succeed(breakers: Breakers, key: str = "ep") -> State:
    breakers.record(breakers.admit(key), Outcome.OK)
    return breakers.inspect(key).state


class TestRedisScript:
    def test_two_workers_trip_it_once(self, store: MemoryStore) -> None:
        """Two workers report against one key: the third failure trips it and the other worker sees it at once."""
        policy = profiles.redis_script(threshold=3, window=60, reset_timeout=30)
        worker_a, worker_b = Breakers(store, policy=policy), Breakers(store, policy=policy)
        ep = endpoint_id("tenant-1", "https://hooks.example.com/in")
        assert fail(worker_a, ep) is State.CLOSED
        assert fail(worker_b, ep) is State.CLOSED
        assert fail(worker_a, ep) is State.OPEN
        assert not worker_b.admit(ep).allowed

    def test_success_clears_the_failures(self, store: MemoryStore) -> None:
        """A success sets the failures back to nought."""
        breakers = Breakers(store, policy=profiles.redis_script(threshold=3))
        fail(breakers, times=2)
        succeed(breakers)
        assert fail(breakers, times=2) is State.CLOSED

    def test_one_probe_token_for_the_fleet(self, store: MemoryStore, clock: ManualClock) -> None:
        """After the reset timeout, jittered by a tenth, one worker wins the probe and the others fail fast."""
        policy = profiles.redis_script()
        workers = [Breakers(store, policy=policy) for _ in range(30)]
        fail(workers[0], times=5)
        retry_after = workers[0].admit("ep").retry_after
        assert retry_after is not None
        assert 27 <= retry_after <= 33
        clock.advance(33)
        assert sum(worker.admit("ep").allowed for worker in workers) == 1

    def test_the_document_s_numbers(self) -> None:
        """Threshold 5, window 60, reset timeout 30, probe token 5 seconds."""
        policy = profiles.redis_script()
        assert policy.trip == Count(5, success_clears=True)
        assert (policy.window, policy.cool_off, policy.probe_lease) == (60, 30, 5)


def run_samples(policy: Policy, ticks: list[tuple[float, int, int]]) -> tuple[list[State], Breakers]:
    clock = ManualClock()
    breakers = Breakers(MemoryStore(clock=clock), policy=policy)
    states = []
    for after, failures, successes in ticks:
        clock.advance(after)
        breakers.evaluate("ep", Counts(ok=successes, failed=failures))
        states.append(breakers.inspect("ep").state)
    return states, breakers


CLOSED, OPEN, HALF_OPEN = State.CLOSED, State.OPEN, State.HALF_OPEN


class TestSampled:
    def test_breaks_and_recovers(self) -> None:
        """70 % failing opens it, the timeout brings half_open, 10 % succeeding closes it."""
        policy = profiles.sampled(failure_percent=70, success_percent=10, min_calls=10)
        counts = [(3, 9), (5, 10), (10, 1), (20, 0), (2, 3), (1, 4)]
        states, _ = run_samples(policy, [(60, f, s) for f, s in counts])
        assert states == [CLOSED, CLOSED, OPEN, HALF_OPEN, CLOSED, CLOSED]

    def test_opens_again(self) -> None:
        """Closed again, it opens again at the next bad sample."""
        policy = profiles.sampled(failure_percent=50)
        ticks = [(5.0, 1, 2), (5.0, 13, 1), (31.0, 10, 1), (5.0, 0, 2), (5.0, 14, 0)]
        states, _ = run_samples(policy, ticks)
        assert states == [CLOSED, OPEN, HALF_OPEN, CLOSED, OPEN]

    def test_counts_trips_in_a_row(self) -> None:
        """Each return from half_open to open is one more trip in a row."""
        counts = [(13, 1), (13, 1), (15, 0), (17, 1), (13, 0)]
        states, breakers = run_samples(profiles.sampled(failure_percent=70), [(31, f, s) for f, s in counts])
        assert states == [OPEN, HALF_OPEN, OPEN, HALF_OPEN, OPEN]
        assert breakers.inspect("ep").trips == 3

    def test_minimum_of_calls(self) -> None:
        """Below the minimum nothing trips, though three quarters fail."""
        states, _ = run_samples(profiles.sampled(failure_percent=60, min_calls=10), [(30, 3, 1)])
        assert states == [CLOSED]

    def test_trips_at_the_threshold(self) -> None:
        """At the minimum and above the threshold it trips."""
        policy = profiles.sampled(failure_percent=50, min_calls=10)
        states, _ = run_samples(policy, [(30, 3, 7), (30, 6, 4)])
        assert states == [CLOSED, OPEN]

    def test_disables_after_ten_trips_in_a_row(self) -> None:
        """The tenth trip in a row disables the endpoint."""
        states, breakers = run_samples(profiles.sampled(), [(31.0, 20, 0)] * 19)
        assert states[:18] == [OPEN, HALF_OPEN] * 9
        assert states[18] is State.DISABLED
        assert breakers.inspect("ep").trips == 10

    def test_always_the_window(self, store: MemoryStore, clock: ManualClock) -> None:
        """A long healthy time does not delay the next trip: only the window counts."""
        breakers = Breakers(store, policy=profiles.sampled())
        for _ in range(100):
            for _ in range(50):
                succeed(breakers)
            clock.advance(60)
        clock.advance(300)
        fail(breakers, times=10)
        breakers.evaluate("ep")
        assert breakers.inspect("ep").state is OPEN

    def test_the_document_s_numbers(self) -> None:
        """Sample 30 s, open 30 s, fail 70 %, succeed 5 %, window 5 min, at least 10 calls, 10 trips disable."""
        policy = profiles.sampled()
        assert policy.trip == Rate(0.7, min_calls=10)
        assert (policy.sample_every, policy.cool_off, policy.close_rate, policy.window) == (30, 30, 0.05, 300)
        assert policy.disable_after == 10

    @pytest.mark.parametrize(
        ("field", "settings"),
        [
            ("sample_every", {"sample_every": 0}),
            ("cool_off", {"cool_off": 0}),
            ("failure_percent", {"failure_percent": 0}),
            ("failure_percent", {"failure_percent": 101}),
            ("success_percent", {"success_percent": 0.5}),
            ("window", {"window": 20, "sample_every": 30}),
            ("min_calls", {"min_calls": 0}),
            ("disable_after", {"disable_after": 0}),
        ],
    )
    def test_names_the_field(self, field: str, settings: dict[str, float]) -> None:
        """A number out of its bounds is refused with the field's name."""
        with pytest.raises(InvalidPolicy, match=field):
            profiles.sampled(**settings)  # type: ignore[arg-type]


class TestStoplight:
    def test_two_errors_turn_it_red(self, store: MemoryStore) -> None:
        """Green until the second error, then red; the errors are kept with class, message and time."""
        lights = Breakers(store, policy=profiles.stoplight(threshold=2))
        for _ in range(2):
            assert lights.inspect("test-light").state is State.CLOSED
            with pytest.raises(RuntimeError), lights.guard("test-light"):
                raise RuntimeError("whoops: something went wrong")
        seen = lights.inspect("test-light")
        assert seen.state is State.OPEN
        assert [(each.type, each.message) for each in seen.failures] == [
            ("RuntimeError", "whoops: something went wrong")
        ] * 2

    def test_errors_outside_the_window_do_not_count(self, store: MemoryStore, clock: ManualClock) -> None:
        """With a window of 300 s, an error that is older does not count."""
        lights = Breakers(store, policy=profiles.stoplight(threshold=2, window_size=300))
        fail(lights)
        clock.advance(301)
        assert fail(lights) is State.CLOSED
        clock.advance(299)
        assert fail(lights) is State.OPEN

    def test_errors_of_all_time(self, store: MemoryStore, clock: ManualClock) -> None:
        """Without a window, errors of all time count until a success clears them."""
        lights = Breakers(store, policy=profiles.stoplight(threshold=3))
        fail(lights, times=2)
        succeed(lights)
        fail(lights, times=2)
        clock.advance(86_400)
        assert fail(lights) is State.OPEN

    def test_locks(self, store: MemoryStore) -> None:
        """An operator locks it red or green, whatever happens."""
        lights = Breakers(store, policy=profiles.stoplight(threshold=1))
        lights.force_open("ep")
        assert not lights.admit("ep").allowed
        lights.force_closed("ep")
        fail(lights, times=5)
        assert lights.admit("ep").allowed

    def test_cool_off_then_a_probe(self, store: MemoryStore, clock: ManualClock) -> None:
        """After the cool-off it is yellow: one call decides between green and red."""
        lights = Breakers(store, policy=profiles.stoplight(cool_off_time=60))
        fail(lights, times=3)
        clock.advance(60)
        assert succeed(lights) is State.CLOSED


class TestLatency:
    def test_slow_client_is_cut_off(self, store: MemoryStore, clock: ManualClock) -> None:
        """When the mean latency between two runs breaches the client's threshold, the run opens the circuit."""
        clients = Breakers(store, policy=profiles.latency(mean=2, every=60, open_for=300))
        for latency in (1.0, 2.0, 3.0):
            clients.record(clients.admit("terminals"), Outcome.OK, latency=latency)
        assert clients.inspect("terminals").state is State.CLOSED
        clock.advance(60)
        (transition,) = clients.evaluate("terminals")
        assert (transition.after, transition.reason) == (State.OPEN, "latency")

    def test_errors_cut_off_too(self, store: MemoryStore) -> None:
        """Too many errors in the period open it as well."""
        clients = Breakers(store, policy=profiles.latency(errors=3))
        fail(clients, "terminals", times=3)
        (transition,) = clients.evaluate("terminals")
        assert transition.reason == "count"

    def test_thresholds_per_client(self, store: MemoryStore) -> None:
        """Each client has its own thresholds, with defaults behind them."""
        own = {"fragile": profiles.latency(errors=1)}
        clients = Breakers(store, policy=profiles.latency(errors=10), policy_for=own.get)
        for client in ("fragile", "sturdy"):
            fail(clients, client)
            clients.evaluate(client)
        assert clients.inspect("fragile").state is State.OPEN
        assert clients.inspect("sturdy").state is State.CLOSED

    def test_one_probe_before_full_traffic(self, store: MemoryStore, clock: ManualClock) -> None:
        """When the open time is over, one call goes first; a slow one opens the circuit again."""
        clients = Breakers(store, policy=profiles.latency(mean=2, errors=1, open_for=300))
        fail(clients)
        clients.evaluate("ep")
        clock.advance(300)
        probe = clients.admit("ep")
        assert probe.probe
        assert not clients.admit("ep").allowed
        clients.record(probe, Outcome.OK, latency=5)
        assert clients.inspect("ep").state is State.OPEN


class TestConsecutive:
    def test_fifth_failure_disables(self, store: MemoryStore, clock: ManualClock) -> None:
        """Five failures in a row disable the endpoint, with reason and time."""
        endpoints = Breakers(store, policy=profiles.consecutive())
        assert fail(endpoints, times=4) is State.CLOSED
        assert fail(endpoints) is State.DISABLED
        seen = endpoints.inspect("ep")
        assert (seen.reason, seen.opened_at) == ("streak", clock.now())

    def test_success_resets_the_counter(self, store: MemoryStore) -> None:
        """Each success sets the failures in a row back to nought."""
        endpoints = Breakers(store, policy=profiles.consecutive())
        fail(endpoints, times=4)
        succeed(endpoints)
        assert fail(endpoints, times=4) is State.CLOSED

    def test_one_chance(self, store: MemoryStore, clock: ManualClock) -> None:
        """After 60 minutes it has one chance: a single failure disables it at once."""
        endpoints = Breakers(store, policy=profiles.consecutive())
        fail(endpoints, times=5)
        clock.advance(3599.999)
        assert not endpoints.admit("ep").allowed
        clock.advance(0.001)
        assert fail(endpoints) is State.DISABLED

    def test_success_restores_it(self, store: MemoryStore, clock: ManualClock) -> None:
        """A success in its one chance restores it fully."""
        endpoints = Breakers(store, policy=profiles.consecutive())
        fail(endpoints, times=5)
        clock.advance(3600)
        assert succeed(endpoints) is State.CLOSED
        assert fail(endpoints, times=4) is State.CLOSED

    def test_the_document_s_numbers(self) -> None:
        """Five failures, 60 minutes."""
        policy = profiles.consecutive()
        assert (policy.trip, policy.reenable_after) == (Streak(5), 3600)
