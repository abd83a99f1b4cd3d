"""Where a webhook goes: a URL, parsed once by a strict grammar of our own.

URL parsers disagree about everything unusual, and whoever checks with one and dials with another can be led anywhere.
So nothing unusual is taken: what this grammar accepts, every parser reads the same way. No name is resolved here;
whether the addresses behind a name may be dialled is decided when dialling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hookfuse.core.addresses import PUBLIC, REFUSED_PORTS, Networks, Verdict, parse_address
from hookfuse.errors import InvalidInput, shown

URL_LENGTH: Final = 2048
HOST_LENGTH: Final = 253

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_VISIBLE: Final = re.compile(r"[!-~]*")
_AUTHORITY: Final = re.compile(r"[^/?]*")
_HOST_AND_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[^:]*)?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_REWRITTEN: Final = re.compile(r"[\"<>`{}]")
"""What other parsers percent-encode in a path or query, so that it would not arrive as given."""

# Names that mean something inside a machine, a cluster or an office, and nothing outside.
_INSIDE: Final = frozenset(
    (
        *("localhost", "local", "localdomain", "internal", "intranet", "private", "corp", "home", "lan", "arpa"),
        *("svc", "pod", "consul"),
    )
)


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL that is fit to be dialled; whether its addresses are, is decided when dialling."""

    url: str
    """Normalised: scheme and host in lower case, no default port."""
    tls: bool
    host: str
    """A name, or an address without brackets."""
    port: int
    target: str
    """Path and query as given, at least "/"."""
    authority: str
    """The Host header: the host, in brackets if it is IPv6, and the port unless it is the default."""

    @staticmethod
    def parse(url: str, *, networks: Networks = PUBLIC) -> Destination:
        """Read a URL, or raise InvalidInput that says what is wrong with it."""
        scheme, rest = _split_scheme(_checked_text(url))
        found = _AUTHORITY.match(rest)
        authority = found.group() if found else ""
        host, port_text = _split_authority(authority)
        port = _port(port_text) if port_text is not None else _DEFAULT_PORTS[scheme]
        host, bare = _checked_host(host, port, networks)
        target = _checked_target(rest[len(authority) :])
        named = host if port == _DEFAULT_PORTS[scheme] else f"{host}:{port}"
        return Destination(f"{scheme}://{named}{target}", scheme == "https", bare, port, target, named)


def _wrong(what: str) -> InvalidInput:
    return InvalidInput(f"The URL {what}.")


def _checked_text(url: object) -> str:
    if not isinstance(url, str):
        raise InvalidInput(f"A URL is a string such as https://example.com/hook, got {shown(url)}.")
    if len(url) > URL_LENGTH:
        raise _wrong(f"may have {URL_LENGTH} characters at most, got {len(url)}")
    if not url.isascii():
        raise _wrong("must be ASCII: write the host in punycode (xn--...) and percent-encode the rest")
    if not _VISIBLE.fullmatch(url):
        raise _wrong("has a space or a control character; percent-encode it")
    if "\\" in url:
        raise _wrong("has a backslash; percent-encode it")
    if "#" in url:
        raise _wrong("has a fragment (#...), which is never sent; leave it out")
    return url


def _split_scheme(url: str) -> tuple[str, str]:
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _DEFAULT_PORTS:
        raise _wrong("must begin with http:// or https://")
    return scheme, rest


def _split_authority(authority: str) -> tuple[str, str | None]:
    if "@" in authority:
        raise _wrong("has a user name or password; send credentials in a header instead")
    if "%" in authority:
        raise _wrong("has a percent sign in its host; write the host plainly, an IPv6 address without a zone")
    found = _HOST_AND_PORT.fullmatch(authority)
    if not found:
        raise _wrong("must have a host such as example.com or [2606:4700::1111], and at most one port after it")
    host, port = found.groups()
    return host.lower(), None if port is None else port[1:]


def _port(text: str) -> int:
    port = int(text) if _PORT.fullmatch(text) else 0
    if not 1 <= port <= 65535:
        raise _wrong(f"must have a port from 1 to 65535, got {shown(text)}")
    return port


def _checked_host(host: str, port: int, networks: Networks) -> tuple[str, str]:
    """The host as it is written in a URL, and without brackets."""
    if host.startswith("["):
        address = parse_address(host[1:-1])
        if address is None or address.version != 6:
            raise _wrong(f"must have an IPv6 address within brackets, got {shown(host)}")
    else:
        address = parse_address(host)
    if address is None:
        return _checked_name(host, port), host
    verdict = networks.verdict(address, port)
    # Where we listen may change after a URL was stored, so that is looked at when dialling, like a name's addresses.
    if verdict is Verdict.PORT:
        raise _refused_port(port)
    if verdict is not None and verdict is not Verdict.OWN:
        raise _wrong(f"has an address that is not dialled ({verdict})")
    bare = str(address)
    return f"[{bare}]" if address.version == 6 else bare, bare


def _checked_name(host: str, port: int) -> str:
    if not host:
        raise _wrong("must have a host")
    if len(host) > HOST_LENGTH:
        raise _wrong(f"may have a host of {HOST_LENGTH} characters at most, got {len(host)}")
    labels = host.split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        raise _wrong(f"must have a host of letters, digits, hyphens and single dots, got {shown(host)}")
    if _NUMBER.fullmatch(labels[-1]):
        raise _wrong(f"has a host that ends like a number; an IPv4 address is four decimal numbers, got {shown(host)}")
    if len(labels) < 2 or labels[-1] in _INSIDE:
        raise _wrong(f"must have a public host name such as hooks.example.com, got {shown(host)}")
    if port in REFUSED_PORTS:
        raise _refused_port(port)
    return host


def _refused_port(port: int) -> InvalidInput:
    return _wrong(f"has port {port}, which belongs to another protocol than HTTP")


def _checked_target(target: str) -> str:
    found = _REWRITTEN.search(target)
    if found:
        raise _wrong(f"has a {found.group()} in its path or query; percent-encode it")
    return target if target.startswith("/") else f"/{target}"
