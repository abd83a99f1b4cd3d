"""Guarded blocks and protected functions settle what they were given exactly once, whatever happens inside."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from typing import Any

import pytest

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Outcome, Policy, Slow, State, Streak
from hookfuse.errors import AlreadySettled, InvalidInput
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock

TWO = Policy(trip=Streak(2), cool_off=30)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def breakers(clock: ManualClock) -> Breakers:
    return Breakers(MemoryStore(clock=clock), policy=TWO)


@pytest.fixture
def tasks(clock: ManualClock) -> AsyncBreakers:
    return AsyncBreakers(MemoryStore(clock=clock), policy=TWO)


def trip(breakers: Breakers, key: str = "ep") -> None:
    for _ in range(2):
        breakers.record(breakers.admit(key), Outcome.FAILURE)


async def trip_async(breakers: AsyncBreakers, key: str = "ep") -> None:
    for _ in range(2):
        await breakers.record(await breakers.admit(key), Outcome.FAILURE)


class TestGuard:
    def test_no_exception_is_ok(self, breakers: Breakers, clock: ManualClock) -> None:
        """A block that ends well is a success, with the latency that it took."""
        for latency in (0.1, 0.3):
            with breakers.guard("ep"):
                clock.advance(latency)
        seen = breakers.inspect("ep")
        assert (seen.counts.ok, seen.counts.failed) == (2, 0)
        assert seen.mean_latency == pytest.approx(0.2)

    def test_exception_is_a_failure(self, breakers: Breakers) -> None:
        """An exception is a failure, is kept with its class, and goes on to the caller."""
        with pytest.raises(KeyError), breakers.guard("ep"):
            raise KeyError("gone")
        (failure,) = breakers.inspect("ep").failures
        assert (failure.type, failure.message) == ("KeyError", "'gone'")

    def test_refused(self, breakers: Breakers, clock: ManualClock) -> None:
        """A refused block does not run, and the refusal is one readable sentence."""
        trip(breakers)
        clock.advance(10)
        with pytest.raises(BreakerOpen) as caught, breakers.guard("ep"):
            pytest.fail("the block must not run")
        error = caught.value
        assert (error.key, error.state, error.reason) == ("ep", State.OPEN, "open")
        assert (error.retry_at, error.retry_after) == (clock.now() + 20, 20)
        assert str(error) == (
            "Call to 'ep' refused: open (failures in a row: 2, limit 2); try again at 2023-11-14 22:13:50 UTC, in 20 s."
        )

    def test_refused_for_good(self, breakers: Breakers) -> None:
        """Where no time is known the refusal says who can end it."""
        breakers.disable("ep", reason="410 Gone")
        with pytest.raises(BreakerOpen, match=r"disabled \(410 Gone\); it stays refused until someone enables"):
            breakers.guard("ep").__enter__()

    def test_recorded_outcome_wins(self, breakers: Breakers) -> None:
        """What the block records is the outcome, even if an exception follows."""
        with breakers.guard("ep") as call:
            call.record(Outcome.FAILURE, error="503")
        with pytest.raises(ValueError, match="mine"), breakers.guard("ep") as call:
            call.record(Outcome.OK, latency=0.5)
            raise ValueError("mine")
        seen = breakers.inspect("ep")
        assert (seen.counts.ok, seen.counts.failed, seen.failures[0].message) == (1, 1, "503")

    def test_recorded_once(self, breakers: Breakers) -> None:
        """A second outcome for the same block raises, and the first one stands."""
        with breakers.guard("ep") as call:
            call.record(Outcome.FAILURE)
            with pytest.raises(AlreadySettled):
                call.record(Outcome.OK)
        assert breakers.inspect("ep").counts.failed == 1

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
    def test_cancel_gives_the_probe_back(
        self, breakers: Breakers, clock: ManualClock, error: type[BaseException]
    ) -> None:
        """A block that is cancelled counts nothing, and its probe is free at once."""
        trip(breakers)
        clock.advance(30)
        with pytest.raises(error), breakers.guard("ep") as call:
            assert call.probe
            raise error
        seen = breakers.inspect("ep")
        assert (seen.state, seen.probes_in_flight, seen.totals.failed) == (State.HALF_OPEN, 0, 2)
        assert breakers.admit("ep").probe

    def test_our_own_fault_is_ignored(self, breakers: Breakers) -> None:
        """Running out of file descriptors is not the endpoint's fault, however the client wraps it."""
        with pytest.raises(ConnectionError), breakers.guard("ep"):
            try:
                raise OSError(errno.EMFILE, "Too many open files")
            except OSError as cause:
                raise ConnectionError("connect failed") from cause
        assert breakers.inspect("ep").totals.failed == 0

    def test_classify(self, clock: ManualClock) -> None:
        """`classify` reads exceptions, for all blocks or for one."""
        breakers = Breakers(MemoryStore(clock=clock), policy=TWO, classify=lambda error: Outcome.IGNORED)
        with pytest.raises(ValueError, match="a"), breakers.guard("ep"):
            raise ValueError("a")
        with pytest.raises(ValueError, match="b"), breakers.guard("ep", classify=lambda _: Outcome.throttled(9)):
            raise ValueError("b")
        assert breakers.inspect("ep").totals.failed == 0
        assert breakers.admit("ep").retry_after == 9

    def test_broken_classify_gives_back(self, breakers: Breakers, clock: ManualClock) -> None:
        """A classify that fails, or returns nonsense, does not lose the probe."""

        def broken(error: Exception) -> Outcome:
            raise RuntimeError("classify is broken")

        trip(breakers)
        clock.advance(30)
        with pytest.raises(RuntimeError, match="classify is broken"), breakers.guard("ep", classify=broken):
            raise ValueError("x")
        nonsense: Any = lambda error: "bad"  # noqa: E731
        with pytest.raises(InvalidInput, match="must return an Outcome"), breakers.guard("ep", classify=nonsense):
            raise ValueError("x")
        assert breakers.admit("ep").probe

    def test_nested_refusal_is_not_the_outer_endpoint_s_fault(self, breakers: Breakers) -> None:
        """A refusal by an inner breaker says nothing about the outer endpoint."""
        trip(breakers, "inner")
        with pytest.raises(BreakerOpen), breakers.guard("outer"), breakers.guard("inner"):
            pytest.fail("the block must not run")
        assert breakers.inspect("outer").counts.calls == 0

    def test_latency_is_measured_for_slow_rules(self, clock: ManualClock) -> None:
        """A guard measures its block, so rules about latency work without further ado."""
        breakers = Breakers(MemoryStore(clock=clock), policy=Policy(trip=Slow(1.0, over=2, min_calls=2)))
        for _ in range(2):
            with breakers.guard("ep"):
                clock.advance(2)
        assert breakers.inspect("ep").state is State.OPEN

    def test_no_lock_is_held_inside(self, breakers: Breakers) -> None:
        """The block may use any breaker, even the same one."""
        with breakers.guard("ep"), breakers.guard("ep"), breakers.guard("other"):
            assert breakers.inspect("ep").counts.calls == 0
        assert breakers.inspect("ep").counts.ok == 2

    def test_admission_is_shown(self, breakers: Breakers, clock: ManualClock) -> None:
        """The block can look at what let it through."""
        with breakers.guard("ep") as call:
            assert call.admission.allowed
            assert not call.probe
        assert call.admission.settled


