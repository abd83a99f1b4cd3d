"""What is answered is what the OpenAPI document says, in a service where something of everything has happened."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest

from hookfuse.testing.receivers import Failing, Ok, Receivers
from tests.service.conftest import Service

pytestmark = pytest.mark.anyio


EMPTY = {"list_processes"}
"""Its rows are those of whole processes, which this is none of."""


async def happened(service: Service, receivers: Receivers) -> dict[str, str]:
    """Sent, failed, retried, refused, forced and changed; returns what fits into paths."""
    app = await service.app()
    ops = {"webhook": {"url": receivers.add("ops", Ok())}}
    await service.ok("PUT", f"/app/{app}/notices", ops)
    well = await service.endpoint(app, receivers.add("well", Ok()))
    bad = await service.endpoint(app, receivers.add("bad", Failing()))
    messages = [await service.send(app) for _ in range(3)]
    await service.ok("PUT", "/event-type/a", {"description": "of something"})
    key = await service.ok("POST", "/key", {"name": "another", "role": "read"})

    async def both_were_tried() -> Any:
        found = (await service.ok("GET", f"/app/{app}/attempt/endpoint/{bad}"))["data"]
        state = (await service.ok("GET", f"/app/{app}/breaker/{bad}"))["state"]
        sent = (await service.ok("GET", f"/app/{app}/attempt/endpoint/{well}"))["data"]
        told = (await service.ok("GET", f"/app/{app}/notices/outbox"))["data"]
        return len(sent) == 3 and state == "open" and found and told

    await service.until(both_were_tried)
    (attempt, *_) = (await service.ok("GET", f"/app/{app}/attempt/msg/{messages[0]}"))["data"]
    task = await service.ok("POST", f"/app/{app}/endpoint/{bad}/recover", {"since": "2020-01-01T00:00:00Z"})
    return {
        "app_id": app,
        "endpoint_id": bad,
        "msg_id": messages[0],
        "event_type_name": "a",
        "key_id": key["id"],
        "task_id": task["id"],
        "attempt_id": attempt["id"],
    }


async def test_every_answer_is_as_described(service: Service, receivers: Receivers) -> None:
    """Every GET answers, with rows where it is a list, and each answer fits its schema."""
    ids = await happened(service, receivers)
    document = (await service.client.get("/openapi.json")).json()
    for path, methods in document["paths"].items():
        if "get" not in methods:
            continue
        operation = methods["get"]
        answer = await service.ask("GET", re.sub(r"\{(\w+)\}", lambda name: ids[name[1]], path).removeprefix("/api/v1"))
        described = operation["responses"].get(str(answer.status_code))
        assert described is not None, f"{path}: {answer.status_code}"
        if "content" not in described:
            continue
        (media,) = described["content"].values()
        validator = jsonschema_rs.validator_for({**media["schema"], "components": document["components"]})
        found = answer.json()
        problems = [f"{each.instance_path}: {each.message}" for each in validator.iter_errors(found)]
        assert not problems, f"{path}: {problems}"
        if isinstance(found, dict) and "data" in found and operation["operationId"] not in EMPTY:
            assert found["data"], f"{path} has nothing to show"
