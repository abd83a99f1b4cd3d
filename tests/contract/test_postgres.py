"""The Postgres store keeps the contract of delivery stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hookfuse.testing.delivery import Bench, DeliveryStoreContract
from hookfuse.testing.postgres import store_with_clock


class TestPostgres(DeliveryStoreContract):
    @pytest.fixture
    async def bench(self, postgres_url: str) -> AsyncIterator[Bench]:
        async with store_with_clock(postgres_url, deadline=30) as (store, clock):
            yield Bench(store, clock)
