"""The numbers on the pages are those of the API, and these are those of the metrics, at one quiet instant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from hookfuse.app.watch import quantile
from hookfuse.dashboard.words import GROUPS, count, seconds, share
from hookfuse.testing.receivers import Failing, Ok, Slow
from tests.browser.site import Site
from tests.service.programs import until

SENT, HELD = 24, 24
"""Twelve messages, each for two endpoints that take it and for two that do not."""
_BUCKET = re.compile(r'hookfuse_attempt_seconds_bucket\{le="([^"]+)"\} (\S+)')


@dataclass(frozen=True, slots=True)
class Quiet:
    """A service that has sent, failed, tripped and held, and does nothing more by itself."""

    site: Site
    app: str
    dead: str

    def overview(self) -> Any:
        return self.site.ok("GET", "/overview")

    def metric(self, name: str) -> float:
        return self.site.program.metric(name)

    def buckets(self) -> list[tuple[float, int]]:
        """How long attempts took: for each limit, how many took no longer."""
        text = self.site.program.get("/metrics")[1]
        return [(float(limit), int(float(number))) for limit, number in _BUCKET.findall(text)]

    def settled(self) -> bool:
        seen = self.overview()
        held = self.metric("hookfuse_deliveries_held") == seen["waiting"] == seen["held"] == HELD
        return bool(held and seen["inFlight"] == 0 and seen["lagSeconds"] == 0 and seen["states"]["open"] == 1)


@pytest.fixture(scope="module")
def quiet(site: Site) -> Quiet:
    app = site.app("Acme")
    site.receiver(app, "fine", Ok(), eventTypes=["all"])
    site.receiver(app, "late", Slow(0.06), eventTypes=["all"])
    dead = site.receiver(app, "dead", Failing(503), eventTypes=["all"])
    policy = {"trip": [{"rule": "streak", "n": 3}, {"rule": "rate", "share": 0.9, "min_calls": 50}], "cool_off": 3600}
    site.ok("PUT", f"/app/{app}/endpoint/{dead}/policy", {"policy": policy})
    # By the site's schedule one could be tried for the last time before the breaker opens, on a slow machine.
    site.ok("PUT", f"/app/{app}/endpoint/{dead}/retry-schedule", {"delays": [3600]})
    stopped = site.endpoint(app, eventTypes=["all"])
    site.ok("POST", f"/app/{app}/endpoint/{stopped}/pause")
    found = Quiet(site, app, dead)
    for _ in range(12):
        site.send(app, event_type="all")
    until(found.settled)
    return found


def stat(page: Page, label: str) -> Locator:
    """The tile of this name."""
    return page.locator("#stats .stat", has=page.locator("dt", has_text=re.compile(f"^{label}$")))


def test_the_overview(page: Page, quiet: Quiet) -> None:
    """Every number of the overview is the API's, which is that of the metrics."""
    before = quiet.overview()
    page.goto(f"{quiet.site.url}/dashboard")
    shown = float(str(stat(page, "Sent").locator("dd").text_content()).removesuffix(" /s"))
    seen = quiet.overview()
    for state, name in (("open", "open"), ("half_open", "halfOpen"), ("disabled", "disabled")):
        assert quiet.metric(f'hookfuse_breakers{{state="{state}"}}') == seen["states"][name]
    for metric, name in {
        "hookfuse_deliveries_waiting": "waiting",
        "hookfuse_deliveries_held": "held",
        "hookfuse_deliveries_in_flight": "inFlight",
        "hookfuse_lag_seconds": "lagSeconds",
    }.items():
        assert quiet.metric(metric) == seen[name]
    sent = quiet.metric('hookfuse_deliveries_total{state="sent"}')
    assert sent == pytest.approx(seen["sentPerSecond"] * seen["spanSeconds"]) == SENT
    # A rate falls while nothing is sent: the page's is between one asked for before and one after.
    assert seen["sentPerSecond"] - 0.06 <= shown <= before["sentPerSecond"] + 0.06
    ok = quiet.metric('hookfuse_attempts_total{outcome="ok"}')
    failed = quiet.metric('hookfuse_attempts_total{outcome="failure"}')
    assert seen["successShare"] == pytest.approx(ok / (ok + failed))
    expect(stat(page, "Success").locator("dd")).to_have_text(share(seen["successShare"]))
    for label, name, part in (("Latency p50", "p50Seconds", 0.5), ("Latency p95", "p95Seconds", 0.95)):
        assert seen[name] == quantile(quiet.buckets(), part)
        expect(stat(page, label).locator("dd")).to_have_text(seconds(seen[name]))
    expect(stat(page, "Held").locator("dd")).to_have_text(count(seen["held"]))
    expect(stat(page, "Held")).to_contain_text(f"of {count(seen['waiting'])} waiting")
    oldest = stat(page, "Oldest pending")
    expect(oldest.locator("time")).to_have_attribute("datetime", seen["oldestDue"])
    expect(oldest).to_contain_text(f"lag {seconds(seen['lagSeconds'])}")


