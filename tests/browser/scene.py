"""An endpoint and the buttons of its page: each is one request, seen in the audit log, and shown as a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page, expect

from hookfuse.dashboard.actions import ACTIONS
from tests.browser.site import Site


@dataclass(frozen=True, slots=True)
class Scene:
    """An application with an endpoint, and its page."""

    site: Site
    page: Page
    app: str
    endpoint: str
    done: set[str]
    """The actions that were tried."""

    @property
    def path(self) -> str:
        return f"/app/{self.app}/endpoint/{self.endpoint}"

    def breaker(self) -> Any:
        return self.site.ok("GET", f"/app/{self.app}/breaker/{self.endpoint}")

    def stored(self) -> Any:
        return self.site.ok("GET", self.path)

    def open(self, path: str = "") -> None:
        self.page.goto(f"{self.site.url}{path or f'/dashboard/endpoints/{self.app}/{self.endpoint}'}")

    def press(self, label: str, name: str, within: str = "main") -> str:
        """Press a button; returns the command that the page says does the same."""
        with self.page.expect_response(f"**/dashboard/action/{name}") as answered:
            self.page.locator(within).get_by_role("button", name=label, exact=True).first.click()
        assert answered.value.ok, (answered.value.request.post_data, answered.value.text())
        self.done.add(name)
        outcome = self.page.locator(".outcome.good", has_text=ACTIONS[name].done).last
        expect(outcome).to_be_visible()
        return str(outcome.locator(".curls code").text_content())

    def audited(self, action: str) -> Any:
        """The newest entry of the audit log, which must be this one."""
        entry = self.site.ok("GET", "/audit", limit="1")["data"][0]
        assert entry["action"] == action
        return entry
