"""How slots are shared: by applications first, then by the lanes of each."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hookfuse.core.lanes import reaches, shares

LANES = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 40)), min_size=1, max_size=60)


def _of_apps(apps: list[str], numbers: list[int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for app, number in zip(apps, numbers, strict=True):
        found[app] += number
    return found


@given(LANES, st.integers(0, 600))
def test_every_slot_is_used(lanes: list[tuple[str, int]], slots: int) -> None:
    """As many are taken as there are slots, or all that is due; of no lane more than is due."""
    apps, due = [app for app, _ in lanes], [number for _, number in lanes]
    taken = shares(apps, due, slots)
    assert sum(taken) == min(slots, sum(due))
    assert all(0 <= got <= wanted for got, wanted in zip(taken, due, strict=True))


@given(LANES, st.integers(0, 600))
def test_applications_get_the_same(lanes: list[tuple[str, int]], slots: int) -> None:
    """Nobody who could use more has less than another application, but for one slot that cannot be divided."""
    apps, due = [app for app, _ in lanes], [number for _, number in lanes]
    got, wanted = _of_apps(apps, shares(apps, due, slots)), _of_apps(apps, due)
    for app in got:
        assert got[app] == wanted[app] or got[app] >= max(got.values()) - 1


@given(LANES, st.integers(0, 600))
def test_lanes_of_an_application_get_the_same(lanes: list[tuple[str, int]], slots: int) -> None:
    """Within an application it is the same between lanes."""
    apps, due = [app for app, _ in lanes], [number for _, number in lanes]
    taken = shares(apps, due, slots)
    for at, app in enumerate(apps):
        of_app = [taken[other] for other, its_app in enumerate(apps) if its_app == app]
        assert taken[at] == due[at] or taken[at] >= max(of_app) - 1


@given(LANES, st.integers(1, 600))
def test_reaches_are_enough_and_not_much_more(lanes: list[tuple[str, int]], slots: int) -> None:
    """With lanes that are full everyone gets its part within its reach, and all reaches are twice the slots or so."""
    apps = [app for app, _ in lanes]
    reach = reaches(apps, slots)
    taken = shares(apps, reach, slots)
    assert sum(taken) == slots
    parts = _of_apps(apps, taken)
    assert max(parts.values()) - min(parts.values()) <= 1
    assert sum(reach) <= 2 * slots + 2 * len(lanes)


def test_the_first_get_what_cannot_be_divided() -> None:
    """Where there are fewer slots than lanes, those that come first are served."""
    assert shares(["a", "b", "c"], [5, 5, 5], 2) == [1, 1, 0]
    assert shares(["a", "a", "b"], [5, 5, 5], 5) == [2, 1, 2]
    assert shares(["a", "a", "a", "b"], [1, 1, 1, 9], 8) == [1, 1, 1, 5]