class TestAsyncGuard:
    async def outcomes(self, breakers: AsyncBreakers) -> None:
        async with breakers.guard("ep"):
            await asyncio.sleep(0)
        async with breakers.guard("ep") as call:
            await call.record(Outcome.FAILURE, error="503")
        with pytest.raises(KeyError):
            async with breakers.guard("ep"):
                raise KeyError("gone")
        seen = await breakers.inspect("ep")
        assert (seen.counts.ok, seen.counts.failed, seen.state) == (1, 2, State.OPEN)
        with pytest.raises(BreakerOpen):
            async with breakers.guard("ep"):
                pytest.fail("the block must not run")

    def test_outcomes(self, tasks: AsyncBreakers) -> None:
        """The asyncio guard reads its block as the thread guard does."""
        asyncio.run(self.outcomes(tasks))

    def test_cancelled_task_gives_the_probe_back(self, tasks: AsyncBreakers, clock: ManualClock) -> None:
        """Cancelling the task that probes frees the probe at once."""

        async def scenario() -> None:
            await trip_async(tasks)
            clock.advance(30)
            entered = asyncio.Event()

            async def probe() -> None:
                async with tasks.guard("ep"):
                    entered.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(probe())
            await entered.wait()
            assert not (await tasks.admit("ep")).allowed
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await tasks.admit("ep")).probe

        asyncio.run(scenario())

    def test_timeout_inside_is_a_failure(self, tasks: AsyncBreakers) -> None:
        """A timeout inside the block is a failure; one around it is a cancel."""

        async def scenario() -> None:
            with pytest.raises(TimeoutError):
                async with tasks.guard("ep"), asyncio.timeout(0):
                    await asyncio.Event().wait()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0), tasks.guard("ep"):
                    await asyncio.Event().wait()
            assert (await tasks.inspect("ep")).totals.failed == 1

        asyncio.run(scenario())


