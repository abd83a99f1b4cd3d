"""Processes of a fleet: in which order they are told. When one is silent is the contract of every store."""

from __future__ import annotations

from dataclasses import replace

from hookfuse.core.member import FORGET_MS, Member, Part, Presence, Report, Sharing, in_order, presence_of

NOW_MS = 10 * FORGET_MS
SAID = Report("", "web", 1, "1.0", (Part.API,), 5_000, 0, 0, False, Sharing.OWN, suspect=False)


def member(name: str, host: str, pid: int, unheard_ms: int = 0) -> Member:
    return Member(replace(SAID, name=name, host=host, pid=pid), 0, NOW_MS - unheard_ms, NOW_MS)


def test_order() -> None:
    """Those that are heard of come by host and number; then the silent ones, the last to fall silent first."""
    found = in_order(
        [
            member("old", "a", 1, 60_000),
            member("b", "web-2", 7, 4_999),
            member("new", "z", 1, 15_000),
            member("c", "web-2", 12),
            member("a", "web-1", 30),
        ]
    )
    assert [each.report.name for each in found] == ["a", "b", "c", "new", "old"]


def test_edges() -> None:
    """A process is silent from its third missing report on, and forgotten after the hour, drained or not."""
    draining = replace(SAID, draining=True)
    for unheard, expected in (
        (0, Presence.DRAINING),
        (14_999, Presence.DRAINING),
        (15_000, Presence.SILENT),
        (-15_000, Presence.SILENT),
        (FORGET_MS - 1, Presence.SILENT),
        (FORGET_MS, Presence.FORGOTTEN),
    ):
        assert presence_of(draining, NOW_MS - unheard, NOW_MS) is expected
    assert presence_of(SAID, NOW_MS - 14_999, NOW_MS) is Presence.RUNNING
