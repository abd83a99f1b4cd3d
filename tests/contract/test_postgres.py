"""The Postgres store keeps the contract of delivery stores."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from hookfuse.testing.delivery import Bench, DeliveryStoreContract
from hookfuse.testing.postgres import store_with_clock


class TestPostgres(DeliveryStoreContract):
    @pytest.fixture
    async def bench(self, postgres_url: str) -> AsyncIterator[Bench]:
        async with store_with_clock(postgres_url, deadline=30) as (store, clock):
            yield Bench(store, clock)

    async def test_the_clock_of_a_process_does_not_matter(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A worker whose clock is years off neither sends early nor lets anything wait."""
        await bench.lane()
        later = await bench.send(deliver_ms=bench.now_ms + 1_000)
        for off in (0.0, 4e9):
            monkeypatch.setattr(time, "time", lambda off=off: off)
            now = await bench.send()
            assert [claim.message_id for claim in await bench.claim()] == [now]
        bench.clock.advance(1)
        assert [claim.message_id for claim in await bench.claim()] == [later]
