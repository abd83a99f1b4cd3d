"""`hookfuse serve`, `hookfuse api` and `hookfuse worker`: the service, whole or in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from hookfuse.cli.options import Config, DataDir, Host, Port, load_settings
from hookfuse.cli.speaking import errors_in_one_sentence, refuse, say
from hookfuse.cli.welcoming import welcome
from hookfuse.config import Loaded, Settings

if TYPE_CHECKING:
    import socket

    from hookfuse.app.first_start import Started

PANEL = "Run"


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
        raise typer.Exit(_run(loaded, "serve", workers, welcome))


def api(host: Host = None, port: Port = None, data_dir: DataDir = None, config: Config = None) -> None:
    """Only the API, on Postgres and Redis: run as many as you like."""
    with errors_in_one_sentence():
        loaded = load_settings(config, host=host, port=port, data_dir=data_dir)
        _check_many(loaded.settings)
        raise typer.Exit(_run(loaded, "api", 1, welcome))


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
