"""Thousands of endpoints stay smooth, and pictures of the pages are taken."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from hookfuse.app.station import Station
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.testing.receivers import Failing, Flaky, Ok, RateLimited
from hookfuse.testing.receivers import Slow as SlowReceiver
from tests.browser.site import Site, Visitor, running_site, visiting
from tests.service.programs import environment, until
from tests.service.seeds import within

MANY = 5_000
WITHIN = 1.0
SMALL = 150 * 1024


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service with five thousand endpoints, a tenth of them sick."""
    folder = tmp_path_factory.mktemp("crowded")

    async def fill(station: Station) -> None:
        await station.store.add_application(Application("app_many", "Many"))
        endpoints = (
            Endpoint(f"ep_{n:05}", "app_many", f"https://customer-{n}.example.com/hooks/{n % 7}") for n in range(MANY)
        )
        await asyncio.gather(*(station.store.add_endpoint(each) for each in endpoints))
        keys = (f"app_many/ep_{n:05}" for n in range(0, MANY, 10))
        await asyncio.gather(*(station.breakers.force_open(key, reason="ticket 4711") for key in keys))

    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(within, environment(folder / "data"), fill).result()
    with running_site(folder) as site:
        yield site


@pytest.fixture(scope="module")
def looking(browser: Browser, crowded: Site) -> Iterator[Visitor]:
    with visiting(browser, crowded.url) as found:
        found.log_in(crowded.admin)
        yield found


def test_listing_thousands(looking: Visitor, crowded: Site) -> None:
    """Of 5,000 endpoints the sickest are on the screen within a second, however often they are asked for."""
    took = []
    for _ in range(3):
        began = time.monotonic()
        looking.go("/dashboard/endpoints")
        expect(looking.page.locator("table.endpoints tbody tr")).to_have_count(50)
        took.append(time.monotonic() - began)
    assert min(took) < WITHIN
    expect(looking.page.locator("table.endpoints .pill").last).to_have_text("Forced open")
    assert crowded.ok("GET", "/overview")["conditions"] == {"forced_open": MANY // 10, "closed": MANY * 9 // 10}


def test_finding_one_of_thousands(looking: Visitor) -> None:
    """Of 5,000 endpoints the one that is typed is found within a second after the last letter."""
    looking.go("/dashboard/endpoints")
    rows = looking.page.locator("table.endpoints tbody tr")
    took = []
    for number in (4321, 777, 4999):
        began = time.monotonic()
        looking.page.fill("[name=search]", f"customer-{number}.")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text(f"customer-{number}.example.com")
        took.append(time.monotonic() - began)
    assert min(took) < WITHIN


def test_paging_through_thousands(looking: Visitor) -> None:
    """Pages follow one another, the sick before the others, without repeating anyone."""
    looking.go("/dashboard/endpoints?condition=forced_open")
    seen: list[str] = []
    for _ in range(3):
        rows = looking.page.locator("table.endpoints tbody tr .where")
        expect(rows).to_have_count(50)
        seen += rows.all_text_contents()
        looking.page.get_by_role("link", name="Next").click()
        expect(rows.first).not_to_have_text(seen[-50])
    assert len(set(seen)) == 150


def test_pictures(browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The pictures of the documentation are pages with real data, and small enough to keep."""
    kept = os.environ.get("HOOKFUSE_TEST_PICTURES")
    folder, points = (Path(kept), 9) if kept else (tmp_path, 1)
    with running_site(tmp_path_factory.mktemp("pictured"), retry_delays="2,5") as site:
        shop, north = site.app("Acme Shop"), site.app("Northwind")
        site.receiver(shop, "orders", Ok(), description="Orders")
        site.receiver(shop, "billing", SlowReceiver(0.2), description="Billing")
        site.receiver(north, "scanner", Flaky(0.2), description="Warehouse scanner")
        site.receiver(north, "tracking", RateLimited(per_second=3, retry_after=30), description="Tracking")
        dead = site.receiver(north, "customs", Failing(503), description="Customs gateway")

        def busy() -> bool:
            site.send(shop)
            site.send(north)
            tripped = site.ok("GET", f"/app/{north}/breaker/{dead}")["state"] == "open"
            return tripped and len(site.ok("GET", "/overview/series")["at"]) >= points

        until(busy, seconds=120)
        with visiting(browser, site.url, viewport={"width": 1180, "height": 760}) as visitor:
            page = visitor.log_in(site.admin)
            for name, path in (("overview", "/dashboard"), ("endpoint", f"/dashboard/endpoints/{north}/{dead}")):
                visitor.go(path)
                expect(page.locator(".plot canvas").first).to_be_visible()
                page.screenshot(path=folder / f"{name}.png")
                assert (folder / f"{name}.png").stat().st_size < SMALL
