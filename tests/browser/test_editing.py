"""Forms save what was typed, and say at the field what the API refuses: settings, secrets, policies, keys."""

from __future__ import annotations

import time

from playwright.sync_api import expect

from tests.browser.scene import Scene
from tests.browser.site import Visitor
from tests.service.programs import until

TRIED = {
    "change-endpoint",
    "reveal-secret",
    "rotate-secret",
    "set-policy",
    "drop-policy",
    "set-schedule",
    "make-key",
    "revoke-key",
    "set-default-policy",
    "drop-default-policy",
}
"""The actions that are tried here."""


def test_changing_settings(scene: Scene) -> None:
    """Settings are saved as they were typed; what cannot be used is refused beside its field, and nothing changes."""
    scene.page.click("summary:has-text('Settings')")
    scene.page.fill("[name=description]", "Berlin")
    scene.page.fill("[name=timeout]", "7.5")
    scene.page.check("[name=fifo]")
    scene.press("Save settings", "change-endpoint")
    stored = scene.stored()
    assert (stored["description"], stored["timeout"], stored["fifo"]) == ("Berlin", 7.5, True)
    scene.audited("patch_endpoint")


def test_refused_settings(scene: Scene, operator: Visitor) -> None:
    """What cannot be used is refused with the API's own words, at the field that it is about, until that is mended."""
    operator.expected.add("422")
    scene.page.click("summary:has-text('Settings')")
    scene.page.fill("[name=url]", "http://169.254.169.254/latest")
    scene.page.get_by_role("button", name="Save settings").click()
    expect(scene.page.locator("#changed .outcome.bad")).to_contain_text("url")
    url, rate = scene.page.locator("[name=url]"), scene.page.locator("[name=throttle_rate]")
    expect(url).to_have_attribute("aria-invalid", "true")
    expect(url).to_be_focused()
    expect(url).to_have_accessible_description("The URL has an address that is not dialled (link-local).")
    assert "169.254" not in scene.stored()["url"]
    url.fill(scene.stored()["url"])
    rate.fill("fast")
    scene.page.get_by_role("button", name="Save settings").click()
    expect(rate).to_be_focused()
    expect(scene.page.locator(".said")).to_have_count(1)
    expect(scene.page.locator("label", has=rate).locator(".said")).to_be_visible()
    rate.fill("50")
    scene.press("Save settings", "change-endpoint")
    expect(scene.page.locator(".said, [aria-invalid]")).to_have_count(0)
    assert scene.stored()["throttleRate"] == 50


def test_secrets(scene: Scene) -> None:
    """The secret is shown when asked for, which is written down, and gone after a reload; rotating makes another."""
    known = scene.site.ok("GET", f"{scene.path}/secret")["key"]
    assert known not in scene.page.content()
    scene.press("Reveal", "reveal-secret")
    expect(scene.page.locator("#secret .outcome > .code code")).to_have_text(known)
    scene.audited("get_endpoint_secret")
    scene.page.reload()
    assert known not in scene.page.content()
    scene.page.select_option("[name=grace]", "3600")
    scene.press("Rotate", "rotate-secret")
    shown = scene.page.locator("#secret .outcome > .code code").text_content()
    scene.audited("rotate_endpoint_secret")
    assert shown == scene.site.ok("GET", f"{scene.path}/secret")["key"] != known


def test_editing_a_policy(scene: Scene, operator: Visitor) -> None:
    """The editor shows the policy in force, saves what was typed, marks what the API refuses, and takes profiles."""
    scene.page.click("summary:has-text('Policy')")
    policy = scene.page.locator("#policy")
    expect(policy.locator("[name='streak.n']")).to_have_value("5")
    policy.locator("[name='streak.n']").fill("3")
    policy.locator("[name=cool_off]").fill("12.5")
    policy.locator("[name=slow]").check()
    policy.locator("[name='slow.share']").fill("0.25")
    policy.locator("[name='slow.over']").fill("2")
    policy.locator("[name='slow.min_calls']").fill("4")
    scene.press("Save policy", "set-policy")
    stored = scene.site.ok("GET", f"{scene.path}/policy")
    assert stored["level"] == "endpoint"
    assert stored["own"]["cool_off"] == 12.5
    assert {"rule": "slow", "share": 0.25, "over": 2.0, "min_calls": 4} in stored["own"]["trip"]
    scene.audited("set_endpoint_policy")
    operator.expected.add("422")
    policy.locator("[name='rate.share']").fill("1.5")
    policy.get_by_role("button", name="Save policy").click()
    expect(policy.locator(".outcome.bad")).to_contain_text("Rate.share must be")
    expect(policy.locator("[name='rate.share']")).to_have_attribute("aria-invalid", "true")
    expect(policy.locator("label", has_text="at least 0 to 1").first.locator(".said")).to_contain_text("must be")
    assert scene.site.ok("GET", f"{scene.path}/policy") == stored
    policy.locator("[name=profile]").select_option("stoplight")
    policy.get_by_role("button", name="Use profile").click()
    expect(policy.locator(".outcome.good")).to_be_visible()
    assert scene.site.ok("GET", f"{scene.path}/policy")["own"]["trip"][0]["rule"] == "count"
    scene.page.reload()
    scene.page.click("summary:has-text('Policy')")
    scene.press("Use the inherited one", "drop-policy")
    assert scene.site.ok("GET", f"{scene.path}/policy")["own"] is None
    scene.audited("delete_endpoint_policy")


def test_retry_schedules(scene: Scene) -> None:
    """Waits between attempts are saved in their order."""
    scene.page.click("summary:has-text('Retry schedule')")
    scene.page.fill("[name=delays]", "1, 5 30")
    scene.press("Save schedule", "set-schedule")
    assert scene.site.ok("GET", f"{scene.path}/retry-schedule")["own"]["delays"] == [1, 5, 30]
    scene.audited("set_endpoint_retry_schedule")


def test_keys(scene: Scene) -> None:
    """A key is made and shown once; revoked, it is refused within five seconds."""
    scene.open("/dashboard/settings")
    scene.page.fill("[name=name]", "grafana")
    scene.press("Make key", "make-key")
    text = str(scene.page.locator("#made .outcome > .code code").text_content())
    assert scene.site.ask("GET", "/app", key=text)[0] == 200
    scene.audited("create_key")
    row = scene.page.locator("#keys tr", has_text="grafana")
    row.get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    scene.done.add("revoke-key")
    scene.audited("revoke_key")
    deadline = time.monotonic() + 5
    until(lambda: scene.site.ask("GET", "/app", key=text)[0] == 401, deadline - time.monotonic())


def test_the_default_policy(scene: Scene) -> None:
    """The default policy is edited in the settings, and taken back."""
    scene.open("/dashboard/settings")
    scene.page.click("summary:has-text('Default policy')")
    scene.page.fill("[name=cool_off]", "45")
    scene.press("Save policy", "set-default-policy")
    assert scene.site.ok("GET", "/policy")["own"]["cool_off"] == 45
    scene.audited("set_default_policy")
    scene.page.reload()
    scene.page.click("summary:has-text('Default policy')")
    scene.press("Use that of the settings", "drop-default-policy")
    assert scene.site.ok("GET", "/policy")["own"] is None
    scene.audited("delete_default_policy")


def test_these_were_tried(done: set[str]) -> None:
    """Every action that this file is for was tried by the tests above."""
    assert done == TRIED
