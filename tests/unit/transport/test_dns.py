"""DNS messages, held against dnslib, and against whatever bytes come."""

from __future__ import annotations

from ipaddress import ip_address
from itertools import pairwise

import pytest
from dnslib import AAAA, CNAME, QTYPE, RR, TXT, A, DNSRecord  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.transport.dns import RECORDS, Kind, NotAnAnswer, encode_name, question, read_reply

NAME = "hook.example.test"


def replying(*records: RR, kind: Kind = Kind.A) -> bytes:
    reply = DNSRecord.parse(question(encode_name(NAME), kind, 7)).reply()
    reply.add_answer(*records)
    return bytes(reply.pack())


@pytest.mark.parametrize("kind", list(Kind))
def test_dnslib_reads_our_questions(kind: Kind) -> None:
    """A question is one for this name and kind, with recursion wanted."""
    record = DNSRecord.parse(question(encode_name(NAME), kind, 4711))
    assert (record.header.id, record.header.rd, record.header.qr, len(record.questions)) == (4711, 1, 0, 1)
    assert (str(record.q.qname).rstrip("."), record.q.qtype, record.q.qclass) == (NAME, kind, 1)


@given(
    st.lists(st.ip_addresses(v=4), max_size=20, unique=True), st.lists(st.ip_addresses(v=6), max_size=10, unique=True)
)
def test_we_read_what_dnslib_writes(fours: list[object], sixes: list[object]) -> None:
    """Addresses of the kind that was asked for are read, with the shortest time that they hold."""
    records = [RR(NAME, QTYPE.A, ttl=60 + at, rdata=A(str(four))) for at, four in enumerate(fours)]
    records += [RR(NAME, QTYPE.AAAA, ttl=30 + at, rdata=AAAA(str(six))) for at, six in enumerate(sixes)]
    for kind, expected, ttl in ((Kind.A, fours, 60), (Kind.AAAA, sixes, 30)):
        reply = read_reply(replying(*records, kind=kind), NAME, kind, 7)
        assert list(reply.addresses) == expected
        assert reply.ttl == (ttl if expected else 0)


def test_aliases_are_followed_whatever_their_order() -> None:
    """The addresses are those at the end of the aliases; records of other names are passed over."""
    records = [
        RR("c.test", QTYPE.A, ttl=50, rdata=A("192.0.2.3")),
        RR("evil.test", QTYPE.A, ttl=50, rdata=A("192.0.2.66")),
        RR("B.test", QTYPE.CNAME, ttl=20, rdata=CNAME("c.test")),
        RR(NAME, QTYPE.TXT, ttl=1, rdata=TXT("x")),
        RR(NAME, QTYPE.CNAME, ttl=40, rdata=CNAME("b.test")),
    ]
    reply = read_reply(replying(*records), NAME, Kind.A, 7)
    assert reply.addresses == (ip_address("192.0.2.3"),)
    assert reply.ttl == 20


def test_aliases_in_a_circle_lead_nowhere() -> None:
    """A circle of aliases, or too long a chain, has no addresses."""
    circle = [RR(NAME, QTYPE.CNAME, rdata=CNAME("b.test")), RR("b.test", QTYPE.CNAME, rdata=CNAME(NAME))]
    assert read_reply(replying(*circle), NAME, Kind.A, 7).addresses == ()
    names = [NAME, *(f"n{number}.test" for number in range(30))]
    chain = [RR(a, QTYPE.CNAME, rdata=CNAME(b)) for a, b in pairwise(names)]
    chain.append(RR(names[-1], QTYPE.A, rdata=A("192.0.2.1")))
    assert read_reply(replying(*chain), NAME, Kind.A, 7).addresses == ()


def test_no_more_records_are_read_than_we_want() -> None:
    """Of thousands of records only the first are looked at."""
    records = [RR(NAME, QTYPE.A, rdata=A(f"10.0.{at >> 8}.{at & 255}")) for at in range(4_000)]
    assert len(read_reply(replying(*records), NAME, Kind.A, 7).addresses) == RECORDS


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    """Bytes from anywhere never do more than not be an answer."""
    head = question(encode_name(NAME), Kind.A, 7)
    for message in (data, bytes((0, 7, 0x81, 0x80, *head[4:6], 0, 9, 0, 9, 0, 9)) + head[12:] + data):
        try:
            read_reply(message, NAME, Kind.A, 7)
        except NotAnAnswer:
            pass


@given(st.data())
def test_a_damaged_answer_is_an_answer_or_none(data: st.DataObject) -> None:
    """A true answer with some bytes changed never does more than not be one."""
    message = bytearray(replying(*(RR(NAME, QTYPE.A, rdata=A(f"192.0.2.{at}")) for at in range(5))))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(message)))
    try:
        read_reply(bytes(message[:cut]), NAME, Kind.A, 7)
    except NotAnAnswer:
        pass


def test_a_name_that_points_at_itself_ends() -> None:
    """Pointers in a circle are no answer."""
    head = bytes((0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0))
    asked = question(encode_name(NAME), Kind.A, 7)[12:]
    at = len(head) + len(asked)
    with pytest.raises(NotAnAnswer):
        read_reply(head + asked + bytes((0xC0 | at >> 8, at & 255)) + bytes(10), NAME, Kind.A, 7)
