"""For your tests: a clock that you turn by hand, endpoints to deliver to, and the contract of every breaker store.

    clock = ManualClock()
    breakers = Breakers(MemoryStore(clock=clock), policy=Policy(trip=Streak(2), cool_off=30))
    ...
    clock.advance(30)        # the probe is due; no test needs to sleep

`hookfuse.testing.contract` has the test classes for stores of your own, `hookfuse.testing.receivers` real endpoints
that behave as badly as you like.
"""

from hookfuse.testing.clock import ManualClock

__all__ = ["ManualClock"]
