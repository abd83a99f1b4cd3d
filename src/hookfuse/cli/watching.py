"""Transitions as they happen, one line each.

The store's reader tells them on its own thread and finds its place again after a lost connection. This side prints,
and asks for the store's pulse between the lines, so that silence means that nothing happened.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from rich.text import Text

from hookfuse.cli.records import transition_record
from hookfuse.cli.speaking import inert, say, say_json, words
from hookfuse.cli.times import clock
from hookfuse.cli.words import Condition, met_by_callers, tinted, why_changed
from hookfuse.core.state import State, Transition
from hookfuse.errors import StoreError

if TYPE_CHECKING:
    from hookfuse.app.fleet import Fleet

_PULSE_SECONDS = 0.5
_KEY_WIDTH = 24
_BEFORE_WIDTH = max(len(state) for state in State)
_AFTER_WIDTH = max(len(each) for each in Condition)
_BY_ITSELF = "breaker"


class Watch:
    """Prints until it is interrupted."""

    def __init__(self, fleet: Fleet, *, as_json: bool) -> None:
        self._fleet = fleet
        self._as_json = as_json
        self._heard: SimpleQueue[Transition] = SimpleQueue()
        self._away = False
        self._life: bytes | None = None

    def run(self) -> None:
        fleet = self._fleet
        with fleet.breakers.subscribe(self._heard.put):
            fleet.follow()
            self._life = fleet.pulse().life
            self._note(
                f"Watching the breakers in {fleet.place} (prefix {fleet.prefix}, {fleet.shards} shards); "
                "times are UTC, Ctrl-C ends."
            )
            while True:
                try:
                    self._tell(self._heard.get(timeout=_PULSE_SECONDS))
                except Empty:
                    self._feel_pulse()

    def _tell(self, made: Transition) -> None:
        if self._as_json:
            say_json(transition_record(made))
        else:
            say(_line(made))

    def _feel_pulse(self) -> None:
        try:
            life = self._fleet.pulse().life
            if self._away or life != self._life:
                self._fleet.follow()
                life = self._fleet.pulse().life
        except StoreError as error:
            if not self._away:
                self._away = True
                self._note(f"{error} Waiting for it.")
            return
        if life is None:
            # Just emptied: the reader is about to begin anew.
            return
        if life != self._life:
            self._note("Redis is there, but its data was lost: every breaker begins anew. Watching again.")
        elif self._away:
            self._note("Redis is back. Watching again.")
        self._away, self._life = False, life

    def _note(self, sentence: str) -> None:
        # Programs read stdout; what is for people must not come between the lines.
        say(Text(inert(sentence), "dim"), stderr=self._as_json)


def _line(made: Transition) -> Text:
    key, after = words(made.key, "bold"), tinted(met_by_callers(made.after, made.override))
    line = Text.assemble((clock(made.at), "dim"), "  ", key, " " * (_KEY_WIDTH - key.cell_len), "  ")
    line.append(f"{made.before:>{_BEFORE_WIDTH}} → ")
    line.append_text(after)
    line.append(" " * (_AFTER_WIDTH - after.cell_len + 2))
    line.append_text(words(why_changed(made)))
    if made.actor != _BY_ITSELF:
        line.append_text(Text.assemble((" · by ", "dim"), words(made.actor)))
    return line
