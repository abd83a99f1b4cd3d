"""The SQLite store keeps the contract of delivery stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing import ManualClock
from hookfuse.testing.delivery import Bench, DeliveryStoreContract


class TestSqlite(DeliveryStoreContract):
    @pytest.fixture
    async def bench(self, tmp_path: Path) -> AsyncIterator[Bench]:
        clock = ManualClock()
        store = SqliteStore(tmp_path / "hookfuse.db", clock=clock)
        await store.open()
        yield Bench(store, clock)
        await store.close()
