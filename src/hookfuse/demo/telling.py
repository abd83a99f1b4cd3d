"""What the terminal says: one line for each turn, and at the end the sums."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hookfuse.core.state import Transition
from hookfuse.demo.books import Totals
from hookfuse.demo.plan import Plan
from hookfuse.demo.receivers import CAST, IN_WORDS, VICTIM
from hookfuse.demo.story import Mood, Turn

_COLOURS: Mapping[Mood, str] = {Mood.GOOD: "green", Mood.BAD: "red", Mood.WAITING: "yellow"}
_TITLE_WIDTH = 28
_NAME_WIDTH = 11
_CALM = "dim"


class Teller:
    """Prints to a terminal, or plainly to whatever stands in its place."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def open(self, url: str, key: str, plan: Plan, workers: int) -> None:
        how = "one process" if workers == 1 else f"{workers} worker processes that share their breakers"
        self._line()
        self._line(("  Hookfuse demo", "bold"), (f"   six receivers · {how} · {plan.seconds:g} seconds", _CALM))
        self._line()
        self._line(("  Dashboard  ", _CALM), (url, "bold cyan"))
        self._line(("  Login key  ", _CALM), key)
        self._line()
        for name, conduct in CAST.items():
            for_now = ", for now" if name == VICTIM else ""
            self._line((f"  {name:<{_NAME_WIDTH}}", "bold"), (f"{IN_WORDS[conduct]}{for_now}", _CALM))
        self._line()

    def live(self) -> Live | None:
        """A place below the lines for what changes all the time; None where nothing can be printed over."""
        if not self._console.is_terminal:
            return None
        return Live(console=self._console, auto_refresh=False, transient=True)

    def turn(self, turn: Turn) -> None:
        self._entry(
            Text.assemble(
                (f"  {_clock(turn.at)}  ", _CALM),
                ("● ", _COLOURS[turn.mood]),
                (f"{turn.title:<{_TITLE_WIDTH}}", "bold"),
            ),
            turn.sentence,
        )

    def changed(self, name: str, at: float, made: Transition) -> None:
        """A breaker changed after the story."""
        self._line(
            (f"  {_clock(at)}  ", _CALM),
            (f"{name:<{_NAME_WIDTH}}", "bold"),
            f"{made.before} → {made.after}",
            (f"   {made.why}", _CALM),
        )

    def close(self, totals: Totals) -> None:
        colour = "bold red" if totals.lost else "bold green"
        waiting = f", {totals.held:,} still wait" if totals.held else ""
        failed = f", {totals.failed:,} failed" if totals.failed else ""
        self._line()
        self._line((f"  {totals.avoided:,} doomed requests avoided, {totals.lost:,} lost", colour))
        self._line((f"  {totals.accepted:,} deliveries accepted, {totals.sent:,} arrived{waiting}{failed}", _CALM))
        self._line()

    def say(self, sentence: str) -> None:
        self._line((f"  {sentence}", _CALM))

    def _entry(self, head: Text, sentence: str) -> None:
        """One line; on a narrow terminal the sentence goes on below its beginning."""
        if not self._console.is_terminal:
            self._console.print(head.append(sentence), soft_wrap=True)
            return
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column()
        grid.add_row(head, sentence)
        self._console.print(grid)

    def _line(self, *parts: str | tuple[str, str]) -> None:
        self._console.print(Text.assemble(*parts), soft_wrap=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
