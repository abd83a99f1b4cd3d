"""The page of the workers over a fleet: one process is killed, and Redis goes away for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from hookfuse.core.member import Part, Report, Sharing
from hookfuse.dashboard.words import count
from tests.browser.fleet import Fleet, running_fleet
from tests.browser.site import Visitor, visiting
from tests.browser.test_pages import PALE, READABLE
from tests.service.programs import until

LONG = "hookfuse-worker-7d9f8b6c5d-x2x9q.eu-central-1.compute.internal." + "x" * 120
SAID = Report("far:7:abc", LONG, 7, "0.9", (Part.API, Part.WORKER), 600_000, 3, 1024, False, Sharing.SHARED, False)
NOTICED_WITHIN = 20_000
"""What other processes and servers do is seen when the page looks anew, every few seconds."""
STATES = ("running", "draining", "silent")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet")) as found:
        until(lambda: len(found.site.ok("GET", "/processes")["data"]) == 2)
        yield found


@pytest.fixture(scope="module")
def visitor(fleet: Fleet, browser: Browser) -> Iterator[Visitor]:
    with visiting(browser, fleet.site.url) as found:
        found.log_in(fleet.site.admin)
        yield found


@pytest.fixture
def page(visitor: Visitor) -> Page:
    return visitor.page


def states(fleet: Fleet) -> dict[str, int]:
    """How many processes are in which state: the API and the metrics say the same."""
    told = Counter(each["state"] for each in fleet.site.ok("GET", "/processes")["data"])
    for state in STATES:
        assert fleet.site.program.metric(f'hookfuse_processes{{state="{state}"}}') == told[state]
    return {state: told[state] for state in STATES if told[state]}


def test_who_is_there(visitor: Visitor, page: Page, fleet: Fleet) -> None:
    """Each process is listed with what the API tells of it: where, what it does, what is in flight, who leads."""
    until(lambda: any(each["leads"] for each in fleet.site.ok("GET", "/processes")["data"]))
    visitor.go("/dashboard/workers")
    told = fleet.site.ok("GET", "/processes")["data"]
    rows = page.locator("table.processes tbody tr")
    expect(rows).to_have_count(2)
    assert states(fleet) == {"running": 2}
    expect(page.locator("#fleet header")).to_contain_text("2 running")
    for row, each in zip(rows.all(), told, strict=True):
        expect(row.locator("td[data-label=Process]")).to_contain_text(each["host"])
        expect(row.locator("td[data-label=Process]")).to_contain_text(f"pid {each['pid']} · {each['version']}")
        expect(row.locator("td[data-label=State] .pill")).to_have_text("Running")
        expect(row.locator("td[data-label=Runs]")).to_have_text({"api": "API"}.get(each["parts"][0], each["parts"][0]))
        shown = f"{each['inHand']} of {count(each['slots'])}" if each["slots"] else "–"
        expect(row.locator("td[data-label='In flight']")).to_have_text(shown)
        expect(row.locator("td[data-label=Breakers]")).to_contain_text("shared")
        expect(row.locator("td[data-label=Leads]")).to_have_text(", ".join(each["leads"]) or "–")
        expect(row.locator("td[data-label=Started] time")).to_have_attribute("datetime", each["startedAt"])
    expect(rows.filter(has_text="this one")).to_contain_text(f"pid {fleet.site.program.process.pid}")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 900), ("dark", 390)])
def test_host_names_and_troubles(browser: Browser, fleet: Fleet, scheme: str, width: int) -> None:
    """No host name breaks the page; what a process sees amiss is said, and readable, wide and narrow."""
    sick = replace(SAID, name="sick:1:abc", host="sick", breakers=Sharing.DEGRADED, suspect=True)
    hostile = replace(SAID, name="hostile:1:abc", host="<img src=x onerror='window.broken = true'>")
    fleet.report(SAID, sick, replace(SAID, name="ending:1:abc", host="ending", draining=True), hostile)
    with visiting(browser, fleet.site.url, color_scheme=scheme, viewport={"width": width, "height": 844}) as visitor:
        page = visitor.log_in(fleet.site.admin)
        visitor.go("/dashboard/workers")
        row = page.locator("table.processes tbody tr", has_text="sick")
        expect(row).to_contain_text("Redis away")
        expect(row).to_contain_text("egress suspect")
        expect(page.locator("tr", has_text="ending").locator(".pill")).to_have_text("Draining")
        expect(page.locator("#fleet")).to_contain_text("<img src=x")
        assert page.evaluate("window.broken") is None
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        assert page.evaluate("document.querySelector('#fleet .scroll').scrollWidth - innerWidth") <= 0
        assert page.evaluate(PALE, READABLE) == []


def test_redis_goes_and_comes(visitor: Visitor, page: Page, fleet: Fleet) -> None:
    """Without Redis an endpoint's page says that its breaker's state is not known, with what is; then it is back."""
    app = fleet.site.app("Acme")
    endpoint = fleet.site.endpoint(app)
    fleet.site.ok("POST", f"/app/{app}/breaker/{endpoint}/force", {"to": "open", "reason": "maintenance"})
    visitor.go(f"/dashboard/endpoints/{app}/{endpoint}")
    expect(page.locator("#title .pill")).to_have_text("Forced open")
    page.evaluate("window.loadedOnce = true")
    fleet.redis.stop()
    unknown = page.locator("#health .banner", has_text="The state of its breaker is not known: Redis is away.")
    expect(unknown).to_be_visible(timeout=NOTICED_WITHIN)
    expect(page.locator("#title .pill")).to_have_text("Unknown")
    expect(page.locator("#now")).to_contain_text("Last written down: Forced open")
    expect(page.locator("#history")).to_contain_text("maintenance")
    expect(page.locator("#buttons")).to_contain_text("Its breaker cannot be told anything while Redis is away.")
    fleet.redis.start()
    expect(unknown).to_have_count(0, timeout=NOTICED_WITHIN)
    expect(page.locator("#title .pill")).not_to_have_text("Unknown")
    expect(page.locator("#buttons")).not_to_contain_text("cannot be told")
    assert page.evaluate("window.loadedOnce") is True


def test_one_is_killed(visitor: Visitor, page: Page, fleet: Fleet) -> None:
    """A process that was killed turns silent on the open page, without a reload, and the numbers say so, too."""
    visitor.go("/dashboard/workers")
    killed = page.locator("table.processes tbody tr", has_text=f"pid {fleet.worker.process.pid}")
    expect(killed.locator(".pill")).to_have_text("Running")
    page.evaluate("window.loadedOnce = true")
    running = states(fleet)["running"]
    fleet.kill()
    expect(killed.locator(".pill")).to_have_text("Silent", timeout=NOTICED_WITHIN)
    expect(killed).to_contain_text("last heard")
    expect(page.locator("#fleet .note")).to_contain_text("A silent process was killed")
    found = states(fleet)
    assert (found["running"], found["silent"]) == (running - 1, 1)
    expect(page.locator("#fleet header")).to_contain_text(f"{found['running']} running")
    expect(page.locator("#fleet header")).to_contain_text("1 silent")
    assert page.evaluate("window.loadedOnce") is True
