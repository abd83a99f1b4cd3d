"""When failed deliveries are tried again, and what answers mean: of an application, or of an endpoint."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from hookfuse.api.call import Call
from hookfuse.api.problems import invalid, not_found
from hookfuse.api.routes import Routes
from hookfuse.api.wire import Wire
from hookfuse.core.endpoint import Endpoint
from hookfuse.core.response import ResponsePolicy
from hookfuse.core.retry import LONGEST_DELAY, MOST_JITTER, MOST_RETRIES, RetrySchedule
from hookfuse.errors import InvalidField

routes = Routes("Policies")

# Only described here: the values that are made of them refuse what does not fit, and name its place.
_STATUS = Meta(extra_json_schema={"pattern": "^([1-5]xx|[1-5][0-9][0-9](-[1-5][0-9][0-9])?)$"})
_DELAY = Meta(extra_json_schema={"minimum": 0, "maximum": LONGEST_DELAY})
_JITTER = Meta(extra_json_schema={"minimum": 0, "maximum": MOST_JITTER})
_RETRIES = Meta(extra_json_schema={"minimum": 1, "maximum": MOST_RETRIES})

Delay = Annotated[float, _DELAY]
Statuses = Annotated[
    list[Annotated[str, _STATUS]], Meta(max_length=50, description="Statuses such as 404, 4xx or 500-504.")
]


class RetryScheduleIn(Wire):
    """The waits between attempts, in seconds: n delays make n + 1 attempts."""

    delays: Annotated[list[Delay], Meta(max_length=MOST_RETRIES)]
    jitter: Annotated[float, _JITTER] = 0.1


class RetryScheduleOut(Wire):
    own: dict[str, Any] | None
    """What is set here; null: nothing."""
    effective: dict[str, Any]
    """What holds."""


class ResponsePolicyIn(Wire):
    """What answers mean beside what they always mean."""

    sent: Statuses | None = None
    final: Statuses | None = None
    retry: Statuses | None = None
    retries: Annotated[int, _RETRIES] | None = None
    gap: Delay | None = None
    ignore: Statuses | None = None


class ResponsePolicyOut(Wire):
    own: dict[str, Any] | None
    effective: dict[str, Any]


@routes.get("/app/{app_id}/retry-schedule")
async def get_application_retry_schedule(call: Call) -> RetryScheduleOut:
    """Get the retry schedule of an application."""
    return _schedule_told(call, call.app.retry, call.app.retry)


@routes.put("/app/{app_id}/retry-schedule")
async def set_application_retry_schedule(call: Call, body: RetryScheduleIn) -> RetryScheduleOut:
    """Set when deliveries of an application are tried again, for endpoints that do not say it themselves."""
    data = _schedule(body).to_data()
    await call.parts.store.change_application(call.app.id, {"retry": data})
    return _schedule_told(call, data, data)


@routes.delete("/app/{app_id}/retry-schedule")
async def delete_application_retry_schedule(call: Call) -> None:
    """Return to the default schedule."""
    await call.parts.store.change_application(call.app.id, {"retry": None})


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/retry-schedule")
async def get_endpoint_retry_schedule(call: Call) -> RetryScheduleOut:
    """Get the retry schedule of an endpoint."""
    own = (await call.endpoint()).retry
    return _schedule_told(call, own, own or call.app.retry)


@routes.put("/app/{app_id}/endpoint/{endpoint_id}/retry-schedule")
async def set_endpoint_retry_schedule(call: Call, body: RetryScheduleIn) -> RetryScheduleOut:
    """Set when deliveries of an endpoint are tried again."""
    data = _schedule(body).to_data()
    await _change(call, {"retry": data})
    return _schedule_told(call, data, data)


@routes.delete("/app/{app_id}/endpoint/{endpoint_id}/retry-schedule")
async def delete_endpoint_retry_schedule(call: Call) -> None:
    """Return to the schedule of the application."""
    await _change(call, {"retry": None})


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/response-policy")
async def get_response_policy(call: Call) -> ResponsePolicyOut:
    """Get what the answers of an endpoint mean."""
    return _response_told(call, (await call.endpoint()).response)


@routes.put("/app/{app_id}/endpoint/{endpoint_id}/response-policy")
async def set_response_policy(call: Call, body: ResponsePolicyIn) -> ResponsePolicyOut:
    """Set which answers of an endpoint are final, count as delivered, or are tried again."""
    given = {name: getattr(body, name) for name in body.__struct_fields__ if getattr(body, name) is not None}
    try:
        data = ResponsePolicy(**given).to_data()
    except InvalidField as error:
        raise invalid(str(error), "body", error.field) from error
    return _response_told(call, (await _change(call, {"response": data})).response)


@routes.delete("/app/{app_id}/endpoint/{endpoint_id}/response-policy")
async def delete_response_policy(call: Call) -> None:
    """Return to what answers mean by default."""
    await _change(call, {"response": None})


def _schedule(body: RetryScheduleIn) -> RetrySchedule:
    try:
        return RetrySchedule(tuple(body.delays), body.jitter)
    except InvalidField as error:
        raise invalid(str(error), "body", error.field) from error


async def _change(call: Call, changes: dict[str, Any]) -> Endpoint:
    changed = await call.parts.store.change_endpoint((await call.endpoint()).id, changes)
    if changed is None:
        raise not_found("endpoint")
    return changed


def _schedule_told(call: Call, own: Any, found: Any) -> RetryScheduleOut:
    effective = call.parts.defaults.retry.to_data() if found is None else dict(found)
    return RetryScheduleOut(own=None if own is None else dict(own), effective=effective)


def _response_told(call: Call, own: Any) -> ResponsePolicyOut:
    effective = call.parts.defaults.response.to_data() if own is None else dict(own)
    return ResponsePolicyOut(own=None if own is None else dict(own), effective=effective)
