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

    def furnish(self) -> dict[str, str]:
        return asyncio.run_coroutine_threadsafe(_furnish(self.service), self._loop).result(timeout=20)

    async def _serve(self, folder: Path) -> None:
        try:
            async with running(f"sqlite://{folder}/hookfuse.db", folder, working=False) as service:
                self._loop = asyncio.get_running_loop()
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
    app = await service.app()
    endpoint = await service.endpoint(app)
    message = await service.send(app)
    await service.ok("PUT", "/event-type/a", {"description": ""})
    task = await service.ok("POST", f"/app/{app}/endpoint/{endpoint}/recover", {"since": "2020-01-01T00:00:00Z"})
    key = await service.ok("POST", "/key", {"name": "another", "role": "read"})
    return {
        "app_id": app,
        "endpoint_id": endpoint,
        "msg_id": message,
        "event_type_name": "a",
        "key_id": key["id"],
        "task_id": task["id"],
        # There is none: nothing is sent here.
        "attempt_id": "atmpt_none",
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = Running(tmp_path_factory.mktemp("openapi"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def api(world: Running) -> Any:
    return schemathesis.openapi.from_url(f"{world.service.url}/openapi.json")


def test_every_route_is_described(api: Any) -> None:
    """Every operation is in the document under a readable name of its own, with its errors."""
    described = {(method.upper(), path) for path, methods in api.raw_schema["paths"].items() for method in methods}
    assert {(each.method, each.path) for each in OPERATIONS} | {("POST", "/api/v1/app/{app_id}/msg")} == described
    names = [each["operationId"] for methods in api.raw_schema["paths"].values() for each in methods.values()]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalpha() for name in api.raw_schema["components"]["schemas"])


_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_URL = "https://example.com/hook"

# What a schema cannot say: where one of these is generated, a value that fits takes its place, and everything beside it
# stays. That others are refused with 422 is in test_rest_hostile and test_rest_resources.
FITTING: dict[str, Any] = {
    "url": _URL,  # which hosts are public
    "secret": _SECRET,  # how long it is once it is decoded
    "key": _SECRET,
    "headers": {"x-mine": "1"},  # which headers are ours
    "setHeaders": {"x-mine": "1"},
    "until": "2099-01-01T00:00:00Z",  # an override ends in the future, and a range after its beginning
    "since": "2020-01-01T00:00:00Z",
    "after": "2020-01-01T00:00:00Z",
    "before": "2099-01-01T00:00:00Z",
    "deliverAt": "2020-01-01T00:00:00Z",  # within a year
    "timeout": 10,  # what the settings of the service allow
    "email": None,  # this service has no mail server
    "chat": {"url": _URL},  # needed the first time
}
WHOLE: dict[str, Any] = {
    # Fields that depend on one another, and policies, which have rules of their own.
    "set_default_policy": {"profile": "stoplight"},
    "set_application_policy": {"profile": "stoplight"},
    "set_endpoint_policy": {"profile": "stoplight"},
    "set_response_policy": {"final": ["400"], "retry": ["500-504"], "retries": 3},
    "create_key": {"name": "a key", "role": "read"},
}


def fitting(value: Any, name: str = "") -> Any:
    if name in FITTING and value is not None:
        return FITTING[name]
    if isinstance(value, dict):
        return {each: fitting(inner, each) for each, inner in value.items()}
    if isinstance(value, list):
        return [fitting(each) for each in value]
    # To JSON Schema 3.0 is a whole number; to us it is none.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def make_fit(case: Any) -> None:
    name = case.operation.definition.raw["operationId"]
    if isinstance(case.body, dict):
        case.body = WHOLE.get(name) or fitting(case.body)
    # An iterator is what another page gave.
    case.query = fitting({each: value for each, value in (case.query or {}).items() if each != "iterator"})


# The service in the other thread draws at random while hypothesis looks whether a strategy does.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.timeout(500)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_surprises(api: Any, world: Running, mode: GenerationMode) -> None:
    """Whatever fits or breaks the document is answered as the document says, by schemathesis with all its checks."""
    checks = CHECKS.get_all()
    assert len(checks) > 10
    failures: list[str] = []
    for result in api.get_all_operations():
        operation = result.ok()
        try:
            _try(operation, mode, checks, world)
        except FailureGroup as error:
            failures.append(f"{operation.label}: {error}")
        except hypothesis.errors.Unsatisfiable:
            # There is nothing about it that could be broken.
            assert mode is GenerationMode.NEGATIVE
    assert not failures, "\n\n".join(failures)


def _try(operation: Any, mode: GenerationMode, checks: Any, world: Running) -> None:
    headers = {"Authorization": f"Bearer {world.service.admin}"}

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        # What is used up is made for it, so that the others still find something.
        used_up = operation.method == "delete" or operation.definition.raw["operationId"] == "rotate_endpoint_secret"
        ids = world.furnish() if used_up else world.ids
        case.path_parameters = {name: ids.get(name, value) for name, value in (case.path_parameters or {}).items()}
        if mode is GenerationMode.POSITIVE:
            make_fit(case)
        case.call_and_validate(headers=headers, checks=checks)

    ask()
