"""Which addresses may be dialled, decided by tables of our own.

`ipaddress` parses and prints; its `is_global` is not asked, because it calls NAT64, 6to4, ISATAP and multicast
addresses global. An IPv6 address is dialled only if it lies in 2000::/3 and in none of the ranges below, so a range
that is assigned tomorrow is refused until someone has thought about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, TypeAlias

from hookfuse.errors import InvalidInput, shown

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


class Verdict(StrEnum):
    """Why an address is not dialled."""

    UNSPECIFIED = "unspecified"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    SHARED = "carrier-grade NAT"
    LINK_LOCAL = "link-local"
    METADATA = "cloud metadata"
    MULTICAST = "multicast"
    BROADCAST = "broadcast"
    DOCUMENTATION = "documentation"
    BENCHMARK = "benchmark"
    RESERVED = "reserved"
    TRANSITION = "an IPv6 form of an IPv4 address"
    FORBIDDEN = "forbidden by the settings"
    PORT = "a port of another protocol"
    OWN = "where this service listens"


_NEVER = frozenset(
    {
        Verdict.UNSPECIFIED,
        Verdict.LINK_LOCAL,
        Verdict.METADATA,
        Verdict.MULTICAST,
        Verdict.BROADCAST,
        Verdict.TRANSITION,
    }
)
"""What no setting can allow."""

# In both tables the first match counts. Metadata services stand first: some of them lie in ranges that may be allowed,
# and one (168.63.129.16) in a public range.
_V4: Final = (
    ("168.63.129.16/32", Verdict.METADATA),
    ("100.100.100.200/32", Verdict.METADATA),
    ("192.0.0.192/32", Verdict.METADATA),
    ("169.254.0.0/16", Verdict.LINK_LOCAL),
    ("0.0.0.0/8", Verdict.UNSPECIFIED),
    ("10.0.0.0/8", Verdict.PRIVATE),
    ("100.64.0.0/10", Verdict.SHARED),
    ("127.0.0.0/8", Verdict.LOOPBACK),
    ("172.16.0.0/12", Verdict.PRIVATE),
    ("192.0.0.0/24", Verdict.RESERVED),
    ("192.0.2.0/24", Verdict.DOCUMENTATION),
    ("192.31.196.0/24", Verdict.RESERVED),
    ("192.52.193.0/24", Verdict.RESERVED),
    ("192.88.99.0/24", Verdict.TRANSITION),
    ("192.168.0.0/16", Verdict.PRIVATE),
    ("192.175.48.0/24", Verdict.RESERVED),
    ("198.18.0.0/15", Verdict.BENCHMARK),
    ("198.51.100.0/24", Verdict.DOCUMENTATION),
    ("203.0.113.0/24", Verdict.DOCUMENTATION),
    ("224.0.0.0/4", Verdict.MULTICAST),
    ("255.255.255.255/32", Verdict.BROADCAST),
    ("240.0.0.0/4", Verdict.RESERVED),
)
_V6: Final = (
    ("fd00:ec2::/32", Verdict.METADATA),
    ("fd20:ce::254/128", Verdict.METADATA),
    ("fd00:c1::a9fe:a9fe/128", Verdict.METADATA),
    ("fd00:42::42/128", Verdict.METADATA),
    ("::/128", Verdict.UNSPECIFIED),
    ("::1/128", Verdict.LOOPBACK),
    ("::/96", Verdict.TRANSITION),
    ("::ffff:0:0/96", Verdict.TRANSITION),
    ("::ffff:0:0:0/96", Verdict.TRANSITION),
    ("64:ff9b::/96", Verdict.TRANSITION),
    ("64:ff9b:1::/48", Verdict.TRANSITION),
    ("2001::/32", Verdict.TRANSITION),
    ("2002::/16", Verdict.TRANSITION),
    ("2001:2::/48", Verdict.BENCHMARK),
    ("2001:db8::/32", Verdict.DOCUMENTATION),
    ("3fff::/20", Verdict.DOCUMENTATION),
    ("2001::/23", Verdict.RESERVED),
    ("2620:4f:8000::/48", Verdict.RESERVED),
    ("3ffe::/16", Verdict.RESERVED),
    ("fc00::/7", Verdict.PRIVATE),
    ("fe80::/10", Verdict.LINK_LOCAL),
    ("fec0::/10", Verdict.PRIVATE),
    ("ff00::/8", Verdict.MULTICAST),
)

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_TABLE_4: Final = tuple((IPv4Network(text), verdict) for text, verdict in _V4)
_TABLE_6: Final = tuple((IPv6Network(text), verdict) for text, verdict in _V6)


def kind_of(address: Address) -> Verdict | None:
    """What is special about an address; None: it is a public one."""
    if isinstance(address, IPv4Address):
        return next((verdict for network, verdict in _TABLE_4 if address in network), None)
    if _is_isatap(address):
        return Verdict.TRANSITION
    found = next((verdict for network, verdict in _TABLE_6 if address in network), None)
    return Verdict.RESERVED if found is None and address not in _GLOBAL_UNICAST else found


def _is_isatap(address: IPv6Address) -> bool:
    """Whether the interface id is 0:5efe or 200:5efe and an IPv4 address, in whatever network."""
    return int(address) >> 32 & 0xFFFF_FFFF in (0x0000_5EFE, 0x0200_5EFE)


# Ports on which something else than HTTP listens by custom. A request to them is an attack on that service.
REFUSED_PORTS: Final = frozenset(
    # What browsers refuse.
    (
        *(1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109),
        *(110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526),
        *(530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659),
        *(4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
        # Remote control and file sharing.
        *(88, 138, 445, 873, 2375, 2376, 3389, 5900, 5985, 5986, 10250, 10255),
        # Databases, queues and caches.
        *(1433, 1434, 1521, 1883, 2181, 2379, 2380, 3306, 4222, 5432, 5671, 5672, 6379, 6380, 8883, 9042, 9092, 9300),
        *(11211, 16379, 26379, 27017, 27018, 27019, 33060),
    )
)


@dataclass(frozen=True, slots=True)
class Networks:
    """What the operator allows and forbids on top of the tables. Forbidden wins.

    An allowed network matches plain addresses only: no setting allows link-local addresses, metadata services, or an
    IPv4 address in an IPv6 disguise. In it every port may be dialled. `own` is where this service itself listens; an
    unspecified address there ("0.0.0.0", "::") means every loopback address.
    """

    allowed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    own: tuple[tuple[str, int], ...] = ()
    _allowed: tuple[Network, ...] = field(init=False, repr=False, compare=False)
    _forbidden: tuple[Network, ...] = field(init=False, repr=False, compare=False)
    _own: frozenset[tuple[Address, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allowed", _networks("allowed", self.allowed))
        object.__setattr__(self, "_forbidden", _networks("forbidden", self.forbidden))
        object.__setattr__(self, "_own", frozenset((_own_address(text), port) for text, port in self.own))

    def verdict(self, address: Address, port: int) -> Verdict | None:
        """Why this address and port are not dialled; None: they may be."""
        kind = kind_of(address)
        if kind in _NEVER:
            return kind
        if any(address in network for network in self._forbidden):
            return Verdict.FORBIDDEN
        if not any(address in network for network in self._allowed):
            if kind is not None:
                return kind
            if port in REFUSED_PORTS:
                return Verdict.PORT
        return Verdict.OWN if self._is_own(address, port, kind) else None

    def _is_own(self, address: Address, port: int, kind: Verdict | None) -> bool:
        if (address, port) in self._own:
            return True
        return kind is Verdict.LOOPBACK and any(
            listening.is_unspecified and port == its_port for listening, its_port in self._own
        )


def parse_address(text: str) -> Address | None:
    """An address in its plain spelling: four decimal numbers, or IPv6 without a zone; None if it is neither."""
    try:
        if ":" not in text:
            return IPv4Address(text)
        return None if "%" in text else IPv6Address(text)
    except AddressValueError:
        return None


def _own_address(text: str) -> Address:
    address = parse_address(text)
    if address is None:
        raise InvalidInput(f"own takes pairs of an IP address and a port, got {shown(text)} as an address.")
    return address


def _networks(name: str, texts: Iterable[str]) -> tuple[Network, ...]:
    if isinstance(texts, str):
        raise InvalidInput(f"{name} takes several networks, got the one string {shown(texts)}.")
    return tuple(_network(name, text) for text in texts)


def _network(name: str, text: str) -> Network:
    # Given a number, `ip_network` would take it as an address.
    if isinstance(text, str) and "%" not in text:
        try:
            return ip_network(text)
        except ValueError:
            pass
    raise InvalidInput(f"{name} takes networks such as 10.0.0.0/8 or fd12::/16, got {shown(text)}.")


PUBLIC: Final = Networks()
"""Public addresses and nothing else."""
