"""What of the svix SDK works here: every route of the resources that we share, and every filter of their lists."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from svix.api import (
    ApplicationIn,
    EndpointGetAttemptStatsOptions,
    EndpointGetStatsOptions,
    EndpointIn,
    MessageAttemptListAttemptedDestinationsOptions,
    MessageAttemptListAttemptedMessagesOptions,
    MessageAttemptListByEndpointOptions,
    MessageAttemptListByMsgOptions,
    MessageGetOptions,
    MessageIn,
    MessageListOptions,
    SvixAsync,
)
from svix.models import MessageStatus, StatusCodeClass

from hookfuse.api.openapi import SEND_MESSAGE
from hookfuse.api.table import OPERATIONS
from hookfuse.testing.receivers import Arrival, Failing, Ok, Receivers
from tests.service.conftest import Service
from tests.service.sdk import client

SHARED = ("application", "endpoint", "event_type", "message", "message_attempt", "health", "background_task")
NOT_HERE = {
    "endpoint.bulk_replay",
    "endpoint.transformation_partial_update",
    "event_type.import_openapi",
    "message.bulk_expunge_content",
    "message.expunge_all_contents",
    "message.precheck",
    "message_attempt.expunge_content",
}
_REQUEST = re.compile(r'method="(\w+)",\s*path="([^"]+)"')
_PARAMETER = re.compile(r"\{\w+\}")


def test_routes() -> None:
    """Every request that the SDK can make of a shared resource has a route here, but for those that we name."""
    ours = {(each.method, _PARAMETER.sub("{}", each.path)) for each in (*OPERATIONS, SEND_MESSAGE)}
    asked = {
        f"{resource}.{name}": (found[1].upper(), _PARAMETER.sub("{}", found[2]))
        for resource in SHARED
        for name, method in vars(_class(resource)).items()
        if inspect.isfunction(method) and (found := _REQUEST.search(inspect.getsource(method)))
    }
    assert len(asked) > 40
    assert {name for name, request in asked.items() if request not in ours} == NOT_HERE


def _class(resource: str) -> Any:
    camel = "".join(word.capitalize() for word in resource.split("_"))
    return getattr(__import__(f"svix.api.{resource}", fromlist=[camel]), f"{camel}Async")


@pytest.fixture
async def sdk(service: Service) -> AsyncIterator[SvixAsync]:
    async with client(service, service.admin) as found:
        yield found


@pytest.mark.anyio
async def test_filters(sdk: SvixAsync, service: Service, receivers: Receivers) -> None:
    """Messages and attempts are listed by type, channel, status, class of status and time, with content or without."""

    def judge(arrival: Arrival) -> Ok | Failing:
        return Failing(404) if b"bad" in arrival.body else Ok()

    app = (await sdk.application.create(ApplicationIn(name="Acme"))).id
    endpoint = (await sdk.endpoint.create(app, EndpointIn(url=receivers.add("shop", judge)))).id
    await service.ok("PUT", f"/app/{app}/endpoint/{endpoint}/response-policy", {"final": ["404"]})
    good = await sdk.message.create(app, MessageIn(event_type="good", payload={"n": "fine"}, channels=["x"]))
    bad = await sdk.message.create(app, MessageIn(event_type="bad", payload={"n": "bad"}, channels=["y"]))

    async def ended() -> bool:
        stats = await sdk.endpoint.get_stats(app, endpoint)
        return (stats.success, stats.fail) == (1, 1)

    await service.until(ended)
    before, after = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)

    for chosen, found in (
        (MessageListOptions(event_types=["bad", "other"]), [bad.id]),
        (MessageListOptions(channel="x"), [good.id]),
        (MessageListOptions(after=before, before=after), [bad.id, good.id]),
        (MessageListOptions(after=after), []),
    ):
        assert [each.id for each in (await sdk.message.list(app, chosen)).data] == found
    assert (await sdk.message.get(app, good.id, MessageGetOptions(with_content=True))).payload == {"n": "fine"}

    by_endpoint = MessageAttemptListByEndpointOptions
    for by, found in (
        (by_endpoint(status=MessageStatus.FAIL), [bad.id]),
        (by_endpoint(status_code_class=StatusCodeClass.CODE4XX), [bad.id]),
        (by_endpoint(status_code_class=StatusCodeClass.CODE2XX, channel="x"), [good.id]),
        (by_endpoint(event_types=["good"]), [good.id]),
        (by_endpoint(before=before), []),
    ):
        assert [each.msg_id for each in (await sdk.message_attempt.list_by_endpoint(app, endpoint, by)).data] == found
    everything = by_endpoint(with_msg=True, with_content=True, channel="x")
    (whole,) = (await sdk.message_attempt.list_by_endpoint(app, endpoint, everything)).data
    assert whole.msg is not None
    assert whole.msg.payload == {"n": "fine"}
    of_message = MessageAttemptListByMsgOptions(endpoint_id=endpoint, with_content=False, expanded_statuses=True)
    (attempt,) = (await sdk.message_attempt.list_by_msg(app, bad.id, of_message)).data
    assert (attempt.response_status_code, attempt.response) == (404, "")

    messages = MessageAttemptListAttemptedMessagesOptions(status=MessageStatus.FAIL, with_content=True, channel="y")
    (failed,) = (await sdk.message_attempt.list_attempted_messages(app, endpoint, messages)).data
    assert (failed.id, failed.payload) == (bad.id, {"n": "bad"})
    one = MessageAttemptListAttemptedDestinationsOptions(limit=1)
    assert (await sdk.message_attempt.list_attempted_destinations(app, good.id, one)).data[0].id == endpoint
    future = EndpointGetStatsOptions(since=after, until=after + timedelta(hours=1))
    assert (await sdk.endpoint.get_stats(app, endpoint, future)).success == 0
    tried = EndpointGetAttemptStatsOptions(since=before, until=after)
    counted = await sdk.endpoint.get_attempt_stats(app, endpoint, tried)
    assert (counted.success, counted.fail) == (1, 1)
