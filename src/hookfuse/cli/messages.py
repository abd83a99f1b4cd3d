"""Messages and their deliveries in a running service, over its API."""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Container
from typing import Annotated, Any

import typer

from hookfuse.cli.following import follow_task
from hookfuse.cli.options import App, EndpointId, Json, Limit, OfEndpoint, Since, Until, Yes, span_of
from hookfuse.cli.remote import Remote, path
from hookfuse.cli.rows import print_rows, print_thing
from hookfuse.cli.speaking import errors_in_one_sentence, inert, refuse, say, say_json
from hookfuse.cli.times import read_instant, stamp
from hookfuse.core.delivery import DeliveryState

messages = typer.Typer(help="Messages: send, look, follow.", no_args_is_help=True)
deliveries = typer.Typer(help="Deliveries: one message for one endpoint.", no_args_is_help=True)

MessageId = Annotated[str, typer.Argument(metavar="MESSAGE", help="The message's id or event id.", show_default=False)]
States = Annotated[list[DeliveryState] | None, typer.Option("--state", help="Only in this state; repeat it for more.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="Only of this event type; repeat it for more.")]

_COLUMNS = {
    "MESSAGE": "msgId",
    "ENDPOINT": "endpointId",
    "STATE": "state",
    "ATTEMPTS": "attempts",
    "NEXT": "nextAttempt",
    "REASON": "reason",
}
_ATTEMPTS = {
    "AT": "timestamp",
    "ENDPOINT": "endpointId",
    "STATUS": "responseStatusCode",
    "MS": "responseDurationMs",
    "TROUBLE": "trouble",
    "DETAIL": "detail",
}
_LOOK_EVERY = 1.0
_REMEMBERED = 1_000


@messages.command("send")
def send(
    app: App,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as order.paid.", show_default=False)],
    payload: Annotated[
        str, typer.Argument(help="JSON, sent byte for byte; - reads it from stdin.", show_default=False)
    ],
    event_id: Annotated[str, typer.Option("--id", help="A name of your own for it.", show_default=False)] = "",
    idempotency_key: Annotated[
        str, typer.Option("--idempotency-key", help="Sending again with it changes nothing.", show_default=False)
    ] = "",
    json: Json = False,
) -> None:
    """Send a message to every endpoint of an application that wants it."""
    text = sys.stdin.read() if payload == "-" else payload
    try:
        json_text.loads(text)
    except ValueError as error:
        raise refuse(f"The payload is not JSON: {error}.") from None
    head = {"eventType": event_type, **({"eventId": event_id} if event_id else {})}
    # Put in as it is: parsed and written anew it might no longer be the same bytes.
    body = f'{json_text.dumps(head)[:-1]}, "payload": {text}}}'.encode()
    headers = {"idempotency_key": idempotency_key} if idempotency_key else {}
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        sent = remote.post(path("app", app, "msg"), body, **headers)
        print_thing({name: value for name, value in sent.items() if name != "payload"}, as_json=json)


@messages.command("show")
def show(app: App, message: MessageId, json: Json = False) -> None:
    """A message, and every attempt to deliver it."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        found = remote.get(path("app", app, "msg", message))
        attempts = list(remote.pages(path("app", app, "attempt", "msg", found["id"])))
    if json:
        say_json({**found, "attempts": attempts})
        return
    print_thing(found, as_json=False)
    say("")
    # The API says 0 for no status, as SDKs expect it.
    shown = ({**each, "responseStatusCode": each["responseStatusCode"] or None} for each in attempts)
    print_rows(shown, _ATTEMPTS, as_json=False, none="There was no attempt yet.")


@messages.command("tail")
def tail(app: App, json: Json = False) -> None:
    """Messages as they are accepted, until Ctrl-C."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        seen = dict.fromkeys(each["id"] for each in _page(remote, app)["data"])
        try:
            while True:
                for each in reversed(_unseen(remote, app, seen)):
                    seen[each["id"]] = None
                    _tell(each, as_json=json)
                for oldest in list(seen)[:-_REMEMBERED]:
                    del seen[oldest]
                time.sleep(_LOOK_EVERY)
        except KeyboardInterrupt:
            pass


def _unseen(remote: Remote, app: str, seen: Container[str]) -> list[dict[str, Any]]:
    """The newest first, as far back as nothing of a page was seen: a second may bring more than one page."""
    found: list[dict[str, Any]] = []
    page: dict[str, Any] = {"iterator": None, "done": False}
    while not page["done"]:
        page = _page(remote, app, iterator=page["iterator"])
        new = [each for each in page["data"] if each["id"] not in seen]
        found += new
        if len(new) < len(page["data"]):
            break
    return found


def _page(remote: Remote, app: str, **place: Any) -> dict[str, Any]:
    found: dict[str, Any] = remote.get(path("app", app, "msg"), limit=100, **place)
    return found


def _tell(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(found)
    else:
        text = json_text.dumps(found["payload"])
        say(f"{stamp(read_instant(found['timestamp']))}  {found['id']}  {inert(found['eventType'])}  {text[:200]}")
    sys.stdout.flush()


@deliveries.command("list")
def list_deliveries(
    app: App,
    state: States = None,
    endpoint: OfEndpoint = "",
    event_type: Types = None,
    since: Since = "",
    until: Until = "",
    limit: Limit = 100,
    json: Json = False,
) -> None:
    """Deliveries by state, oldest first."""
    query = {
        "state": [each.value for each in state or []] or None,
        "endpoint_id": endpoint or None,
        "event_types": event_type or None,
    }
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        found = remote.pages(path("app", app, "delivery"), limit, **query, **span_of(since, until))
        print_rows(found, _COLUMNS, as_json=json, none="There is none.")


@deliveries.command("retry")
def retry(app: App, message: MessageId, endpoint: EndpointId, json: Json = False) -> None:
    """Send one again, from the beginning of its schedule."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.post(path("app", app, "delivery", message, endpoint, "retry")), as_json=json)


@deliveries.command("cancel")
def cancel(app: App, message: MessageId, endpoint: EndpointId, json: Json = False) -> None:
    """End one that waits."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.post(path("app", app, "delivery", message, endpoint, "cancel")), as_json=json)


@deliveries.command("bulk-retry")
def bulk_retry(
    app: App,
    state: States = None,
    endpoint: OfEndpoint = "",
    event_type: Types = None,
    since: Since = "",
    until: Until = "",
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    json: Json = False,
) -> None:
    """Send many again: counted first, with a progress bar, and Ctrl-C cancels half-way."""
    body: dict[str, Any] = {
        "state": [each.value for each in state or [DeliveryState.FAILED]],
        "endpointId": endpoint or None,
        "eventTypes": event_type or None,
    }
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        body |= span_of(since, until)
        count = remote.post(path("app", app, "delivery", "retry"), {**body, "dryRun": True})["count"]
        if dry_run or not count:
            print_thing({"count": count}, as_json=json)
            return
        if not yes and not typer.confirm(f"Send {count:,} deliveries again?", err=True):
            raise typer.Exit(1)
        task = remote.post(path("app", app, "delivery", "retry"), body)["task"]
        print_thing(follow_task(remote, app, task, count), as_json=json)
