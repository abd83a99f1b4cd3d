"""The bytes of a request."""

from __future__ import annotations

from hookfuse.core.sending import Request
from hookfuse.errors import InvalidInput


def request_bytes(request: Request) -> bytes:
    """Head and body in one piece, so that they leave in one write."""
    destination = request.destination
    lines = [f"POST {destination.target} HTTP/1.1\r\nhost: {destination.authority}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    lines.append(f"content-length: {len(request.body)}\r\n\r\n")
    head = "\r\n".join(lines)
    # Three line ends are written above, the others are the separators: any other would be one that was smuggled in.
    if head.count("\n") != len(lines) + 2 or head.count("\r") != len(lines) + 2 or "\0" in head:
        raise InvalidInput("A header of the request has a line break or a NUL in it.")
    try:
        return head.encode("ascii") + request.body
    except UnicodeEncodeError:
        raise InvalidInput("A header of the request is not ASCII.") from None
