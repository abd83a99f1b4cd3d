"""The bytes of a request."""

from __future__ import annotations

from hookfuse.core.sending import Request
from hookfuse.errors import InvalidInput


def request_bytes(request: Request) -> bytes:
    """Head and body in one piece, so that they leave in one write."""
    destination, body = request.destination, request.body
    named = "".join([f"{name}: {value}\r\n" for name, value in request.headers])
    head = (
        f"POST {destination.target} HTTP/1.1\r\nhost: {destination.authority}\r\n"
        f"{named}content-length: {len(body)}\r\n\r\n"
    )
    # Four line ends and one for each header: any other would be one that was smuggled in.
    ends = len(request.headers) + 4
    if head.count("\n") != ends or head.count("\r") != ends or "\0" in head:
        raise InvalidInput("A header of the request has a line break or a NUL in it.")
    try:
        return head.encode("ascii") + body
    except UnicodeEncodeError:
        raise InvalidInput("A header of the request is not ASCII.") from None