class TestProtect:
    def test_keyed_by_arguments(self, breakers: Breakers) -> None:
        """The key may come from the call's arguments; the function keeps its name and result."""

        @breakers.protect(key=lambda hook, *_: f"ep_{hook}")
        def deliver(hook: int, body: str) -> str:
            """Deliver it."""
            if hook == 2:
                raise ConnectionError("refused")
            return body

        assert deliver(1, "a") == "a"
        assert (deliver.__name__, deliver.__doc__) == ("deliver", "Deliver it.")
        for _ in range(2):
            with pytest.raises(ConnectionError):
                deliver(2, "b")
        with pytest.raises(BreakerOpen):
            deliver(2, "b")
        assert deliver(1, "c") == "c"

    def test_fallback(self, breakers: Breakers, clock: ManualClock) -> None:
        """A refused call returns what the fallback makes of the same arguments; a failed call still raises."""

        @breakers.protect(key="ep", fallback=lambda number: -number)
        def double(number: int) -> int:
            if number == 0:
                raise ZeroDivisionError
            return number * 2

        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                double(0)
        assert double(4) == -4
        clock.advance(30)
        assert double(4) == 8
        assert breakers.inspect("ep").state is State.CLOSED

    def test_probe_that_fails(self, breakers: Breakers, clock: ManualClock) -> None:
        """A protected function can be the probe, and its failure opens the breaker again."""

        @breakers.protect(key="ep")
        def broken() -> None:
            raise OSError("still down")

        trip(breakers)
        clock.advance(30)
        with pytest.raises(OSError, match="still down"):
            broken()
        assert breakers.inspect("ep").trips == 2

    def test_coroutine_functions(self, tasks: AsyncBreakers) -> None:
        """AsyncBreakers protects coroutine functions, with a fallback of either kind."""

        async def scenario() -> None:
            async def slow_fallback(word: str) -> str:
                return f"later {word}"

            @tasks.protect(key=lambda word: word, fallback=slow_fallback)
            async def send(word: str) -> str:
                if word == "bad":
                    raise ValueError(word)
                return word

            @tasks.protect(key="bad", fallback=lambda: "plain")
            async def other() -> str:
                return "never"

            assert await send("good") == "good"
            for _ in range(2):
                with pytest.raises(ValueError, match="bad"):
                    await send("bad")
            assert await send("bad") == "later bad"
            assert await other() == "plain"

        asyncio.run(scenario())

    def test_misuse(self, breakers: Breakers, tasks: AsyncBreakers) -> None:
        """What cannot be protected is refused where it is decorated, with the way out."""

        async def coroutine() -> None: ...

        def generator() -> Iterator[int]:
            yield 1

        with pytest.raises(InvalidInput, match="AsyncBreakers protects coroutine functions"):
            breakers.protect(key="ep")(coroutine)
        with pytest.raises(InvalidInput, match="Breakers protects plain functions"):
            tasks.protect(key="ep")(lambda: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(InvalidInput, match="use guard inside it"):
            breakers.protect(key="ep")(generator)
        with pytest.raises(InvalidInput, match="fallback must be a function"):
            breakers.protect(key="ep", fallback=3)(len)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="breaker key"):
            breakers.protect(key="")(len)
