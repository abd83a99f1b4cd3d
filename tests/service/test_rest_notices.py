"""Notices over the API: chosen for each application, with secrets that stay secret, and seen to their end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from hookfuse.app.reseal import reseal
from hookfuse.core.mail import MailServer
from hookfuse.delivery.notify_addresses import Addresses, NoticeDefaults, open_addresses
from hookfuse.sealing import AesGcmSealer, MasterKeys, read_or_make_key
from hookfuse.testing.receivers import Arrival, Failing, Gone, Ok, Receivers
from tests.servers.mail import Inbox, mail_server
from tests.service.conftest import Service, running

pytestmark = pytest.mark.anyio

CHAT = "http://127.0.0.1:9/services/T0/B0/very-secret"


@pytest.fixture
async def mailing(tmp_path: Path) -> AsyncIterator[tuple[Service, Inbox]]:
    """A service that may send mails, and what it sent."""
    with mail_server() as inbox:
        notices = NoticeDefaults(mail_server=MailServer("127.0.0.1", inbox.port, tls=False), mail_from="hf@example.com")
        async with running(f"sqlite://{tmp_path}/hookfuse.db", tmp_path, notices=notices) as found:
            yield found, inbox


async def test_a_disabled_endpoint_is_told(mailing: tuple[Service, Inbox], receivers: Receivers) -> None:
    """An endpoint that answers 410 is told of by a webhook that verifies with the secret of the API, and by mail."""
    service, inbox = mailing
    seen: list[Arrival] = []

    def look(arrival: Arrival) -> Any:
        seen.append(arrival)
        return Ok()

    app = await service.app("Acme", uid="acme")
    chosen = {
        "webhook": {"url": receivers.add("ops", look)},
        "email": {"to": ["a@example.com"]},
        "events": ["endpoint.disabled"],
    }
    assert (await service.ok("PUT", f"/app/{app}/notices", chosen))["channels"] == ["webhook", "email"]
    endpoint = await service.endpoint(app, receivers.add("shop", Gone()), uid="shop")
    await service.send(app)

    async def both_sent() -> bool:
        page = await service.ok("GET", f"/app/{app}/notices/outbox", params={"state": "sent"})
        return len(page["data"]) == 2

    await service.until(both_sent)
    (arrival,) = seen
    secret = (await service.ok("GET", f"/app/{app}/notices/secret"))["key"]
    told = Webhook(secret).verify(arrival.body, dict(arrival.headers))
    assert (told["type"], told["data"]["endpointId"], told["data"]["trigger"]) == (
        "endpoint.disabled",
        endpoint,
        "automatic",
    )
    assert inbox.mails[0]["subject"] == f"[Hookfuse] Endpoint shop ({endpoint}) was disabled"
    whole = await service.ok("GET", "/notices/outbox")
    assert {each["appId"] for each in whole["data"]} == {app}


async def test_transitions_are_kept(service: Service, receivers: Receivers) -> None:
    """What a breaker did is listed with its numbers, of the endpoint, of its application, and of all."""
    app = await service.app()
    endpoint = await service.endpoint(app, receivers.add("shop", Failing(500)))
    await service.send(app)
    path = f"/app/{app}/breaker/{endpoint}"

    async def opened() -> Any:
        return (await service.ok("GET", f"{path}/history"))["transitions"]

    (made,) = await service.until(opened)
    assert (made["before"], made["after"], made["actor"]) == ("closed", "open", "breaker")
    assert made["numbers"] == {"streak": 3, "limit": 3}
    await service.ok("POST", f"{path}/reset", {"reason": "mended"})
    for where in (f"{path}/transition", f"/app/{app}/transition", "/transition"):
        page = await service.ok("GET", where)
        assert [each["after"] for each in page["data"]] == ["closed", "open"], "newest first"
        assert {each["endpointId"] for each in page["data"]} == {endpoint}
    newest = await service.ok("GET", "/transition", params={"limit": 1})
    older = await service.ok("GET", "/transition", params={"limit": 1, "iterator": newest["iterator"]})
    assert [newest["data"][0]["after"], older["data"][0]["after"]] == ["closed", "open"]


async def test_secrets_stay_secret(mailing: tuple[Service, Inbox], tmp_path: Path) -> None:
    """The chat's URL is never shown, nor is anything of it in the file; the signing secret only by its own route."""
    service, _ = mailing
    app = await service.app()
    chosen = {"webhook": {"url": "https://example.com/ops"}, "chat": {"url": CHAT}}
    shown = await service.ok("PUT", f"/app/{app}/notices", chosen)
    assert shown["chat"] == {"host": "127.0.0.1"}
    secret = (await service.ok("GET", f"/app/{app}/notices/secret"))["key"]
    assert secret.startswith("whsec_")
    content = await asyncio.to_thread(_stored, tmp_path)
    assert b"very-secret" not in content
    assert secret.encode() not in content
    again = await service.ok("PUT", f"/app/{app}/notices", {**chosen, "chat": {}})
    assert again == shown, "what is left out of a channel stays as it was"
    assert (await service.ok("GET", f"/app/{app}/notices/secret"))["key"] == secret
    reader = await service.key("read", app)
    assert (await service.ask("GET", f"/app/{app}/notices/secret", key=reader)).status_code == 403
    audit = await service.ok("GET", f"/app/{app}/audit")
    assert "get_notice_secret" in {each["action"] for each in audit["data"]}
    assert "very-secret" not in json.dumps(audit)


