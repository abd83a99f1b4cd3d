"""The command line: run the service, look after it, use it, and decide over breakers that a fleet shares.

    commands   what can be typed, and `hookfuse breakers`
    running    serve, api, worker                      upkeep     config, doctor, status, migrate, reseal, prune
    receiving  listen                                  options    what many commands take
    demonstrating  demo
    resources  app, key, policy                        endpoints  endpoint
    messages   message, delivery                       following  a task of the service, with a bar
    guarding   breaker                                 noticing   notice
    attending  workers                                 remote     the API that these call
    speaking   how it speaks: consoles, JSON, errors in one sentence
    confirming asking before something is deleted
    misuse     words that are no command, told to programs
    rows       lists of plain things                   times      instants and durations, as people write them
    words      a breaker in words: its condition, why, what comes next
    listing    the table of `breakers list`            showing    the page of `breakers show`
    orders     what an order changed, in one line      watching   transitions as they happen
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
