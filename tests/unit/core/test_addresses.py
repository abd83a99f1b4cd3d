"""Which addresses may be dialled."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.core.addresses import Networks, Verdict, kind_of, parse_address
from hookfuse.errors import InvalidInput

KINDS = {
    Verdict.UNSPECIFIED: ["0.0.0.0", "0.255.255.255", "::"],
    Verdict.LOOPBACK: ["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"],
    Verdict.PRIVATE: [
        *("10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"),
        *("fc00::1", "fd12:3456::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fec0::1"),
    ],
    Verdict.SHARED: ["100.64.0.0", "100.127.255.255"],
    Verdict.LINK_LOCAL: ["169.254.0.0", "169.254.169.254", "169.254.170.2", "fe80::1", "febf::1", "fe80::a9fe:a9fe"],
    Verdict.METADATA: [
        *("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
        *("fd00:c1::a9fe:a9fe", "fd00:42::42"),
    ],
    Verdict.MULTICAST: ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"],
    Verdict.BROADCAST: ["255.255.255.255"],
    Verdict.DOCUMENTATION: ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    Verdict.BENCHMARK: ["198.18.0.1", "198.19.255.255", "2001:2::1"],
    Verdict.RESERVED: [
        *("192.0.0.1", "192.31.196.1", "192.52.193.1", "192.175.48.1", "240.0.0.1", "255.255.255.254"),
        *("100::1", "100:0:0:1::1", "2001:1::1", "2001:20::1", "3ffe::1", "5f00::1", "4000::1", "2620:4f:8000::1"),
    ],
    Verdict.TRANSITION: [
        *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1", "::2"),
        *("64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::10.0.0.1", "2002:7f00:1::1", "2002:808:808::1"),
        *("2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2606:4700::5efe:127.0.0.1", "2606::200:5efe:10.0.0.1"),
        *("fd12::5efe:10.0.0.1", "192.88.99.1"),
    ],
    None: [
        *("8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.254", "100.128.0.0", "223.255.255.255"),
        *("11.0.0.0", "9.255.255.255", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0"),
        *("198.17.255.255", "198.20.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0"),
        *("2606:4700::1111", "2001:4860:4860::8888", "2001:200::1", "2a00:1450::1", "2003::1"),
    ],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts])
def test_each_range_has_its_kind(kind: Verdict | None, text: str) -> None:
    """Every special range is known from its first to its last address, and its neighbours are public."""
    assert kind_of(ip_address(text)) is kind


@given(st.ip_addresses(v=4))
def test_a_v4_address_in_any_v6_disguise_is_refused(address: IPv4Address) -> None:
    """Whatever is allowed, an IPv4 address within an IPv6 form is never dialled."""
    everything = Networks(allowed=("0.0.0.0/0", "::/0"))
    low = int(address)
    prefixes = [0, 0xFFFF << 32, 0xFFFF << 48, 0x64FF9B << 96, (0x64FF9B << 96) | (1 << 80), 0x200100000 << 92]
    disguises = [IPv6Address(prefix | low) for prefix in prefixes if prefix | low > 1]
    disguises += [IPv6Address((0x2002 << 112) | (low << 80) | 1)]
    disguises += [IPv6Address((0x2606_4700 << 96) | (iid << 32) | low) for iid in (0x5EFE, 0x0200_5EFE)]
    assert {everything.verdict(disguise, 443) for disguise in disguises} == {Verdict.TRANSITION}


@pytest.mark.parametrize("kind", ["UNSPECIFIED", "LINK_LOCAL", "METADATA", "MULTICAST", "BROADCAST", "TRANSITION"])
def test_some_kinds_cannot_be_allowed(kind: str) -> None:
    """Allowing everything allows no metadata service and nothing that is no plain host."""
    everything = Networks(allowed=("0.0.0.0/0", "::/0"))
    for text in KINDS[Verdict[kind]]:
        assert everything.verdict(ip_address(text), 443) is Verdict[kind]


def test_an_allowed_network_is_dialled_on_every_port() -> None:
    """Allowing a network lifts its kind and the refused ports, for it alone."""
    networks = Networks(allowed=("10.1.0.0/16", "fd12::/16"))
    assert networks.verdict(ip_address("10.1.2.3"), 6379) is None
    assert networks.verdict(ip_address("fd12::1"), 80) is None
    assert networks.verdict(ip_address("10.2.0.1"), 80) is Verdict.PRIVATE
    assert networks.verdict(ip_address("8.8.8.8"), 6379) is Verdict.PORT


def test_forbidden_wins() -> None:
    """A forbidden network is refused even within an allowed one, and public addresses can be forbidden."""
    networks = Networks(allowed=("10.0.0.0/8",), forbidden=("10.9.0.0/16", "8.8.8.0/24"))
    assert networks.verdict(ip_address("10.9.0.1"), 80) is Verdict.FORBIDDEN
    assert networks.verdict(ip_address("8.8.8.8"), 80) is Verdict.FORBIDDEN
    assert networks.verdict(ip_address("10.8.0.1"), 80) is None


def test_the_own_listening_address_is_refused() -> None:
    """Where the service listens is refused, on that port alone; an unspecified address means every loopback one."""
    networks = Networks(
        allowed=("127.0.0.0/8", "::1/128"), own=(("127.0.0.1", 8000), ("0.0.0.0", 9000), ("8.8.8.8", 80))
    )
    assert networks.verdict(ip_address("127.0.0.1"), 8000) is Verdict.OWN
    assert networks.verdict(ip_address("127.0.0.2"), 8000) is None
    assert networks.verdict(ip_address("127.0.0.2"), 9000) is Verdict.OWN
    assert networks.verdict(ip_address("::1"), 9000) is Verdict.OWN
    assert networks.verdict(ip_address("8.8.8.8"), 80) is Verdict.OWN
    assert networks.verdict(ip_address("8.8.4.4"), 9000) is None


@pytest.mark.parametrize("bad", ["10.0.0.1/8", "10/8", "ten", "", "fe80::%1/64", "10.0.0.0/33", 10, None])
def test_a_network_that_cannot_be_read_is_refused(bad: str) -> None:
    """A network with host bits, or that is none at all, is refused by name."""
    with pytest.raises(InvalidInput, match=r"allowed takes networks"):
        Networks(allowed=(bad,))
    with pytest.raises(InvalidInput, match="forbidden takes"):
        Networks(forbidden=(bad,))


def test_one_string_is_not_several_networks() -> None:
    """A bare string is not read letter by letter."""
    with pytest.raises(InvalidInput, match="several networks"):
        Networks(allowed="10.0.0.0/8")  # type: ignore[arg-type]


def test_an_own_address_that_cannot_be_read_is_refused() -> None:
    """`own` takes addresses, not names."""
    with pytest.raises(InvalidInput, match="own takes"):
        Networks(own=(("localhost", 80),))


@given(st.ip_addresses())
def test_a_plain_spelling_is_read_back(address: IPv4Address | IPv6Address) -> None:
    """The text of an address is that address again."""
    plain = IPv6Address(int(address)) if address.version == 6 else address
    assert parse_address(str(plain)) == plain


@given(st.ip_addresses(v=4))
def test_public_means_outside_every_special_range(address: IPv4Address) -> None:
    """No address that is called public lies in a range that has long been private."""
    if kind_of(address) is None:
        for text in ("0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"):
            assert address not in IPv4Network(text)
        assert address.is_global
