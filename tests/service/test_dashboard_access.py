"""The dashboard's doors, without a browser: headers, cookies, tokens, origins, and what a form may lead to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from hookfuse.app.web import WebSettings, make_app
from hookfuse.dashboard import Dashboard, Furnishing, Live
from hookfuse.dashboard.actions import ACTIONS
from hookfuse.dashboard.sessions import LIFETIME, Sessions
from tests.service.conftest import Service, running
from tests.service.destinations import SOME_REFUSED_URLS

pytestmark = pytest.mark.anyio

HERE = "http://127.0.0.1:8400"
COOKIE = "hookfuse-session"
SAME = {"sec-fetch-site": "same-origin"}
HTMX = {**SAME, "hx-request": "true"}
ONLY_LOOKING = {"count-recover"}
PASSWORD = "correct horse battery staple"


class Doors(NamedTuple):
    """Pages over a service whose worker does not run, and who knocks."""

    service: Service
    client: httpx.AsyncClient
    sessions: Sessions
    app: str
    endpoint: str
    message: str

    def enter(self, key: str) -> str:
        """Log in by the cookie itself; returns the token of the session's forms."""
        cookie = self.sessions.begin(key)
        self.client.cookies.set(COOKIE, cookie)
        session = self.sessions.read(cookie)
        assert session is not None
        return session.token

    def fields(self, token: str) -> dict[str, Any]:
        """Enough for every action."""
        return {
            "token": token,
            "app": self.app,
            "endpoint": self.endpoint,
            "message": self.message,
            "task": "qtask_x",
            "key": "key_x",
            "name": "x",
            "role": "read",
            "since": "2024-01-01T00:00:00",
            "delivery": f"{self.message}/{self.endpoint}",
            "url": "https://example.com/",
        }

    async def log(self) -> list[Any]:
        found: list[Any] = (await self.service.ok("GET", "/audit", params={"limit": 250}))["data"]
        return found


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def hall(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Doors]:
    folder: Path = tmp_path_factory.mktemp("doors")
    async with running(f"sqlite://{folder}/hookfuse.db", folder, working=False) as service:
        api = make_app(service.station, settings=WebSettings())
        key = await service.key("read")
        furnishing = Furnishing(api, service.station.sealer, Live(), password=PASSWORD, password_key=key)
        transport = httpx.ASGITransport(Dashboard(furnishing), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
            app = await service.app()
            endpoint = await service.endpoint(app)
            message = await service.send(app)
            yield Doors(service, client, Sessions(service.station.sealer), app, endpoint, message)


@pytest.fixture
def doors(hall: Doors) -> Doors:
    """Nobody is logged in yet."""
    hall.client.cookies.clear()
    return hall


async def test_headers_of_every_answer(doors: Doors) -> None:
    """Pages, refusals, redirects and files carry the strict policy; nothing but files is ever kept by a browser."""
    doors.enter(doors.service.admin)
    page = await doors.client.get("/dashboard")
    script = page.text.split('<script src="')[1].split('"')[0]
    for path in (
        "/dashboard",
        "/",
        "/dashboard/nothing",
        "/dashboard/series/overview",
        script,
        "/dashboard/static/x/y",
    ):
        answer = await doors.client.get(path)
        assert answer.headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        kept = "immutable" in answer.headers["cache-control"]
        assert kept is (path == script)
    assert "<style" not in page.text
    assert page.text.count("<script") == page.text.count("<script src=")


async def test_destinations_of_the_form(doors: Doors) -> None:
    """The form of an endpoint takes no destination that the API refuses, and says which field is at fault."""
    token = doors.enter(doors.service.admin)
    at = f"/app/{doors.app}/endpoint/{doors.endpoint}"
    path, fields = "/dashboard/action/change-endpoint", {**doors.fields(token), "cap": "8", "timeout": "15"}
    assert (await doors.client.post(path, data=fields, headers=HTMX)).status_code == 200
    before = await doors.service.ok("GET", at)
    for url in SOME_REFUSED_URLS:
        answer = await doors.client.post(path, data={**fields, "url": url}, headers=HTMX)
        assert (answer.status_code, 'data-fault="url"' in answer.text) == (422, True), url
    assert await doors.service.ok("GET", at) == before


@pytest.mark.parametrize("path", ["../../pyproject.toml", "%2e%2e/site.py", "hookfuse.css/", "vendor"])
async def test_files_that_are_none(doors: Doors, path: str) -> None:
    """Only the files of the folder are served, under their exact names."""
    page = await doors.client.get("/dashboard/login")
    version = page.text.split("/dashboard/static/")[1].split("/")[0]
    assert (await doors.client.get(f"/dashboard/static/{version}/{path}")).status_code in (303, 404)


async def test_cookies_behind_tls(doors: Doors) -> None:
    """Behind a proxy with TLS the cookie is Secure and bound to its host; without, it is at least hidden and strict."""
    for headers, name, secure in (
        (SAME, COOKIE, False),
        ({**SAME, "x-forwarded-proto": "https"}, f"__Host-{COOKIE}", True),
    ):
        answer = await doors.client.post("/dashboard/login", data={"key": doors.service.admin}, headers=headers)
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{name}=")
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert ("Secure" in cookie) is secure
        assert doors.service.admin not in cookie


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site", "origin": HERE},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
    ],
)
async def test_foreign_pages(doors: Doors, headers: dict[str, str]) -> None:
    """What another site's page sends is refused, though it carried cookie and token: logins, actions and logouts."""
    assert (
        await doors.client.post("/dashboard/login", data={"key": doors.service.admin}, headers=headers)
    ).status_code == 403
    token = doors.enter(doors.service.admin)
    before = await doors.log()
    answer = await doors.client.post(
        "/dashboard/action/force-open", data=doors.fields(token), headers={**headers, "hx-request": "true"}
    )
    assert answer.status_code == 403
    assert await doors.log() == before
    await doors.client.post("/dashboard/logout", headers=headers)
    assert (await doors.client.get("/dashboard")).status_code == 200


