"""Plain requests and plain responses."""

from __future__ import annotations

import pytest

from hookfuse.core.sending import Trouble
from hookfuse.errors import InvalidInput
from hookfuse.ports import Sender
from hookfuse.transport import HttpSender
from tests.unit.transport.receiver import LOOPBACK, OK, answering, once, receiving, request


@pytest.fixture
def sender() -> Sender:
    """Typed as the port, so that the type checker holds one to the other."""
    return HttpSender(LOOPBACK)


async def test_a_request_is_sent_byte_for_byte(sender: Sender) -> None:
    """What arrives is the request line, our Host, the given headers in order, the length, and the body as it is."""
    async with receiving(answering(OK)) as receiver:
        headers = (("Webhook-Id", "msg_1"), ("x-empty", ""), ("X-A", "b c"))
        asked = request(receiver.url("/a%20b?c=D"), headers=headers, body=b"\x00\xff{}")
        result = await sender.send(asked)
        await sender.close()
    assert receiver.requests == [
        f"POST /a%20b?c=D HTTP/1.1\r\nhost: 127.0.0.1:{receiver.port}\r\n"
        "Webhook-Id: msg_1\r\nx-empty: \r\nX-A: b c\r\ncontent-length: 4\r\n\r\n".encode()
        + b"\x00\xff{}"
    ]
    assert (result.status, result.trouble, result.body, result.detail) == (200, None, b"ok", "")
    assert result.succeeded
    assert 0 < result.latency < 5


WHOLE = {
    "by length": (b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello", 201, b"hello"),
    "in chunks": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
        200,
        b"hello",
    ),
    "with trailers": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-late: 1\r\n\r\n", 200, b""),
    "until the end": (b"HTTP/1.1 200 OK\r\n\r\nhello", 200, b"hello"),
    "until the end, by HTTP/1.0": (b"HTTP/1.0 200 OK\r\nx: y\r\n\r\nhello", 200, b"hello"),
    "empty until the end": (b"HTTP/1.1 500 Oops\r\nconnection: close\r\n\r\n", 500, b""),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "after interim responses": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + OK, 200, b"ok"),
    "without a reason": (b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, b""),
}


@pytest.mark.parametrize("form", WHOLE)
async def test_every_framing_is_read(sender: Sender, form: str) -> None:
    """A response is whole by its length, its last chunk or the end of the connection, in one piece or in many."""
    response, status, body = WHOLE[form]
    for pieces in ([response], [response[at : at + 1] for at in range(len(response))]):
        async with receiving(once(b"".join(pieces))) as receiver:
            result = await sender.send(request(receiver.url()))
        assert (result.status, result.trouble, result.body, result.truncated) == (status, None, body, False)
    # A success keeps no headers, so this is asked of a failure.
    async with receiving(once(response.replace(b" 200", b" 404"))) as receiver:
        result = await sender.send(request(receiver.url()))
    assert result.header("link") is None
    assert result.header("x-late") is None
    await sender.close()


async def test_headers_come_in_lower_case_and_in_order(sender: Sender) -> None:
    """Names are lower case, values are as sent, repeated ones are kept."""
    response = (
        b"HTTP/1.1 429 Slow\r\nRetry-After:  30 \r\nSet-Cookie: a\r\nSET-COOKIE: \xe4\r\ncontent-length: 0\r\n\r\n"
    )
    async with receiving(answering(response)) as receiver:
        result = await sender.send(request(receiver.url()))
        again = await sender.send(request(receiver.url()))
        await sender.close()
    assert result.headers == again.headers
    assert result.headers[:3] == (("retry-after", "30"), ("set-cookie", "a"), ("set-cookie", "ä"))
    assert result.header("retry-after") == "30"
    assert b"cookie" not in receiver.requests[1].lower()


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308])
async def test_redirects_are_never_followed(sender: Sender, status: int) -> None:
    """A redirect is an answer like any other: nobody goes where it points."""
    async with receiving(answering(OK)) as elsewhere:
        response = f"HTTP/1.1 {status} Go\r\nlocation: {elsewhere.url()}\r\ncontent-length: 0\r\n\r\n".encode()
        refresh = response.replace(b"location", b"refresh: 0; url=x\r\ncontent-location")
        for answer in (response, refresh):
            async with receiving(once(answer)) as receiver:
                result = await sender.send(request(receiver.url()))
            assert (result.status, receiver.connections) == (status, 1)
            assert not result.succeeded
    assert elsewhere.connections == 0
    await sender.close()


async def test_the_environment_names_no_proxy(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxy variables of the environment change nothing."""
    async with receiving(answering(OK)) as proxy, receiving(answering(OK)) as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        result = await sender.send(request(receiver.url()))
        await sender.close()
    assert (result.status, proxy.connections) == (200, 0)


@pytest.mark.parametrize("host", ["::1", "127.0.0.2"])
async def test_other_loopback_addresses_work_too(sender: Sender, host: str) -> None:
    """IPv6 literals are dialled as IPv6 and named in brackets."""
    async with receiving(answering(OK), host=host) as receiver:
        spelled = f"[{host}]" if ":" in host else host
        result = await sender.send(request(receiver.url(host=spelled)))
        await sender.close()
    assert result.status == 200
    assert f"host: {spelled}:{receiver.port}\r\n".encode() in receiver.requests[0]


@pytest.mark.parametrize(
    "header", [("a", "b\r\nc: d"), ("a\r\nb", "c"), ("a", "b\n"), ("a", "\0"), ("a", "ä"), ("a\r", "")]
)
async def test_a_smuggled_line_is_never_sent(sender: Sender, header: tuple[str, str]) -> None:
    """A header that would break the request is misuse, even if it got past its check."""
    async with receiving(answering(OK)) as receiver:
        with pytest.raises(InvalidInput, match="header of the request"):
            await sender.send(request(receiver.url(), headers=(header,)))
        await sender.close()
    assert receiver.connections == 0


async def test_a_closed_sender_refuses(sender: Sender) -> None:
    """After `close` nothing is dialled, and the trouble is ours."""
    async with receiving(answering(OK)) as receiver:
        await sender.send(request(receiver.url()))
        await sender.close()
        result = await sender.send(request(receiver.url()))
        await sender.close()
    assert (result.trouble, receiver.connections) == (Trouble.LOCAL, 1)
