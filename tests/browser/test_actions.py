"""Every button does what it says: one request to the API, seen in its effect, in the audit log, and as a command."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from hookfuse.dashboard.actions import ACTIONS
from hookfuse.testing.receivers import Failing, Ok
from tests.browser.site import Site, Visitor
from tests.service.programs import until

DONE = set[str]()


@dataclass
class Scene:
    """An application with an endpoint, and its page."""

    site: Site
    page: Page
    app: str
    endpoint: str

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
        DONE.add(name)
        outcome = self.page.locator(".outcome.good", has_text=ACTIONS[name].done).last
        expect(outcome).to_be_visible()
        return str(outcome.locator(".curls code").text_content())

    def audited(self, action: str) -> Any:
        """The newest entry of the audit log, which must be this one."""
        entry = self.site.ok("GET", "/audit", limit="1")["data"][0]
        assert entry["action"] == action
        return entry


@pytest.fixture(scope="module")
def app(site: Site) -> str:
    return site.app("Acme", uid="acme")


@pytest.fixture
def scene(site: Site, page: Page, app: str, request: pytest.FixtureRequest) -> Scene:
    name = re.sub(r"\W+", "-", request.node.name)
    found = Scene(site, page, app, site.receiver(app, name, Ok(body=b'{"fine": true}'), eventTypes=[f"t.{name}"]))
    found.open()
    return found


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


def failed_deliveries(scene: Scene, number: int) -> list[str]:
    (kind,) = scene.stored()["eventTypes"]
    name = kind.removeprefix("t.")
    scene.site.receivers.change(name, Failing(500))
    scene.site.ok("PUT", f"{scene.path}/policy", {"policy": {"trip": [{"rule": "streak", "n": 1000}]}})
    ids = [scene.site.send(scene.app, {"n": n}, kind) for n in range(number)]
    for each in ids:
        scene.site.delivered(scene.app, each, scene.endpoint, "failed")
    scene.site.receivers.change(name, Ok())
    return ids


def in_database(scene: Scene, statement: str, *values: object) -> None:
    """What takes long to come about, or a crash, is put where the service keeps it."""
    with closing(sqlite3.connect(scene.site.database, timeout=10)) as database, database:
        database.execute(statement, values)


def test_quarantined(scene: Scene) -> None:
    """What lost its worker again and again is told apart from what is out of tries, says so, and can be sent again."""
    poisoned, plain = failed_deliveries(scene, 2)
    in_database(scene, "UPDATE deliveries SET reason = 'quarantined' WHERE message_id = ?", poisoned)
    scene.open(f"/dashboard/failed?app={scene.app}&endpoint_id={scene.endpoint}")
    row = scene.page.locator("tr", has_text=poisoned)
    expect(row.locator(".pill")).to_have_text("Quarantined")
    expect(row).to_contain_text("it lost its worker again and again")
    expect(scene.page.locator("tr", has_text=plain).locator(".pill")).to_have_text("Failed")
    row.get_by_role("button", name="Retry").click()
    scene.site.delivered(scene.app, poisoned, scene.endpoint, "sent")
    expect(row).to_have_count(0)


def test_retrying_one_and_many(scene: Scene) -> None:
    """One delivery is retried from its row, several by choosing them, and both arrive."""
    first, second, third = failed_deliveries(scene, 3)
    scene.open(f"/dashboard/failed?app={scene.app}&endpoint_id={scene.endpoint}")
    row = scene.page.locator("tr", has_text=first)
    row.get_by_role("button", name="Retry").click()
    scene.site.delivered(scene.app, first, scene.endpoint, "sent")
    expect(row).to_have_count(0)
    DONE.add("retry")
    scene.audited("retry_delivery")
    for each in (second, third):
        scene.page.locator("tr", has_text=each).locator("input[type=checkbox]").check()
    expect(scene.page.locator("#these")).to_contain_text("2 selected")
    scene.press("Retry selected", "retry-these")
    expect(scene.page.locator("#result")).to_contain_text("2 of 2")
    scene.audited("retry_these_deliveries")
    for each in (second, third):
        scene.site.delivered(scene.app, each, scene.endpoint, "sent")


def test_retrying_all_that_match(scene: Scene) -> None:
    """All that failed in a time are counted first, then retried by one task whose progress is shown."""
    ids = failed_deliveries(scene, 4)
    scene.open(f"/dashboard/failed?app={scene.app}&endpoint_id={scene.endpoint}")
    scene.page.get_by_role("button", name="Count first").click()
    counted = scene.page.locator("#counted")
    expect(counted).to_contain_text("4 deliveries match")
    DONE.add("count-matching")
    assert scene.site.ok("GET", f"/app/{scene.app}/delivery/{ids[0]}/{scene.endpoint}")["state"] == "failed"
    counted.get_by_role("button", name="Retry all 4").click()
    expect(counted).to_contain_text("4 chosen")
    DONE.add("retry-matching")
    for each in ids:
        scene.site.delivered(scene.app, each, scene.endpoint, "sent")
    expect(scene.page.locator("#tasks .task").first).to_contain_text("4 of 4")
    expect(scene.page.locator("#tasks .pill").first).to_have_text("finished")
    scene.audited("retry_deliveries")


def test_recovering_an_endpoint(scene: Scene) -> None:
    """What failed since a time is sent again from the endpoint's page; what it never got can be replayed."""
    (failed,) = failed_deliveries(scene, 1)
    missed = scene.site.send(scene.app, {"n": 9}, "t.never-before")
    scene.open()
    assert scene.page.input_value("[name=since]")
    command = scene.press("Count first", "count-recover")
    expect(scene.page.locator("#recovered")).to_contain_text("1 failed and 0 held")
    assert "/recover?since=" in command
    # Browsers leave the seconds of a round minute out.
    scene.page.fill("[name=since]", "2024-01-01T10:30:00")
    assert scene.page.input_value("[name=since]") == "2024-01-01T10:30"
    scene.press("Count first", "count-recover")
    scene.press("Recover", "recover")
    expect(scene.page.locator("#recovered")).to_contain_text("1 chosen")
    scene.audited("recover_endpoint")
    scene.site.delivered(scene.app, failed, scene.endpoint, "sent")
    scene.site.ok("PATCH", scene.path, {"eventTypes": ["t.never-before"]})
    scene.press("Replay missing", "replay-missing")
    scene.audited("replay_missing")
    until(lambda: scene.site.ask("GET", f"/app/{scene.app}/delivery/{missed}/{scene.endpoint}")[0] == 200)
    scene.site.delivered(scene.app, missed, scene.endpoint, "sent")


