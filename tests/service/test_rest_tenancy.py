"""Every route, asked for by everyone: the owner, another tenant, nobody, a revoked key, and a key of too little scope.

The routes are those of the table, so a new one is tried as soon as it is there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hookfuse.api.openapi import SEND_MESSAGE
from hookfuse.api.routes import Needs, Operation
from hookfuse.api.table import OPERATIONS
from hookfuse.core.delivery import DeliveryState, Settlement
from hookfuse.core.record import Task, TaskKind
from hookfuse.testing import ManualClock
from hookfuse.testing.delivery import Bench
from tests.service.conftest import Service, running

pytestmark = pytest.mark.anyio

EVERY = [*OPERATIONS, SEND_MESSAGE]
WITH_KEY = [each for each in EVERY if each.needs is not Needs.NOTHING]
OF_APPS = [each for each in WITH_KEY if "app_id" in each.parameters]

BODIES: dict[str, Any] = {
    "create_application": {"name": "New"},
    "update_application": {"name": "New"},
    "patch_application": {"name": "New"},
    "create_endpoint": {"url": "https://example.com/"},
    "update_endpoint": {"url": "https://example.com/"},
    "patch_endpoint": {"description": "new"},
    "update_endpoint_headers": {"headers": {}},
    "recover_endpoint": {"since": "2024-01-01T00:00:00Z"},
    "replay_missing": {"since": "2024-01-01T00:00:00Z"},
    "create_event_type": {"name": "other.type", "description": ""},
    "update_event_type": {"description": ""},
    "patch_event_type": {"description": ""},
    "send_example": {"eventType": "a"},
    "set_notices": {"webhook": {"url": "https://example.com/"}},
    "force_breaker": {"to": "open"},
    "set_default_policy": {"policy": {}},
    "set_application_policy": {"policy": {}},
    "set_endpoint_policy": {"policy": {}},
    "set_application_retry_schedule": {"delays": [1]},
    "set_endpoint_retry_schedule": {"delays": [1]},
    "create_key": {"name": "new", "role": "read"},
    "retry_these_deliveries": {"deliveries": [{"msgId": "msg_none", "endpointId": "ep_none"}]},
    "send_message": {"eventType": "a", "payload": {}},
}

QUERIES = {"count_recoverable": {"since": "2024-01-01T00:00:00Z"}}


class Tenant(NamedTuple):
    """An application with one of everything, and its keys."""

    ids: dict[str, str]
    key: str
    reader: str


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def everyone(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Service, Tenant, Tenant]]:
    folder: Path = tmp_path_factory.mktemp("tenancy")
    async with running(f"sqlite://{folder}/hookfuse.db", folder, working=False) as service:
        await service.ok("POST", "/event-type", {"name": "a", "description": ""})
        yield service, await _tenant(service, "one"), await _tenant(service, "two")


async def _tenant(service: Service, name: str) -> Tenant:
    app = await service.app(name)
    endpoint = await service.endpoint(app)
    message = await service.send(app)
    (claim,) = (await service.store.claim(1, lease_ms=60_000, failing_limit=1)).claims
    attempt = Bench(service.store, ManualClock()).attempt(claim)._replace(id=f"atmpt_{name}")
    await service.store.settle([Settlement(claim, DeliveryState.FAILED, "failed", attempt)])
    await service.ok("PUT", f"/app/{app}/notices", {"webhook": {"url": "https://example.com/"}})
    task = await service.store.add_task(Task(f"qtask_{name}", TaskKind.RECOVER, app))
    ids = {"app_id": app, "endpoint_id": endpoint, "msg_id": message, "attempt_id": attempt.id, "task_id": task.id}
    ids |= {"event_type_name": "a", "key_id": "key_none"}
    return Tenant(ids, await service.key("app", app), await service.key("read", app))


async def _ask(service: Service, operation: Operation, ids: dict[str, str], key: str | None) -> Any:
    path = operation.path.removeprefix("/api/v1").format(**ids)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    body, query = BODIES.get(operation.name), QUERIES.get(operation.name)
    return await service.client.request(operation.method, f"/api/v1{path}", json=body, params=query, headers=headers)


def _named(operation: Operation) -> str:
    return operation.name


@pytest.mark.parametrize("operation", WITH_KEY, ids=_named)
async def test_strangers(everyone: tuple[Service, Tenant, Tenant], operation: Operation) -> None:
    """Without a key, with a wrong or mistyped or revoked one, every route says 401 and nothing else."""
    service, mine, _ = everyone
    revoked = await service.key("admin")
    (newest, *_) = (await service.ok("GET", "/key", params={"order": "descending"}))["data"]
    assert (await service.ask("GET", "/key", key=revoked)).status_code == 200
    await service.ok("DELETE", f"/key/{newest['id']}")
    mistyped = mine.key[:-1] + ("A" if mine.key[-1] != "A" else "B")
    for key in (None, "x", mistyped, revoked, mine.key[::-1]):
        response = await _ask(service, operation, mine.ids, key)
        assert response.status_code == 401, (key, response.text)
        assert response.json()["code"] == "authentication_failed"
        assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("operation", OF_APPS, ids=_named)
async def test_other_tenants(everyone: tuple[Service, Tenant, Tenant], operation: Operation) -> None:
    """Another tenant's application is not found, by any of its ids, nor are its things within one's own."""
    service, mine, other = everyone
    foreign = await _ask(service, operation, other.ids, mine.key)
    assert foreign.status_code == 404, foreign.text
    assert "other" not in foreign.text
    inner = [name for name in operation.parameters if name not in ("app_id", "event_type_name")]
    made_by_name = operation.name in ("update_endpoint",)
    for name in inner:
        mixed = {**mine.ids, name: other.ids[name]}
        response = await _ask(service, operation, mixed, mine.key)
        # Nothing is found under an id that is another's; it cannot be made either, as no uid looks like an id.
        assert response.status_code == (422 if made_by_name else 404), (name, response.text)


@pytest.mark.parametrize("operation", WITH_KEY, ids=_named)
async def test_scopes(everyone: tuple[Service, Tenant, Tenant], operation: Operation) -> None:
    """A key that only reads changes nothing, and one of an application reaches nothing above it."""
    service, mine, _ = everyone
    above = operation.needs in (Needs.ADMIN, Needs.OVERVIEW)
    writes = operation.needs in (Needs.WRITE, Needs.ADMIN)
    expected = {mine.reader: writes or above, mine.key: above or operation.name == "delete_application"}
    for key, refused in expected.items():
        if not refused:
            continue
        response = await _ask(service, operation, mine.ids, key)
        assert (response.status_code, response.json()["code"]) == (403, "insufficient_access"), response.text
    reader = await service.key("read")
    response = await _ask(service, operation, mine.ids, reader)
    assert (response.status_code == 403) == (operation.needs in (Needs.WRITE, Needs.ADMIN)), response.text


@pytest.mark.parametrize("operation", OF_APPS, ids=_named)
async def test_owners(tmp_path: Path, operation: Operation) -> None:
    """The owner's own key gets what it asks for on every route of its application that is not an admin's."""
    async with running(f"sqlite://{tmp_path}/hookfuse.db", tmp_path, working=False) as service:
        mine = await _tenant(service, "one")
        response = await _ask(service, operation, mine.ids, mine.key)
        if operation.name == "delete_application":
            assert response.status_code == 403
        elif operation.name == "cancel_delivery":
            assert response.status_code == 409, "what has failed cannot be cancelled"
        else:
            assert response.status_code in (operation.status, *operation.also), response.text


async def test_the_matrix_is_whole() -> None:
    """Every operation that needs a body has one here, and every path parameter is known."""
    for operation in EVERY:
        assert set(operation.parameters) <= {
            *("app_id", "endpoint_id", "msg_id", "attempt_id", "task_id", "event_type_name", "key_id"),
        }
    assert set(BODIES) <= {operation.name for operation in EVERY}
