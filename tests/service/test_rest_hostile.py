"""Input that means no good: refused by name, or delivered byte for byte, and never an error of ours."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

from hookfuse.api import openapi
from hookfuse.api.routes import PREFIX
from hookfuse.api.table import OPERATIONS
from hookfuse.testing.receivers import Arrival, Ok, Receivers
from tests.service.conftest import Service
from tests.service.destinations import REFUSED_URLS, SOME_REFUSED_URLS

pytestmark = pytest.mark.anyio

ACCEPTED_URLS = {
    "http://172.15.255.255/": "http://172.15.255.255/",
    "http://172.32.0.1/": "http://172.32.0.1/",
    "http://100.63.255.254/": "http://100.63.255.254/",
    "http://223.255.255.255/": "http://223.255.255.255/",
    "HTTPS://EXAMPLE.COM:443/A?b=C": "https://example.com/A?b=C",
}


async def test_destinations(idle: Service) -> None:
    """A destination that is never dialled is refused wherever a URL is taken, and nothing is stored."""
    app = await idle.app()
    endpoint = await idle.endpoint(app)
    for url in REFUSED_URLS:
        for method, path in (
            ("POST", f"/app/{app}/endpoint"),
            ("PUT", f"/app/{app}/endpoint/{endpoint}"),
            ("PUT", f"/app/{app}/endpoint/new-one"),
            ("PATCH", f"/app/{app}/endpoint/{endpoint}"),
        ):
            response = await idle.ask(method, path, {"url": url})
            assert response.status_code == 422, (method, url)
            (fault,) = response.json()["detail"]
            assert fault["loc"] == ["body", "url"]
            assert "169.254" not in fault["msg"]
    (only,) = (await idle.ok("GET", f"/app/{app}/endpoint"))["data"]
    assert only["url"] == "https://example.com/hook"
    for url, stored in ACCEPTED_URLS.items():
        made = await idle.ok("POST", f"/app/{app}/endpoint", {"url": url})
        assert made["url"] == stored


URLS_TAKEN = {
    ("post", "/app/{app_id}/endpoint", "url"),
    ("put", "/app/{app_id}/endpoint/{endpoint_id}", "url"),
    ("patch", "/app/{app_id}/endpoint/{endpoint_id}", "url"),
    ("put", "/app/{app_id}/notices", "webhook.url"),
    ("put", "/app/{app_id}/notices", "chat.url"),
}
"""Where the API takes a URL: each has to be tried here with those that are refused."""


def test_every_way_in_is_tried() -> None:
    """No route takes a URL, in its body or its query, that is not tried with destinations that mean no good."""
    described = openapi.document(OPERATIONS, "1")
    found = {
        (method, path.removeprefix(PREFIX), ".".join(steps))
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        for steps in _fields(operation, described["components"]["schemas"])
        if "url" in steps[-1].lower() or "uri" in steps[-1].lower()
    }
    assert found == URLS_TAKEN


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Every field that a request may have, by the steps that lead to it."""
    for parameter in operation.get("parameters", ()):
        yield (parameter["name"],)
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from _steps(content["schema"], schemas, ())