def test_cancelling(scene: Scene) -> None:
    """A waiting delivery is cancelled from its page, and all that wait and match at once."""
    scene.site.ok("POST", f"{scene.path}/pause")
    (kind,) = scene.stored()["eventTypes"]
    first, *others = [scene.site.send(scene.app, {"n": n}, kind) for n in range(3)]
    scene.open(f"/dashboard/deliveries/{scene.app}/{first}/{scene.endpoint}")
    scene.press("Cancel", "cancel")
    assert scene.site.ok("GET", f"/app/{scene.app}/delivery/{first}/{scene.endpoint}")["state"] == "cancelled"
    scene.audited("cancel_delivery")
    expect(scene.page.locator("#title .pill")).to_have_text("Cancelled")
    scene.open(f"/dashboard/deliveries?app={scene.app}&endpoint_id={scene.endpoint}")
    scene.press("Cancel those that wait", "cancel-matching")
    scene.audited("cancel_deliveries")
    for each in others:
        scene.site.delivered(scene.app, each, scene.endpoint, "cancelled")


def test_stopping_a_task(scene: Scene) -> None:
    """A task that runs has a button that stops it, and none once it has ended."""
    now = int(time.time() * 1000)
    row = ("qtask_stop", "endpoint.bulk-replay", scene.app, "", "running", 900, 300, 299, now, now)
    in_database(scene, f"INSERT INTO tasks VALUES ({', '.join('?' * len(row))})", *row)
    scene.open(f"/dashboard/failed?app={scene.app}")
    task = scene.page.locator("#tasks .task", has_text="299 of 900")
    expect(task.locator("progress")).to_have_attribute("value", "300")
    scene.press("Stop", "cancel-task", "#tasks")
    assert scene.site.ok("GET", f"/app/{scene.app}/task/qtask_stop")["status"] == "cancelled"
    scene.audited("cancel_task")
    expect(task.locator(".pill")).to_have_text("cancelled")
    expect(task.get_by_role("button")).to_have_count(0)


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
    DONE.add("revoke-key")
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


def test_every_action_was_tried() -> None:
    """Every action of the table was tried by the tests above."""
    assert set(ACTIONS) == DONE
