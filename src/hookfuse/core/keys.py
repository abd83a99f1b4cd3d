"""Breaker keys, and one way to make a good one from a tenant and a URL."""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import urlsplit

from hookfuse.errors import InvalidInput, InvalidKey, shown

KEY_BYTES = 512
_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_key(key: object) -> str:
    if not isinstance(key, str) or not key:
        raise InvalidKey(f"A breaker key must be a non-empty string such as an endpoint's id, got {shown(key)}.")
    if key.isascii():
        size = len(key)
    else:
        try:
            size = len(key.encode())
        except UnicodeEncodeError:
            raise InvalidKey("A breaker key must be valid Unicode; it has a lone surrogate.") from None
    if size > KEY_BYTES:
        raise InvalidKey(f"A breaker key may have {KEY_BYTES} bytes at most, got {size}; use a hash of it.")
    return key


def endpoint_id(tenant: str, url: str, *, drop_query: bool = False) -> str:
    """A stable breaker key for one tenant's URL.

    Spellings that always mean the same endpoint share a key: scheme and host in any case, the default port,
    a trailing slash, a fragment. What may mean different endpoints stays apart: the path's case and, unless
    `drop_query`, the query. Two tenants never share a key, whatever their names contain.
    """
    if not isinstance(tenant, str) or not isinstance(url, str):
        raise InvalidInput(
            f"endpoint_id takes the tenant and the URL as strings, got {shown(tenant)} and {shown(url)}."
        )
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"endpoint_id needs an absolute http or https URL, got {shown(url)}: {error}.") from None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise InvalidInput(f"endpoint_id needs an absolute http or https URL, got {shown(url)}.")
    if port == _DEFAULT_PORTS[parts.scheme]:
        port = None
    userinfo = parts.netloc.rpartition("@")[0]
    query = None if drop_query or not parts.query else parts.query
    fields = [tenant, parts.scheme, userinfo, host, str(port or ""), parts.path.rstrip("/")]
    if query is not None:
        fields.append(query)
    # Each field is led by its length, so no choice of names can make two field lists read the same.
    digest = sha256()
    for field in fields:
        data = field.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return f"ep_{digest.hexdigest()[:32]}"
