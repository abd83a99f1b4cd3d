"""What is done is in the audit log, though the process should end a moment later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hookfuse.core.record import AuditEntry
from hookfuse.errors import StoreUnavailable
from tests.service.conftest import Service, running

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite://{tmp_path}/hookfuse.db"


@pytest.fixture
async def service(database: str, tmp_path: Path) -> AsyncIterator[Service]:
    async with running(database, tmp_path, working=False) as found:
        yield found


async def _audit(service: Service) -> list[tuple[str, str]]:
    found = (await service.ok("GET", "/audit", params={"order": "ascending"}))["data"]
    return [(each["action"], each["subject"]) for each in found]


async def _away(entry: AuditEntry) -> None:
    raise StoreUnavailable("The database went away.")


async def test_no_second_transaction(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that changes the database needs it again afterwards in order to be in the audit log."""
    monkeypatch.setattr(service.store, "add_audit", _away)
    app = await service.app()
    endpoint = await service.endpoint(app)
    key = await service.ok("POST", "/key", {"name": "another", "role": "read"})
    at = f"/app/{app}/endpoint/{endpoint}"
    orders: list[tuple[str, str, Any]] = [
        ("PATCH", at, {"description": "new"}),
        ("POST", f"{at}/pause", None),
        ("POST", f"{at}/secret/rotate", {}),
        ("PATCH", f"{at}/headers", {"headers": {"x-a": "b"}}),
        ("PUT", f"{at}/policy", {"profile": "stoplight"}),
        ("PUT", "/policy", {"profile": "stoplight"}),
        ("POST", f"/app/{app}/breaker/{endpoint}/force", {"to": "open"}),
        ("PUT", f"/app/{app}/notices", {"chat": {"url": "https://example.com/chat"}}),
        ("POST", f"{at}/recover", {"since": "2020-01-01T00:00:00Z"}),
        ("PUT", "/event-type/a.b", {"description": ""}),
        ("DELETE", f"/key/{key['id']}", None),
        ("DELETE", f"/app/{app}", None),
    ]
    for method, path, body in orders:
        await service.ok(method, path, body)
    written = await _audit(service)
    assert len(written) == 3 + len(orders)
    assert written[0] == ("create_application", app)
    assert written[1] == ("create_endpoint", f"{app}/{endpoint}")
    assert written[2] == ("create_key", key["id"])


async def test_what_is_only_read(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret is not shown if that cannot be written down."""
    app = await service.app()
    endpoint = await service.endpoint(app)
    at = f"/app/{app}/endpoint/{endpoint}/secret"
    await service.ok("GET", at)
    assert (await _audit(service))[-1] == ("get_endpoint_secret", f"{app}/{endpoint}")
    monkeypatch.setattr(service.store, "add_audit", _away)
    assert (await service.ask("GET", at)).status_code == 503
