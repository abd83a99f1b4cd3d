"""`hookfuse serve`, `hookfuse api` and `hookfuse worker`: the service, whole or in parts."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

from hookfuse.cli.options import Config, DataDir, Host, Port, load_settings
from hookfuse.cli.speaking import errors_in_one_sentence, refuse, say
from hookfuse.config import Loaded, Settings

if TYPE_CHECKING:
    import socket

    from hookfuse.app.first_start import Started

PANEL = "Run"
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=PANEL)(serve)
    app.command(rich_help_panel=PANEL)(api)
    app.command(rich_help_panel=PANEL)(worker)


def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    config: Config = None,
    workers: Annotated[
        int,
        typer.Option("--workers", min=1, max=256, help="Processes on the port; above 1 on Postgres and Redis only."),
    ] = 1,
) -> None:
    """Everything in one process: the API, delivery, health and metrics. Ctrl-C ends it in good order."""
    with errors_in_one_sentence():
        loaded = load_settings(config, host=host, port=port, data_dir=data_dir)
        _check_shareable(loaded.settings, workers)
        raise typer.Exit(_run(loaded, "serve", workers, _welcome))


def api(host: Host = None, port: Port = None, data_dir: DataDir = None, config: Config = None) -> None:
    """Only the API, on Postgres and Redis: run as many as you like."""
    with errors_in_one_sentence():
        loaded = load_settings(config, host=host, port=port, data_dir=data_dir)
        _check_many(loaded.settings)
        raise typer.Exit(_run(loaded, "api", 1, _welcome))


def worker(
    host: Host = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Where to serve health and metrics; else nowhere.", show_default=False)
    ] = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Only delivery, on Postgres and Redis: run as many as you like."""
    with errors_in_one_sentence():
        loaded = load_settings(config, host=host, port=port, data_dir=data_dir)
        _check_many(loaded.settings)
        raise typer.Exit(_run(loaded, "worker", 1, _say_working, listens=port is not None))


def _check_shareable(settings: Settings, workers: int) -> None:
    if workers > 1 and settings.embedded:
        raise refuse(
            "SQLite serves exactly one process, so --workers must be 1; "
            "for more, name a Postgres in HOOKFUSE_DATABASE_URL."
        )
    if workers > 1 and settings.redis_url is None:
        raise refuse("Several processes share their breakers through Redis; name one in HOOKFUSE_REDIS_URL.")


def _check_many(settings: Settings) -> None:
    if settings.embedded:
        raise refuse(
            "SQLite serves exactly one process: run `hookfuse serve`, or name a Postgres in HOOKFUSE_DATABASE_URL."
        )


def _run(
    loaded: Loaded, part: str, workers: int, started: Callable[[Settings, Started], None], *, listens: bool = True
) -> int:
    from hookfuse.app.first_start import make_folder
    from hookfuse.app.parts import bind

    settings = loaded.settings
    for sentence in loaded.unknown:
        say(f"Note: {sentence}", stderr=True)
    make_folder(settings)
    sock = bind(settings) if listens else None
    if workers == 1:
        return _run_one(settings, part, sock, started)
    return _run_many(settings, part, sock, started, workers)


def _run_one(
    settings: Settings, part: str, sock: socket.socket | None, started: Callable[[Settings, Started], None]
) -> int:
    import asyncio

    import uvloop

    from hookfuse.app.logs import set_up_logs
    from hookfuse.app.service import Part, Service

    set_up_logs(settings)

    async def run() -> None:
        await Service(settings, Part(part), sock, lambda now: started(settings, now)).run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    return 0


def _run_many(
    settings: Settings,
    part: str,
    sock: socket.socket | None,
    started: Callable[[Settings, Started], None],
    workers: int,
) -> int:
    import asyncio

    from hookfuse.app.first_start import Started, prepare
    from hookfuse.app.processes import Processes

    address = None if sock is None else sock.getsockname()[:2]
    admin_key = asyncio.run(prepare(settings))
    started(settings, Started(address, admin_key))

    def work() -> int:
        return _run_one(settings, part, sock, lambda settings, started: None)

    return Processes(workers, work).run()


def _say_working(settings: Settings, started: Started) -> None:
    say("Delivering; Ctrl-C ends in good order.")


def _welcome(settings: Settings, started: Started) -> None:
    assert started.address is not None
    host, port = started.address
    url = f"http://{_shown_host(_EVERYWHERE.get(host, host))}:{port}"
    typer.echo(f"Hookfuse {version('hookfuse')} is ready at {url}; Ctrl-C ends it in good order.")
    if started.admin_key is not None:
        _explain_first_steps(settings, url, started.admin_key)
    sys.stdout.flush()


def _explain_first_steps(settings: Settings, url: str, key: str) -> None:
    program = _program()
    typer.echo(f"\nThis was the first start. Everything is in {settings.data_dir}: that folder is what to back up.")
    typer.echo("The admin key, which is shown only this once:\n")
    # On a line of its own and never wrapped, so that it can be copied whole.
    typer.echo(f"{key}\n")
    if settings.dashboard:
        typer.echo(f"Open {url} in a browser and log in with it to see everything move.\n")
    typer.echo("Three commands to copy into another terminal; the last one's message arrives at the second:\n")
    typer.echo(f"  export HOOKFUSE_URL={url} HOOKFUSE_API_KEY={key}; {program} app create demo")
    typer.echo(f"  {program} listen --app demo --background")
    typer.echo(f"""  {program} message send demo order.paid '{{"id": 1, "total": "9.99"}}'""")
    if not settings.allowed_networks:
        typer.echo(
            "\nThe second needs deliveries to this machine to be allowed: HOOKFUSE_ALLOWED_NETWORKS=127.0.0.1/32"
        )


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
