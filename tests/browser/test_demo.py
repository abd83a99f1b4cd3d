"""The demo's pages: a newcomer breaks and heals a receiver, and sees the breaker follow."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.site import visiting
from tests.service.programs import Program, environment


def test_breaking_and_healing(browser: Browser, tmp_path: Path) -> None:
    """In the demo an endpoint's page breaks and heals its receiver, and what the breaker does of it is seen at once."""
    program = Program({**environment(tmp_path), "TMPDIR": str(tmp_path)}, "demo", "--for", "60", log=tmp_path / "log")
    try:
        url = program.wait_for("Dashboard").split()[-1]
        key = program.wait_for("Login key").split()[-1]
        program.wait_for("Messages flow", 60)
        with visiting(browser, url.rstrip("/").removesuffix("/dashboard")) as visitor:
            page = visitor.log_in(key)
            visitor.go("/dashboard/endpoints?search=globex")
            page.locator("table.endpoints tbody a").first.click()
            receiver = page.locator("#receiver")
            expect(receiver).to_contain_text("globex: healthy")
            receiver.get_by_role("button", name="Break").click()
            expect(receiver).to_contain_text("globex: dead")
            expect(page.locator("#title .pill").first).to_have_text("Open", timeout=20_000)
            receiver.get_by_role("button", name="Heal").click()
            expect(receiver).to_contain_text("globex: healthy")
            expect(page.locator("#history")).to_contain_text("the probe succeeded", timeout=60_000)
    finally:
        program.stop()
        program.end()
