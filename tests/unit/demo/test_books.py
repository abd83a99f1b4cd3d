"""The sums of the end: each number follows from what producer, receivers and store say, and contradictions are lost."""

from __future__ import annotations

from hookfuse.core.delivery import DeliveryState
from hookfuse.demo.books import Books
from hookfuse.testing.receivers import Receipt

NAMES = ("acme", "phoenix")


def receipt(message: str, name: str = "acme", *, at: float = 2.0, verified: bool = True, status: int = 200) -> Receipt:
    return Receipt(message, name, at, "", verified, status)


def sums(books: Books, states: dict[tuple[str, str], DeliveryState]) -> tuple[int, ...]:
    found = books.totals(states, NAMES, avoided=0, transitions=0)
    return found.accepted, found.sent, found.held, found.failed, found.lost


def test_every_delivery_is_counted_once() -> None:
    """What was accepted is sent, held, failed or lost."""
    books = Books()
    books.took("m1", 1.0)
    books.took("m2", 1.0)
    books.add(receipt("m1"))
    states = {
        ("m1", "acme"): DeliveryState.SENT,
        ("m1", "phoenix"): DeliveryState.PENDING,
        ("m2", "acme"): DeliveryState.FAILED,
    }
    assert sums(books, states) == (4, 1, 1, 1, 1)


def test_sent_by_the_word_of_the_store_alone_is_lost() -> None:
    """A delivery that the store calls sent is lost if its receiver has no good arrival of it."""
    states = {("m1", name): DeliveryState.SENT for name in NAMES}
    for bad in (None, receipt("m1", verified=False), receipt("m1", status=500), receipt("m2")):
        books = Books()
        books.took("m1", 1.0)
        books.add(receipt("m1", "phoenix"))
        if bad is not None:
            books.add(bad)
        assert sums(books, states) == (2, 1, 0, 0, 1)


def test_what_nobody_was_promised_does_not_count() -> None:
    """An arrival of a message whose producer got no answer is in no sum."""
    books = Books()
    books.add(receipt("m1"))
    assert sums(books, {("m1", "acme"): DeliveryState.SENT}) == (0, 0, 0, 0, 0)


def test_the_first_arrival_counts() -> None:
    """Latency is measured to the first good arrival, however often it comes again, and before its answer is known."""
    books = Books()
    books.add(receipt("m1", at=2.0, status=500))
    books.add(receipt("m1", at=3.0))
    books.add(receipt("m1", at=9.0))
    assert books.latencies(("acme",), since=0.0) == []
    books.took("m1", 1.0)
    assert books.latencies(("acme",), since=0.0) == [2.0]
    assert books.latencies(("acme",), since=1.5) == []


def test_on_the_way() -> None:
    """On the way is what was sent before that instant and has not arrived."""
    books = Books()
    for number in range(3):
        books.took(f"m{number}", float(number))
    books.add(receipt("m0", "phoenix"))
    assert books.on_the_way("phoenix", before=2.0) == 1


def test_closed_accounts() -> None:
    """What comes after the accounts were closed changes nothing."""
    books = Books()
    books.close_accounts()
    books.took("m1", 1.0)
    books.add(receipt("m1"))
    assert (books.accepted, books.arrived) == ({}, {})
