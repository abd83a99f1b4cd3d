"""Pages that stay open: they follow what happens without being loaded again, and end when they must."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Browser, Page, Route, expect

from hookfuse.testing.receivers import Failing, Ok
from tests.browser.site import Site, Visitor, visiting
from tests.service.programs import until


def loads(page: Page) -> None:
    """Leave a mark that a reload would take away."""
    page.evaluate("window.loadedOnce = true")


def never_reloaded(page: Page) -> bool:
    return page.evaluate("window.loadedOnce === true") is True


def test_a_page_follows(page: Page, site: Site, app: str) -> None:
    """What happens through the API and to deliveries is on an open page a moment later, without a reload."""
    endpoint = site.receiver(app, "follows", Ok(), eventTypes=["follows"])
    page.goto(f"{site.url}/dashboard/endpoints/{app}/{endpoint}")
    expect(page.locator("#link")).to_have_class("dot on")
    loads(page)
    site.ok("POST", f"/app/{app}/breaker/{endpoint}/force", {"to": "open", "reason": "from elsewhere"})
    expect(page.locator("#title .pill").first).to_have_text("Forced open")
    expect(page.locator("#now")).to_contain_text("from elsewhere")
    expect(page.locator("#buttons")).to_contain_text("Release")
    site.ok("POST", f"/app/{app}/breaker/{endpoint}/unforce")
    message = site.send(app, event_type="follows")
    expect(page.locator("#attempts")).to_contain_text(message)
    assert never_reloaded(page)


def test_nothing_falls_between(page: Page, site: Site, app: str) -> None:
    """What happens after a page was made and before its stream began is on the page as soon as the stream is there."""
    endpoint = site.endpoint(app, eventTypes=["between"])
    held: list[Route] = []
    page.route("**/dashboard/live", lambda route: held.append(route))
    page.goto(f"{site.url}/dashboard/endpoints/{app}/{endpoint}")
    page.wait_for_function("stream !== null")
    until(lambda: page.evaluate("1") == 1 and bool(held))
    site.ok("POST", f"/app/{app}/breaker/{endpoint}/force", {"to": "open"})
    expect(page.locator("#title .pill").first).to_have_text("Closed")
    held[0].continue_()
    page.unroute("**/dashboard/live")
    expect(page.locator("#title .pill").first).to_have_text("Forced open", timeout=3_000)


def test_what_is_being_done_is_left_alone(page: Page, site: Site, app: str) -> None:
    """While a page follows, what is typed, opened, chosen and focused stays as it is."""
    endpoint = site.receiver(app, "left-alone", Failing(500), eventTypes=["left"])
    message = site.send(app, event_type="left")
    site.delivered(app, message, endpoint, "failed")
    page.goto(f"{site.url}/dashboard/failed?app={app}&endpoint_id={endpoint}")
    page.locator("tr", has_text=message).locator("input[type=checkbox]").check()
    another = site.send(app, event_type="left")
    site.delivered(app, another, endpoint, "failed")
    expect(page.locator("tr", has_text=another)).to_be_visible()
    expect(page.locator("tr", has_text=message).locator("input[type=checkbox]")).to_be_checked()
    page.goto(f"{site.url}/dashboard/endpoints/{app}/{endpoint}")
    page.fill("[name=reason]", "half a sent")
    page.click("summary:has-text('Policy')")
    page.fill("#policy [name=cool_off]", "77")
    site.ok("POST", f"/app/{app}/endpoint/{endpoint}/pause")
    expect(page.locator("#title")).to_contain_text("Paused")
    expect(page.locator("[name=reason]")).to_have_value("half a sent")
    expect(page.locator("#policy [name=cool_off]")).to_have_value("77")
    expect(page.locator("#policy [name=cool_off]")).to_be_focused()


def test_countdowns_run(page: Page, site: Site, app: str) -> None:
    """The time to the next probe counts down by itself."""
    endpoint = site.receiver(app, "counts", Failing(500), eventTypes=["counts"])
    policy = {"trip": [{"rule": "streak", "n": 1}], "cool_off": 50}
    site.ok("PUT", f"/app/{app}/endpoint/{endpoint}/policy", {"policy": policy})
    site.send(app, event_type="counts")
    until(lambda: site.ok("GET", f"/app/{app}/breaker/{endpoint}")["state"] == "open")
    page.goto(f"{site.url}/dashboard/endpoints/{app}/{endpoint}")
    countdown = page.locator("#now time[data-ago=due]")
    first = int(re.sub(r"\D", "", str(countdown.text_content())))
    page.wait_for_function(
        "([first]) => parseInt(document.querySelector('#now time[data-ago=due]').textContent.slice(3)) < first",
        arg=[first],
    )


def test_a_storm_is_folded(page: Page, site: Site, app: str) -> None:
    """Hundreds of changes in a few seconds are a handful of messages, and the page asks no more often than that."""
    endpoint = site.receiver(app, "storm", Ok(), eventTypes=["storm"])
    asked: list[float] = []
    page.goto(f"{site.url}/dashboard/endpoints/{app}/{endpoint}")
    expect(page.locator("#link")).to_have_class("dot on")
    page.on("request", lambda request: asked.append(time.monotonic()) if request.url == page.url else None)
    began = time.monotonic()
    for _ in range(300):
        site.send(app, event_type="storm")
    expect(page.locator("#now")).to_contain_text("300 ok")
    assert 1 <= len(asked) <= 2 * (time.monotonic() - began) + 1


def test_a_revoked_key_ends_its_session(browser: Browser, site: Site) -> None:
    """Whoever is logged in with a key that is revoked is at the login within five seconds, with the page left open."""
    id_, text = site.key("read")
    with visiting(browser, site.url) as visitor:
        page = visitor.log_in(text)
        site.ok("DELETE", f"/key/{id_}")
        page.wait_for_url("**/dashboard/login*", timeout=5_000)
        assert "/dashboard/login" in page.url
        visitor.go("/dashboard/endpoints")
        assert "/dashboard/login" in page.url


def test_hidden_pages_are_silent(operator: Visitor, site: Site) -> None:
    """A page that nobody looks at keeps no stream open, and follows again when it is looked at."""
    operator.go("/dashboard")
    page = operator.page
    expect(page.locator("#link")).to_have_class("dot on")
    page.evaluate("""
        Object.defineProperty(document, "hidden", {value: true, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    """)
    assert page.evaluate("stream") is None
    with page.expect_request("**/dashboard/live"):
        page.evaluate("""
            Object.defineProperty(document, "hidden", {value: false, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        """)


def test_the_server_ends(stranger: Visitor, operator: Visitor, site: Site) -> None:
    """A server with open pages comes to its end at once; the page says that it is not connected."""
    operator.page.goto("about:blank")
    stranger.expected.add("ERR_")
    page = stranger.log_in(site.admin)
    expect(page.locator("#link")).to_have_class("dot on")
    began = time.monotonic()
    assert site.program.stop() == 0
    assert time.monotonic() - began < 5
    expect(page.locator("#link")).to_have_class("dot off")
