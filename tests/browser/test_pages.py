"""Every page: with data and without, wide and narrow, light and dark, by mouse and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from hookfuse.core.condition import Condition
from hookfuse.dashboard.words import CONDITIONS, GROUPS
from hookfuse.testing.receivers import Failing, Flaky, Ok, RateLimited
from tests.browser.site import Site, Visitor, visiting
from tests.service.programs import until

READABLE = 4.5
"""The contrast that small text needs at least (WCAG 2, AA)."""
# Colours are drawn on a pixel, so that whatever way they are written in comes out as numbers.
PALE = """(least) => {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const over = (colours) => {
    for (const colour of colours) { pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1); }
    return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (colours) => {
    const [r, g, b] = over(colours).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => node ? [...behind(node.parentElement), getComputedStyle(node).backgroundColor] : ["white"];
  const pale = (node) => {
    const ground = behind(node), [a, b] = [light(ground), light([...ground, getComputedStyle(node).color])];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < least;
  };
  const written = (node) => [...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
  return [...document.querySelectorAll("body *")]
    .filter((node) => node.checkVisibility() && written(node) && !node.closest("button:disabled, option") && pale(node))
    .map((node) => `${node.tagName}.${node.className}: ${node.textContent.trim().slice(0, 30)}`);
}"""

LONG = "https://hooks.a-very-long-subdomain-of-a-customer.example.com/integrations/v2/webhooks/receive/" + "x" * 120


@pytest.fixture(scope="module")
def paths(site: Site) -> dict[str, str]:
    """A service with one of everything; the paths of its pages."""
    acme = site.app("Acme Shop", uid="acme")
    other = site.app("Northwind Logistics GmbH & Co. KG, international division")
    site.receiver(acme, "orders", Ok(body=b'{"received": true}'), description="Orders, Berlin")
    dead = site.receiver(acme, "dead", Failing(503, body=b"<h1>maintenance</h1>"), description="Customs gateway")
    site.receiver(other, "flaky", Flaky(0.3), description="Warehouse scanner")
    site.receiver(other, "limited", RateLimited(per_second=1, retry_after=30), description="Tracking")
    site.endpoint(other, LONG, description="A name that has to wrap " * 5, eventTypes=["never.sent"])
    forced = site.endpoint(acme, description="Billing")
    site.ok("POST", f"/app/{acme}/breaker/{forced}/force", {"to": "open", "reason": "maintenance window"})
    site.ok("PUT", f"/app/{acme}/endpoint/{dead}/policy", {"policy": {"trip": [{"rule": "streak", "n": 3}]}})
    message = site.send(acme, {"n": 0, "customer": {"name": "Ada"}})
    for number in range(1, 12):
        site.send(acme, {"n": number})
        site.send(other)
    until(lambda: site.ok("GET", f"/app/{acme}/breaker/{dead}")["state"] == "open")
    return {
        "overview": "/dashboard",
        "endpoints": "/dashboard/endpoints",
        "endpoint": f"/dashboard/endpoints/{acme}/{dead}",
        "deliveries": f"/dashboard/deliveries?app={acme}",
        "delivery": f"/dashboard/deliveries/{acme}/{message}/{dead}",
        "failed": f"/dashboard/failed?app={acme}",
        "workers": "/dashboard/workers",
        "audit": "/dashboard/audit",
        "settings": "/dashboard/settings",
    }


PAGES = ("overview", "endpoints", "endpoint", "deliveries", "delivery", "failed", "workers", "audit", "settings")


@pytest.fixture(scope="module", params=[("light", 1280), ("dark", 390)], ids=["light-wide", "dark-narrow"])
def look(browser: Browser, site: Site, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    scheme, width = request.param
    with visiting(browser, site.url, color_scheme=scheme, viewport={"width": width, "height": 844}) as found:
        found.log_in(site.admin)
        yield found


@pytest.mark.parametrize("name", PAGES)
def test_every_page(look: Visitor, paths: dict[str, str], name: str) -> None:
    """Every page is there, can be read, and never has to be scrolled sideways, folded parts open or not."""
    assert look.go(paths[name]) == 200
    expect(look.page.locator("h1")).to_have_count(1)
    look.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    over = look.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert over <= 0
    assert look.page.locator("[style]:not(.plot [style]):not(.u-wrap)").count() == 0
    assert look.page.evaluate(PALE, READABLE) == []
    assert look.complaints() == []


def test_groups_are_whole() -> None:
    """Every condition has a word and is in one group, so that the numbers of the overview add up."""
    assert list(CONDITIONS) == [each.value for each in Condition]
    assert sorted(name for group in GROUPS for name in group.split(",")) == sorted(CONDITIONS)


def test_what_the_list_says(page: Page, site: Site, paths: dict[str, str]) -> None:
    """The list tells of each endpoint what the API tells, the sickest first, with word, reason and next probe."""
    page.goto(f"{site.url}{paths['endpoints']}")
    told = site.ok("GET", "/endpoint")["data"]
    rows = page.locator("table.endpoints tbody tr")
    expect(rows).to_have_count(len(told))
    forced = rows.filter(has_text="Billing")
    expect(forced.locator(".pill")).to_have_text("Forced open")
    expect(forced).to_contain_text("maintenance window")
    dead = rows.filter(has_text="Customs gateway")
    expect(dead.locator(".pill")).to_have_text("Open")
    expect(dead).to_contain_text(re.compile(r"failures in a row: 3, limit 3|the probe failed"))
    expect(dead.locator("time")).to_have_text(re.compile(r"in \d+ s|due"))
    assert dead.locator(".spark rect.bad").count() > 0
    words = rows.locator(".pill").all_text_contents()
    assert words.index("Forced open") < words.index("Open") < words.index("Closed")


def test_filters(page: Page, site: Site, paths: dict[str, str]) -> None:
    """Endpoints are found by text, state and application as one types and chooses, and the address says so."""
    page.goto(f"{site.url}{paths['endpoints']}")
    rows = page.locator("table.endpoints tbody tr")
    page.fill("[name=search]", "CUSTOMS")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Customs gateway")
    assert "search=CUSTOMS" in page.url
    page.fill("[name=search]", "")
    page.select_option("[name=condition]", "forced_open")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Billing")
    page.select_option("[name=app_id]", label="Northwind Logistics GmbH & Co. KG, international division")
    expect(page.locator("#list")).to_contain_text("Nothing matches")
    page.reload()
    expect(page.locator("#list")).to_contain_text("Nothing matches")
    page.click("text=Show all")
    expect(rows).to_have_count(len(site.ok("GET", "/endpoint")["data"]))


def test_a_delivery(page: Page, site: Site, paths: dict[str, str]) -> None:
    """A delivery shows its attempts with request and response side by side, as text whatever came, and as a command."""
    _, app, message, endpoint = paths["delivery"].rsplit("/", 3)
    site.delivered(app, message, endpoint, "pending", "failed")
    tripped = site.ok("GET", f"/app/{app}/attempt/endpoint/{endpoint}")["data"][-1]
    page.goto(f"{site.url}/dashboard/deliveries/{app}/{tripped['msgId']}/{endpoint}")
    first = page.locator(".attempt").last
    expect(first.locator(".exchange > div").first).to_contain_text(tripped["msgId"])
    expect(first.locator(".exchange > div").last).to_contain_text("<h1>maintenance</h1>")
    expect(first.locator(".status")).to_have_text("503")
    page.click("text=The request as curl")
    command = page.locator(".curls", has_text="The request as curl").locator("code")
    expect(command).to_contain_text('--data-binary \'{"n": ')


def test_attempts_of_an_endpoint(page: Page, site: Site, paths: dict[str, str]) -> None:
    """An attempt in an endpoint's list opens into request and response side by side, and stays open as pages change."""
    app, endpoint = paths["endpoint"].rsplit("/", 2)[1:]
    page.goto(f"{site.url}{paths['endpoint']}")
    attempts = page.locator("#attempts > details")
    before = attempts.count()
    first, handle = attempts.last, attempts.last.locator("> summary")
    handle.focus()
    page.keyboard.press("Enter")
    message = str(handle.locator("code").text_content())
    expect(first.locator(".exchange > div").first).to_contain_text(message)
    expect(first.locator(".exchange > div").first).to_contain_text('"n": ')
    expect(first.locator(".exchange > div").last).to_contain_text("<h1>maintenance</h1>")
    site.ok("POST", f"/app/{app}/breaker/{endpoint}/probe")
    expect(attempts).to_have_count(before + 1)
    expect(first.locator(".exchange")).to_be_visible()
    expect(handle).to_be_focused()
    first.get_by_role("link", name="The whole delivery").click()
    expect(page.locator("h1")).to_have_text(message)


def test_by_keyboard(page: Page, site: Site, paths: dict[str, str]) -> None:
    """A slash goes to the search, g and a letter to a page, and the first tab stop skips the navigation."""
    page.goto(f"{site.url}{paths['endpoints']}")
    page.keyboard.press("/")
    expect(page.locator("[name=search]")).to_be_focused()
    page.locator("[name=search]").blur()
    page.keyboard.press("g")
    page.keyboard.press("w")
    expect(page.locator("h1")).to_have_text("Workers and leader")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_themes(page: Page, site: Site) -> None:
    """The switch goes from the system's theme to light to dark and back, and is remembered."""
    page.goto(f"{site.url}/dashboard")
    seen = []
    for theme in ("light", "dark"):
        page.click("#theme")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        seen.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen[0] != seen[1]
    page.click("#theme")
    expect(page.locator("html")).to_have_attribute("data-theme", "auto")


def test_plots_are_drawn(page: Page, site: Site, paths: dict[str, str]) -> None:
    """The plots of the overview and of an endpoint are drawn from the numbers that the API has."""
    for name, number in (("overview", 3), ("endpoint", 1)):
        page.goto(f"{site.url}{paths[name]}")
        expect(page.locator(".plot canvas")).to_have_count(number)


def test_what_is_not_there(operator: Visitor) -> None:
    """Pages of what is not there, and filters that make no sense, say so in words."""
    operator.expected |= {"404", "422"}
    for path in ("/dashboard/endpoints/app_none/ep_none", "/dashboard/deliveries/app_x/msg_x/ep_x"):
        assert operator.go(path) == 404
        expect(operator.page.locator("h1")).to_have_text("There is nothing here")
    assert operator.go("/dashboard/endpoints?condition=ill") == 422
    expect(operator.page.locator("main")).to_contain_text("condition")
    assert operator.go("/dashboard/no-such-page") == 404
    expect(operator.page.locator("h1")).to_have_text("There is nothing here")
    operator.go("/dashboard")


def test_violations_are_noticed(stranger: Visitor) -> None:
    """The watch that every visitor keeps sees a page that breaks its policy: it is not blind."""
    stranger.go("/dashboard/login")
    stranger.page.evaluate("""
        const script = document.createElement("script");
        script.textContent = "window.broken = true";
        document.body.append(script);
    """)
    assert stranger.page.evaluate("window.broken") is None
    until(lambda: any("script-src" in each for each in stranger.complaints()))
    stranger.errors.clear()
