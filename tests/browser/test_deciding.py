"""Buttons that decide over an endpoint do what they say: one request, its effect, its entry in the audit log."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from hookfuse.dashboard.actions import ACTIONS
from hookfuse.testing.receivers import Failing, Ok
from tests.browser import test_editing, test_sending_again
from tests.browser.scene import Scene
from tests.service.programs import until

TRIED = {
    "force-open",
    "force-closed",
    "release",
    "probe",
    "reset",
    "disable",
    "enable",
    "pause",
    "resume",
    "send-test",
    "try",
    "pause-app",
    "resume-app",
}
"""The actions that are tried here."""


ORDERS: dict[str, tuple[str, str, Callable[[Any], bool]]] = {
    "force-open": ("Force open", "force_breaker", lambda seen: seen["override"] == "open"),
    "force-closed": ("Force closed", "force_breaker", lambda seen: seen["override"] == "closed"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_forcing(scene: Scene, name: str) -> None:
    """A breaker is forced with a reason and for a time, the page shows it at once, and `Release` ends it."""
    label, operation, forced = ORDERS[name]
    scene.page.fill("[name=reason]", "ticket 4711")
    scene.page.select_option("[name=for]", "3600")
    command = scene.press(label, name)
    seen = scene.breaker()
    assert forced(seen)
    assert seen["reason"] == "ticket 4711"
    assert seen["overrideUntil"] is not None
    assert f"/api/v1/app/{scene.app}/breaker/{scene.endpoint}/force" in command
    assert "$HOOKFUSE_API_KEY" in command
    assert scene.audited(operation)["detail"] == "to, reason, until"
    expect(scene.page.locator("#title .pill").first).to_have_text(label.replace("Force", "Forced"))
    scene.press("Release", "release")
    assert scene.breaker()["override"] == "none"
    scene.audited("unforce_breaker")


def test_tripped_and_probed(scene: Scene) -> None:
    """An open breaker says why and when it probes; `Probe now` tries at once, `Reset` forgets everything."""
    scene.site.ok("PUT", f"{scene.path}/policy", {"policy": {"trip": [{"rule": "streak", "n": 1}], "cool_off": 3600}})
    (kind,) = scene.stored()["eventTypes"]
    scene.site.receivers.change(kind.removeprefix("t."), Failing(503))
    scene.site.send(scene.app, event_type=kind)
    pill = scene.page.locator("#title .pill").first
    expect(pill).to_have_text("Open")
    expect(scene.page.locator("#now .lead")).to_contain_text("Open because failures in a row: 1, limit 1.")
    expect(scene.page.locator("#now")).to_contain_text("in 60 min")
    expect(scene.page.locator("#history")).to_contain_text("failures in a row: 1, limit 1")
    scene.press("Probe now", "probe")
    scene.audited("probe_breaker")
    until(lambda: scene.breaker()["trips"] == 2)
    expect(scene.page.locator("#history")).to_contain_text("the probe failed")
    scene.site.receivers.change(kind.removeprefix("t."), Ok())
    scene.press("Reset", "reset")
    scene.audited("reset_breaker")
    assert (scene.breaker()["state"], scene.breaker()["trips"]) == ("closed", 0)
    scene.site.send(scene.app, event_type=kind)
    expect(pill).to_have_text("Closed")


def test_disabling_and_enabling(scene: Scene) -> None:
    """A disabled endpoint is sent nothing and keeps its messages until it is enabled."""
    scene.press("Disable", "disable")
    assert scene.stored()["disabled"]
    scene.audited("patch_endpoint")
    message = scene.site.send(scene.app, event_type=scene.stored()["eventTypes"][0])
    expect(scene.page.locator("#title .pill").first).to_have_text("Disabled")
    assert scene.site.ok("GET", f"/app/{scene.app}/delivery/{message}/{scene.endpoint}")["attempts"] == 0
    scene.press("Enable", "enable")
    scene.audited("enable_breaker")
    assert not scene.stored()["disabled"]
    scene.site.delivered(scene.app, message, scene.endpoint, "sent")


def test_pausing_and_resuming(scene: Scene) -> None:
    """A paused endpoint holds its messages, and sends them when it is resumed."""
    scene.press("Pause", "pause")
    assert scene.stored()["paused"]
    scene.audited("pause_endpoint")
    message = scene.site.send(scene.app, event_type=scene.stored()["eventTypes"][0])
    expect(scene.page.locator("#now .facts")).to_contain_text(re.compile(r"Held\s*1"))
    scene.press("Resume", "resume")
    scene.audited("resume_endpoint")
    scene.site.delivered(scene.app, message, scene.endpoint, "sent")


def test_sending_a_test(scene: Scene) -> None:
    """A test message goes to this endpoint, and its delivery can be followed from the page."""
    scene.page.fill("[name=event_type]", "ping.test")
    scene.press("Send test", "send-test")
    scene.audited("send_example")
    scene.page.click(".outcome >> text=Follow")
    expect(scene.page.locator("#title .pill")).to_have_text("Sent")
    expect(scene.page.locator("#attempts")).to_contain_text('"fine": true')
    expect(scene.page.locator("#title")).to_contain_text("ping.test")


def test_trying_it(scene: Scene) -> None:
    """An endpoint is tried at once, disabled or not; if it answers well it is said that it could be enabled."""
    expect(scene.page.locator("#receiver")).to_have_count(0)
    scene.press("Try now", "try")
    expect(scene.page.locator("#decided")).to_contain_text("It answered well. 200")
    scene.audited("send_test_message")
    scene.press("Disable", "disable")
    scene.press("Try now", "try")
    expect(scene.page.locator("#decided")).to_contain_text("could be enabled again")
    expect(scene.page.locator("#now")).to_contain_text("A test succeeded: it may be well again.")


def test_whole_applications(scene: Scene) -> None:
    """An application is paused and resumed from the settings."""
    scene.open("/dashboard/settings")
    scene.press("Pause", "pause-app", "#apps")
    assert scene.site.ok("GET", f"/app/{scene.app}")["pausedAt"] is not None
    expect(scene.page.locator("#apps .pill")).to_have_text("Paused")
    scene.audited("pause_application")
    scene.press("Resume", "resume-app", "#apps")
    assert scene.site.ok("GET", f"/app/{scene.app}")["pausedAt"] is None
    scene.audited("resume_application")


def test_these_were_tried(done: set[str]) -> None:
    """Every action that this file is for was tried by the tests above."""
    assert done == TRIED


def test_every_action_is_tried() -> None:
    """Every action of the table is tried in one of the files."""
    assert set(ACTIONS) == TRIED | test_editing.TRIED | test_sending_again.TRIED
