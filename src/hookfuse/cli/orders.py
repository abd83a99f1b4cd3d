"""An operator's order: what it changed, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from hookfuse.cli.records import breaker_record, transition_record
from hookfuse.cli.speaking import say, say_json, words
from hookfuse.cli.times import ahead, stamp
from hookfuse.cli.words import Condition, condition, met_by_callers, tinted
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.errors import InvalidInput

if TYPE_CHECKING:
    from hookfuse.app.fleet import Fleet


def give_order(
    fleet: Fleet,
    order: Order,
    key: str,
    *,
    reason: str,
    actor: str,
    lasts: float | None = None,
    until: float | None = None,
    as_json: bool = False,
) -> None:
    now = fleet.pulse().now
    # The store decides by its own clock, so that clock also says when a duration ends.
    until = now + lasts if lasts is not None else until
    if until is not None and until <= now:
        raise InvalidInput(f"--until is in the past: it is {stamp(now)} for the store.")
    was = fleet.breakers.inspect(key)
    given: Mapping[str, Any] = {"reason": reason, "actor": actor}
    if order in (Order.FORCE_OPEN, Order.FORCE_CLOSED):
        given = {**given, "until": until}
    made: Transition | None = getattr(fleet.breakers, order.value)(key, **given)
    if as_json:
        record = breaker_record(was) if made is None else {**transition_record(made), "override_until": until}
        say_json({"changed": made is not None, **record})
    elif made is None:
        say(_nothing(order, was))
    else:
        say(_changed(made, condition(was), until, now))


def _changed(made: Transition, was: Condition, until: float | None, now: float) -> Text:
    now_met = met_by_callers(made.after, made.override)
    line = Text.assemble(words(made.key, "bold"), ": ", tinted(was), " → ", tinted(now_met))
    if until is not None:
        line.append(f", until {stamp(until)}, {ahead(until, now)}")
    if made.reason not in set(Order):
        line.append_text(Text.assemble(" (", words(made.reason), ")"))
    return line


def _nothing(order: Order, was: Snapshot) -> Text:
    note = "; its counts are cleared" if order is Order.RESET else ""
    return Text.assemble("Nothing to change: ", words(was.key, "bold"), " is ", tinted(condition(was)), f"{note}.")
