"""Endpoints of a running service, over its API, and what brings them back: try, rotate, recover."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hookfuse.cli.confirming import ask_before_deleting
from hookfuse.cli.following import follow_task
from hookfuse.cli.options import App, EndpointId, FromThen, Json, Limit, Uid, Until, Yes, span_of
from hookfuse.cli.remote import Remote, path
from hookfuse.cli.rows import print_done, print_rows, print_thing
from hookfuse.cli.speaking import errors_in_one_sentence
from hookfuse.cli.times import milliseconds

endpoints = typer.Typer(help="Endpoints: where an application's messages go.", no_args_is_help=True)

_COLUMNS = {"ID": "id", "URL": "url", "DISABLED": "disabled", "PAUSED": "paused", "TYPES": "filterTypes"}
_DAY_SECONDS = 86_400


@endpoints.command("create")
def create_endpoint(
    app: App,
    url: Annotated[str, typer.Argument(help="Where to send.")],
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only messages of this type; repeat it for more.")
    ] = None,
    uid: Uid = "",
    json: Json = False,
) -> None:
    """Make an endpoint."""
    body: dict[str, Any] = {"url": url, "uid": uid or None, "filterTypes": types or None}
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.post(path("app", app, "endpoint"), body), as_json=json)


@endpoints.command("list")
def list_endpoints(app: App, limit: Limit = None, json: Json = False) -> None:
    """The endpoints of an application."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        found = remote.pages(path("app", app, "endpoint"), limit)
        print_rows(found, _COLUMNS, as_json=json, none="It has no endpoint yet.")


@endpoints.command("show")
def show_endpoint(app: App, endpoint: EndpointId, json: Json = False) -> None:
    """One endpoint."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.get(path("app", app, "endpoint", endpoint)), as_json=json)


@endpoints.command("secret")
def show_secret(app: App, endpoint: EndpointId, json: Json = False) -> None:
    """The secret that its receiver verifies with; asking is written to the audit log."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.get(path("app", app, "endpoint", endpoint, "secret")), as_json=json)


@endpoints.command("pause")
def pause_endpoint(app: App, endpoint: EndpointId, json: Json = False) -> None:
    """Send nothing to it; messages are kept."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.post(path("app", app, "endpoint", endpoint, "pause")), as_json=json)


@endpoints.command("resume")
def resume_endpoint(app: App, endpoint: EndpointId, json: Json = False) -> None:
    """Send again."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.post(path("app", app, "endpoint", endpoint, "resume")), as_json=json)


@endpoints.command("delete")
def delete_endpoint(app: App, endpoint: EndpointId, yes: Yes = False, json: Json = False) -> None:
    """Delete an endpoint; what waits for it is cancelled. Asks first on a terminal."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        if not yes:
            ask_before_deleting(remote, app, endpoint)
        remote.delete(path("app", app, "endpoint", endpoint))
        print_done(endpoint, "deleted", as_json=json)


@endpoints.command("test")
def try_endpoint(app: App, endpoint: EndpointId, json: Json = False) -> None:
    """Send a signed test message now, also to a disabled endpoint; exit code 1 if it is not taken."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        tried = remote.post(path("app", app, "endpoint", endpoint, "test"))
        print_thing(tried if json else {**tried, "latency": milliseconds(tried["latency"])}, as_json=json)
        if not tried["ok"]:
            raise typer.Exit(1)


@endpoints.command("rotate")
def rotate_secret(
    app: App,
    endpoint: EndpointId,
    overlap: Annotated[
        int, typer.Option("--overlap", min=0, help="Seconds for which the old secret signs, too.")
    ] = _DAY_SECONDS,
    json: Json = False,
) -> None:
    """Sign with a new secret, and for a time with the old one as well."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        body = {"gracePeriodSeconds": overlap}
        print_thing(remote.post(path("app", app, "endpoint", endpoint, "secret", "rotate"), body), as_json=json)


@endpoints.command("recover")
def recover(
    app: App,
    endpoint: EndpointId,
    since: FromThen,
    until: Until = "",
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    json: Json = False,
) -> None:
    """Send again what failed in a time, and what was held: counted first, and Ctrl-C cancels half-way."""
    where = path("app", app, "endpoint", endpoint, "recover")
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        span = span_of(since, until)
        counted = remote.get(where, **span)
        if dry_run or not counted["total"]:
            print_thing(counted, as_json=json)
            return
        asking = f"Send {counted['failed']:,} that failed again, and {counted['held']:,} that are held?"
        if not yes and not typer.confirm(asking, err=True):
            raise typer.Exit(1)
        begun = remote.post(where, span)
        task = remote.get(path("app", app, "task", begun["id"]))
        print_thing(follow_task(remote, app, task, counted["total"]), as_json=json)
