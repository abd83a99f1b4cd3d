"""What buttons do: each is exactly one request to the API, which is also what its `curl` command shows.

A path names in braces what a form carries in fields of these names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hookfuse.dashboard.client import Call, at
from hookfuse.dashboard.forms import Form, given, number
from hookfuse.dashboard.policy_form import policy_of

_SLOT = re.compile(r"\{(\w+)\}")
_BREAKER = "app/{app}/breaker/{endpoint}"
_ENDPOINT = "app/{app}/endpoint/{endpoint}"
_DELIVERY = "app/{app}/delivery/{message}/{endpoint}"


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    label: str
    done: str
    """What is said when it went well."""
    method: str
    path: str
    body: Callable[[Form], dict[str, Any]] | None = None
    query: Callable[[Form], dict[str, str]] | None = None
    danger: bool = False
    confirm: str = ""
    """What is asked before; empty: nothing."""
    shows: str = ""
    """The template that shows the answer, where it has more to say."""

    def call(self, form: Form) -> Call:
        steps = [form.text(name[1]) if (name := _SLOT.fullmatch(step)) else step for step in self.path.split("/")]
        body = None if self.body is None else self.body(form)
        return Call(self.method, at(*steps), body, None if self.query is None else self.query(form))


def _reason(form: Form) -> dict[str, Any]:
    return given(reason=form.text("reason"))


def _force(to: str) -> Callable[[Form], dict[str, Any]]:
    return lambda form: given(to=to, reason=form.text("reason"), until=form.later("for"))


def _chosen(form: Form) -> dict[str, Any]:
    return given(
        state=form.every("state"),
        endpointId=form.text("endpoint"),
        eventTypes=form.names("event_types"),
        since=form.instant("since"),
        until=form.instant("until"),
    )


def _waiting(form: Form) -> dict[str, Any]:
    return {name: value for name, value in _chosen(form).items() if name != "state"}


def _these(form: Form) -> dict[str, Any]:
    pairs = [each.partition("/") for each in form.every("delivery")]
    return {"deliveries": [{"msgId": message, "endpointId": endpoint} for message, _, endpoint in pairs]}


def _counted(choice: Callable[[Form], dict[str, Any]]) -> Callable[[Form], dict[str, Any]]:
    return lambda form: {**choice(form), "dryRun": True}


def _endpoint(form: Form) -> dict[str, Any]:
    return {
        "url": form.text("url"),
        "description": form.exactly("description"),
        "eventTypes": form.names("event_types"),
        "channels": form.names("channels"),
        "throttleRate": form.number("throttle_rate"),
        "cap": form.number("cap"),
        "timeout": form.number("timeout"),
        "fifo": form.has("fifo"),
    }


def _policy(form: Form) -> dict[str, Any]:
    if form.text("profile"):
        return {"profile": form.text("profile")}
    return {"policy": policy_of(form)}


def _schedule(form: Form) -> dict[str, Any]:
    return {"delays": [number(each) for each in form.names("delays") or []], **given(jitter=form.number("jitter"))}


def _range(form: Form) -> dict[str, Any]:
    return given(since=form.instant("since"), until=form.instant("until"))


ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action("force-open", "Force open", "Forced open.", "POST", f"{_BREAKER}/force", _force("open"), danger=True),
        Action("force-closed", "Force closed", "Forced closed.", "POST", f"{_BREAKER}/force", _force("closed")),
        Action("release", "Release", "The override has ended.", "POST", f"{_BREAKER}/unforce", _reason),
        Action("probe", "Probe now", "The next delivery probes.", "POST", f"{_BREAKER}/probe", _reason),
        Action("reset", "Reset", "Closed, with nothing held against it.", "POST", f"{_BREAKER}/reset", _reason),
        Action("enable", "Enable", "Enabled; a probe decides.", "POST", f"{_BREAKER}/enable", _reason),
        Action(
            "disable",
            "Disable",
            "Disabled; its messages are kept.",
            "PATCH",
            _ENDPOINT,
            lambda form: {"disabled": True},
            danger=True,
        ),
        Action("pause", "Pause", "Paused; its messages wait.", "POST", f"{_ENDPOINT}/pause"),
        Action("resume", "Resume", "Resumed.", "POST", f"{_ENDPOINT}/resume"),
        Action(
            "send-test",
            "Send test",
            "A test message is on its way.",
            "POST",
            f"{_ENDPOINT}/send-example",
            lambda form: {"eventType": form.text("event_type") or "hookfuse.test"},
            shows="results/message.html",
        ),
        Action("try", "Try now", "", "POST", f"{_ENDPOINT}/test", shows="results/trial.html"),
        Action("change-endpoint", "Save settings", "Saved.", "PATCH", _ENDPOINT, _endpoint),
        Action("reveal-secret", "Reveal", "Shown once.", "GET", f"{_ENDPOINT}/secret", shows="results/secret.html"),
        Action(
            "rotate-secret",
            "Rotate",
            "A new secret signs from now on; the old one signs beside it for its time.",
            "POST",
            f"{_ENDPOINT}/secret/rotate",
            lambda form: given(gracePeriodSeconds=form.number("grace")),
            danger=True,
            confirm="Rotate the signing secret? Receivers must learn the new one.",
            shows="results/secret.html",
        ),
        Action("set-policy", "Save policy", "It holds from the next call on.", "PUT", f"{_ENDPOINT}/policy", _policy),
        Action("drop-policy", "Use the inherited one", "The inherited policy holds.", "DELETE", f"{_ENDPOINT}/policy"),
        Action("set-default-policy", "Save policy", "It holds from the next call on.", "PUT", "policy", _policy),
        Action("drop-default-policy", "Use that of the settings", "The settings' policy holds.", "DELETE", "policy"),
        Action("set-schedule", "Save schedule", "Saved.", "PUT", f"{_ENDPOINT}/retry-schedule", _schedule),
        Action(
            "count-recover",
            "Count first",
            "",
            "GET",
            f"{_ENDPOINT}/recover",
            query=_range,
            shows="results/recoverable.html",
        ),
        Action(
            "recover",
            "Recover",
            "What failed in this time is sent again, and what is held at once.",
            "POST",
            f"{_ENDPOINT}/recover",
            _range,
            shows="results/task.html",
        ),
        Action(
            "replay-missing",
            "Replay missing",
            "What it never got is sent.",
            "POST",
            f"{_ENDPOINT}/replay-missing",
            _range,
            shows="results/task.html",
        ),
        Action("retry", "Retry", "It is sent again.", "POST", f"{_DELIVERY}/retry"),
        Action("cancel", "Cancel", "Cancelled.", "POST", f"{_DELIVERY}/cancel", danger=True),
        Action(
            "retry-these",
            "Retry selected",
            "The selected ones are sent again.",
            "POST",
            "app/{app}/delivery/retry-these",
            _these,
            shows="results/these.html",
        ),
        Action(
            "count-matching",
            "Count first",
            "",
            "POST",
            "app/{app}/delivery/retry",
            _counted(_chosen),
            shows="results/count.html",
        ),
        Action(
            "retry-matching",
            "Retry all that match",
            "They are sent again.",
            "POST",
            "app/{app}/delivery/retry",
            _chosen,
            shows="results/task.html",
        ),
        Action(
            "cancel-matching",
            "Cancel all that wait and match",
            "They are cancelled.",
            "POST",
            "app/{app}/delivery/cancel",
            _waiting,
            danger=True,
            confirm="Cancel every waiting delivery that matches?",
            shows="results/task.html",
        ),
        Action("cancel-task", "Stop", "Stopped; what is done stays done.", "POST", "app/{app}/task/{task}/cancel"),
        Action("pause-app", "Pause", "Paused; messages are accepted and wait.", "POST", "app/{app}/pause"),
        Action("resume-app", "Resume", "Resumed.", "POST", "app/{app}/resume"),
        Action(
            "make-key",
            "Make key",
            "The key is shown this once and kept nowhere.",
            "POST",
            "key",
            lambda form: given(name=form.text("name"), role=form.text("role"), appId=form.text("app")),
            shows="results/key.html",
        ),
        Action(
            "revoke-key",
            "Revoke",
            "Revoked; refused everywhere within five seconds.",
            "DELETE",
            "key/{key}",
            danger=True,
            confirm="Revoke this key? Whoever uses it is refused within five seconds.",
        ),
    )
}
