"""One breaker from closed to open and back, in a few lines; time is turned by hand."""

from hookfuse import BreakerOpen, Breakers, Policy, Streak
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock

clock = ManualClock()
breakers = Breakers(MemoryStore(clock=clock), policy=Policy(trip=Streak(3), cool_off=30))
breakers.subscribe(lambda change: print(f"        {change.before} -> {change.after}: {change.why}"))
endpoint_is_up = False


def call() -> None:
    try:
        with breakers.guard("ep_1"):
            if not endpoint_is_up:
                raise ConnectionError("connection refused")
        print("sent")
    except ConnectionError as error:
        print(f"failed: {error}")
    except BreakerOpen as refusal:
        print(f"not even tried: {refusal}")


for _ in range(4):
    call()
print("\n... 30 seconds later, the endpoint is back\n")
clock.advance(30)
endpoint_is_up = True
for _ in range(2):
    call()
