"""Other people's text in the logs: told as it is, and unable to do anything."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from hookfuse.app.logs import EventLog, set_up_logs
from hookfuse.config import Settings, load
from hookfuse.core.delivery import Claim
from hookfuse.core.notice import Event, Occurrence
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.response import ResponsePolicy, Step, Verdict, judge
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.core.state import State, Transition
from hookfuse.delivery.courier import Attempted
from hookfuse.delivery.targets import Target
from hookfuse.transport import HttpSender
from tests.unit.transport.receiver import LOOPBACK, once, receiving, request

SECRET = "whsec_canary"
SIGNS = {
    "escape": "\x1b[2J\x1b]0;pwned\x07",
    "carriage return": "pwned\rpwned",
    "line feed": "pwned\n2026-01-01T00:00:00Z [error] pwned",
    "both, and spaces": "pwned\r\n forged=1",
    "NUL": "pwned\0",
    "delete": "pwned\x7f\x7f",
    "eight-bit control": "pwned\x9b2J",
    "right to left": "pwned\u202e",
    "line separator": "pwned\u2028pwned",
}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")

_log = logging.getLogger("hookfuse.delivery")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def transition(*, key: str = "app_1/ep_1", reason: str = "operator", actor: str = "alice") -> Transition:
    return Transition(key, State.CLOSED, State.OPEN, 1, 0.0, reason, actor=actor)


def attempted(result: SendResult, *, event_type: str = "a", reason: str | None = None) -> Attempted:
    claim = Claim("msg_1", "ep_1", "app_1", 1, 1, event_type, b"{}", 0, 0, 0, 0, 1)
    target = Target("ep_1", 1, "app_1/ep_1", Policy(), RetrySchedule(), ResponsePolicy(), 1, 15, "", None, ())
    verdict = judge(result, 0, target.retry, target.response, 0.0, 0.5)
    return Attempted(
        claim, target, result, verdict if reason is None else Verdict(Step.FAILED, Outcome.FAILURE, reason)
    )


def fail(text: str) -> None:
    secret = SECRET
    try:
        raise ValueError(text, len(secret)) from OSError(text)
    except ValueError:
        _log.exception("an endpoint could not be changed: %s", text)


REFUSED = SendResult(None, Trouble.CONNECT, 0.5)
Say: TypeAlias = Callable[[EventLog, str], None]
WAYS: dict[str, Say] = {
    "a breaker's reason": lambda log, text: log.changed(transition(reason=text)),
    "a breaker's key": lambda log, text: log.changed(transition(key=text)),
    "who did it": lambda log, text: log.changed(transition(actor=text)),
    "an event type": lambda log, text: log.attempted(attempted(REFUSED, event_type=text)),
    "the reason of an attempt": lambda log, text: log.attempted(attempted(REFUSED, reason=text)),
    "what went wrong": lambda log, text: log.attempted(attempted(REFUSED._replace(detail=text))),
    "why an endpoint fails": lambda log, text: log.failing(
        Occurrence(Event.FAILING, "k", 1, "a", "app_1", 0, "ep_1", {"stage_ms": 1, "since_ms": 1, "reason": text})
    ),
    "an error": lambda log, text: _log.warning("an endpoint could not be changed: %s", text),
    "a URL": lambda log, text: _log.warning("%s could not be used", f"https://example.com/{text}"),
    "a name": lambda log, text: _log.error("%s was renamed", text),
    "an exception": lambda log, text: fail(text),
}
FORMS = {
    "json": ("json", io.StringIO),
    "console": ("console", io.StringIO),
    "terminal": ("auto", Terminal),
}


@pytest.fixture
def _root() -> Iterator[None]:
    """The logs of the tests themselves are set up as before when it ends."""
    root, ours = logging.getLogger(), logging.getLogger("hookfuse")
    before = (root.handlers, root.level, ours.level)
    yield
    root.handlers = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def logging_to(form: str) -> tuple[Settings, io.StringIO]:
    """The logs as the program sets them up."""
    chosen, kind = FORMS[form]
    settings, stream = load({"HOOKFUSE_LOG_FORMAT": chosen}).settings, kind()
    set_up_logs(settings, stream)
    return settings, stream


def check(written: str, form: str, *, many: bool = False) -> None:
    """It is one line, or with an exception several of which only the first begins like one; all of it is printable."""
    lines = COLOURS.sub("", written).removesuffix("\n").split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    if not many or form == "json":
        assert len(lines) == 1, lines
    assert all(line.startswith("    ") for line in lines[1:]), lines


@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_text_is_inert(way: str, form: str) -> None:
    """Whoever's text it is and whatever it holds, a line stays one line and tells a terminal nothing."""
    for name, text in SIGNS.items():
        settings, stream = logging_to(form)
        WAYS[way](EventLog(settings, stream), text)
        written = stream.getvalue()
        assert "pwned" in written, name
        check(written, form, many=way == "an exception")
        assert SECRET not in written, "the values of variables are nobody's to read"
        if form == "json":
            assert text in "".join(map(str, json.loads(written).values())), f"{name}: programs read it as it is"


ANSWERS = {
    "status line": "HTTP/1.1 500 {}\r\ncontent-length: 0\r\n\r\n",
    "header": "HTTP/1.1 500 No\r\nx-a: {}\r\nretry-after: {}\r\ncontent-length: 0\r\n\r\n",
    "name of a header": "HTTP/1.1 500 No\r\n{}: a\r\ncontent-length: 0\r\n\r\n",
    "body": "HTTP/1.1 500 No\r\nconnection: close\r\n\r\n{}",
    "chunk": "HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n{}\r\n",
    "no HTTP": "{}",
}


@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", ANSWERS)
def test_an_answer_is_inert(place: str, form: str) -> None:
    """Wherever in its answer an endpoint puts such signs, the line of the attempt has none of them."""

    async def sent(answer: bytes) -> SendResult:
        sender = HttpSender(LOOPBACK)
        async with receiving(once(answer)) as receiver:
            try:
                return await sender.send(request(receiver.url()))
            finally:
                await sender.close()

    for text in SIGNS.values():
        result = asyncio.run(sent(ANSWERS[place].replace("{}", text).encode()))
        settings, stream = logging_to(form)
        EventLog(settings, stream).attempted(attempted(result))
        check(stream.getvalue(), form)
        assert "pwned" not in stream.getvalue(), "an answer is not for the logs"
