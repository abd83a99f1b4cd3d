"""Deliveries are sent again or cancelled by hand: one, several, or all that match."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from playwright.sync_api import expect

from hookfuse.testing.receivers import Failing, Ok
from tests.browser.scene import Scene
from tests.service.programs import until

TRIED = {
    "retry",
    "retry-these",
    "count-matching",
    "retry-matching",
    "count-recover",
    "recover",
    "replay-missing",
    "cancel",
    "cancel-matching",
    "cancel-task",
}
"""The actions that are tried here."""


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
    scene.done.add("retry")
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
    scene.done.add("count-matching")
    assert scene.site.ok("GET", f"/app/{scene.app}/delivery/{ids[0]}/{scene.endpoint}")["state"] == "failed"
    counted.get_by_role("button", name="Retry all 4").click()
    expect(counted).to_contain_text("4 chosen")
    scene.done.add("retry-matching")
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


def test_these_were_tried(done: set[str]) -> None:
    """Every action that this file is for was tried by the tests above."""
    assert done == TRIED
