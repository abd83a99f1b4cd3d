"""Destinations that are never dialled: whoever takes a URL has to refuse them."""

from __future__ import annotations

REFUSED_URLS = [
    *("http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.000.000.001/"),
    *("http://0/", "http://0xA9FEA9FE/latest/meta-data/", "http://169.254.169.254/"),
    *("http://127。0。0。1/", "http://ⓛocalhost/", "http://localhost./", "http://foo.localhost/"),
    *("http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::169.254.169.254]/"),
    *("http://[2002:a9fe:a9fe::1]/", "http://[fd00:ec2::254]/", "http://[fe80::1%25eth0]/"),
    *("http://10.0.0.1/", "http://172.31.255.255/", "http://100.64.0.1/", "http://198.18.0.1/", "http://224.0.0.1/"),
    *("http://255.255.255.255/", "http://[::1]evil.com/", "http://example.com\\@127.0.0.1/"),
    *(
        "http://127.0.0.1:80@example.com/",
        "http://%31%32%37.0.0.1/",
        "http://example.com/\t",
        "http://exam\r\nple.com/",
    ),
    *("http://example.com/\x00", "http://exa mple.com/", "http://example.com:0/", "http://example.com:65536/"),
    *("http://example.com:٨٠/", "http://example.com:22/", "http://example.com:6379/"),
    *("file:///etc/passwd", "gopher://example.com/", "ftp://example.com/", "javascript:alert(1)", "ws://example.com/"),
    *("http://db/", "http://x.internal/", "http://x.local/", "", "http://"),
]
"""Every way that we know to name such a place, and what is no place at all."""

SOME_REFUSED_URLS = [
    *("http://127.1/", "http://2130706433/", "http://169.254.169.254/", "http://10.0.0.1/", "http://[::1]/"),
    *("http://[::ffff:127.0.0.1]/", "http://[64:ff9b::169.254.169.254]/", "http://[fd00:ec2::254]/"),
    *("http://127。0。0。1/", "http://foo.localhost/", "http://x.internal/", "http://db/", "http://example.com:22/"),
    *("http://127.0.0.1:80@example.com/", "http://example.com\\@127.0.0.1/", "http://%31%32%37.0.0.1/"),
    *("http://exam\r\nple.com/", "file:///etc/passwd", "javascript:alert(1)", "http://"),
]
"""A few of each class, for the other ways in."""