def _stored(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("hookfuse.db*"))


async def test_defaults_are_behind_it(tmp_path: Path) -> None:
    """Without settings the service's own hold, and their addresses are shown to no tenant."""
    notices = NoticeDefaults(Addresses(chat_url=CHAT), quiet_ms=5_000)
    async with running(f"sqlite://{tmp_path}/hookfuse.db", tmp_path, notices=notices, working=False) as service:
        app = await service.app()
        found = await service.ok("GET", f"/app/{app}/notices")
        assert (found["own"], found["channels"], found["quietSeconds"]) == (False, ["chat"], 5)
        assert found["chat"] is None
        assert (await service.ok("PUT", f"/app/{app}/notices", {}))["channels"] == [], "an application may want none"
        await service.ok("DELETE", f"/app/{app}/notices")
        assert await service.ok("GET", f"/app/{app}/notices") == found


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"webhook": {"url": "http://169.254.169.254/"}}, ["body", "webhook", "url"]),
        ({"webhook": {"url": "https://example.com", "secret": "whsec_x"}}, ["body", "webhook", "secret"]),
        ({"chat": {"url": "ftp://example.com"}}, ["body", "chat", "url"]),
        ({"chat": {}}, ["body", "chat", "url"]),
        ({"email": {"to": ["a@example.com", "b\r\nBcc: c@d.e"]}}, ["body", "email", "to", "1"]),
        ({"email": {"to": []}}, ["body", "email", "to"]),
        ({"events": ["nothing"]}, ["body", "events", "0"]),
        ({"quietSeconds": -1}, ["body", "quietSeconds"]),
    ],
)
async def test_what_cannot_be_used(mailing: tuple[Service, Inbox], body: dict[str, Any], loc: list[str]) -> None:
    """Settings that cannot be used are refused with the field that is wrong, and the old ones stay."""
    service, _ = mailing
    app = await service.app()
    before = await service.ok("PUT", f"/app/{app}/notices", {"email": {"to": ["a@example.com"]}})
    response = await service.ask("PUT", f"/app/{app}/notices", body)
    assert response.status_code == 422, response.text
    assert [part.strip("[]") for part in response.json()["detail"][0]["loc"]] == loc
    assert await service.ok("GET", f"/app/{app}/notices") == before


async def test_no_mail_server(service: Service) -> None:
    """Mails are refused where there is no server to hand them to."""
    app = await service.app()
    response = await service.ask("PUT", f"/app/{app}/notices", {"email": {"to": ["a@example.com"]}})
    assert response.status_code == 422
    assert "HOOKFUSE_SMTP_URL" in response.text


async def test_sealed_anew(idle: Service) -> None:
    """A new master key seals the addresses of notices anew, and they read as before."""
    app = await idle.app()
    await idle.ok("PUT", f"/app/{app}/notices", {"chat": {"url": CHAT}})
    old = read_or_make_key(idle.station.settings.key_file)
    both = AesGcmSealer(MasterKeys([bytes(32), *old.by_id.values()]))
    assert [each.changed async for each in reseal(idle.store, both)] == [1]
    settings = await idle.store.notice_settings(app)
    assert settings is not None
    assert not both.needs_resealing(settings.sealed)
    assert open_addresses(both, settings).chat_url == CHAT


def test_the_settings_are_values() -> None:
    """Addresses do not show what is secret in them, and read back from what is sealed."""
    given = Addresses("https://example.com/x", None, ("a@example.com",), CHAT)
    assert "very-secret" not in repr(given)
    assert Addresses.from_data(json.loads(json.dumps(given.to_data()))) == given


async def test_trying_the_channels(mailing: tuple[Service, Inbox], receivers: Receivers) -> None:
    """A test notice goes out at once on every channel that was chosen, and each says what came of it."""
    service, inbox = mailing
    app = await service.app()
    refused = await service.ask("POST", f"/app/{app}/notices/test")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    chosen = {
        "webhook": {"url": receivers.add("ops", Ok())},
        "email": {"to": ["a@example.com"]},
        "chat": {"url": receivers.add("chat", Failing(500))},
    }
    await service.ok("PUT", f"/app/{app}/notices", chosen)
    assert (await service.ok("POST", f"/app/{app}/notices/test"))["data"] == [
        {"channel": "webhook", "ok": True, "trouble": ""},
        {"channel": "email", "ok": True, "trouble": ""},
        {"channel": "chat", "ok": False, "trouble": "status 500"},
    ]
    assert inbox.mails[0]["subject"] == "[Hookfuse] Hookfuse can reach you: this is a test"
    assert (await service.ok("GET", "/notices/outbox"))["data"] == [], "it is no notice of anything"


async def test_who_may_try(mailing: tuple[Service, Inbox]) -> None:
    """The channels of the service are tried by its admin alone; where there are none, none is told."""
    service, _ = mailing
    app = await service.app()
    assert await service.ok("POST", "/notices/test") == {"data": []}
    for role, of in (("read", None), ("app", app)):
        refused = await service.ask("POST", "/notices/test", key=await service.key(role, of))
        assert refused.status_code == 403
    reading = await service.key("read", app)
    assert (await service.ask("POST", f"/app/{app}/notices/test", key=reading)).status_code == 403
