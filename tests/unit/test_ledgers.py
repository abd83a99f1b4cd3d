"""The checker of ledgers finds every kind of fault, and nothing where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.testing.receivers import Receipt
from tests.ledgers import Fault, Produced, Report, Stored, Told, check

ENDPOINTS = frozenset({"a", "b"})


@dataclass
class World:
    """What three honest witnesses wrote down."""

    producer: list[Produced] = field(default_factory=list)
    sink: list[Receipt] = field(default_factory=list)
    database: list[Stored] = field(default_factory=list)

    def message(self, name: str, told: Told = Told.OK, *, known: bool = True, failures: int = 0) -> None:
        """A message that was taken and sent to both endpoints, after some failures."""
        body = digest(name)
        self.producer.append(Produced(name if known else None, body, told, ENDPOINTS))
        for endpoint in sorted(ENDPOINTS):
            for at in range(failures + 1):
                status = 200 if at == failures else 503
                self.sink.append(Receipt(name, endpoint, float(at), body, True, status))
            self.database.append(Stored(f"{name}/{endpoint}", name, endpoint, "sent", failures + 1, body))

    def refused(self, name: str, told: Told = Told.FAILED) -> None:
        """A message that was not taken."""
        self.producer.append(Produced(None, digest(name), told, ENDPOINTS))

    reopened: list[Fault] = field(default_factory=list)

    def report(self, duplicates_allowed: int = 0, reopened_allowed: int = 0) -> Report:
        return check(
            self.producer,
            self.sink,
            self.database,
            self.reopened,
            duplicates_allowed=duplicates_allowed,
            reopened_allowed=reopened_allowed,
        )


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def kinds(report: Report) -> set[str]:
    """Which kinds of faults were found."""
    return {each.name for each in fields(report) if each.type != "int" and getattr(report, each.name)}


@pytest.fixture
def world() -> World:
    world = World()
    world.message("one")
    world.message("two", failures=2)
    world.message("cut", Told.UNKNOWN, known=False)
    world.refused("bad")
    world.refused("never", Told.UNKNOWN)
    world.producer.append(Produced("named", digest("named"), Told.UNKNOWN, ENDPOINTS))
    return world


def test_sound(world: World) -> None:
    """Retries, refusals and lost answers, each explained by the others, are sound."""
    report = world.report()
    assert report.sound, report
    assert kinds(report) == set()
    assert str(report) == "sound, with 0 of 0 duplicates"


def test_failed_and_cancelled_are_ends(world: World) -> None:
    """A delivery may end as failed or cancelled without an arrival."""
    world.sink = [receipt for receipt in world.sink if receipt.webhook_id != "one"]
    world.database[0] = replace(world.database[0], state="failed")
    world.database[1] = replace(world.database[1], state="cancelled")
    assert world.report().sound


def test_lost_without_a_row(world: World) -> None:
    """An accepted message without a delivery is lost, even if it arrived."""
    gone = world.database.pop(0)
    report = world.report()
    assert report.lost == (Fault("one", gone.endpoint, "has no delivery in the database"),)
    assert kinds(report) == {"lost"}
    assert not report.sound


def test_lost_though_said_to_be_sent(world: World) -> None:
    """A delivery that says sent, and whose endpoint saw nothing, is lost."""
    world.sink = [receipt for receipt in world.sink if (receipt.webhook_id, receipt.endpoint) != ("one", "a")]
    report = world.report()
    assert [fault.endpoint for fault in report.lost] == ["a"]
    assert kinds(report) == {"lost"}


@pytest.mark.parametrize("status", [500, 302, None])
def test_lost_though_it_arrived(world: World, status: int | None) -> None:
    """A delivery that says sent is lost if the endpoint never answered well."""
    world.sink[0] = replace(world.sink[0], status=status)
    assert kinds(world.report()) == {"lost"}


def test_lost_in_part(world: World) -> None:
    """A message that was taken for one endpoint and not for the other is lost for the other, answer or no answer."""
    world.database = [row for row in world.database if (row.message, row.endpoint) != ("cut", "b")]
    world.sink = [row for row in world.sink if (row.webhook_id, row.endpoint) != ("cut", "b")]
    report = world.report()
    assert [(fault.message, fault.endpoint) for fault in report.lost] == [("cut", "b")]
    assert kinds(report) == {"lost"}


def test_lost_after_it_arrived(world: World) -> None:
    """What reached an endpoint was taken; if the database knows nothing of it any more, it is lost and no phantom."""
    world.database = [row for row in world.database if row.message != "cut"]
    report = world.report()
    assert {fault.message for fault in report.lost} == {"cut"}
    assert kinds(report) == {"lost"}


def test_phantom_arrival(world: World) -> None:
    """An arrival that no producer sent is a phantom."""
    world.sink.append(Receipt("who", "a", 0.0, digest("who"), True, 200))
    report = world.report()
    assert [fault.message for fault in report.phantom] == ["who"]
    assert kinds(report) == {"phantom"}


def test_phantom_row(world: World) -> None:
    """A delivery of a message that was refused for certain is a phantom."""
    world.database.append(Stored("d", "bad_id", "a", "cancelled", 0, digest("bad")))
    assert kinds(world.report()) == {"phantom"}


def test_phantom_endpoint(world: World) -> None:
    """A message at an endpoint that it was not meant for is a phantom there."""
    world.sink.append(replace(world.sink[0], endpoint="c"))
    assert kinds(world.report()) == {"phantom"}


def test_accepted_twice(world: World) -> None:
    """The same message under a second id is a phantom, whether or not its producer knows the first."""
    world.database.append(Stored("d", "one_again", "a", "failed", 1, digest("one")))
    world.database.append(Stored("e", "cut_again", "a", "failed", 1, digest("cut")))
    report = world.report()
    assert [fault.message for fault in report.phantom] == ["one_again", "cut_again"]
    assert kinds(report) == {"phantom"}


def test_two_rows_for_one_delivery(world: World) -> None:
    """A message has one delivery for each endpoint."""
    world.database.append(replace(world.database[0], delivery="second"))
    assert kinds(world.report()) == {"phantom"}


@pytest.mark.parametrize("place", ["sink", "database"])
def test_wrong_body(world: World, place: str) -> None:
    """A body that is not the producer's is wrong, on the wire and in the database."""
    if place == "sink":
        world.sink[0] = replace(world.sink[0], sha256=digest("other"))
    else:
        world.database[0] = replace(world.database[0], sha256=digest("other"))
    report = world.report()
    assert len(report.wrong_body) == 1
    assert kinds(report) == {"wrong_body"}


