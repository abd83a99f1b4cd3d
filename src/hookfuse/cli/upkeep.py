"""Looking after the service: settings, doctor, status, migrations, master keys, retention."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from hookfuse.app.findings import Standing
from hookfuse.cli.options import Config, Json, load_settings
from hookfuse.cli.remote import Remote, RemoteError, path
from hookfuse.cli.rows import print_rows, print_thing
from hookfuse.cli.speaking import errors_in_one_sentence, inert, progress, say, say_json
from hookfuse.cli.times import stamp
from hookfuse.config import SETTINGS, Settings, shown, variable
from hookfuse.core.upkeep import Applied
from hookfuse.errors import InvalidInput
from hookfuse.ports import DeliveryStore

Advance: TypeAlias = Callable[[int, int | None], None]
"""How many so far, and of how many, if that is known."""
Work: TypeAlias = Callable[[Settings, Advance], Awaitable[dict[str, object]]]
"""Does something to many things, and returns what it did."""

_PANEL = "Look after it"
_MARKS = {
    Standing.GOOD: ("ok     ", "green"),
    Standing.POOR: ("warning", "yellow"),
    Standing.BAD: ("error  ", "bold red"),
}


def register(app: typer.Typer) -> None:
    for command in (config, doctor, status, healthcheck, migrate, reseal, prune):
        app.command(rich_help_panel=_PANEL)(command)


def config(config: Config = None, json: Json = False) -> None:
    """Every setting as it is in force, and where it came from; passwords are hidden."""
    with errors_in_one_sentence():
        loaded = load_settings(config)
    rows = [
        {
            "setting": name,
            "variable": variable(name),
            "value": shown(loaded.settings, name),
            "from": loaded.origins[name],
            "says": str(SETTINGS[name].metadata["says"]),
        }
        for name in SETTINGS
    ]
    print_rows(rows, {"VARIABLE": "variable", "VALUE": "value", "FROM": "from"}, as_json=json, none="")
    for sentence in loaded.unknown:
        say(f"Note: {inert(sentence)}", stderr=True)


def doctor(config: Config = None, json: Json = False) -> None:
    """Check everything that the service needs, and say what to do. Exit code 1: something does not work."""
    from hookfuse.app.doctor import examine

    with errors_in_one_sentence():
        loaded = load_settings(config)
        worst = Standing.GOOD

        async def look() -> None:
            nonlocal worst
            async for found in examine(loaded):
                worst = found.standing if found.standing is Standing.BAD else worst
                if json:
                    say_json(
                        {"about": found.about, "standing": found.standing, "says": found.says, "remedy": found.remedy}
                    )
                    continue
                mark = _MARKS[found.standing]
                say(Text.assemble(mark, f"  {inert(found.about)}: {inert(found.says)}."))
                if found.remedy:
                    say(Text(f"         {inert(found.remedy)}", "dim"))

        asyncio.run(look())
    raise typer.Exit(1 if worst is Standing.BAD else 0)


def status(json: Json = False) -> None:
    """How a running service is, by HOOKFUSE_URL, and with HOOKFUSE_API_KEY who leads. Exit code 1: it is not ready."""
    with errors_in_one_sentence(), Remote.of_environment(needs_key=False) as remote:
        try:
            found = remote.get("/readyz")
        except RemoteError as error:
            if not isinstance(error.body, dict) or "database" not in error.body:
                raise
            found = error.body
        leads = _leads(remote)
    print_thing({"url": remote.place, **found, **leads}, as_json=json)
    raise typer.Exit(0 if found["status"] == "ready" else 1)


def _leads(remote: Remote) -> dict[str, str]:
    """Who does which duty, if the key may know."""
    try:
        held = remote.get(path("duties"))["data"]
    except RemoteError:
        # Health needs no key, and a service that is not ready may not be able to say.
        return {}
    return {f"leads_{each['duty']}": f"{each['holder']} since {each['since']}" for each in held}


def healthcheck(json: Json = False) -> None:
    """Exit code 0 if the service at HOOKFUSE_URL answers, else 1: for containers."""
    with errors_in_one_sentence(), Remote.of_environment(needs_key=False) as remote:
        found = remote.get("/healthz")
    if json:
        say_json(found)


def migrate(config: Config = None, json: Json = False) -> None:
    """Bring the database up to date, and show which migrations it has."""
    with errors_in_one_sentence():
        settings = load_settings(config).settings
        applied = asyncio.run(_migrate(settings))
    rows = [{"number": each.number, "name": each.name, "applied": stamp(each.applied_ms / 1000)} for each in applied]
    if not json:
        say(f"{inert(shown(settings, 'database_url'))} is up to date.")
    print_rows(rows, {"MIGRATION": "name", "APPLIED": "applied"}, as_json=json, none="")


async def _migrate(settings: Settings) -> list[Applied]:
    from hookfuse.app.first_start import make_folder

    make_folder(settings)
    async with _opened(settings) as store:
        return list(await store.applied_migrations())


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[DeliveryStore]:
    from hookfuse.app.station import open_store, reach

    store = open_store(settings.database_url, pooled=settings.database_pooled)
    await reach(store, settings.database_url)
    try:
        yield store
    finally:
        await store.close()


def reseal(config: Config = None, json: Json = False) -> None:
    """Seal every secret anew with the newest master key, the first line of the key file."""
    from hookfuse.app.parts import station_settings
    from hookfuse.app.reseal import reseal
    from hookfuse.app.station import Station

    async def work(settings: Settings, advance: Advance) -> dict[str, object]:
        seen = changed = 0
        async with Station(station_settings(settings)) as station:
            async for so_far in reseal(station.store, station.sealer):
                seen, changed = so_far.seen, so_far.changed
                advance(seen, None)
        return {"endpoints": seen, "resealed": changed}

    with errors_in_one_sentence():
        _with_progress(_existing(load_settings(config).settings), "Sealing anew", work, as_json=json)


def prune(
    days: Annotated[
        float | None, typer.Option("--days", min=0.01, help="Else HOOKFUSE_RETENTION_DAYS.", show_default=False)
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Forget messages that are older than this and have come to their end everywhere."""
    from hookfuse.app.retention import prunable, prune

    async def work(settings: Settings, advance: Advance) -> dict[str, object]:
        gone = 0
        async with _opened(settings) as store:
            total = await prunable(store, settings.retention_days)
            async for gone in prune(store, settings.retention_days):
                advance(gone, total)
        return {"messages": gone, "days": settings.retention_days}

    with errors_in_one_sentence():
        settings = _existing(load_settings(config, retention_days=days).settings)
        if not settings.retention_days:
            raise InvalidInput(
                "HOOKFUSE_RETENTION_DAYS is 0, so messages are kept for ever; say --days to forget some."
            )
        _with_progress(settings, "Forgetting", work, as_json=json)


def _existing(settings: Settings) -> Settings:
    """For what looks after a database and should not make one: it would report success on an empty one."""
    file = Path(settings.database_url.removeprefix("sqlite://"))
    if settings.embedded and not file.exists():
        raise InvalidInput(
            f"There is no database {file.name} in {file.parent}; name the folder that has it in HOOKFUSE_DATA_DIR."
        )
    return settings


def _with_progress(settings: Settings, title: str, work: Work, *, as_json: bool) -> None:
    """A bar on stderr while it lasts, and only on a terminal; what was done is one line on stdout."""
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with progress(*columns) as shown_now:
        task = shown_now.add_task(title, total=None)

        async def run() -> dict[str, object]:
            return await work(settings, lambda number, total: shown_now.update(task, completed=number, total=total))

        done = asyncio.run(run())
    print_thing(done, as_json=as_json)