def _steps(schema: Any, schemas: dict[str, Any], before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _steps(schemas[schema["$ref"].rpartition("/")[2]], schemas, before)
    for part in (schema.get("items"), *(each for of in ("anyOf", "oneOf", "allOf") for each in schema.get(of, ()))):
        yield from _steps(part, schemas, before)
    for name, inner in schema.get("properties", {}).items():
        yield (*before, name)
        yield from _steps(inner, schemas, (*before, name))


@pytest.mark.parametrize("channel", ["webhook", "chat"])
async def test_destinations_of_notices(idle: Service, channel: str) -> None:
    """A destination that is never dialled is refused for notices too, the first time and later, and nothing changes."""
    app = await idle.app()
    kept = await idle.app()
    at = f"/app/{kept}/notices"
    before = await idle.ok("PUT", at, {channel: {"url": "https://example.com/told"}})
    for url in SOME_REFUSED_URLS:
        for path in (f"/app/{app}/notices", at):
            response = await idle.ask("PUT", path, {channel: {"url": url}})
            assert response.status_code == 422, (path, url)
            (fault,) = response.json()["detail"]
            assert fault["loc"] == ["body", channel, "url"]
            assert "169.254" not in fault["msg"]
    assert await idle.ok("GET", at) == before
    assert (await idle.ok("GET", f"/app/{app}/notices"))["channels"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("X-A", "a\r\nb: c"), ("X-A", "a\nb"), ("X-A", "a\0"), ("X-A", "é"), ("X A", "a"), ("X-A\r", "a"), ("", "a")),
        *(("Host", "a"), ("content-length", "1"), ("Transfer-Encoding", "chunked"), ("Connection", "close")),
        *(("webhook-id", "a"), ("Webhook-Signature", "a"), ("Metadata-Flavor", "Google")),
        *(("X-aws-ec2-metadata-token", "a"), ("svix-id", "a")),
    ],
)
async def test_headers(idle: Service, name: str, value: str) -> None:
    """A custom header that would break the request or speak for us is refused on every way in."""
    app = await idle.app()
    endpoint = await idle.endpoint(app)
    at = f"/app/{app}/endpoint/{endpoint}/headers"
    create = {"url": "https://example.com/", "headers": {name: value}}
    for method, path, body in (
        ("POST", f"/app/{app}/endpoint", create),
        ("PUT", at, {"headers": {name: value}}),
        ("PATCH", at, {"headers": {name: value}}),
    ):
        response = await idle.ask(method, path, body)
        assert response.status_code == 422
        assert response.json()["detail"][0]["loc"] == ["body", "headers"]


BYTES = [
    b'{"a":1,"a":2}',
    b'{"b":1, "a":1.10}',
    b'{"n":9007199254740993}',
    b'{"a":"\\u0000"}',
    b'{"a":"\\ud800"}',
    b' { "a" :\t[ 1 , {"b" : null} ] } ',
    b'"text"',
    b"[1,2]",
    b"12345678901234567890.000100E+05",
    '{"ü":"日本語 😀"}'.encode(),
    b"9" * 5_000,
    b'{"<script>":"{{7*7}} \' OR 1=1-- \\u001b[31m"}',
]


async def test_payloads_arrive_as_they_were_sent(service: Service, receivers: Receivers) -> None:
    """Whatever JSON a payload is, it is delivered byte for byte, and shown so."""
    arrived: dict[str, bytes] = {}

    def keep(arrival: Arrival) -> Ok:
        arrived[arrival.headers["webhook-id"]] = arrival.body
        return Ok()

    app = await service.app()
    await service.endpoint(app, receivers.add("shop", keep))
    sent: dict[str, bytes] = {}
    for payload in BYTES:
        body = b'{"eventType" : "a", "payload":%s,"channels": ["x"]}' % payload
        response = await service.ask("POST", f"/app/{app}/msg", content=body)
        assert response.status_code == 202, (payload, response.text)
        assert payload.strip() in response.content
        # Not every payload can be read by the JSON parser that reads answers here.
        found = re.search(rb'"id":"(\w+)"', response.content)
        assert found is not None
        sent[found[1].decode()] = payload.strip()
    await service.until(lambda: asyncio.sleep(0, len(arrived) == len(sent)))
    assert arrived == sent
    for id_, payload in sent.items():
        assert payload in (await service.ask("GET", f"/app/{app}/msg/{id_}")).content


