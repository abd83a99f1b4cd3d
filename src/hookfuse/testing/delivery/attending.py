"""What the list of processes promises: who is there, who fell silent, and nobody for ever. By the store's clock."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from hookfuse.core.member import FORGET_MS, MISSED, Member, Part, Presence, Report, Sharing
from hookfuse.testing.delivery.bench import Bench, OnBench

_EVERY_MS = 5_000
_SILENT_AFTER = MISSED * _EVERY_MS / 1000
_FORGOTTEN_AFTER = FORGET_MS / 1000


class Attending(OnBench):
    async def test_a_report_is_kept(self, bench: Bench) -> None:
        """What a process says is told as it was said, with when it started and when it was heard."""
        said = _report("a", parts=(Part.WORKER,), in_hand=3, slots=64, breakers=Sharing.DEGRADED, suspect=True)
        await bench.store.report_in(said, age_ms=1_500)
        assert await bench.store.members() == [Member(said, bench.now_ms - 1_500, bench.now_ms, bench.now_ms)]

    async def test_the_last_report_counts(self, bench: Bench) -> None:
        """A process that reports again is one process, as it says now, and started when it did."""
        await bench.store.report_in(_report("a"), age_ms=0)
        started = bench.now_ms
        bench.clock.advance(4)
        later = _report("a", in_hand=9, draining=True)
        await bench.store.report_in(later, age_ms=4_200)
        assert await bench.store.members() == [Member(later, started, bench.now_ms, bench.now_ms)]
        assert await _presences(bench) == {"a": Presence.DRAINING}

    async def test_a_killed_process_falls_silent(self, bench: Bench) -> None:
        """After three missing reports a process is silent, to the millisecond, and since when is told."""
        await bench.store.report_in(_report("killed"), age_ms=0)
        heard = bench.now_ms
        await bench.store.report_in(_report("slow", every_ms=60_000), age_ms=0)
        bench.clock.advance(_SILENT_AFTER - 0.001)
        await bench.store.report_in(_report("alive"), age_ms=0)
        assert set((await _presences(bench)).values()) == {Presence.RUNNING}
        bench.clock.advance(0.001)
        assert await _presences(bench) == {
            "killed": Presence.SILENT,
            "slow": Presence.RUNNING,
            "alive": Presence.RUNNING,
        }
        assert {each.report.name: each.heard_ms for each in await bench.store.members()}["killed"] == heard

    async def test_silent_while_draining(self, bench: Bench) -> None:
        """One that is killed while it drains is silent like any other."""
        await bench.store.report_in(_report("a", draining=True), age_ms=0)
        bench.clock.advance(_SILENT_AFTER)
        assert await _presences(bench) == {"a": Presence.SILENT}

    async def test_a_paused_process_is_back(self, bench: Bench) -> None:
        """One that was only paused runs again with its next report, even if it was forgotten; its start is the same."""
        started = bench.now_ms
        await bench.store.report_in(_report("a"), age_ms=0)
        bench.clock.advance(_SILENT_AFTER)
        await bench.store.report_in(_report("a"), age_ms=15_000)
        assert await _presences(bench) == {"a": Presence.RUNNING}
        bench.clock.advance(_FORGOTTEN_AFTER)
        assert await bench.store.members() == []
        await bench.store.report_in(_report("a"), age_ms=bench.now_ms - started)
        assert [each.started_ms for each in await bench.store.members()] == [started]

    async def test_the_silent_are_forgotten(self, bench: Bench) -> None:
        """After an hour of silence a process is no longer listed, and others that report do not bring it back."""
        await bench.store.report_in(_report("gone"), age_ms=0)
        bench.clock.advance(_FORGOTTEN_AFTER - 0.001)
        assert await _presences(bench) == {"gone": Presence.SILENT}
        bench.clock.advance(0.001)
        assert await bench.store.members() == []
        await asyncio.gather(*(bench.store.report_in(_report(f"p{n}"), age_ms=0) for n in range(4)))
        assert set(await _presences(bench)) == {f"p{n}" for n in range(4)}

    async def test_signing_off(self, bench: Bench) -> None:
        """Who signs off is not listed any more; others are, and signing off twice does no harm."""
        await bench.store.report_in(_report("a"), age_ms=0)
        await bench.store.report_in(_report("b"), age_ms=0)
        await bench.store.sign_off("a")
        await bench.store.sign_off("a")
        assert set(await _presences(bench)) == {"b"}

    async def test_a_restart_in_the_same_place(self, bench: Bench) -> None:
        """A process that starts where one was killed, with the same host and number, is another one beside it."""
        await bench.store.report_in(_report("web:1:aaa"), age_ms=0)
        bench.clock.advance(_SILENT_AFTER)
        await bench.store.report_in(_report("web:1:bbb"), age_ms=0)
        assert await _presences(bench) == {"web:1:aaa": Presence.SILENT, "web:1:bbb": Presence.RUNNING}

    async def test_instants_are_the_stores(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process whose clock is years off is heard when the store hears it."""
        for off in (0.0, 4e9):
            monkeypatch.setattr(time, "time", lambda off=off: off)
            await bench.store.report_in(_report(f"{off}"), age_ms=0)
        assert {each.heard_ms for each in await bench.store.members()} == {bench.now_ms}

    async def test_the_stores_clock_is_set_back(self, bench: Bench) -> None:
        """Reports of the future are nobody's life: only who reports again is heard of."""
        await bench.store.report_in(_report("killed"), age_ms=0)
        await bench.store.report_in(_report("alive"), age_ms=0)
        bench.clock.advance(-60)
        await bench.store.report_in(_report("alive"), age_ms=0)
        assert await _presences(bench) == {"killed": Presence.SILENT, "alive": Presence.RUNNING}


def _report(name: str, **said: object) -> Report:
    made = Report(
        name, "web", 1, "1.0", (Part.API, Part.WORKER), _EVERY_MS, 0, 256, False, Sharing.SHARED, suspect=False
    )
    return replace(made, **said)  # type: ignore[arg-type]


async def _presences(bench: Bench) -> dict[str, Presence]:
    return {each.report.name: each.presence for each in await bench.store.members()}
