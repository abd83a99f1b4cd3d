"""Where a request comes from: one of our own pages or not, over TLS or not, from which address."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

_LOOPBACK_NAMES = ("localhost", "")


def is_own_page(request: Request) -> bool:
    """Whether a page of this very origin sent it. Browsers say so, and pages cannot lie about it."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    # Over plain HTTP to another machine browsers name only the origin.
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")


def is_secure(request: Request) -> bool:
    """Whether the visitor's connection is encrypted: ours, or that of the proxy in front."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"


def is_exposed(request: Request) -> bool:
    """Whether what is typed here crosses a network in clear."""
    return not is_secure(request) and not is_loopback(request.url.hostname or "")


def address_of(request: Request) -> str:
    """The visitor's address. Only a proxy on this machine is believed about whom it speaks for."""
    peer = request.client.host if request.client else ""
    forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return forwarded if forwarded and is_loopback(peer) else peer


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES or host.endswith(".localhost")
