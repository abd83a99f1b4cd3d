"""The OpenAPI document is true: it names every route, and whoever follows it is never surprised."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Thread
from typing import Any

import hypothesis
import hypothesis.errors
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.core.failures import FailureGroup

from hookfuse.api.table import OPERATIONS
from tests.service.conftest import Service, running

EXAMPLES = int(os.environ.get("HOOKFUSE_EXAMPLES", "8"))


class Running:
    """A service in a thread of its own, because schemathesis does not know asyncio."""

    def __init__(self, folder: Path) -> None:
        self._ready: Future[Service] = Future()
        self._stop = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._serve(folder)), name="service")
        self._thread.start()
        self.service = self._ready.result(timeout=20)

    async def _serve(self, folder: Path) -> None:
        try:
            async with running(f"sqlite://{folder}/hookfuse.db", folder, working=False) as service:
                self.ids = await _furnish(service)
                self._ready.set_result(service)
                await asyncio.to_thread(self._stop.wait)
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


async def _furnish(service: Service) -> dict[str, str]:
    """One of everything, so that paths lead somewhere."""
    app = await service.app(uid="acme")
    endpoint = await service.endpoint(app, uid="main")
    message = await service.send(app, eventId="evt-1")
    await service.ok("POST", "/event-type", {"name": "a", "description": ""})
    return {
        "app_id": app,
        "endpoint_id": endpoint,
        "msg_id": message,
        "event_type_name": "a",
        "key_id": "key_none",
        "task_id": "qtask_none",
        "attempt_id": "atmpt_none",
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = Running(tmp_path_factory.mktemp("openapi"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def api(world: Running) -> Any:
    found = schemathesis.openapi.from_url(f"{world.service.url}/openapi.json")
    # Some of the parameters that it would add have no text at all, and so cannot be refused; others are in
    # test_rest_hostile.
    found.config.generation.allow_extra_parameters = False
    return found


def test_every_route_is_described(api: Any) -> None:
    """Every operation is in the document under a readable name of its own, with its errors."""
    described = {(method.upper(), path) for path, methods in api.raw_schema["paths"].items() for method in methods}
    assert {(each.method, each.path) for each in OPERATIONS} | {("POST", "/api/v1/app/{app_id}/msg")} == described
    names = [each["operationId"] for methods in api.raw_schema["paths"].values() for each in methods.values()]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalpha() for name in api.raw_schema["components"]["schemas"])


# Not every bound can be said in a schema (which hosts are public, which names are taken), so input that follows the
# schema may be refused with 422; and orders that need no body are taken with any.
SKIPPED = {"positive_data_acceptance"}


@pytest.mark.timeout(500)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_surprises(api: Any, world: Running, mode: GenerationMode) -> None:
    """Whatever fits or breaks the document is answered as the document says, by schemathesis with its own checks."""
    checks = [check for check in CHECKS.get_all() if check.__name__ not in SKIPPED]
    assert len(checks) > 5
    headers = {"Authorization": f"Bearer {world.service.admin}"}
    failures: list[str] = []
    for result in api.get_all_operations():
        operation = result.ok()
        if operation.definition.raw["operationId"] == "delete_application":
            continue
        try:
            _try(operation, mode, checks, headers, world.ids)
        except FailureGroup as error:
            failures.append(f"{operation.label}: {error}")
        except hypothesis.errors.Unsatisfiable:
            # There is nothing about it that could be broken.
            assert mode is GenerationMode.NEGATIVE
    assert not failures, "\n\n".join(failures)


def _try(operation: Any, mode: GenerationMode, checks: Any, headers: dict[str, str], ids: dict[str, str]) -> None:
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.path_parameters = {name: ids.get(name, value) for name, value in (case.path_parameters or {}).items()}
        case.call_and_validate(headers=headers, checks=checks)

    ask()
