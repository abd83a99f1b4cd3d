"""Notices in words, and as operational webhooks. Everything that others wrote becomes harmless here first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, assert_never

from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.history import AUTOMATIC
from hookfuse.core.notice import NOBODYS, Event, Notice

# Line ends of every kind, other control characters, and those that turn the direction of what follows.
_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]+")
_MENTION: Final = re.compile(r"@(?=\w)")
_LONGEST: Final = 200


def one_line(text: str) -> str:
    """Other people's text on one line, cut to a bearable length."""
    line = _UNSEEN.sub(" ", text).strip()
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class Story:
    """A notice with those that it is about, as far as they still exist."""

    notice: Notice
    app: Application | None = None
    endpoint: Endpoint | None = None

    @property
    def subject(self) -> str:
        return f"{self._who} {self._did}"

    @property
    def lines(self) -> list[str]:
        """What a person should know, one thing on each line."""
        notice, facts = self.notice, self.notice.facts
        found = [f"{self.subject}.", ""]
        if why := one_line(str(facts.get("why") or facts.get("reason") or "")):
            found.append(f"Why: {why}")
        found.append(f"When: {_when(notice.at_ms)}")
        if actor := one_line(str(facts.get("actor") or "")):
            found.append(f"By: {actor}")
        if "message_id" in facts:
            found.append(f"Message: {one_line(str(facts['message_id']))}")
        if notice.app_id != NOBODYS:
            found.append(f"Application: {self._app}")
        if notice.endpoint_id is not None:
            found.append(f"Endpoint: {self._endpoint}")
        if notice.folded:
            found.append(f"Within the quiet window: {notice.folded} more, not told one by one")
        if advice := _ADVICE.get(notice.event):
            found += ["", advice]
        return found

    @property
    def chat(self) -> str:
        """For chats that read `<…>` as links and `@…` as calls to people."""
        text = "\n".join(line for line in self.lines if line)
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return _MENTION.sub("@\u200b", escaped)

    @property
    def payload(self) -> bytes:
        """The body of an operational webhook, with the names of the public Svix API where it has them."""
        body = {"type": self.notice.event.value, "timestamp": _instant(self.notice.at_ms), "data": self._data()}
        return json.dumps(body, separators=(",", ":")).encode()

    def _data(self) -> dict[str, Any]:
        notice = self.notice
        data: dict[str, Any] = {} if notice.app_id == NOBODYS else {"appId": notice.app_id}
        if self.app is not None and self.app.uid is not None:
            data["appUid"] = self.app.uid
        if notice.endpoint_id is not None:
            data["endpointId"] = notice.endpoint_id
        if self.endpoint is not None and self.endpoint.uid is not None:
            data["endpointUid"] = self.endpoint.uid
        return {**data, **_facts(notice.event, notice.key, notice.generation, notice.facts), "folded": notice.folded}

    @property
    def _who(self) -> str:
        if self.notice.event in _OF_THE_SERVICE:
            return "Hookfuse"
        if self.notice.endpoint_id is not None:
            return f"Endpoint {self._endpoint}"
        return f"Breaker {one_line(self.notice.key)}"

    @property
    def _did(self) -> str:
        event, facts = self.notice.event, self.notice.facts
        match event:
            case Event.ENDPOINT_DISABLED:
                return "was disabled"
            case Event.ENDPOINT_ENABLED:
                return "is enabled again"
            case Event.BREAKER_OPENED:
                return "is failing: its breaker opened"
            case Event.BREAKER_CLOSED:
                return "has recovered: its breaker closed"
            case Event.EXHAUSTED:
                return "did not take a message: every attempt failed"
            case Event.FAILING:
                return f"has been failing for {_lasted(int(facts.get('stage_ms', 0)))}"
            case Event.SERVICE_TROUBLE:
                return f"is not as it should be: {one_line(str(facts.get('reason', '')))}"
            case Event.SERVICE_RECOVERED:
                return f"is as it should be again: {one_line(str(facts.get('reason', '')))}"
            case Event.TEST:
                return "can reach you: this is a test"
            case _:
                assert_never(event)

    @property
    def _app(self) -> str:
        return self.notice.app_id if self.app is None else f"{one_line(self.app.name)} ({self.notice.app_id})"

    @property
    def _endpoint(self) -> str:
        known = None if self.endpoint is None else self.endpoint.uid or self.endpoint.description
        return f"{one_line(known)} ({self.notice.endpoint_id})" if known else str(self.notice.endpoint_id)


_OF_THE_SERVICE: Final = frozenset({Event.SERVICE_TROUBLE, Event.SERVICE_RECOVERED, Event.TEST})
_ADVICE: Final = {
    Event.ENDPOINT_DISABLED: "Its messages are kept. Enable it again once it is mended, and recover what waited.",
    Event.BREAKER_OPENED: "Its messages are kept. It is tried again by itself.",
    Event.SERVICE_TROUBLE: "/readyz, the log and `hookfuse status` say more.",
    Event.EXHAUSTED: "The message is kept as failed, and can be sent again.",
}


def _facts(event: Event, key: str, generation: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    match event:
        case Event.ENDPOINT_DISABLED | Event.ENDPOINT_ENABLED:
            trigger = "automatic" if facts.get("actor") in AUTOMATIC else "manual"
            return {"trigger": trigger, "reason": facts.get("reason", ""), "why": facts.get("why", "")}
        case Event.BREAKER_OPENED | Event.BREAKER_CLOSED:
            return {"breakerKey": key, "generation": generation, **facts}
        case Event.EXHAUSTED | Event.FAILING:
            return _of_attempts(facts)
        case Event.SERVICE_TROUBLE | Event.SERVICE_RECOVERED | Event.TEST:
            return {"reason": facts.get("reason", ""), "why": facts.get("why", "")}
        case _:
            assert_never(event)


def _of_attempts(facts: Mapping[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"msgId": facts.get("message_id"), "reason": facts.get("reason", "")}
    if "event_type" in facts:
        data["eventType"] = facts["event_type"]
    if "since_ms" in facts:
        data["failSince"] = _instant(facts["since_ms"])
        data["failingSeconds"] = facts["stage_ms"] // 1000
    if "attempt" in facts:
        attempt = facts["attempt"]
        data["lastAttempt"] = {
            "id": attempt["id"],
            "timestamp": _instant(attempt["at_ms"]),
            "responseStatusCode": attempt["status"] or 0,
        }
    return data


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _lasted(stage_ms: int) -> str:
    hours = stage_ms / 3_600_000
    return (
        f"{hours:g} hour{'' if hours == 1 else 's'}"
        if hours < 24
        else f"{hours / 24:g} day{'' if hours == 24 else 's'}"
    )
