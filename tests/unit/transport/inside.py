"""Which addresses lead inside, by the standard library and the RFCs: a second opinion that shares nothing with ours."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

METADATA = {"168.63.129.16", "100.100.100.200", "192.0.0.192", "169.254.169.254", "fd00:ec2::254", "fd20:ce::254"}
OTHER_PROTOCOLS = {22, 23, 25, 53, 445, 2375, 3306, 5432, 6379, 9092, 10250, 11211, 27017}


def leads_inside(address: IPv4Address | IPv6Address) -> bool:
    flagged = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or not address.is_global
        or str(address) in METADATA
    )
    if isinstance(address, IPv4Address):
        return flagged
    return flagged or address.is_site_local or embedded(address) is not None


def embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address is a form of, wherever it hides."""
    packed = address.packed
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    nat64 = packed.startswith((bytes.fromhex("0064ff9b") + bytes(8), bytes.fromhex("0064ff9b0001")))
    isatap = packed[8:12] in (bytes.fromhex("00005efe"), bytes.fromhex("02005efe"))
    translated_or_compatible = packed[:8] == bytes(8) and packed[8:12] in (bytes.fromhex("ffff0000"), bytes(4))
    return IPv4Address(packed[12:]) if nat64 or isatap or translated_or_compatible else None
