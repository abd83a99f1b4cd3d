"""Breakers of a running service, over its API. Those of your own workers are under `hookfuse breakers`."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from hookfuse.cli.options import App, EndpointId, Json, Limit, OfApp, OfEndpoint
from hookfuse.cli.remote import Remote, path
from hookfuse.cli.rows import print_rows, print_thing
from hookfuse.cli.speaking import errors_in_one_sentence, inert, refuse, say, say_json
from hookfuse.cli.times import read_duration, stamp
from hookfuse.core.state import State

breaker = typer.Typer(help="Breakers of the service's endpoints.", no_args_is_help=True)

Reason = Annotated[str, typer.Option("--reason", help="Why; everyone sees it.", show_default=False)]

_COLUMNS = {
    "KEY": "key",
    "STATE": "state",
    "OVERRIDE": "override",
    "WHY": "why",
    "SINCE": "changedAt",
    "NEXT PROBE": "probeAt",
    "HELD": "held",
}
_HISTORY = {
    "AT": "at",
    "KEY": "key",
    "FROM": "before",
    "TO": "after",
    "OVERRIDE": "override",
    "WHY": "why",
    "BY": "actor",
}
_LOOK_EVERY = 1.0


@breaker.command("list")
def list_breakers(
    app: OfApp = "",
    state: Annotated[State | None, typer.Option("--state", help="Only those.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Every breaker that is not plainly closed, of one application or of all."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        found = remote.pages(_where(app), state=None if state is None else state.value)
        print_rows(found, _COLUMNS, as_json=json, none="All breakers are closed.")


@breaker.command("show")
def show(app: App, endpoint: EndpointId, json: Json = False) -> None:
    """Everything that is known of an endpoint's breaker."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.get(path("app", app, "breaker", endpoint)), as_json=json)


@breaker.command("history")
def history(app: OfApp = "", endpoint: OfEndpoint = "", limit: Limit = 50, json: Json = False) -> None:
    """What breakers did, newest first: of an endpoint, of an application, or of all."""
    if endpoint and not app:
        raise refuse("An endpoint is named together with its application: --app APP --endpoint ENDPOINT.")
    if endpoint:
        where = path("app", app, "breaker", endpoint, "transition")
    else:
        where = path("app", app, "transition") if app else path("transition")
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_rows(remote.pages(where, limit), _HISTORY, as_json=json, none="No breaker has changed yet.")


@breaker.command("force")
def force(
    app: App,
    endpoint: EndpointId,
    to: Annotated[str, typer.Argument(metavar="open|closed", help="Refuse every call, or let every call pass.")],
    lasts: Annotated[str, typer.Option("--for", metavar="DURATION", help="30m, 2h, 1d; else for good.")] = "",
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Have the last word, for a time or for good."""
    if to not in ("open", "closed"):
        raise refuse("A breaker is forced open or closed.")
    body: dict[str, Any] = {"to": to, "reason": reason}
    if lasts:
        try:
            body["until"] = _iso(time.time() + read_duration(lasts))
        except ValueError as error:
            raise refuse(f"--for cannot be read: {error}.") from None
    _order(app, endpoint, "force", body, as_json=json)


def _add_order(name: str, explanation: str) -> None:
    def command(app: App, endpoint: EndpointId, reason: Reason = "", json: Json = False) -> None:
        _order(app, endpoint, name, {"reason": reason}, as_json=json)

    breaker.command(name, help=explanation)(command)


_add_order("unforce", "End an override.")
_add_order("reset", "Close it, with nothing held against the endpoint.")
_add_order("probe", "Let the next delivery try the endpoint now.")
_add_order("disable", "Refuse every call until someone enables it.")
_add_order("enable", "Let a disabled one probe again.")


@breaker.command("watch")
def watch(app: OfApp = "", json: Json = False) -> None:
    """What changes, one line each, until Ctrl-C."""
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        seen = _unhealthy(remote, app)
        try:
            while True:
                time.sleep(_LOOK_EVERY)
                found = _unhealthy(remote, app)
                for key in sorted(found.keys() | seen.keys()):
                    _tell(key, seen.get(key), found.get(key), as_json=json)
                seen = found
        except KeyboardInterrupt:
            pass


def _tell(key: str, before: dict[str, Any] | None, after: dict[str, Any] | None, *, as_json: bool) -> None:
    was, now = (each and (each["state"], each["override"], each["generation"]) for each in (before, after))
    if was == now:
        return
    if as_json:
        say_json({"key": key, "before": before and before["state"], "after": after and after["state"], "now": after})
    else:
        condition = "closed" if after is None else _condition(after)
        say(f"{stamp(time.time())}  {inert(key)}  {condition}  {inert(after['why']) if after else ''}".rstrip())
    sys.stdout.flush()


def _condition(found: dict[str, Any]) -> str:
    return str(found["state"]) if found["override"] == "none" else f"forced_{found['override']}"


def _unhealthy(remote: Remote, app: str) -> dict[str, dict[str, Any]]:
    return {each["key"]: each for each in remote.pages(_where(app))}


def _where(app: str) -> str:
    return path("app", app, "breaker") if app else path("breaker")


def _order(app: str, endpoint: str, name: str, body: dict[str, Any], *, as_json: bool) -> None:
    with errors_in_one_sentence(), Remote.of_environment() as remote:
        print_thing(remote.post(path("app", app, "breaker", endpoint, name), body), as_json=as_json)


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
