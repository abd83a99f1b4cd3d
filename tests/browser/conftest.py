"""One browser and one service for each module of tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from hookfuse.testing.receivers import Ok
from tests.browser.scene import Scene
from tests.browser.site import Site, Visitor, running_site, visiting
from tests.servers import browser as chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Not for the session: as long as Playwright runs, no other test of this thread can have an event loop.
    with chromium.running() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture
def stranger(browser: Browser, site: Site) -> Iterator[Visitor]:
    """Someone who has not logged in."""
    with visiting(browser, site.url) as found:
        yield found


@pytest.fixture(scope="module")
def logged_in(browser: Browser, site: Site) -> Iterator[Visitor]:
    """One browser with the admin's key for all tests of a module."""
    with visiting(browser, site.url) as found:
        found.log_in(site.admin)
        yield found


@pytest.fixture
def operator(logged_in: Visitor) -> Iterator[Visitor]:
    """Someone with the admin's key, whose console must be silent in the end."""
    yield logged_in
    complaints = logged_in.complaints()
    logged_in.errors.clear()
    logged_in.expected.clear()
    assert complaints == []


@pytest.fixture
def page(operator: Visitor) -> Page:
    return operator.page


@pytest.fixture(scope="module")
def app(site: Site) -> str:
    return site.app("Acme", uid="acme")


@pytest.fixture(scope="module")
def done() -> set[str]:
    """The actions that a module has tried."""
    return set()


@pytest.fixture
def scene(site: Site, page: Page, app: str, done: set[str], request: pytest.FixtureRequest) -> Scene:
    """An endpoint for this test alone, and its page."""
    name = re.sub(r"\W+", "-", request.node.name)
    endpoint = site.receiver(app, name, Ok(body=b'{"fine": true}'), eventTypes=[f"t.{name}"])
    found = Scene(site, page, app, endpoint, done)
    found.open()
    return found
