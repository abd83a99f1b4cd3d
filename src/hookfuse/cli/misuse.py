"""Words that are no command of ours: the parser finds them before any command runs, and tells people at length.

Programs, which said --json, are told as of any other error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from hookfuse.cli.speaking import for_programs, refuse


class Commands(TyperGroup):
    """All commands; knows from the beginning whether a program asks."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        before = for_programs.set("--json" in (sys.argv[1:] if args is None else args))
        try:
            return super().main(args, *more, **options)
        finally:
            for_programs.reset(before)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            # The parser's own errors are known by this; which module they are of depends on the version of typer.
            said = getattr(error, "format_message", None)
            if said is None or not for_programs.get():
                raise
            raise refuse(said(), getattr(error, "exit_code", 2)) from error