@pytest.mark.parametrize(
    "body",
    [
        b'{"eventType":"a","payload":NaN}',
        b'{"eventType":"a","payload":' + b"[" * 100_000,
        b'{"eventType":"a","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'\xef\xbb\xbf{"eventType":"a","payload":{}}',
        '{"eventType":"a","payload":{}}'.encode("utf-16"),
        b'{"eventType":"a","payload":"\xff"}',
        b'{"eventType":"a\xff","payload":{}}',
        b'{"eventType":"a","payload":{}',
        b'{"eventType":"a","payload":{}}x',
        b'{"eventType":"a","payload":{"a":"\\ud800"},}',
        b'{"eventType":"a","payload":{"a":"\\ud800"} "b":1}',
        b'{1:"a","payload":{"a":"\\ud800"}}',
        b'{"eventType":"a b","payload":{}}',
        b'{"eventType":"a"}',
        b'{"eventType":"a","payload":{},"channels":[]}',
        b'{"eventType":"a","payload":{},"deliverAt":"9999-12-31T23:59:59Z"}',
        b'{"eventType":"a","payload":{},"tags":["x"]}',
        b"[]",
        b"",
        b"null",
    ],
)
async def test_bodies_that_are_no_messages(idle: Service, body: bytes) -> None:
    """A body that is no message is refused with a place and a sentence, never with an error of ours."""
    app = await idle.app()
    response = await idle.ask("POST", f"/app/{app}/msg", content=body)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == "validation_error"
    assert {"loc", "msg", "type"} == problem["detail"][0].keys()
    assert (await idle.ok("GET", f"/app/{app}/msg"))["data"] == []


@pytest.mark.parametrize("year", ["0001", "1900", "9999"])
async def test_times_that_no_message_has(idle: Service, year: str) -> None:
    """A time that is out of all bounds is refused by the name that it has outside."""
    app = await idle.app()
    body = {"eventType": "a", "payload": {}, "deliverAt": f"{year}-01-01T00:00:00Z"}
    response = await idle.ask("POST", f"/app/{app}/msg", json=body)
    assert response.status_code == 422, response.text
    assert [each["loc"] for each in response.json()["detail"]] == [["body", "deliverAt"]]


async def test_bodies_that_are_too_large(idle: Service) -> None:
    """A body over the limit is refused before it is read, whether it says so or never ends."""
    app = await idle.app()
    limit = 256 * 1024
    frame = b'{"eventType":"a","payload":"%s"}'
    fits = frame % (b"x" * (limit - len(frame) + 2))
    assert len(fits) == limit
    for path in (f"/app/{app}/msg", "/app"):
        response = await idle.ask("POST", path, content=fits + b" ")
        assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")
        assert await _sent_until_refused(idle, path, f"content-length: {1 << 40}") < 4 * limit
        assert await _sent_until_refused(idle, path, "transfer-encoding: chunked") < 64 * limit
    assert (await idle.ask("POST", f"/app/{app}/msg", content=fits)).status_code == 202


async def _sent_until_refused(service: Service, path: str, framing: str) -> int:
    """Send without end; returns how many bytes were taken before the answer came, which must be 413."""
    host, port = service.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /api/v1{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {service.admin}\r\n{framing}\r\n\r\n"
    writer.write(head.encode())
    answer = asyncio.create_task(reader.readline())
    sent = 0
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    try:
        while not answer.done():
            writer.write(chunk)
            await writer.drain()
            sent += len(chunk)
            await asyncio.sleep(0)
    except ConnectionError:
        pass
    async with asyncio.timeout(5):
        assert b"413" in await answer
    writer.close()
    return sent


async def test_limits_and_cursors(idle: Service) -> None:
    """A limit that is no number of rows, and an iterator that was changed or belongs elsewhere, are refused."""
    app, other = await idle.app(), await idle.app("Other")
    for _ in range(3):
        await idle.send(app)
    at = f"/app/{app}/msg"
    for limit in ("-1", "0", "1e3", "1e1", "abc", "251", "", "1.0", "\uff19", "9" * 5_000):
        response = await idle.ask("GET", at, params={"limit": limit})
        assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["query", "limit"]), limit
    for method in ("GET", "POST"):
        response = await idle.ask(method, at, {"eventType": "a", "payload": {}}, params={"tag": "x"})
        assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["query", "tag"])
    page = await idle.ok("GET", at, params={"limit": 1})
    iterator = page["iterator"]
    changed = [iterator[:n] + ("A" if iterator[n] != "A" else "B") + iterator[n + 1 :] for n in range(len(iterator))]
    for text in (*changed, iterator + "A", iterator[:-1], iterator + "=", "x", "", "-", "é", "A" * 1025):
        assert (await idle.ask("GET", at, params={"iterator": text})).status_code == 422, text
    assert (await idle.ask("GET", f"/app/{other}/msg", params={"iterator": iterator})).status_code == 422
    assert (await idle.ask("GET", f"/app/{app}/endpoint", params={"iterator": iterator})).status_code == 422
    assert (await idle.ask("GET", at, params={"iterator": iterator})).status_code == 200


