"""How the command line speaks: to people in colour or plainly, to programs in JSON, of errors in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.text import Text

from hookfuse.cli.remote import RemoteError
from hookfuse.core.inert import inert as inert
from hookfuse.errors import HookfuseError, InvalidInput, StoreUnavailable

for_programs: ContextVar[bool] = ContextVar("for_programs", default=False)
"""Whether the command was given --json: then errors are JSON, too."""


def words(text: str, style: str = "") -> Text:
    """Someone's text for rich: inert, and no markup."""
    return Text(inert(text), style)


def console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def progress(*columns: ProgressColumn) -> Progress:
    """What is shown on stderr while something lasts, on a terminal only; elsewhere not even an empty line is left."""
    place = console(stderr=True)
    place.quiet = not place.is_terminal
    return Progress(*columns, console=place, transient=True)


def say(text: Text | str, *, stderr: bool = False) -> None:
    """One line, which only the terminal itself may wrap."""
    console(stderr=stderr).print(text, soft_wrap=True)


def say_json(record: Mapping[str, object], *, stderr: bool = False) -> None:
    """One object on one line. ASCII, so its strings are inert too."""
    typer.echo(json.dumps(record).replace("\x7f", "\\u007f"), err=stderr)


def refuse(sentence: str, exit_code: int = 2) -> typer.Exit:
    """Wrong use: say what would do."""
    return _fail(sentence, "wrong_use", exit_code)


@contextmanager
def errors_in_one_sentence() -> Iterator[None]:
    try:
        yield
    except HookfuseError as error:
        raise _fail(str(error), _code(error), 2 if isinstance(error, InvalidInput) else 1) from error


def _code(error: HookfuseError) -> str:
    match error:
        case RemoteError():
            return error.code
        case InvalidInput():
            return "invalid_input"
        case StoreUnavailable():
            return "unavailable"
        case _:
            return "failed"


def _fail(sentence: str, code: str, exit_code: int) -> typer.Exit:
    if for_programs.get():
        say_json({"error": {"code": code, "detail": sentence}}, stderr=True)
    else:
        say(Text.assemble(("Error: ", "bold red"), words(sentence)), stderr=True)
    return typer.Exit(exit_code)
