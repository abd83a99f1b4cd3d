"""What pages say loudly: that they are exposed, and that something of the service is away."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from hookfuse.dashboard.pages.overview import REMEDIES
from tests.browser.site import Site, running_site, visiting
from tests.servers.browser import ELSEWHERE


def test_exposed(browser: Browser, site: Site) -> None:
    """Over plain HTTP to another name than this machine's own, the login and every page warn, and nothing complains."""
    with visiting(browser, site.url.replace("127.0.0.1", ELSEWHERE)) as visitor:
        visitor.go("/dashboard/login")
        expect(visitor.page.get_by_role("alert")).to_contain_text("This page is not encrypted.")
        visitor.log_in(site.admin)
        for path in ("/dashboard", "/dashboard/endpoints", "/dashboard/settings"):
            assert visitor.go(path) == 200
            expect(visitor.page.get_by_role("alert")).to_contain_text("Whoever is on the network between can read")


def test_without_its_redis(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """With Redis away the overview says so above everything else, and endpoints are as the database knows them."""
    with running_site(tmp_path_factory.mktemp("degraded"), redis_url="redis://127.0.0.1:1") as site:
        app = site.app("Acme")
        stopped = site.endpoint(app)
        other = site.endpoint(app, "https://example.com/other")
        site.ok("POST", f"/app/{app}/endpoint/{stopped}/pause")
        assert site.ok("GET", "/overview")["conditions"] == {"paused": 1, "closed": 1}
        with visiting(browser, site.url) as visitor:
            page = visitor.log_in(site.admin)
            expect(page.locator("#health")).to_contain_text("Degraded.")
            alerts = site.ok("GET", "/overview")["alerts"]
            assert alerts == site.program.ready()[1]["alerts"]
            assert list(alerts) == ["redis"]
            expect(page.locator("#health li")).to_have_text(f"{alerts['redis']}. {REMEDIES['redis']}")
            visitor.go("/dashboard/endpoints")
            expect(page.locator("table.endpoints tbody tr")).to_have_count(2)
            assert visitor.go(f"/dashboard/endpoints/{app}/{stopped}") == 200
            expect(page.get_by_role("alert")).to_contain_text("The state of its breaker is not known: Redis is away.")
            expect(page.locator("#title .pill")).to_have_text("Paused")
            assert page.locator("#buttons button").all_text_contents() == ["Resume", "Disable"]
            visitor.go(f"/dashboard/endpoints/{app}/{other}")
            expect(page.locator("#title .pill")).to_have_text("Unknown")
            page.click("text=Pause")
            expect(page.locator("#title .pill")).to_have_text("Paused")
            assert site.ok("GET", f"/app/{app}/endpoint/{other}")["paused"] is True
