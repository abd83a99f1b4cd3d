"""Options that many commands take, said once."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hookfuse.cli.times import PAST, read_past
from hookfuse.config import Loaded, load
from hookfuse.errors import InvalidInput

Json = Annotated[bool, typer.Option("--json", help="JSON for programs: one object on each line.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings as TOML; else HOOKFUSE_CONFIG.", show_default=False),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="Else HOOKFUSE_DATA_DIR.", show_default=False),
]
Host = Annotated[
    str | None, typer.Option("--host", help="The address to listen on; else HOOKFUSE_HOST.", show_default=False)
]
Port = Annotated[
    int | None, typer.Option("--port", help="The port to listen on; else HOOKFUSE_PORT.", show_default=False)
]
App = Annotated[str, typer.Argument(metavar="APP", help="The application's id or uid.", show_default=False)]
EndpointId = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The endpoint's id or uid.", show_default=False)]
OfApp = Annotated[str, typer.Option("--app", help="The application's id or uid.", show_default=False)]
OfEndpoint = Annotated[str, typer.Option("--endpoint", help="The endpoint's id or uid.", show_default=False)]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.", show_default=False)]
Uid = Annotated[str, typer.Option("--uid", help="A name of your own that stands for the id.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

_FROM, _BEFORE = f"Accepted from then on: {PAST}.", f"Accepted before then: {PAST}."
FromThen = Annotated[str, typer.Option("--since", metavar="TIME", help=_FROM)]
Since = Annotated[str, typer.Option("--since", metavar="TIME", help=_FROM, show_default=False)]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help=_BEFORE, show_default=False)]


def span_of(since: str, until: str) -> dict[str, str | None]:
    """What was typed for --since and --until, as the API reads it."""
    return {"since": _instant("--since", since), "until": _instant("--until", until)}


def _instant(option: str, text: str) -> str | None:
    if not text:
        return None
    try:
        return datetime.fromtimestamp(read_past(text, time.time()), UTC).isoformat()
    except ValueError as error:
        raise InvalidInput(f"{option} cannot be read: {error}.") from None


def load_settings(config: Path | None = None, **typed: object) -> Loaded:
    """The settings, with what was typed over them."""
    return load(file=config, options=typed)
