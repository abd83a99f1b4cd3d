"""Duties over the API: who leads, and since when."""

from __future__ import annotations

import pytest

from tests.service.conftest import Service

pytestmark = pytest.mark.anyio


async def test_who_leads(idle: Service) -> None:
    """A service that is alone leads everything it can do, and says since when; only those who see all may ask."""

    async def leads() -> bool:
        return bool((await idle.ok("GET", "/duties"))["data"])

    await idle.until(leads)
    (rescue,) = [each for each in (await idle.ok("GET", "/duties"))["data"] if each["duty"] == "rescue"]
    assert rescue["fence"] == 1
    assert rescue["since"] < rescue["until"]
    assert rescue["holder"] == idle.station.leader.tenures[rescue["duty"]].holder
