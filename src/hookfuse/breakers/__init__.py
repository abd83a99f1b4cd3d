"""Circuit breakers by key: `Breakers` for threads, `AsyncBreakers` for asyncio.

Both do the same: find the policy of a call, ask the store, and see to it that whatever was admitted is settled
exactly once. What they share (`face`, and most of `guard`) returns values; `threads` and `tasks` differ only in
how they wait. No lock is held while the caller's own code runs.
"""

from hookfuse.breakers.guard import AsyncGuard, Guard
from hookfuse.breakers.tasks import AsyncBreakers
from hookfuse.breakers.threads import Breakers

__all__ = ["AsyncBreakers", "AsyncGuard", "Breakers", "Guard"]
