"""`/demo/receivers`: what pages and programs of this machine may do, and nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.responses import PlainTextResponse

from hookfuse.demo.books import Books
from hookfuse.demo.receivers import CAST, Conduct, DemoReceivers
from hookfuse.demo.switchboard import PATH, Switchboard
from hookfuse.errors import InvalidInput

OWN = "http://127.0.0.1:8400"

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def receivers() -> AsyncIterator[DemoReceivers]:
    async with DemoReceivers(Books()) as found:
        yield found


@pytest.fixture
def switchboard(receivers: DemoReceivers) -> Switchboard:
    made = Switchboard(PlainTextResponse("inner"), receivers)
    made.know("app_1", {name: f"ep_{name}" for name in CAST})
    return made


def client(switchboard: Switchboard, address: str = "127.0.0.1") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(switchboard, client=(address, 1234)), base_url=OWN)


async def test_listed(switchboard: Switchboard) -> None:
    """All six are listed with their endpoints, how they behave and what they counted."""
    async with client(switchboard) as http:
        found = (await http.get(PATH)).json()
    assert [each["name"] for each in found["data"]] == list(CAST)
    assert found["behaviours"] == ["healthy", "slow", "flaky", "dead", "rate_limited"]
    phoenix = found["data"][-1]
    assert phoenix.pop("url").startswith("http://127.0.0.1:")
    assert phoenix == {
        "name": "phoenix",
        "behaviour": "healthy",
        "appId": "app_1",
        "endpointId": "ep_phoenix",
        "requests": 0,
        "inFlight": 0,
        "answers": {},
    }


async def test_broken_and_healed(switchboard: Switchboard, receivers: DemoReceivers) -> None:
    """A dead receiver refuses connections, and a healed one answers at the same URL."""
    url = receivers.url("acme")
    async with client(switchboard) as http, httpx.AsyncClient() as sender:
        broken = await http.post(PATH, json={"name": "acme", "behaviour": "dead"})
        assert (broken.status_code, broken.json()["behaviour"]) == (200, "dead")
        with pytest.raises(httpx.ConnectError):
            await sender.post(url, content=b"{}")
        await http.post(PATH, json={"name": "acme", "behaviour": "healthy"})
        assert (await sender.post(url, content=b"{}")).status_code == 200
        counted = (await http.get(PATH)).json()["data"][0]
    assert (counted["requests"], counted["answers"]) == (1, {"200": 1})
    assert [each.conduct for each in receivers.changes if each.name == "acme"][1:] == [Conduct.DEAD, Conduct.HEALTHY]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"name": "acme"}',
        b'{"name": "acme", "behaviour": "kind"}',
        b" " * 5_000,
        b"[" * 4_000,
    ],
    ids=["empty", "broken", "list", "null", "no behaviour", "no such behaviour", "too long", "too deep"],
)
async def test_bad_bodies(switchboard: Switchboard, receivers: DemoReceivers, body: bytes) -> None:
    """What cannot be read is refused with what would do, and changes nothing."""
    async with client(switchboard) as http:
        refused = await http.post(PATH, content=body)
    assert refused.status_code == 422
    assert "rate_limited" in refused.json()["detail"]
    assert len(receivers.changes) == len(CAST)


@pytest.mark.parametrize("name", ["nobody", "", 7, None, ["acme"]])
async def test_unknown_names(switchboard: Switchboard, name: object) -> None:
    """A receiver that is not there is not found."""
    async with client(switchboard) as http:
        refused = await http.post(PATH, json={"name": name, "behaviour": "dead"})
    assert refused.status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8400"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "evil.example"},
        {"host": "evil.example:8400", "origin": "http://evil.example:8400"},
        {"host": "[::1"},
    ],
    ids=str,
)
async def test_foreign_pages(switchboard: Switchboard, receivers: DemoReceivers, headers: dict[str, str]) -> None:
    """A page of another site, and one that calls this machine by a foreign name, may neither look nor change."""
    async with client(switchboard) as http:
        changed = await http.post(PATH, json={"name": "acme", "behaviour": "dead"}, headers=headers)
        looked = await http.get(PATH, headers=headers)
    assert (changed.status_code, looked.status_code) == (403, 403)
    assert len(receivers.changes) == len(CAST)


@pytest.mark.parametrize("headers", [{}, {"origin": OWN, "sec-fetch-site": "same-origin"}], ids=["curl", "own page"])
async def test_own_pages(switchboard: Switchboard, headers: dict[str, str]) -> None:
    """The dashboard's own pages and programs without a browser may."""
    async with client(switchboard) as http:
        changed = await http.post(PATH, json={"name": "acme", "behaviour": "slow"}, headers=headers)
    assert changed.json()["behaviour"] == "slow"


async def test_other_machines(switchboard: Switchboard) -> None:
    """Another machine is refused, whatever it says."""
    async with client(switchboard, "192.0.2.1") as http:
        assert (await http.get(PATH)).status_code == 403


async def test_everything_else_is_the_service(switchboard: Switchboard) -> None:
    """Other paths go to the service, and other methods are not known."""
    async with client(switchboard) as http:
        assert (await http.get("/healthz")).text == "inner"
        assert (await http.get(f"{PATH}/more")).text == "inner"
        assert (await http.delete(PATH)).status_code == 405


async def test_no_such_receiver(receivers: DemoReceivers) -> None:
    """Changing a receiver that is not there is misuse, and says who is."""
    with pytest.raises(InvalidInput, match="acme"):
        receivers.change("nobody", Conduct.DEAD)
