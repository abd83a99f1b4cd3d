"""The command line: `hookfuse breakers ...`, for people who look after breakers that a fleet shares.

    commands   what can be typed, and what each command does
    speaking   how it speaks: consoles, JSON, errors in one sentence
    words      a breaker in words: its condition, why, what comes next
    times      instants and durations, as people write and read them
    listing    the table of `list`, or cards where it does not fit
    showing    the page of `show`
    orders     what an order changed, in one line
    watching   transitions as they happen
    records    the same things for programs

Keys, reasons and errors are other people's text: whatever is shown goes through `speaking.inert` first.
"""

from __future__ import annotations

import sys

_EXTRAS = ("click", "redis", "rich", "typer")


def main() -> None:
    """Run the command line; without its extras, say how to get them."""
    try:
        from hookfuse.cli.commands import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRAS:
            raise
        sys.stderr.write('The command line needs its extras: pip install "hookfuse[cli,redis]"\n')
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign gets its number, not a traceback.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app()
