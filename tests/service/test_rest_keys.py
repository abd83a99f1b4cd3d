"""Keys are shown once, revoked everywhere within seconds, and everything they change is written down."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from hookfuse.core.access import Role, hash_key, make_key_text, well_formed
from hookfuse.errors import InvalidInput
from tests.service.conftest import Service, running

pytestmark = pytest.mark.anyio


async def test_a_key_is_shown_once(idle: Service) -> None:
    """A new key is in the answer and nowhere else; only its hash is stored."""
    app = await idle.app(uid="acme")
    made = await idle.ok("POST", "/key", {"name": "mine", "role": "app", "appId": "acme"})
    assert re.fullmatch(r"hfapp_[A-Za-z0-9_-]{49}", made["key"])
    assert (made["appId"], made["role"], made["revokedAt"], made["lastUsedAt"]) == (app, "app", None, None)
    listed = await idle.ask("GET", "/key")
    assert made["key"] not in listed.text
    stored = await idle.store.key(made["id"])
    assert stored is not None
    assert stored.hash == hash_key(made["key"])
    assert (await idle.ask("GET", f"/app/{app}", key=made["key"])).status_code == 200


@pytest.mark.parametrize(
    "body", [{"role": "app"}, {"role": "admin", "appId": "acme"}, {"role": "king"}, {"role": "read", "name": ""}]
)
async def test_keys_that_make_no_sense(idle: Service, body: dict[str, str]) -> None:
    """A key without a name or a known role, or with an application where there is none to name, is refused."""
    await idle.app(uid="acme")
    assert (await idle.ask("POST", "/key", {"name": "x", **body})).status_code == 422


async def test_a_key_for_an_application_that_is_not_there(idle: Service) -> None:
    """A key is only made for an application that is there."""
    assert (await idle.ask("POST", "/key", {"name": "x", "role": "app", "appId": "none"})).status_code == 404


async def test_revoked_everywhere(tmp_path: Path, postgres_url: str) -> None:
    """A key that was in use on two nodes is refused at once where it was revoked, and on the other within 5 s."""
    async with (
        running(postgres_url, tmp_path, working=False) as one,
        running(postgres_url, tmp_path, working=False) as two,
    ):
        made = await one.ok("POST", "/key", {"name": "x", "role": "admin"})
        for node in (one, two):
            assert (await node.ask("GET", "/app", key=made["key"])).status_code == 200
        await one.ok("DELETE", f"/key/{made['id']}")
        started = time.monotonic()
        assert (await one.ask("GET", "/app", key=made["key"])).status_code == 401

        async def refused() -> bool:
            return bool((await two.ask("GET", "/app", key=made["key"])).status_code == 401)

        await two.until(refused)
        assert time.monotonic() - started < 5
        body = {"eventType": "a", "payload": {}}
        assert (await two.ask("POST", "/app/none/msg", body, key=made["key"])).status_code == 401


async def test_last_used(idle: Service) -> None:
    """A key tells when it was last used, and a thousand uses are not a thousand writes."""
    made = await idle.ok("POST", "/key", {"name": "x", "role": "admin"})

    async def used() -> Any:
        found = (await idle.ok("GET", "/key"))["data"]
        return next(each["lastUsedAt"] for each in found if each["id"] == made["id"])

    assert await used() is None
    await idle.ask("GET", "/app", key=made["key"])
    first = await idle.until(used)
    for _ in range(50):
        await idle.ask("GET", "/app", key=made["key"])
    assert await used() == first


async def test_everything_is_written_down(idle: Service) -> None:
    """Each change is in the audit log with its key, and so is looking at a secret; reading is not."""
    app = await idle.app()
    mine = await idle.key("app", app)
    endpoint = (await idle.ok("POST", f"/app/{app}/endpoint", {"url": "https://example.com/"}, key=mine))["id"]
    await idle.ok("PATCH", f"/app/{app}/endpoint/{endpoint}", {"description": "canary-text"}, key=mine)
    await idle.ok("GET", f"/app/{app}/endpoint/{endpoint}/secret", key=mine)
    await idle.ok("GET", f"/app/{app}/endpoint", key=mine)
    await idle.ask("PATCH", f"/app/{app}/endpoint/none", {"description": "x"}, key=mine)
    await idle.ok("DELETE", f"/app/{app}/endpoint/{endpoint}", key=mine)
    log = await idle.ok("GET", f"/app/{app}/audit", key=mine)
    entries = [(each["action"], each["subject"], each["detail"]) for each in log["data"]]
    assert entries == [
        ("delete_endpoint", f"{app}/{endpoint}", ""),
        ("get_endpoint_secret", f"{app}/{endpoint}", ""),
        ("patch_endpoint", f"{app}/{endpoint}", "description"),
        ("create_endpoint", f"{app}/{endpoint}", "url"),
    ]
    (key,) = [each for each in (await idle.ok("GET", "/key"))["data"] if each["role"] == "app"]
    assert {each["actor"] for each in log["data"]} == {key["id"]}
    everything = (await idle.ok("GET", "/audit"))["data"]
    assert "create_application" in {each["action"] for each in everything}
    assert "canary-text" not in str(everything)


@pytest.mark.parametrize("role", list(Role))
async def test_the_text_of_a_key(role: Role) -> None:
    """A key's text carries 256 bits and a checksum that finds any single mistyped character."""
    text = make_key_text(role, bytes(range(32)))
    assert well_formed(text)
    assert text.startswith("hf")
    for at in range(len(text)):
        other = "A" if text[at] != "A" else "B"
        assert not well_formed(text[:at] + other + text[at + 1 :])
    with pytest.raises(InvalidInput):
        make_key_text(role, bytes(31))


async def test_asking_once(idle: Service) -> None:
    """A crowd with a key that nobody knows yet asks the database once, and all get in."""
    text = await idle.key("admin")
    doorkeeper = idle.station.store
    asked = 0
    real = doorkeeper.key_by_hash

    async def counted(digest: bytes) -> object:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.05)
        return await real(digest)

    doorkeeper.key_by_hash = counted  # type: ignore[method-assign,assignment]
    answers = await asyncio.gather(*(idle.ask("GET", "/app", key=text) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert asked == 1
