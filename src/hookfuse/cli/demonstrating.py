"""`hookfuse demo`: the whole idea in one minute."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hookfuse.cli.speaking import console, errors_in_one_sentence, say_json
from hookfuse.errors import HookfuseError

if TYPE_CHECKING:
    from hookfuse.demo.settings import Wanted
    from hookfuse.demo.show import Ending

_STOPPED = 130


def demo(
    seconds: Annotated[float, typer.Option("--for", metavar="SECONDS", help="How long the story takes.")] = 60.0,
    port: Annotated[int, typer.Option("--port", help="The port on this machine; 0 for any.")] = 0,
    workers: Annotated[
        int, typer.Option("--workers", help="Worker processes that share their breakers; above 1 with both URLs.")
    ] = 1,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url",
            metavar="URL",
            help="A Postgres; a database is made in it and dropped.",
            show_default=False,
        ),
    ] = None,
    redis_url: Annotated[
        str | None, typer.Option("--redis-url", metavar="URL", help="A Redis for the breakers.", show_default=False)
    ] = None,
    headless: Annotated[
        bool,
        typer.Option("--headless", "--json", help="End with the story; stdout gets one line of JSON, the sums."),
    ] = False,
) -> None:
    """Six receivers, one of which dies, and a story of a minute. Exit code 1: a turn of it did not happen."""
    with errors_in_one_sentence():
        from hookfuse.demo.plan import Plan
        from hookfuse.demo.settings import Wanted

        lasting = not headless and sys.stdin.isatty() and sys.stdout.isatty()
        ending = _play(Wanted(Plan(seconds), port, workers, database_url, redis_url, lasting), quiet=headless)
        if ending.totals is None:
            raise typer.Exit(_STOPPED)
        if headless:
            say_json(asdict(ending.totals))
        if ending.missed:
            raise HookfuseError(ending.missed)


def _play(wanted: Wanted, *, quiet: bool) -> Ending:
    import asyncio

    import uvloop

    from hookfuse.demo.show import play
    from hookfuse.demo.telling import Teller

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(play(wanted, Teller(console(stderr=quiet))))