async def test_old_browsers(doors: Doors) -> None:
    """A browser that names only the origin is believed if it is ours."""
    token = doors.enter(doors.service.admin)
    headers = {"origin": HERE, "hx-request": "true"}
    answer = await doors.client.post("/dashboard/action/force-open", data=doors.fields(token), headers=headers)
    assert answer.status_code == 200


async def test_tokens(doors: Doors) -> None:
    """A form without its session's token is refused, also with another session's."""
    other = doors.enter(doors.service.admin)
    doors.enter(doors.service.admin)
    before = await doors.log()
    for token in ("", "x", other):
        answer = await doors.client.post("/dashboard/action/force-open", data=doors.fields(token), headers=HTMX)
        assert answer.status_code == 403
        assert "load it again" in answer.text
    assert await doors.log() == before


@pytest.mark.parametrize("name", sorted(ACTIONS.keys() - ONLY_LOOKING))
async def test_readers_are_refused(doors: Doors, name: str) -> None:
    """Whoever sends a button's form with a key that only looks is refused by the API, and nothing changes."""
    token = doors.enter(await doors.service.key("read"))
    before = await doors.log()
    answer = await doors.client.post(f"/dashboard/action/{name}", data=doors.fields(token), headers=HTMX)
    assert answer.status_code == 403, answer.text
    assert "Not allowed" in answer.text
    assert await doors.log() == before


async def test_without_scripts(doors: Doors) -> None:
    """A form that a browser without scripts sends does the same, and leads back to its page and nowhere else."""
    token = doors.enter(doors.service.admin)
    for back, expected in (
        ("/dashboard/endpoints?search=x", "/dashboard/endpoints?search=x"),
        ("//evil.example/dashboard", "/dashboard"),
        ("/dashboard//evil.example", "/dashboard"),
        ("https://evil.example", "/dashboard"),
    ):
        fields = {**doors.fields(token), "back": back}
        answer = await doors.client.post("/dashboard/action/pause", data=fields, headers=SAME)
        assert (answer.status_code, answer.headers["location"]) == (303, expected)
    assert (await doors.service.ok("GET", f"/app/{doors.app}/endpoint/{doors.endpoint}"))["paused"]


@pytest.mark.parametrize(
    "after", ["//evil.example", "/\\evil.example", "https://evil.example", "/dashboard/\\x", "/api/v1/app"]
)
async def test_logins_lead_nowhere_else(doors: Doors, after: str) -> None:
    """After the login one is at a page of ours, whatever the address had asked for."""
    answer = await doors.client.post("/dashboard/login", data={"key": doors.service.admin, "next": after}, headers=SAME)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")


