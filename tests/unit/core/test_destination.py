"""Which URLs are taken, and what is said about the others."""

from __future__ import annotations

import pytest

from hookfuse.core.addresses import Networks
from hookfuse.core.destination import HOST_LENGTH, URL_LENGTH, Destination
from hookfuse.errors import InvalidInput

REFUSED = {
    "is four decimal numbers": [
        *("http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0/"),
        *("http://127.000.000.001/", "http://0xA9FEA9FE/latest/meta-data/", "http://1.2.3.4.5/", "http://256.1.1.1/"),
        *("http://a.1/", "http://a.0x7f/", "http://a.0x/", "http://127.0.0.0x1/"),
    ],
    "not dialled": [
        *("http://169.254.169.254/", "http://127.0.0.1/", "http://10.0.0.1/", "http://172.31.255.255/"),
        *("http://100.64.0.1/", "http://198.18.0.1/", "http://224.0.0.1/", "http://255.255.255.255/"),
        *("http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::169.254.169.254]/", "http://[::]/"),
        *("http://[2002:a9fe:a9fe::1]/", "http://[fd00:ec2::254]/", "http://[fe80::1]/", "http://0.0.0.0/"),
    ],
    "must be ASCII": [
        *("http://127。0。0。1/", "http://ⓛocalhost/", "http://①②⑦.⓪.⓪.①/", "http://example.com:٨٠/"),
        *("http://exämple.com/", "http://example.com/ä", "http://example.com/?ä", "http://example.com/\ud800"),
    ],
    "public host name": [
        *("http://localhost/", "http://foo.localhost/", "http://db/", "http://x.internal/", "http://x.local/"),
        *("http://api.default.svc/", "http://api.default.svc.cluster.local/", "http://router.home.arpa/"),
        *("http://nas.lan/", "http://wiki.intranet/", "http://METADATA.GOOGLE.INTERNAL/", "http://web.service.consul/"),
        *("http://1.0.0.127.in-addr.arpa/", "http://localhost.localdomain/"),
    ],
    "letters, digits, hyphens": [
        *("http://localhost./", "http://example.com./", "http://a..com/", "http://.com/", "http://-a.com/"),
        *("http://a-.com/", "http://a_b.com/", "http://a,b.com/", "http://a.com;b/", f"http://{'a' * 64}.com/"),
    ],
    "at most one port": [
        *("http://[::1]evil.com/", "http://[::1/", "http://::1/", "http://a.com:80:80/", "http://a[::1]/"),
        "http://[[::1]]/",
    ],
    "within brackets": ["http://[127.0.0.1]/", "http://[example.com]/", "http://[]/", "http://[::1::2]/"],
    "percent sign": ["http://%31%32%37.0.0.1/", "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/"],
    "user name": ["http://127.0.0.1:80@example.com/", "http://@example.com/", "http://u:p@example.com/"],
    "backslash": ["http://example.com\\@127.0.0.1/", "http:\\\\example.com/", "http://example.com/\\"],
    "fragment": ["http://example.com/#", "http://example.com#@127.0.0.1/", "http://example.com/?#x"],
    "control character": [
        *(f"http://example.com/{sign}" for sign in "\t\r\n\0 \x7f\x1f"),
        *(f"http://exa{sign}mple.com/" for sign in "\t\r\n\0 \x7f"),
        *(" http://example.com/", "http://example.com/ ", "ht\ntp://example.com/", "http://example.com:8\t0/"),
    ],
    "from 1 to 65535": [
        *("http://example.com:0/", "http://example.com:65536/", "http://example.com:/", "http://example.com:-1/"),
        *(
            "http://example.com:080/",
            "http://example.com:+80/",
            "http://example.com:8_0/",
            "http://example.com:99999999/",
        ),
    ],
    "another protocol": [
        *(f"http://example.com:{port}/" for port in (22, 25, 6379, 5432, 3306, 11211, 27017, 2375, 6667)),
        *("https://example.com:22/", "http://8.8.8.8:53/", "http://[2606:4700::1111]:25/"),
    ],
    "must begin with": [
        *("file:///etc/passwd", "gopher://example.com/", "ftp://example.com/", "javascript:alert(1)"),
        *("ws://example.com/", "//example.com/", "example.com", "", "http:example.com", "http:/example.com"),
        *("view-source:http://example.com/", "http://"[:6]),
    ],
    "must have a host": ["http://", "http:///", "http://?", "http://:80/", "https:///example.com/"],
    "percent-encode it": [f"http://example.com/{sign}" for sign in '"<>`{}'] + ["http://example.com/?a={b}"],
    "characters at most": ["http://example.com/" + "a" * URL_LENGTH, f"http://{'a.' * (HOST_LENGTH // 2)}aa/"],
}


