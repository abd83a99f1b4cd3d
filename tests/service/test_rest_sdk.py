"""The svix SDK from PyPI, unchanged, against our server, with a real worker and real receivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import standardwebhooks.webhooks
import svix.webhooks
from svix.api import (
    ApplicationIn,
    ApplicationListOptions,
    ApplicationPatch,
    EndpointHeadersIn,
    EndpointHeadersPatchIn,
    EndpointIn,
    EndpointListOptions,
    EndpointPatch,
    EndpointSecretRotateIn,
    EventTypeIn,
    EventTypeListOptions,
    EventTypePatch,
    MessageAttemptListByEndpointOptions,
    MessageCreateOptions,
    MessageIn,
    MessageListOptions,
    RecoverIn,
    ReplayIn,
    SvixAsync,
)
from svix.exceptions import HttpError, HTTPValidationError
from svix.models import EndpointUpsertIn, EventExampleIn, EventTypeUpsertIn, MessageAttemptTriggerType, MessageStatus

from hookfuse.testing.receivers import Arrival, Failing, Ok, Receivers
from tests.service.conftest import Service, running
from tests.service.sdk import client, pages

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite://{tmp_path}/hookfuse.db"


@pytest.fixture
async def service(database: str, tmp_path: Path) -> AsyncIterator[Service]:
    async with running(database, tmp_path) as found:
        yield found


@pytest.fixture
async def sdk(service: Service) -> AsyncIterator[SvixAsync]:
    async with client(service, service.admin) as found:
        yield found


async def test_applications(sdk: SvixAsync) -> None:
    """Applications are made, found by uid, listed in pages, changed and deleted."""
    made = await sdk.application.create(ApplicationIn(name="Acme", uid="acme", metadata={"plan": "gold"}))
    assert await sdk.application.get("acme") == await sdk.application.get(made.id) == made
    again = await sdk.application.get_or_create(ApplicationIn(name="Other", uid="acme"))
    assert again == made
    for number in range(6):
        await sdk.application.create(ApplicationIn(name=f"App {number}"))
    listed = await pages(sdk.application.list, lambda it: ApplicationListOptions(limit=3, iterator=it))
    assert [each.name for each in listed] == ["Acme", *(f"App {number}" for number in range(6))]
    patched = await sdk.application.patch("acme", ApplicationPatch(name="New"))
    assert (patched.name, patched.uid, patched.metadata) == ("New", "acme", {"plan": "gold"})
    updated = await sdk.application.upsert("acme", ApplicationIn(name="Newer", uid="acme-2"))
    assert (updated.id, updated.uid, updated.metadata) == (made.id, "acme-2", {})
    await sdk.application.delete("acme-2")
    with pytest.raises(HttpError) as caught:
        await sdk.application.get(made.id)
    assert (caught.value.status_code, caught.value.code) == (404, "not_found")


async def test_errors(sdk: SvixAsync, service: Service) -> None:
    """The SDK reads our errors: conflicts by their code, unusable input by its place."""
    await sdk.application.create(ApplicationIn(name="Acme", uid="acme"))
    with pytest.raises(HttpError) as conflict:
        await sdk.application.create(ApplicationIn(name="Acme", uid="acme"))
    assert (conflict.value.status_code, conflict.value.code) == (409, "conflict")
    with pytest.raises(HTTPValidationError) as invalid:
        await sdk.endpoint.create("acme", EndpointIn(url="http://127.1/"))
    (fault,) = invalid.value.detail
    assert fault.loc == ["body", "url"]
    async with client(service, "hfnothing") as stranger:
        with pytest.raises(HttpError) as unknown:
            await stranger.application.list()
    assert unknown.value.status_code == 401


async def test_endpoints(sdk: SvixAsync) -> None:
    """Endpoints are made, listed, changed, disabled and deleted, with headers that do not show their values."""
    app = (await sdk.application.create(ApplicationIn(name="Acme"))).id
    made = await sdk.endpoint.create(
        app,
        EndpointIn(
            url="HTTPS://EXAMPLE.COM:443/A?b=C",
            uid="main",
            description="first",
            throttle_rate=50,
            event_types=["a.b"],
            channels=["x"],
            headers={"X-Token": "canary"},
        ),
    )
    assert (made.url, made.uid, made.throttle_rate, made.event_types) == (
        "https://example.com/A?b=C",
        "main",
        50,
        ["a.b"],
    )
    headers = await sdk.endpoint.get_headers(app, "main")
    assert (headers.headers, headers.sensitive) == ({}, ["X-Token"])
    await sdk.endpoint.patch_headers(
        app, "main", EndpointHeadersPatchIn(headers={"User-Agent": "me"}, delete_headers=["x-token"])
    )
    assert (await sdk.endpoint.get_headers(app, "main")).headers == {"User-Agent": "me"}
    await sdk.endpoint.set_headers(app, "main", EndpointHeadersIn(headers={}))
    assert (await sdk.endpoint.get_headers(app, "main")).headers == {}
    patched = await sdk.endpoint.patch(app, "main", EndpointPatch(disabled=True, event_types=None))
    assert (patched.disabled, patched.event_types, patched.channels) == (True, None, ["x"])
    updated = await sdk.endpoint.upsert(app, made.id, EndpointUpsertIn(url="https://example.org/", disabled=False))
    assert (updated.id, updated.disabled, updated.uid, updated.channels) == (made.id, False, None, None)
    for number in range(5):
        await sdk.endpoint.create(app, EndpointIn(url=f"https://example.com/{number}"))
    listed = await pages(lambda options: sdk.endpoint.list(app, options), lambda it: EndpointListOptions(2, it))
    assert len(listed) == 6
    await sdk.endpoint.delete(app, made.id)
    with pytest.raises(HttpError):
        await sdk.endpoint.get(app, made.id)


async def test_event_types(sdk: SvixAsync) -> None:
    """Event types are described, listed, changed and archived."""
    made = await sdk.event_type.create(
        EventTypeIn(name="invoice.paid", description="paid", schemas={"1": {"type": "object"}}, feature_flags=["beta"])
    )
    assert await sdk.event_type.get("invoice.paid") == made
    await sdk.event_type.patch("invoice.paid", EventTypePatch(deprecated=True))
    updated = await sdk.event_type.upsert("invoice.paid", EventTypeUpsertIn(description="new"))
    assert (updated.description, updated.deprecated, updated.schemas) == ("new", False, None)
    await sdk.event_type.create(EventTypeIn(name="other", description=""))
    await sdk.event_type.delete("other")
    assert [each.name for each in (await sdk.event_type.list()).data] == ["invoice.paid"]
    archived = await sdk.event_type.list(EventTypeListOptions(include_archived=True))
    assert [(each.name, each.archived) for each in archived.data] == [("invoice.paid", False), ("other", True)]


async def test_messages_arrive_signed(sdk: SvixAsync, service: Service, receivers: Receivers) -> None:
    """What the SDK sends arrives once, and both official verifiers take it with both secrets of a rotation."""
    app = (await sdk.application.create(ApplicationIn(name="Acme"))).id
    arrivals: list[Arrival] = []

    def keep(arrival: Arrival) -> Ok:
        arrivals.append(arrival)
        return Ok()

    endpoint = await sdk.endpoint.create(app, EndpointIn(url=receivers.add("shop", keep)))
    old = (await sdk.endpoint.get_secret(app, endpoint.id)).key
    rotated = (await sdk.endpoint.rotate_secret(app, endpoint.id, EndpointSecretRotateIn())).key
    assert (await sdk.endpoint.get_secret(app, endpoint.id)).key == rotated != old
    sent = await sdk.message.create(
        app,
        MessageIn(event_type="invoice.paid", event_id="evt-1", payload={"n": 1}, channels=["x"]),
        MessageCreateOptions(with_content=True, idempotency_key="k1"),
    )
    again = await sdk.message.create(
        app,
        MessageIn(event_type="invoice.paid", event_id="evt-1", payload={"n": 1}, channels=["x"]),
        MessageCreateOptions(with_content=True, idempotency_key="k1"),
    )
    assert sent == again
    assert (sent.payload, sent.event_id, sent.channels) == ({"n": 1}, "evt-1", ["x"])
    await service.until(lambda: asyncio.sleep(0, arrivals))
    (arrival,) = arrivals
    headers = dict(arrival.headers)
    for secret in (old, rotated):
        assert standardwebhooks.webhooks.Webhook(secret).verify(arrival.body, headers) == {"n": 1}
        svix.webhooks.Webhook(secret).verify(arrival.body, headers)
    got = await sdk.message.get(app, "evt-1")
    assert (got.id, got.payload) == (sent.id, {})
    await service.until(lambda: _succeeded(sdk, app, endpoint.id))
    (attempt,) = (await sdk.message_attempt.list_by_msg(app, sent.id)).data
    assert (attempt.status, attempt.response_status_code, attempt.url) == (MessageStatus.SUCCESS, 200, endpoint.url)
    assert await sdk.message_attempt.get(app, sent.id, attempt.id) == attempt
    (message,) = (await sdk.message_attempt.list_attempted_messages(app, endpoint.id)).data
    assert (message.id, message.status) == (sent.id, MessageStatus.SUCCESS)
    (destination,) = (await sdk.message_attempt.list_attempted_destinations(app, sent.id)).data
    assert (destination.id, destination.status) == (endpoint.id, MessageStatus.SUCCESS)
    await sdk.message_attempt.resend(app, sent.id, endpoint.id)
    await receivers["shop"].arrived(2)
    await service.until(lambda: _attempts(sdk, app, sent.id, 2))
    newest_first = (await sdk.message_attempt.list_by_msg(app, sent.id)).data
    assert [each.trigger_type for each in newest_first] == [MessageAttemptTriggerType.MANUAL, attempt.trigger_type]
    assert attempt.trigger_type is MessageAttemptTriggerType.SCHEDULED
    stats = await sdk.endpoint.get_stats(app, endpoint.id)
    assert stats.success + stats.pending + stats.sending == 1
    await sdk.message.expunge_content(app, sent.id)
    assert (await sdk.message.list(app, MessageListOptions(with_content=True))).data[0].payload == {}


async def _attempts(sdk: SvixAsync, app: str, message: str, count: int) -> bool:
    return len((await sdk.message_attempt.list_by_msg(app, message)).data) == count


async def _succeeded(sdk: SvixAsync, app: str, endpoint: str) -> bool:
    return (await sdk.endpoint.get_stats(app, endpoint)).success == 1


async def test_recover(sdk: SvixAsync, service: Service, receivers: Receivers) -> None:
    """What failed while an endpoint was broken is sent again by recover, and what it missed by replay-missing."""
    app = (await sdk.application.create(ApplicationIn(name="Acme"))).id
    url = receivers.add("shop", Failing())
    start = datetime.now(UTC) - timedelta(minutes=1)
    missed = await sdk.message.create(app, MessageIn(event_type="a", payload={"n": 0}))
    endpoint = await sdk.endpoint.create(app, EndpointIn(url=url))
    await service.ok("PUT", f"/app/{app}/policy", {"policy": {"trip": [{"rule": "streak", "n": 1000}]}})
    failed = [await sdk.message.create(app, MessageIn(event_type="a", payload={"n": n})) for n in range(3)]

    async def all_failed() -> bool:
        return (await sdk.endpoint.get_stats(app, endpoint.id)).fail == 3

    await service.until(all_failed)
    receivers.change("shop", Ok())
    task = await sdk.endpoint.recover(app, endpoint.id, RecoverIn(since=start))
    await service.until(lambda: _finished(sdk, task.id))

    async def all_sent() -> bool:
        return (await sdk.endpoint.get_stats(app, endpoint.id)).success == 3

    await service.until(all_sent)
    arrived = {receipt.webhook_id for receipt in receivers.receipts() if receipt.status == 200}
    assert arrived == {each.id for each in failed}
    replay = await sdk.endpoint.replay_missing(app, endpoint.id, ReplayIn(since=start))
    await service.until(lambda: _finished(sdk, replay.id))

    async def missed_sent() -> bool:
        return (await sdk.endpoint.get_stats(app, endpoint.id)).success == 4

    await service.until(missed_sent)
    assert missed.id in {receipt.webhook_id for receipt in receivers.receipts()}
    example = await sdk.endpoint.send_example(app, endpoint.id, EventExampleIn(event_type="a"))

    async def example_sent() -> bool:
        return example.id in {receipt.webhook_id for receipt in receivers.receipts()}

    await service.until(example_sent)
    listed = await pages(
        lambda options: sdk.message_attempt.list_by_endpoint(app, endpoint.id, options),
        lambda it: MessageAttemptListByEndpointOptions(limit=4, iterator=it),
    )
    assert [each.timestamp for each in listed] == sorted((each.timestamp for each in listed), reverse=True)
    failures = MessageAttemptListByEndpointOptions(status=MessageStatus.FAIL)
    assert len((await sdk.message_attempt.list_by_endpoint(app, endpoint.id, failures)).data) == 9
    assert {each.id for each in (await sdk.background_task.list()).data} == {task.id, replay.id}


async def _finished(sdk: SvixAsync, task_id: str) -> bool:
    return (await sdk.background_task.get(task_id)).status == "finished"


async def test_health(sdk: SvixAsync) -> None:
    """Health answers without content."""
    await sdk.health.get()
