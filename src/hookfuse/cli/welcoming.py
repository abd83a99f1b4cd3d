"""What a start says: where the service is, and on the first one the way to a first delivery.

Every command is printed so that it works as it is copied, however the service was started. The receiver of this walk is
on this machine, which is dialled only where that was allowed: elsewhere the walk begins with a start that allows it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import typer

from hookfuse.cli import receiving
from hookfuse.config import SETTINGS, Settings, load, variable
from hookfuse.config.settings import FILE
from hookfuse.core.addresses import Networks, parse_address

if TYPE_CHECKING:
    from hookfuse.app.first_start import Started

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_RECEIVER = f"{receiving.HOST}/32"


def welcome(settings: Settings, started: Started) -> None:
    assert started.address is not None
    host, port = started.address
    url = f"http://{_shown_host(_EVERYWHERE.get(host, host))}:{port}"
    typer.echo(f"Hookfuse {version('hookfuse')} is ready at {url}; Ctrl-C ends it in good order.")
    if started.admin_key is not None:
        _explain_first_start(settings, url, started.admin_key)
        _explain_first_steps(settings, url, port, started.admin_key)
    sys.stdout.flush()


def _explain_first_start(settings: Settings, url: str, key: str) -> None:
    typer.echo(f"\nThis was the first start. Everything is in {settings.data_dir}: that folder is what to back up.")
    typer.echo("The admin key, which is shown only this once:\n")
    # On a line of its own and never wrapped, so that it can be copied whole.
    typer.echo(f"{key}\n")
    if settings.dashboard:
        typer.echo(f"Open {url} in a browser and log in with it to see everything move.\n")


def _explain_first_steps(settings: Settings, url: str, port: int, key: str) -> None:
    program = _program()
    if not _may_reach_receiver(settings.allowed_networks, settings.forbidden_networks):
        if not _may_reach_receiver((_RECEIVER,), settings.forbidden_networks):
            typer.echo("HOOKFUSE_FORBIDDEN_NETWORKS has this machine: try it with a receiver on another one.")
            return
        typer.echo("Nothing may be sent to this machine yet. To try it here, end it with Ctrl-C and start it so:\n")
        typer.echo(f"  {_start_that_allows(settings, port, program)}\n")
    elsewhere = "" if port != receiving.PORT else f" --port {receiving.PORT + 1}"
    typer.echo("Three commands to copy into another terminal; the last one's message arrives at the second:\n")
    typer.echo(f"  export HOOKFUSE_URL={url} HOOKFUSE_API_KEY={key}{_folder(settings)}; {program} app create demo")
    typer.echo(f"  {program} listen --app demo --background{elsewhere}")
    typer.echo(f"""  {program} message send demo order.paid '{{"id": 1, "total": "9.99"}}'""")


def _folder(settings: Settings) -> str:
    """What commands that look after the data need, which would go to the default folder without it."""
    is_default = settings.data_dir == load({}).settings.data_dir
    return "" if is_default else f" HOOKFUSE_DATA_DIR={shlex.quote(str(settings.data_dir))}"


def _may_reach_receiver(allowed: tuple[str, ...], forbidden: tuple[str, ...]) -> bool:
    address = parse_address(receiving.HOST)
    assert address is not None
    return Networks(allowed=allowed, forbidden=forbidden).verdict(address, receiving.PORT) is None


def _start_that_allows(settings: Settings, port: int, program: str) -> str:
    """The command that started this, with the same data on the same port, and with this machine allowed."""
    given = {"HOOKFUSE_ALLOWED_NETWORKS": ",".join((*settings.allowed_networks, _RECEIVER)), **_given_before(settings)}
    before = " ".join(f"{name}={shlex.quote(value)}" for name, value in given.items())
    typed = sys.argv[1:]
    if not any(word.startswith("--data-dir") for word in typed):
        typed += ["--data-dir", str(settings.data_dir)]
    if settings.port == 0:
        typed += ["--port", str(port)]
    return f"{before} {program} {shlex.join(typed)}"


def _given_before(settings: Settings) -> dict[str, str]:
    """What was set in the environment, perhaps for that one command only; nothing that may hold a password."""
    said_otherwise = {"allowed_networks", "data_dir"} | ({"port"} if settings.port == 0 else set())
    kept = (name for name, each in SETTINGS.items() if name not in said_otherwise and not each.metadata["secret"])
    return {name: os.environ[name] for name in (FILE, *map(variable, kept)) if os.environ.get(name)}


def _program() -> str:
    """This program, as it can be typed anywhere."""
    name = os.path.basename(sys.argv[0])
    if name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m hookfuse"
    found = shutil.which(name)
    mine = os.path.abspath(sys.argv[0])
    return name if found and os.path.realpath(found) == os.path.realpath(mine) else shlex.quote(mine)


def _shown_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