@pytest.mark.parametrize(("says", "url"), [(says, url) for says, urls in REFUSED.items() for url in urls])
def test_what_is_ambiguous_or_inside_is_refused(says: str, url: str) -> None:
    """A URL outside the grammar is refused with a sentence that names its fault."""
    with pytest.raises(InvalidInput, match=says):
        Destination.parse(url)


@pytest.mark.parametrize("url", [None, 1, b"http://example.com/", ["http://example.com/"]])
def test_only_text_is_a_url(url: object) -> None:
    """What is no string is refused like any other bad URL."""
    with pytest.raises(InvalidInput, match="is a string"):
        Destination.parse(url)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTPS://EXAMPLE.COM:443/A?b=C", "https://example.com/A?b=C"),
        ("http://example.com:80", "http://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com?q=[1]|^", "http://example.com/?q=[1]|^"),
        ("http://xn--bcher-kva.example/%2e%2E/../a//b", "http://xn--bcher-kva.example/%2e%2E/../a//b"),
        ("http://example.com/@a:b", "http://example.com/@a:b"),
        ("http://[2606:4700:0:0::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        ("http://a-b.c--d.io:65535/?", "http://a-b.c--d.io:65535/?"),
        *((f"http://{host}/", f"http://{host}/") for host in ("172.15.255.255", "172.32.0.1", "100.63.255.254")),
        ("http://223.255.255.255/", "http://223.255.255.255/"),
    ],
)
def test_what_is_plain_is_normalised(url: str, normal: str) -> None:
    """Scheme, host and port have one spelling afterwards; path and query stay byte for byte; parsing again is idle."""
    destination = Destination.parse(url)
    assert destination.url == normal
    assert Destination.parse(destination.url) == destination


def test_a_destination_has_the_parts_that_a_request_needs() -> None:
    """Host, port, target and authority fit together, with brackets where a header needs them."""
    plain = Destination.parse("https://Example.com/a?b")
    assert (plain.tls, plain.host, plain.port, plain.target) == (True, "example.com", 443, "/a?b")
    assert plain.authority == "example.com"
    six = Destination.parse("http://[2606:4700::1111]:8080")
    assert (six.tls, six.host, six.port, six.target) == (False, "2606:4700::1111", 8080, "/")
    assert six.authority == "[2606:4700::1111]:8080"


LOOPBACK = Networks(allowed=("127.0.0.1/32", "::1/128", "169.254.0.0/16"), own=(("127.0.0.1", 8000),))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/", "http://[::1]:8080/", "http://127.0.0.1:6379/", "http://127.0.0.1:8000/"]
)
def test_an_allowed_network_takes_its_addresses_on_every_port(url: str) -> None:
    """An address within an allowed network is taken, also on a refused port, and also where we listen ourselves."""
    assert Destination.parse(url, networks=LOOPBACK).url == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://localhost:8080/", "http://127.0.0.2/", "http://[::ffff:127.0.0.1]/", "http://127.1/"),
        *("http://169.254.169.254/", "http://example.com:6379/"),
    ],
)
def test_an_allowed_network_takes_nothing_else(url: str) -> None:
    """Names, disguises, metadata services and refused ports of names stay refused whatever is allowed."""
    with pytest.raises(InvalidInput):
        Destination.parse(url, networks=LOOPBACK)


def test_a_long_url_is_not_repeated_in_its_error() -> None:
    """An error about a huge URL stays short."""
    with pytest.raises(InvalidInput) as caught:
        Destination.parse("http://" + "a" * 2000 + "/")
    assert len(str(caught.value)) < 300
