"""Options that many commands take, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hookfuse.config import Loaded, load

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


def load_settings(config: Path | None = None, **typed: object) -> Loaded:
    """The settings, with what was typed over them."""
    return load(file=config, options=typed)