@pytest.mark.parametrize("verified", [False, None])
def test_wrong_signature(world: World, verified: bool | None) -> None:
    """A signature that was refused is wrong, and so is one that nobody checked."""
    world.sink[0] = replace(world.sink[0], verified=verified)
    assert kinds(world.report()) == {"wrong_signature"}


@pytest.mark.parametrize("status", [200, 503, None])
def test_doubled(world: World, status: int | None) -> None:
    """Whatever arrives after it was taken is a duplicate, however it is answered."""
    world.sink.append(replace(world.sink[0], arrived_at=1.5, status=status))
    report = world.report()
    assert report.doubled == (Fault("one", "a", "again 1.500 s after it was taken"),)
    assert kinds(report) == {"doubled"}
    assert not report.sound
    assert world.report(duplicates_allowed=1).sound


def test_order_of_arrival_counts(world: World) -> None:
    """Receipts may be written in any order; their times decide what came again."""
    world.sink.reverse()
    assert world.report().sound


def test_allowance_is_not_a_blanket(world: World) -> None:
    """One more duplicate than allowed is one too many."""
    world.sink += [replace(world.sink[0], arrived_at=at) for at in (1.0, 2.0, 3.0)]
    assert not world.report(duplicates_allowed=2).sound
    assert world.report(duplicates_allowed=3).sound


@pytest.mark.parametrize("state", ["pending", "sending"])
def test_unfinished(world: World, state: str) -> None:
    """A delivery that has not come to an end is unfinished."""
    world.database[0] = replace(world.database[0], state=state)
    report = world.report()
    assert report.unfinished == (Fault("one", "a", f"{state} after 1 attempts"),)
    assert kinds(report) == {"unfinished"}


