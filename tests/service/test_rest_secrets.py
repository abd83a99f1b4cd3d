"""Secrets stay secret: canaries in every place that holds one, and a search through everything that comes out."""

from __future__ import annotations

import logging
from base64 import b64encode
from pathlib import Path

import pytest

from hookfuse.api.routes import Needs
from hookfuse.api.table import OPERATIONS
from hookfuse.testing.receivers import Failing, Receivers
from tests.service.conftest import Service

pytestmark = pytest.mark.anyio

CANARY = b"canary-in-the-coal-mine-"
SECRET = f"whsec_{b64encode(CANARY).decode()}"
HEADER = "canary-header-value"


async def test_no_secret_comes_out(
    service: Service, receivers: Receivers, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """No answer, error or log line holds a signing secret, a header's value or a key, except where it is asked for."""
    caplog.set_level(logging.DEBUG)
    app = await service.app()
    made = await service.ask(
        "POST",
        f"/app/{app}/endpoint",
        {"url": receivers.add("bad", Failing()), "secret": SECRET, "headers": {"X-Token": HEADER}},
    )
    endpoint = made.json()["id"]
    message = await service.send(app)
    fresh = (await service.ask("POST", "/key", {"name": "x", "role": "admin"})).json()
    said = [made.text]

    async def tried() -> bool:
        return bool((await service.ok("GET", f"/app/{app}/attempt/msg/{message}"))["data"])

    await service.until(tried)
    attempt = (await service.ok("GET", f"/app/{app}/attempt/msg/{message}"))["data"][0]["id"]
    await service.ok("POST", f"/app/{app}/endpoint/{endpoint}/secret/rotate", {"gracePeriodSeconds": 60})
    ids = {"app_id": app, "endpoint_id": endpoint, "msg_id": message, "attempt_id": attempt}
    ids |= {"task_id": "none", "event_type_name": "none", "key_id": fresh["id"]}
    rotated = (await service.ok("GET", f"/app/{app}/endpoint/{endpoint}/secret"))["key"]
    for operation in OPERATIONS:
        if operation.method == "GET" and operation.needs is not Needs.NOTHING and "secret" not in operation.name:
            path = operation.path.removeprefix("/api/v1").format(**ids)
            said.append((await service.ask("GET", path)).text)
    for wrong in (
        {"url": "https://example.com/", "secret": f"{SECRET}!"},
        {"url": "https://example.com/", "secret": f"whsk_{SECRET}"},
        {"url": "https://example.com/", "headers": {"X-Token": f"{HEADER}\r\n"}},
        {"url": "https://example.com/", "headers": {"Host": HEADER}},
        {"url": "https://example.com/", "headers": {"X": [HEADER]}},
        {"url": "https://example.com/", "secret": [SECRET]},
    ):
        response = await service.ask("POST", f"/app/{app}/endpoint", wrong)
        assert response.status_code == 422
        said.append(response.text)
    said += [(await service.ask("POST", "/app", {"name": 1}, key=fresh["key"])).text]
    said += [(await service.client.get("/api/v1/app", headers={"authorization": f"Bearer {fresh['key']}x"})).text]
    said += [record.getMessage() for record in caplog.records]
    everything = "\n".join(said)
    secrets = {
        "secret": SECRET,
        "its base64": SECRET.removeprefix("whsec_"),
        "its bytes": CANARY.decode(),
        "rotated": rotated.removeprefix("whsec_"),
        "header": HEADER,
        "fresh key": fresh["key"],
        "admin key": service.admin,
    }
    assert {name for name, secret in secrets.items() if secret in everything} == set()


async def test_the_database_holds_no_secret(idle: Service, tmp_path: Path) -> None:
    """Neither a secret, nor a header's value, nor a key can be read from the database file."""
    app = await idle.app()
    body = {"url": "https://example.com/", "secret": SECRET, "headers": {"X-Token": HEADER}}
    await idle.ok("POST", f"/app/{app}/endpoint", body)
    fresh = (await idle.ok("POST", "/key", {"name": "x", "role": "admin"}))["key"]
    stored = _files(tmp_path)
    assert b"https://example.com/" in stored
    for secret in (CANARY, SECRET.encode(), HEADER.encode(), fresh.encode()):
        assert secret not in stored


def _files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("hookfuse.db*"))
