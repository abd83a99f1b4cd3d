"""Who comes in, and what they may: keys, passwords, wrong tries, read-only keys, keys of one application."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from hookfuse.testing.receivers import Failing
from tests.browser.site import PASSWORD, Site, Visitor, visiting


def test_with_nothing_in_it(operator: Visitor) -> None:
    """A new service has pages that help: they say what is missing, and which command makes it."""
    for path, says in {
        "/dashboard": "No endpoints yet",
        "/dashboard/endpoints": "hookfuse endpoint create",
        "/dashboard/deliveries": "No applications yet",
        "/dashboard/failed": "Nothing has failed",
        "/dashboard/workers": "This process",
        "/dashboard/audit": "Nothing was changed yet",
        "/dashboard/settings": "There are none yet",
    }.items():
        assert operator.go(path) == 200
        expect(operator.page.locator("main")).to_contain_text(says)


@pytest.fixture(scope="module")
def endpoint(site: Site) -> tuple[str, str, str]:
    """An endpoint with a delivery that failed: application, message, endpoint."""
    app = site.app("Acme")
    made = site.receiver(app, "bad", Failing(500))
    message = site.send(app)
    site.delivered(app, message, made, "failed")
    return app, message, made


@pytest.fixture
def reader(browser: Browser, site: Site) -> Iterator[Visitor]:
    """Someone whose key only looks."""
    with visiting(browser, site.url) as found:
        found.log_in(site.key("read")[1])
        yield found


def test_logging_in_and_out(stranger: Visitor, site: Site) -> None:
    """Every page leads a stranger to the login and back to where they wanted; leaving ends the session for good."""
    stranger.go("/dashboard/audit")
    assert stranger.page.url.endswith("/dashboard/login?next=/dashboard/audit")
    stranger.page.fill("[name=key]", site.admin)
    stranger.page.keyboard.press("Enter")
    expect(stranger.page.locator("h1")).to_have_text("Audit log")
    (cookie,) = [each for each in stranger.context.cookies() if "session" in each["name"]]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert site.admin not in cookie["value"]
    assert site.admin not in stranger.page.content()
    assert stranger.page.evaluate("document.cookie + JSON.stringify(localStorage)") == "{}"
    stranger.page.click("text=Log out")
    expect(stranger.page.locator("button:has-text('Log in')")).to_be_visible()
    stranger.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": site.url}])
    stranger.go("/dashboard")
    assert "/dashboard/login" in stranger.page.url


def test_the_password(stranger: Visitor, site: Site, endpoint: tuple[str, str, str]) -> None:
    """The password of the settings is a key of its own, with its own role, that an admin can see and revoke."""
    page = stranger.log_in(PASSWORD)
    expect(page.locator(".who")).to_contain_text("dashboard password")
    expect(page.locator(".who")).to_contain_text("read-only")
    (key,) = [each for each in site.ok("GET", "/key")["data"] if each["name"] == "dashboard password"]
    assert (key["role"], key["revokedAt"]) == ("read", None)


def test_wrong_tries_lock_out(browser: Browser, site: Site) -> None:
    """After five wrong tries even the right key is refused for a while, and the page says for how long."""
    with visiting(browser, site.url, extra_http_headers={"x-forwarded-for": "192.0.2.77"}) as visitor:
        visitor.expected |= {"401", "429"}
        visitor.go("/dashboard/login")
        page = visitor.page
        wrong = site.admin[:-1] + ("A" if site.admin[-1] != "A" else "B")
        for typed in (wrong, "hunter2", "' OR 1=1--", site.admin[::-1]):
            page.fill("[name=key]", typed)
            page.click("button:has-text('Log in')")
            expect(page.locator(".banner.bad")).to_have_text("This is no valid key or password.")
        for typed in (PASSWORD + "!", site.admin):
            page.fill("[name=key]", typed)
            page.click("button:has-text('Log in')")
            expect(page.locator(".banner.bad")).to_have_text(re.compile(r"Too many wrong tries. Try again in \d+ s."))
        visitor.go("/dashboard")
        assert "/dashboard/login" in page.url


def test_readers_see_no_buttons(reader: Visitor, site: Site, endpoint: tuple[str, str, str]) -> None:
    """A key that only looks sees every page without a single button that changes something."""
    app, message, made = endpoint
    for path in (
        "/dashboard",
        "/dashboard/endpoints",
        f"/dashboard/endpoints/{app}/{made}",
        f"/dashboard/deliveries?app={app}",
        f"/dashboard/deliveries/{app}/{message}/{made}",
        f"/dashboard/failed?app={app}",
        "/dashboard/workers",
        "/dashboard/audit",
        "/dashboard/settings",
    ):
        assert reader.go(path) == 200, path
        reader.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        buttons = set(reader.page.locator("button:visible").all_text_contents())
        assert {each.partition(":")[0] for each in buttons} <= {"Theme", "Log out", "Copy"}, (path, buttons)
        assert reader.page.locator("main input:enabled:visible:not([type=search])").count() == 0 or "?app=" in path


def test_a_key_of_one_application(browser: Browser, site: Site, endpoint: tuple[str, str, str]) -> None:
    """A key of one application sees its own endpoints, nothing of others, and no page that tells of all."""
    app, _, made = endpoint
    other = site.app("Secret Customer")
    hidden = site.endpoint(other, description="hidden")
    with visiting(browser, site.url) as visitor:
        visitor.expected.add("404")
        visitor.expected.add("403")
        page = visitor.log_in(site.key("app", app)[1])
        expect(page.locator("h1")).to_have_text("Endpoints")
        expect(page.locator("nav[aria-label=Pages]")).not_to_contain_text("Overview")
        expect(page.locator("table.endpoints tbody tr")).to_have_count(1)
        assert visitor.go(f"/dashboard/endpoints/{app}/{made}") == 200
        expect(page.get_by_role("button", name="Force open")).to_be_visible()
        assert visitor.go(f"/dashboard/endpoints/{other}/{hidden}") == 404
        assert visitor.go("/dashboard/workers") == 403
        for path in ("/dashboard/deliveries", "/dashboard/failed", "/dashboard/audit", "/dashboard/settings"):
            assert visitor.go(path) == 200
            assert "Secret Customer" not in page.content()
