"""What a view over all applications relies on: the sick endpoints apart from the others, and a census."""

from __future__ import annotations

from hookfuse.core.condition import Census, EndpointFilter, Listed
from hookfuse.core.delivery import DeliveryState
from hookfuse.core.endpoint import Stop
from hookfuse.core.paging import Mark, Span
from hookfuse.core.tally import SLOT_MS
from hookfuse.testing.delivery.bench import Bench, OnBench

EVERYWHERE = EndpointFilter()


class Overviewing(OnBench):
    async def test_sick_and_others(self, bench: Bench) -> None:
        """Whatever is stopped, flagged, failing or named is sick; others are all but those, and nobody is deleted."""
        await bench.application("app_1")
        await bench.application("app_2")
        for name in ("a", "b", "c", "d", "e", "f"):
            await bench.endpoint(
                f"ep_{name}", "app_1" if name < "d" else "app_2", breaker_key="x" if name == "f" else None
            )
        await bench.store.stop_endpoint("ep_a", Stop.PAUSED)
        await bench.store.change_endpoint("ep_b", {"flag": "destination_blocked"})
        await bench.store.delete_endpoint("ep_e")
        assert await _sick(bench, EVERYWHERE) == ["ep_a", "ep_b"]
        assert await _others(bench, EVERYWHERE, "ep_a", "ep_b") == ["ep_c", "ep_d", "ep_f"]
        assert await _others(bench, EVERYWHERE) == ["ep_a", "ep_b", "ep_c", "ep_d", "ep_f"]
        names = ["ep_c", "x", "ep_none"]
        assert await _sick(bench, EVERYWHERE, *names) == ["ep_a", "ep_b", "ep_c", "ep_f"]
        assert await _others(bench, EndpointFilter("app_2"), "ep_f") == ["ep_d"]
        assert await _sick(bench, EndpointFilter("app_2"), *names) == ["ep_f"]

    async def test_failing_lanes_are_sick(self, bench: Bench) -> None:
        """An endpoint whose last attempt failed is sick until one succeeds."""
        await bench.lane()
        for healthy in (False, True):
            await bench.send()
            (claim,) = await bench.claim()
            state = DeliveryState.SENT if healthy else DeliveryState.FAILED
            await bench.settle(claim, state=state, healthy=healthy)
            assert await _sick(bench, EVERYWHERE) == ([] if healthy else ["ep_1"])

    async def test_search(self, bench: Bench) -> None:
        """A text is found in either case, wherever people would look for it, and is never a pattern."""
        await bench.application("app_acme")
        await bench.endpoint(
            "ep_a", "app_acme", url="https://Shop.example.com/IN", description="Berlin 50%", uid="main"
        )
        await bench.endpoint("ep_b", "app_acme")
        for text in ("shop.EX", "/in", "50%", "BERLIN", "ep_a", "main"):
            assert await _others(bench, EndpointFilter(text=text)) == ["ep_a"], text
        assert await _others(bench, EndpointFilter(text="App_Acme")) == ["ep_a", "ep_b"]
        for text in ("%", "_in", "shop\nx", "no", "'; --", "\x00"):
            expected = ["ep_a"] if text == "%" else []
            assert await _others(bench, EndpointFilter(text=text)) == expected, text
        await bench.store.stop_endpoint("ep_a", Stop.DISABLED, "gone")
        (found,) = await bench.store.sick_endpoints(EndpointFilter(text="berlin"), [])
        assert found == Listed(
            "ep_a",
            "app_acme",
            "app_acme",
            "https://Shop.example.com/IN",
            "Berlin 50%",
            "main",
            None,
            Stop.DISABLED,
            "gone",
            "",
            False,
        )

    async def test_pages_of_others(self, bench: Bench) -> None:
        """Pages of the others follow one another both ways."""
        await bench.application()
        for name in "abcd":
            await bench.endpoint(f"ep_{name}")
        assert await _others(bench, EVERYWHERE, span=Span(2)) == ["ep_a", "ep_b"]
        assert await _others(bench, EVERYWHERE, span=Span(2, after=Mark(0, "ep_b"))) == ["ep_c", "ep_d"]
        back = Span(2, before=Mark(0, "ep_d"), backwards=True)
        assert await _others(bench, EVERYWHERE, span=back) == ["ep_c", "ep_b"]

    async def test_recent_slots(self, bench: Bench) -> None:
        """The last slots of these endpoints are told, the running one included, and nothing older or of others."""
        await bench.lane("ep_a")
        await bench.lane("ep_b")
        bench.clock.advance(1_000)
        for healthy in (True, False, True):
            await bench.send()
            for claim in await bench.claim():
                state = DeliveryState.SENT if healthy else DeliveryState.FAILED
                await bench.settle(claim, state=state, healthy=healthy)
            bench.clock.advance(SLOT_MS / 1000)
        found = sorted(await bench.store.recent(["ep_a", "ep_none"], 3))
        assert [(each.endpoint_id, each.ok, each.failed) for each in found] == [("ep_a", 0, 1), ("ep_a", 1, 0)]
        assert found[1].slot_ms - found[0].slot_ms == SLOT_MS
        assert await bench.store.recent([], 3) == []

    async def test_census(self, bench: Bench) -> None:
        """Endpoints are counted without deleted ones, and the oldest delivery that waits is known, held or not."""
        assert await bench.store.census() == Census(0, None)
        await bench.lane("ep_a")
        await bench.endpoint("ep_b", event_types=("other",))
        await bench.store.stop_endpoint("ep_a", Stop.PAUSED)
        due_ms = bench.now_ms
        await bench.send()
        # Postgres knows of a delivery in its lane once someone has looked for work.
        await bench.claim()
        bench.clock.advance(60)
        await bench.send()
        await bench.claim()
        assert await bench.store.census() == Census(2, due_ms)
        await bench.store.delete_endpoint("ep_a")
        assert await bench.store.census() == Census(1, None)


async def _sick(bench: Bench, chosen: EndpointFilter, *names: str) -> list[str]:
    return [each.id for each in await bench.store.sick_endpoints(chosen, names)]


async def _others(bench: Bench, chosen: EndpointFilter, *names: str, span: Span | None = None) -> list[str]:
    return [each.id for each in await bench.store.other_endpoints(chosen, names, span or Span())]