def test_the_groups(page: Page, quiet: Quiet) -> None:
    """The number on each tile of the overview is how many endpoints the API lists for it, and they add up."""
    page.goto(f"{quiet.site.url}/dashboard")
    seen = quiet.overview()
    for group in GROUPS:
        number = sum(seen["conditions"].get(name, 0) for name in group.split(","))
        expect(page.locator(f".state[href$='condition={group}'] .number")).to_have_text(str(number))
        assert len(quiet.site.ok("GET", "/endpoint", condition=group)["data"]) == number
    assert sum(seen["conditions"].values()) == seen["endpoints"] == 4


def test_the_plots(page: Page, quiet: Quiet) -> None:
    """The plots of the overview have the API's columns, and these add up to what the metrics count."""
    page.goto(f"{quiet.site.url}/dashboard")
    until(lambda: len(quiet.site.ok("GET", "/overview/series")["at"]) > 1)
    drawn = page.evaluate("fetch('/dashboard/series/overview').then((answer) => answer.json())")
    told = quiet.site.ok("GET", "/overview/series")
    # The last row is of the running step, so it is another one each time.
    for name in set(told) - {"at"}:
        assert drawn[name][:-1] == told[name][: len(drawn["at"]) - 1]
    assert (sum(told["opened"]), sum(told["closed"])) == (quiet.overview()["opened"], 0) == (1, 0)


def test_the_list_and_the_endpoint(page: Page, quiet: Quiet) -> None:
    """The list and the page of an endpoint tell what the API tells of it: held, next probe, trips, and each rule."""
    page.goto(f"{quiet.site.url}/dashboard/endpoints?search=/dead")
    (told,) = quiet.site.ok("GET", "/endpoint", search="/dead")["data"]
    breaker = quiet.site.ok("GET", f"/app/{quiet.app}/breaker/{quiet.dead}")
    gauges = quiet.site.ok("GET", f"/app/{quiet.app}/breaker/{quiet.dead}/gauges")["data"]
    row = page.locator("table.endpoints tbody tr")
    assert told["held"] == breaker["held"] == 12
    expect(row.locator("td[data-label=Held]")).to_have_text(count(told["held"]))
    expect(row.locator("time")).to_have_attribute("datetime", breaker["probeAt"])
    expect(row.locator(".near .sub")).to_have_text(f"{told['gauge']['value']:g} in a row, limit 3")
    assert row.locator(".spark rect.bad").count() == sum(1 for each in told["recent"]["failed"] if each)
    page.goto(f"{quiet.site.url}/dashboard/endpoints/{quiet.app}/{quiet.dead}")
    facts = page.locator("#now .facts")
    expect(facts).to_contain_text(re.compile(rf"Held\s*{breaker['held']}\s"))
    expect(facts).to_contain_text(re.compile(rf"Trips in a row\s*{breaker['trips']}\s"))
    expect(facts.locator("time[data-ago=due]")).to_have_attribute("datetime", breaker["probeAt"])
    stats = quiet.site.ok("GET", f"/app/{quiet.app}/endpoint/{quiet.dead}/attempt-stats")
    expect(facts).to_contain_text(f"{stats['success']} ok, {stats['fail']} failed")
    streak, rate = page.locator("#gauges li").all()
    expect(streak).to_contain_text(f"{gauges[0]['value']:g} of 3")
    expect(rate).to_contain_text(f"{share(gauges[1]['value'], 0)} of 90 %")
    expect(rate).to_contain_text(f"judges from 50 calls on; there are {gauges[1]['calls']}")


def test_the_workers(page: Page, quiet: Quiet) -> None:
    """The page of the workers has the overview's numbers, the process's state, and who holds which duty."""
    until(lambda: len(quiet.site.ok("GET", "/duties")["data"]) == 4)
    page.goto(f"{quiet.site.url}/dashboard/workers")
    seen = quiet.overview()
    for label, name in (("Waiting", "waiting"), ("Held", "held"), ("In flight", "inFlight")):
        expect(stat(page, label).locator("dd")).to_have_text(count(seen[name]))
    expect(stat(page, "Lag").locator("dd")).to_have_text(seconds(seen["lagSeconds"]))
    process = page.locator("#process")
    for says in ("Ready", seen["version"], f"0 of {count(seen['worker']['slots'])}", seen["breakers"]):
        expect(process).to_contain_text(says)
    for duty in quiet.site.ok("GET", "/duties")["data"]:
        expect(page.locator("#duties li", has_text=duty["duty"].capitalize())).to_contain_text(duty["holder"])
