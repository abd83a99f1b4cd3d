"""Notices say what happened, and nothing that others wrote can do harm in them."""

from __future__ import annotations

import json
from email import message_from_bytes
from email.policy import default
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.mail import MailServer, check_address
from hookfuse.core.notice import Event, Notice, NoticeChannel, NoticeState
from hookfuse.delivery.notify_channels import compose
from hookfuse.delivery.notify_texts import Story, one_line
from hookfuse.errors import InvalidInput

EVIL = "x\r\nBcc: everyone@example.com\r\n\r\n<!channel> @here & \u2028\u202e"


def notice(event: Event = Event.ENDPOINT_DISABLED, **more: Any) -> Notice:
    facts = {"reason": "gone", "why": "gone", "actor": "worker", **more.pop("facts", {})}
    values: dict[str, Any] = {"folded": 0, "endpoint_id": "ep_1", **more}
    return Notice(
        id="ntc_01HF7YAT00CVA9JFTA0QTQW78F",
        event=event,
        channel=NoticeChannel.EMAIL,
        app_id="app_1",
        key="app_1/ep_1",
        generation=7,
        facts=facts,
        state=NoticeState.SENDING,
        attempts=1,
        due_ms=None,
        reason="",
        at_ms=1_700_000_000_000,
        created_ms=1_700_000_000_000,
        ended_ms=None,
        token=1,
        **values,
    )


def story(found: Notice, name: str = "Acme") -> Story:
    endpoint = Endpoint("ep_1", "app_1", "https://example.com/", uid="shop", description=EVIL)
    return Story(found, Application("app_1", name, uid="acme"), endpoint)


@pytest.mark.parametrize("event", list(Event))
def test_every_event_has_words(event: Event) -> None:
    """Every event has a subject, lines with time and names, and a payload of its type with Svix's names."""
    facts = {"message_id": "msg_1", "since_ms": 1_699_996_400_000, "stage_ms": 3_600_000}
    attempt = {"attempt": {"id": "atmpt_1", "at_ms": 1_700_000_000_000, "status": None}}
    told = story(notice(event, facts={**facts, **attempt}))
    about = "Hookfuse " if event.startswith(("service.", "notice.")) else "Endpoint shop (ep_1) "
    assert told.subject.startswith(about)
    assert "When: 2023-11-14 22:13:20 UTC" in told.lines
    assert "Application: Acme (app_1)" in told.lines
    body = json.loads(told.payload)
    assert (body["type"], body["timestamp"]) == (event.value, "2023-11-14T22:13:20.000Z")
    assert {name: body["data"][name] for name in ("appId", "appUid", "endpointId", "endpointUid")} == {
        "appId": "app_1",
        "appUid": "acme",
        "endpointId": "ep_1",
        "endpointUid": "shop",
    }
    if event in (Event.EXHAUSTED, Event.FAILING):
        assert body["data"]["msgId"] == "msg_1"
        assert body["data"]["lastAttempt"] == {
            "id": "atmpt_1",
            "timestamp": "2023-11-14T22:13:20.000Z",
            "responseStatusCode": 0,
        }


def test_who_did_it() -> None:
    """What a breaker or a worker did is automatic, what anyone else did is manual."""
    for actor, trigger in (("breaker", "automatic"), ("worker", "automatic"), ("key_1", "manual")):
        found = json.loads(story(notice(facts={"actor": actor})).payload)
        assert found["data"]["trigger"] == trigger


def test_what_was_folded() -> None:
    """A notice says for how many it speaks."""
    told = story(notice(folded=49))
    assert "Within the quiet window: 49 more, not told one by one" in told.lines
    assert json.loads(told.payload)["data"]["folded"] == 49


def test_a_breaker_that_several_share() -> None:
    """Without an endpoint the breaker is named by its key; without an application by its id."""
    told = Story(notice(Event.BREAKER_OPENED, endpoint_id=None))
    assert told.subject == "Breaker app_1/ep_1 is failing: its breaker opened"
    assert "endpointId" not in json.loads(told.payload)["data"]


@given(st.text(), st.text())
def test_no_header_can_be_smuggled_in(name: str, reason: str) -> None:
    """Whatever names and reasons hold, a mail has exactly its own headers, and reads back."""
    told = story(notice(facts={"why": reason + EVIL, "reason": EVIL, "actor": EVIL}), name + EVIL)
    content = compose(told, "hookfuse@example.com", ("a@example.com", "b@example.com"))
    mail = message_from_bytes(content, policy=default)
    assert sorted(map(str.lower, mail.keys())) == sorted(
        [
            *("from", "to", "subject", "date", "message-id", "auto-submitted", "x-hookfuse-event"),
            *("content-type", "content-transfer-encoding", "mime-version"),
        ]
    )
    assert mail["to"] == "a@example.com, b@example.com"
    assert mail["message-id"] == "<ntc_01HF7YAT00CVA9JFTA0QTQW78F@example.com>"
    assert all(len(line) <= 998 for line in content.split(b"\r\n"))
    assert "\n\nBcc" not in content.decode().replace("\r\n", "\n")
    # One line for each thing, so none that someone else made.
    assert len(told.lines) == len([line for each in told.lines for line in (each.splitlines() or [""])])


@given(st.text())
def test_one_line(text: str) -> None:
    """Other people's text stays on one line, and can be written in UTF-8."""
    found = one_line(text)
    assert len(found.splitlines()) <= 1
    assert len(found) <= 200
    found.encode()


def test_chats_call_nobody() -> None:
    """Neither links nor calls to people get into a chat."""
    text = story(notice(facts={"why": EVIL})).chat
    assert "<" not in text
    assert "@here" not in text
    assert "&lt;!channel&gt;" in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a@",
        "@b",
        "a b@c.d",
        "a@b\r\nc",
        "a@b.c\n",
        "<a@b.c>",
        "a@b..c",
        "\u00e9@b.c",
        "a@-b.c",
        "a" * 250 + "@b.c",
    ],
)
def test_addresses(text: str) -> None:
    """What is no plain e-mail address is refused."""
    with pytest.raises(InvalidInput):
        check_address(text)
    assert check_address("ops+hooks@mail.example.com")


@pytest.mark.parametrize(
    "url",
    [
        *("", "http://x", "smtp://", "smtp://h:0", "smtp://h/path", "smtp://h?x=1", "smtp://user@h", "smtp://:pw@h"),
        *("smtp://u:%0d%0aRSET@h", "smtp://h:99999"),
    ],
)
def test_mail_servers(url: str) -> None:
    """What names no mail server is refused, without repeating what may be a password."""
    with pytest.raises(InvalidInput, match="smtp://") as refused:
        MailServer.parse(url)
    assert "RSET" not in str(refused.value)
    assert MailServer.parse("smtp://u:p%40@h") == MailServer("h", 587, False, "u", "p@")
    assert MailServer.parse("smtps://h").port == 465
    assert "p%40" not in repr(MailServer.parse("smtp://u:p%40@h"))