POLICIES: list[tuple[dict[str, Any], list[str]]] = [
    ({"policy": {"trip": [{"rule": "streak", "n": 0}]}}, ["body", "policy", "Streak.n"]),
    ({"policy": {"window": -1}}, ["body", "policy", "window"]),
    ({"policy": {"trip": [{"rule": "rate", "share": 1.5}]}}, ["body", "policy", "Rate.share"]),
    ({"policy": {"probes": 10_000}}, ["body", "policy", "probes"]),
    ({"policy": {"colour": "red"}}, ["body", "policy", "colour"]),
    ({"policy": {"cool_off": inf}}, ["body", "policy", "cool_off"]),
    (
        {"policy": {"trip": [{"rule": "streak", "n": 5}, {"rule": "rate", "share": inf}]}},
        ["body", "policy", "trip", "1", "share"],
    ),
    ({"profile": "stoplight", "settings": {"threshold": 0}}, ["body", "settings", "threshold"]),
    ({"profile": "sampled", "settings": {"window": -1, "min_calls": 5}}, ["body", "settings", "window"]),
    ({"profile": "stoplight", "settings": {"colour": 1}}, ["body", "settings", "colour"]),
    ({"profile": "none"}, ["body", "profile"]),
    ({}, ["body"]),
    ({"policy": {}, "profile": "stoplight"}, ["body"]),
]


async def test_policies(idle: Service) -> None:
    """A policy out of its bounds is refused, and the answer names the field."""
    app = await idle.app()
    endpoint = await idle.endpoint(app)
    for body, loc in POLICIES:
        for path in ("/policy", f"/app/{app}/policy", f"/app/{app}/endpoint/{endpoint}/policy"):
            for content in {json.dumps(body).replace("Infinity", each) for each in ("NaN", "-Infinity", "1e999")}:
                response = await idle.ask("PUT", path, content=content.encode())
                assert response.status_code == 422, content
                assert response.json()["detail"][0]["loc"][: len(loc)] == loc


async def test_markup_is_stored_verbatim(idle: Service) -> None:
    """Markup, templates, SQL and escapes in texts are stored as they are and come back as JSON."""
    for text in ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "' OR 1=1--", "\x1b[31mred"):
        made = await idle.ok("POST", "/app", {"name": text, "metadata": {"k": text}})
        assert (made["name"], made["metadata"]) == (text, {"k": text})
        endpoint = await idle.ok(
            "POST", f"/app/{made['id']}/endpoint", {"url": "https://example.com/", "description": text}
        )
        assert endpoint["description"] == text


@pytest.mark.parametrize(
    "id_", ["app_nothing", "%00", "..%2f..", "a" * 400, "%F0%9F%98%80", "'%20OR%201=1--", "app_%ff"]
)
async def test_ids_that_name_nothing(idle: Service, id_: str) -> None:
    """An id that names nothing, whatever it is made of, is not found on any route."""
    app = await idle.app()
    paths = (f"/app/{id_}", f"/app/{app}/endpoint/{id_}", f"/app/{app}/msg/{id_}", f"/event-type/{id_}")
    for path in (*paths, f"/background-task/{id_}", f"/app/{app}/attempt/endpoint/{id_}"):
        assert (await idle.ask("GET", path)).status_code == 404, path
    body = {"eventType": "a", "payload": {}}
    assert (await idle.ask("POST", f"/app/{id_}/msg", body)).status_code == 404
