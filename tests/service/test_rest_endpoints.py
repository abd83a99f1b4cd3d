"""What the API fills in for an endpoint that says little about itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.conftest import Service, running

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("longest", "default"), [(30.0, 15.0), (4.0, 4.0)])
async def test_default_timeout(tmp_path: Path, longest: float, default: float) -> None:
    """Without a timeout of its own an endpoint gets 15 s, or the longest that the service allows; more is refused."""
    database = f"sqlite://{tmp_path}/hookfuse.db"
    async with running(database, tmp_path, working=False, longest_timeout=longest) as service:
        app = await service.app()
        at = f"/app/{app}/endpoint/{await service.endpoint(app, timeout=2)}"
        assert await _timeout(service, at) == 2
        await service.ok("PUT", at, {"url": "https://example.com/"})
        assert await _timeout(service, at) == default
        await service.ok("PATCH", at, {"timeout": 1.5})
        assert await _timeout(service, at) == 1.5
        await service.ok("PATCH", at, {"timeout": None})
        assert await _timeout(service, at) == default
        refused = await service.ask("PATCH", at, {"timeout": longest + 1})
        assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["body", "timeout"])


async def _timeout(service: Service, at: str) -> float:
    found: float = (await service.ok("GET", at))["timeout"]
    return found
