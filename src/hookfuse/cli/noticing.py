"""Notices of a running service, over its API: who is told, and what became of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hookfuse.cli.options import App, Json, Limit, OfApp
from hookfuse.cli.remote import Remote, path
from hookfuse.cli.rows import print_done, print_rows, print_thing
from hookfuse.cli.speaking import errors_in_one_sentence, refuse
from hookfuse.core.notice import Event, NoticeState

notices = typer.Typer(help="Notices: who is told of failing endpoints.", no_args_is_help=True)

_COLUMNS = {
    "AT": "at",
    "TYPE": "type",
    "CHANNEL": "channel",
    "APP": "appId",
    "ENDPOINT": "endpointId",
    "STATE": "state",
    "ATTEMPTS": "attempts",
    "FOLDED": "folded",
    "REASON": "reason",
}

_TRIED = {"CHANNEL": "channel", "OK": "ok", "TROUBLE": "trouble"}


@notices.command("show")
def show(app: App, json: Json = False) -> None:
    """On which channels an application is told, and of what."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.get(path("app", app, "notices")), as_json=json)


@notices.command("set")
def set_notices(
    app: App,
    webhook: Annotated[str, typer.Option("--webhook", metavar="URL", help="For programs; signed.")] = "",
    email: Annotated[list[str] | None, typer.Option("--email", metavar="ADDRESS", help="May be repeated.")] = None,
    chat: Annotated[str, typer.Option("--chat", metavar="URL", help="The incoming webhook of a chat.")] = "",
    event: Annotated[list[Event] | None, typer.Option("--event", help="Only these; may be repeated.")] = None,
    quiet: Annotated[float | None, typer.Option("--quiet", metavar="SECONDS", help="The quiet window.")] = None,
    json: Json = False,
) -> None:
    """Choose who is told. What is not named is not used."""
    if not (webhook or email or chat):
        raise refuse("Name at least one of --webhook, --email and --chat.")
    body: dict[str, Any] = {"events": event or None, "quietSeconds": quiet}
    if webhook:
        body["webhook"] = {"url": webhook}
    if email:
        body["email"] = {"to": email}
    if chat:
        body["chat"] = {"url": chat}
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.put(path("app", app, "notices"), body), as_json=json)


@notices.command("reset")
def reset(app: App, json: Json = False) -> None:
    """Return to the defaults of the service."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        remote.delete(path("app", app, "notices"))
        print_done(app, "told by the defaults", as_json=json)


@notices.command("test")
def try_notices(app: OfApp = "", json: Json = False) -> None:
    """Send a test notice now, on every channel of one application, or of the service itself."""
    where = path("app", app, "notices", "test") if app else path("notices", "test")
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        found = remote.post(where)["data"]
        print_rows(found, _TRIED, as_json=json, none="No channel is set.")
    if not all(each["ok"] for each in found):
        raise typer.Exit(1)


@notices.command("list")
def list_notices(
    app: OfApp = "",
    state: Annotated[NoticeState | None, typer.Option("--state", help="Only those.", show_default=False)] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """Notices and what became of them, newest first, of one application or of all."""
    where = path("app", app, "notices", "outbox") if app else path("notices", "outbox")
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        found = remote.pages(where, limit, state=None if state is None else state.value)
        print_rows(found, _COLUMNS, as_json=json, none="There is no notice.")