@pytest.mark.parametrize("id_", ["../key", "a/endpoint/b", "", ".", "..", "a?x=1", "a%2fb", "a\nb", "x" * 301])
async def test_ids_lead_nowhere_else(doors: Doors, id_: str) -> None:
    """A form's ids are only ever ids: nothing that is typed there becomes another path of the API."""
    token = doors.enter(doors.service.admin)
    before = await doors.log()
    fields = {**doors.fields(token), "app": id_}
    answer = await doors.client.post("/dashboard/action/force-open", data=fields, headers=HTMX)
    assert answer.status_code == 404
    assert await doors.log() == before


async def test_forms_that_are_too_long(doors: Doors) -> None:
    """A form of megabytes is not read to its end, and an action that there is not is not done."""
    token = doors.enter(doors.service.admin)
    fields = {**doors.fields(token), "reason": "x" * 2_000_000}
    assert (await doors.client.post("/dashboard/action/force-open", data=fields, headers=HTMX)).status_code == 404
    answer = await doors.client.post("/dashboard/action/drop-tables", data=doors.fields(token), headers=HTMX)
    assert answer.status_code == 404


async def test_tampered_sessions(doors: Doors) -> None:
    """A cookie that was changed, made up or sealed for something else opens nothing, and breaks nothing."""
    good = doors.sessions.begin(doors.service.admin)
    sealed = doors.service.station.sealer.seal(b"{}", b"something else")
    for cookie in ("x", good[:-2], good[:-1] + "!", good[::-1], sealed.hex(), "é", "A" * 4000, ""):
        doors.client.cookies.clear()
        answer = await doors.client.get("/dashboard", headers=[(b"cookie", f"{COOKIE}={cookie}".encode())])
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/login"), cookie
    doors.client.cookies.set(COOKIE, good)
    assert (await doors.client.get("/dashboard")).status_code == 200


async def test_sessions_end_by_themselves(doors: Doors) -> None:
    """A session is over after half a day, however often it was used."""
    now = 1_000.0
    sessions = Sessions(doors.service.station.sealer, lambda: now)
    cookie = sessions.begin(doors.service.admin)
    now += LIFETIME - 1
    assert sessions.read(cookie) is not None
    now += 1
    assert sessions.read(cookie) is None


async def test_addresses_are_counted_apart(doors: Doors) -> None:
    """Wrong tries lock out the address that a proxy on this machine names, and nobody else."""

    async def tries(key: str, address: str) -> int:
        headers = {**SAME, "x-forwarded-for": f"6.6.6.6, {address}"}
        return (await doors.client.post("/dashboard/login", data={"key": key}, headers=headers)).status_code

    assert [await tries("wrong", "192.0.2.1") for _ in range(5)] == [401, 401, 401, 401, 429]
    assert await tries(doors.service.admin, "192.0.2.1") == 429
    assert await tries(doors.service.admin, "192.0.2.2") == 303
    assert [await tries("wrong", f"2001:db8::{n}") for n in range(5)][-1] == 429
    assert await tries(PASSWORD, "2001:db8::ffff") == 429
    assert await tries(PASSWORD, "2001:db8:0:1::1") == 303


@pytest.mark.parametrize(
    ("base", "headers", "warned"),
    [
        ("http://127.0.0.1:8400", {}, False),
        ("http://localhost:8400", {}, False),
        ("http://hooks.example.com", {}, True),
        ("http://10.0.0.7:8400", {}, True),
        ("http://hooks.example.com", {"x-forwarded-proto": "https"}, False),
    ],
)
async def test_loud_warnings(doors: Doors, base: str, headers: dict[str, str], warned: bool) -> None:
    """Whoever would send a key in clear over a network is warned before they type it, and on every page."""
    answer = await doors.client.get(f"{base}/dashboard/login", headers=headers)
    assert ("This page is not encrypted." in answer.text) is warned


async def test_one_source(doors: Doors) -> None:
    """A page asks the API with its visitor's own key: what the API refuses to it, the page does not show."""
    doors.enter(await doors.service.key("read", doors.app))
    assert (await doors.client.get("/dashboard/workers")).status_code == 403
    answer = await doors.client.get("/dashboard")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/endpoints")
    assert (await doors.client.get("/dashboard/series/overview")).status_code == 403
