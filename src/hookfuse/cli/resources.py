"""Applications, keys and policies of a running service, over its API."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any

import typer

from hookfuse import profiles
from hookfuse.cli.confirming import ask_before_deleting
from hookfuse.cli.options import App, Json, Limit, OfApp, OfEndpoint, Uid, Yes
from hookfuse.cli.remote import Remote, path
from hookfuse.cli.rows import print_done, print_rows, print_thing
from hookfuse.cli.speaking import errors_in_one_sentence, refuse
from hookfuse.core.access import Role
from hookfuse.core.ids import IdKind, check_uid
from hookfuse.errors import InvalidInput

apps = typer.Typer(help="Applications: the tenants of the service.", no_args_is_help=True)
keys = typer.Typer(help="API keys.", no_args_is_help=True)
policies = typer.Typer(help="Breaker policies: the default, an application's, an endpoint's.", no_args_is_help=True)

_APP_COLUMNS = {"ID": "id", "UID": "uid", "NAME": "name", "CREATED": "createdAt"}
_KEY_COLUMNS = {
    "ID": "id",
    "ROLE": "role",
    "NAME": "name",
    "APP": "appId",
    "USED": "lastUsedAt",
    "REVOKED": "revokedAt",
}


@apps.command("create")
def create_app(
    name: Annotated[str, typer.Argument(help="What people call it; also its uid, if it can be one.")],
    uid: Uid = "",
    json: Json = False,
) -> None:
    """Make an application, or show the one that has this uid already."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        body = {"name": name, "uid": uid or _uid_of(name)}
        print_thing(remote.post(f"{path('app')}?get_if_exists=true", body), as_json=json)


def _uid_of(name: str) -> str | None:
    try:
        return check_uid(IdKind.APP, name)
    except InvalidInput:
        return None


@apps.command("list")
def list_apps(limit: Limit = None, json: Json = False) -> None:
    """Every application."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_rows(remote.pages(path("app"), limit), _APP_COLUMNS, as_json=json, none="There is no application yet.")


@apps.command("show")
def show_app(app: App, json: Json = False) -> None:
    """One application."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.get(path("app", app)), as_json=json)


@apps.command("delete")
def delete_app(app: App, yes: Yes = False, json: Json = False) -> None:
    """Delete an application with its endpoints; what waits is cancelled. Asks first on a terminal."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        if not yes:
            ask_before_deleting(remote, app)
        remote.delete(path("app", app))
        print_done(app, "deleted", as_json=json)


@apps.command("pause")
def pause_app(app: App, json: Json = False) -> None:
    """Send nothing to any of its endpoints; messages are kept."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.post(path("app", app, "pause")), as_json=json)


@apps.command("resume")
def resume_app(app: App, json: Json = False) -> None:
    """Send again."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.post(path("app", app, "resume")), as_json=json)


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    role: Annotated[Role, typer.Option("--role", help="admin: everything; app: one application; read: looking only.")],
    app: Annotated[str, typer.Option("--app", help="The application it is for.", show_default=False)] = "",
    json: Json = False,
) -> None:
    """Make a key. It is shown this once."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        made = remote.post(path("key"), {"name": name, "role": role.value, "appId": app or None})
        print_thing(made, as_json=json)


@keys.command("list")
def list_keys(json: Json = False) -> None:
    """Every key, without the keys themselves."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_rows(remote.pages(path("key")), _KEY_COLUMNS, as_json=json, none="There is no key.")


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="As `list` shows it.")], json: Json = False
) -> None:
    """Refuse a key from now on, everywhere within five seconds."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        remote.delete(path("key", key_id))
        print_done(key_id, "revoked", as_json=json)


@policies.command("show")
def show_policy(app: OfApp = "", endpoint: OfEndpoint = "", json: Json = False) -> None:
    """What holds for an endpoint, an application, or by default, and where it is set."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.get(_policy_path(app, endpoint)), as_json=json)


@policies.command("set")
def set_policy(
    policy: Annotated[str, typer.Argument(help="A profile's name, or a policy as JSON.")],
    app: OfApp = "",
    endpoint: OfEndpoint = "",
    json: Json = False,
) -> None:
    """Set it for an endpoint, an application, or by default; every worker heeds it at its next call."""
    if policy in profiles.__all__:
        body: dict[str, Any] = {"profile": policy}
    else:
        try:
            body = {"policy": json_text.loads(policy)}
        except ValueError:
            raise refuse(f"A policy is JSON, or one of {', '.join(profiles.__all__)}.") from None
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.put(_policy_path(app, endpoint), body), as_json=json)


@policies.command("reset")
def reset_policy(app: OfApp = "", endpoint: OfEndpoint = "", json: Json = False) -> None:
    """Take an endpoint's or an application's own policy away, or the default that was set: the next level holds."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        where = _policy_path(app, endpoint)
        remote.delete(where)
        print_thing(remote.get(where), as_json=json)


def _policy_path(app: str, endpoint: str) -> str:
    if endpoint and not app:
        raise InvalidInput("An endpoint is named together with its application: --app APP --endpoint ENDPOINT.")
    if endpoint:
        return path("app", app, "endpoint", endpoint, "policy")
    return path("app", app, "policy") if app else path("policy")
