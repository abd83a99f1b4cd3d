"""Whatever is stored is shown as text: nothing of it runs, in no field and on no page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from hookfuse.testing.receivers import Failing
from tests.browser.site import Site, Visitor

CANARIES = (
    "<script>window.pwned = 1</script>",
    "\"><img src=x onerror='window.pwned = 1'>",
    "' onmouseover='window.pwned = 1",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "</code></pre><svg onload=window.pwned=1>",
    "</textarea></select><a href='javascript:window.pwned=1'>x</a>",
    "\x1b[31mred\x1b[0m",
    "&lt;b&gt;",
    "' OR 1=1--",
)
EVERYTHING = " ".join(CANARIES)


class Planted:
    """Canaries in every field that takes text, and the pages that show them."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.app = site.app(EVERYTHING, uid="canary", metadata={"x": EVERYTHING})
        url = site.receivers.add("canary", Failing(500, body=EVERYTHING.encode()))
        self.endpoint = site.endpoint(
            self.app,
            f"{url}?q=%3Cscript%3Ewindow.pwned=1%3C/script%3E&a='onerror='x",
            description=EVERYTHING,
            metadata={"x": EVERYTHING},
            headers={"x-canary": "<script>window.pwned=1</script>", "user-agent": '"><img src=x onerror=1>'},
        )
        at = f"/app/{self.app}/endpoint/{self.endpoint}"
        site.ok("PUT", f"{at}/policy", {"policy": {"trip": [{"rule": "streak", "n": 50}]}})
        self.message = site.send(self.app, {"text": CANARIES, EVERYTHING: 1})
        site.delivered(self.app, self.message, self.endpoint, "failed")
        site.ok("POST", f"/app/{self.app}/breaker/{self.endpoint}/force", {"to": "open", "reason": EVERYTHING[:500]})
        site.ok("POST", "/key", {"name": EVERYTHING[:256], "role": "read"})
        other = site.app("Other")
        left = site.endpoint(other)
        site.ok("POST", f"/app/{other}/breaker/{left}/disable", {"reason": EVERYTHING[:500]})
        self.paths = {
            "overview": "/dashboard",
            "endpoints": "/dashboard/endpoints",
            "endpoint": f"/dashboard/endpoints/{self.app}/{self.endpoint}",
            "disabled": f"/dashboard/endpoints/{other}/{left}",
            "deliveries": f"/dashboard/deliveries?app={self.app}",
            "delivery": f"/dashboard/deliveries/{self.app}/{self.message}/{self.endpoint}",
            "failed": f"/dashboard/failed?app={self.app}",
            "audit": f"/dashboard/audit?app={self.app}",
            "settings": "/dashboard/settings",
        }


@pytest.fixture(scope="module")
def planted(site: Site) -> Planted:
    return Planted(site)


def is_inert(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.evaluate("document.querySelectorAll('*').forEach((each) => each.dispatchEvent(new Event('mouseover')))")
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, a[href^='javascript:'], [onerror], [onload], [onmouseover]").count() == 0
    assert page.locator("script:not([src])").count() == 0
    assert not re.search(r"(?<!\d)49(?!\d)", page.locator("h1").inner_text())


@pytest.mark.parametrize(
    "name", ["overview", "endpoints", "endpoint", "disabled", "deliveries", "delivery", "failed", "audit", "settings"]
)
def test_every_page_is_inert(operator: Visitor, planted: Planted, name: str) -> None:
    """Nothing that is stored runs on any page, and what people should read of it is there, sign for sign."""
    assert operator.go(planted.paths[name]) == 200
    is_inert(operator.page)
    texts = operator.page.evaluate(
        "document.body.innerText + [...document.querySelectorAll('option')].map((o) => o.text)"
    )
    for canary in CANARIES[:3]:
        assert canary in texts, canary


def test_what_came_back_is_text(page: Page, planted: Planted, site: Site) -> None:
    """A response's body and a payload are shown as they are, markup, braces, escapes and all."""
    page.goto(f"{site.url}{planted.paths['delivery']}")
    answered = page.locator(".exchange").first.locator("> div").last.locator("code")
    expect(answered).to_have_text(EVERYTHING)
    sent = page.locator(".exchange").first.locator("> div").first.locator("pre code")
    for canary in (CANARIES[0], CANARIES[3], CANARIES[7]):
        expect(sent).to_contain_text(canary)
    page.goto(f"{site.url}{planted.paths['endpoint']}")
    page.locator("#attempts > details > summary").first.click()
    expect(page.locator(".inside .exchange > div").last.locator("code")).to_have_text(EVERYTHING)
    is_inert(page)


@pytest.mark.parametrize("canary", CANARIES)
def test_names_hold_no_markup(site: Site, planted: Planted, canary: str) -> None:
    """Fields that are names refuse everything else, so that there is nothing of it to be shown."""
    app = f"/app/{planted.app}"
    for path, body in (
        ("/app", {"name": "x", "uid": canary}),
        (f"{app}/endpoint", {"url": "https://example.com", "uid": canary}),
        (f"{app}/endpoint", {"url": "https://example.com", "breakerKey": canary}),
        (f"{app}/endpoint", {"url": "https://example.com", "eventTypes": [canary]}),
        (f"{app}/endpoint", {"url": "https://example.com", "channels": [canary]}),
        (f"{app}/endpoint", {"url": "https://example.com", "headers": {canary: "x"}}),
        (f"{app}/endpoint", {"url": f"https://{canary}/"}),
        (f"{app}/msg", {"eventType": canary, "payload": {}}),
        (f"{app}/msg", {"eventType": "x", "payload": {}, "eventId": canary}),
        (f"{app}/msg", {"eventType": "x", "payload": {}, "channels": [canary]}),
    ):
        assert site.ask("POST", path, body)[0] == 422, (path, body)


@pytest.mark.parametrize("canary", CANARIES)
def test_what_is_searched_for_is_text(operator: Visitor, planted: Planted, canary: str) -> None:
    """A search that is itself markup finds what holds it, and is shown in its field as it was typed."""
    operator.go("/dashboard/endpoints")
    page = operator.page
    page.fill("[name=search]", canary)
    page.wait_for_url(re.compile(r"search="))
    expect(page.locator("table.endpoints tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("[name=search]")).to_have_value(canary)
    is_inert(page)


def test_errors_are_text(operator: Visitor, planted: Planted) -> None:
    """What the API repeats of a wrong input is text, too."""
    operator.expected.add("422")
    operator.go(planted.paths["endpoint"])
    page = operator.page
    page.click("summary:has-text('Policy')")
    page.fill("#policy [name=cool_off]", CANARIES[0])
    page.click("#policy >> text=Save policy")
    expect(page.locator("#ruled .outcome.bad")).to_contain_text(CANARIES[0])
    is_inert(page)
    operator.go(f"/dashboard/endpoints?condition={CANARIES[0]}")
    is_inert(page)