def test_reopened(world: World) -> None:
    """A delivery that left its end is a fault even if it has come to one again, unless somebody asked for it."""
    world.reopened.append(Fault("one", "a", "was sent, became pending"))
    assert kinds(world.report()) == {"reopened"}
    assert not world.report().sound
    assert world.report(reopened_allowed=1).sound


def test_nonsense_is_refused(world: World) -> None:
    """Ledgers that could hide a fault are refused, not checked."""
    with pytest.raises(ValueError, match="states that nobody knows: lost"):
        check([], [], [replace(world.database[0], state="lost")], duplicates_allowed=0)
    with pytest.raises(ValueError, match="body of its own"):
        check([world.producer[0], world.producer[0]], [], [], duplicates_allowed=0)
    with pytest.raises(ValueError, match="told the id"):
        check([replace(world.producer[0], id=None)], [], [], duplicates_allowed=0)


def test_text(world: World) -> None:
    """The report names each kind with its first faults, and how many there are."""
    world.sink += [replace(world.sink[0], arrived_at=float(at)) for at in range(1, 13)]
    world.database[1] = replace(world.database[1], state="sending")
    lines = str(world.report(duplicates_allowed=3)).splitlines()
    assert lines[0] == "doubled: 12 (3 allowed)"
    assert lines[1] == "  one for a: again 1.000 s after it was taken"
    assert lines[11:] == ["  and 2 more", "unfinished: 1", "  one for b: sending after 1 attempts"]


Spoil: TypeAlias = Callable[[World, Random], None]


def spoil_row(world: World, random: Random) -> None:
    world.database.remove(random.choice(world.database))


def spoil_arrivals(world: World, random: Random) -> None:
    gone = random.choice(world.sink)
    world.sink = [row for row in world.sink if (row.webhook_id, row.endpoint) != (gone.webhook_id, gone.endpoint)]


def spoil_arrival(world: World, random: Random, **changes: object) -> None:
    at = random.randrange(len(world.sink))
    world.sink[at] = replace(world.sink[at], **changes)  # type: ignore[arg-type]


def spoil_state(world: World, random: Random) -> None:
    at = random.randrange(len(world.database))
    world.database[at] = replace(world.database[at], state="sending")


def repeat_arrival(world: World, random: Random) -> None:
    taken = random.choice([row for row in world.sink if row.status == 200])
    world.sink.append(replace(taken, arrived_at=taken.arrived_at + 1))


SPOILS: dict[str, tuple[Spoil, str]] = {
    "a row is gone": (spoil_row, "lost"),
    "an endpoint saw nothing": (spoil_arrivals, "lost"),
    "an id is not ours": (lambda world, random: spoil_arrival(world, random, webhook_id="who"), "phantom"),
    "a body changed": (lambda world, random: spoil_arrival(world, random, sha256="0" * 64), "wrong_body"),
    "a signature is wrong": (lambda world, random: spoil_arrival(world, random, verified=False), "wrong_signature"),
    "a delivery hangs": (spoil_state, "unfinished"),
    "it came again": (repeat_arrival, "doubled"),
}


@given(
    messages=st.lists(
        st.tuples(st.sampled_from([Told.OK, Told.UNKNOWN]), st.booleans(), st.integers(0, 3)), min_size=1
    ),
    spoil=st.sampled_from([None, *SPOILS]),
    random=st.randoms(use_true_random=False),
)
def test_any_world(messages: list[tuple[Told, bool, int]], spoil: str | None, random: Random) -> None:
    """In any sound world one fault is found for what it is, and without one nothing is."""
    world = World()
    for number, (told, known, failures) in enumerate(messages):
        world.message(f"msg_{number}", told, known=known or told is Told.OK, failures=failures)
    random.shuffle(world.sink)
    if spoil is None:
        assert world.report().sound
        return
    change, expected = SPOILS[spoil]
    change(world, random)
    report = world.report()
    assert not report.sound
    assert expected in kinds(report)
