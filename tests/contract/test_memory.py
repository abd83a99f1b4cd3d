"""The memory store keeps the contract of breaker stores."""

import pytest

from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock
from hookfuse.testing.contract import BreakerStoreContract, World


class TestMemoryStore(BreakerStoreContract):
    @pytest.fixture
    def world(self) -> World:
        clock = ManualClock()
        return World(MemoryStore(clock=clock), clock)
