"""All operations, and the application that serves them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hookfuse.api import (
    applications,
    attempts,
    breakers,
    conditions,
    deliveries,
    destinations,
    dispatch,
    duties,
    endpoint_secrets,
    endpoints,
    event_types,
    health,
    keys,
    messages,
    notice_trials,
    notices,
    openapi,
    overview,
    policies,
    processes,
    recovery,
    schedules,
    task_routes,
    transitions,
    trials,
)
from hookfuse.api.ingest import Ingest, is_way
from hookfuse.api.parts import Parts
from hookfuse.api.problems import Problem
from hookfuse.api.routes import Operation

OPERATIONS: tuple[Operation, ...] = tuple(
    operation
    for module in (
        applications,
        endpoints,
        endpoint_secrets,
        recovery,
        trials,
        event_types,
        messages,
        attempts,
        destinations,
        deliveries,
        breakers,
        transitions,
        notices,
        notice_trials,
        policies,
        schedules,
        task_routes,
        keys,
        duties,
        processes,
        overview,
        conditions,
        health,
    )
    for operation in module.routes
)


class Api(Starlette):
    """The API. Messages go straight to `ingest`; everything else through the table."""

    def __init__(self, parts: Parts) -> None:
        described = msgspec.json.encode(openapi.document(OPERATIONS, version("hookfuse")))

        async def describe(request: Request) -> Response:
            return Response(described, media_type="application/json")

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            yield
            await parts.close()

        super().__init__(
            routes=[*dispatch.routes(OPERATIONS, parts), Route("/openapi.json", describe, methods=["GET"])],
            exception_handlers={HTTPException: path_refused},
            lifespan=lifespan,
        )
        self.router.redirect_slashes = False
        self.ingest = Ingest(parts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and is_way(scope["method"], scope["path"]):
            await self.ingest(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


async def path_refused(request: Request, error: Exception) -> Response:
    """A path or a method that is not known, as everything else that is refused."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        problem = Problem(404, "not_found", "There is nothing at this path.")
    elif error.status_code == 405:
        problem = Problem(405, "method_not_allowed", "This path does not know this method.")
    else:
        problem = Problem(error.status_code, "error", error.detail)
    response = dispatch.refusal(problem)
    response.headers.update(error.headers or {})
    return response
