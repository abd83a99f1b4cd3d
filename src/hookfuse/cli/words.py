"""A breaker in words: its condition, why it is in it, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from rich.text import Text

from hookfuse.cli.times import ahead
from hookfuse.core.state import Order, Override, Snapshot, State, Transition, explain


class Condition(StrEnum):
    """What callers meet: the override if there is one, else the state. Worst first."""

    DISABLED = "disabled"
    FORCED_OPEN = "forced_open"
    OPEN = "open"
    HALF_OPEN = "half_open"
    HELD = "held"
    FORCED_CLOSED = "forced_closed"
    RAMP = "ramp"
    CLOSED = "closed"


WORST_FIRST = {condition: place for place, condition in enumerate(Condition)}

_STYLES: Mapping[Condition, str] = {
    Condition.DISABLED: "bold white on purple4",
    Condition.FORCED_OPEN: "bold white on dark_red",
    Condition.OPEN: "bold white on red3",
    Condition.HALF_OPEN: "bold black on gold1",
    Condition.HELD: "bold black on orange1",
    Condition.FORCED_CLOSED: "bold white on dodger_blue3",
    Condition.RAMP: "bold black on pale_green3",
    Condition.CLOSED: "bold white on green4",
}
_TINTS: Mapping[Condition, str] = {
    Condition.DISABLED: "bold magenta",
    Condition.FORCED_OPEN: "bold red",
    Condition.OPEN: "bold red",
    Condition.HALF_OPEN: "bold yellow",
    Condition.HELD: "bold yellow",
    Condition.FORCED_CLOSED: "bold blue",
    Condition.RAMP: "bold green",
    Condition.CLOSED: "bold green",
}

_UNEXPLAINED: Mapping[str, str] = {
    Order.FORCE_OPEN: "forced open, no reason given",
    Order.FORCE_CLOSED: "forced closed, no reason given",
    Order.UNFORCE: "the override was ended",
    Order.PROBE: "a probe was asked for",
    Order.DISABLE: "disabled, no reason given",
    Order.ENABLE: "enabled again",
    Order.RESET: "reset",
}


def condition(seen: Snapshot) -> Condition:
    met = met_by_callers(seen.state, seen.override)
    if met is Condition.CLOSED and seen.throttled_until is not None:
        return Condition.HELD
    if met is Condition.CLOSED and seen.share < 1:
        return Condition.RAMP
    return met


def met_by_callers(state: State, override: Override) -> Condition:
    if override is Override.NONE:
        return Condition(state.value)
    return Condition.FORCED_OPEN if override is Override.OPEN else Condition.FORCED_CLOSED


def pill(met: Condition) -> Text:
    """For a place of its own in a terminal. The style is that of its letters, so no column is painted with it."""
    return Text.assemble((f" {met} ", _STYLES[met]))


def tinted(met: Condition) -> Text:
    """For a line of text."""
    return Text.assemble((met.value, _TINTS[met]))


def why(seen: Snapshot) -> str:
    met = condition(seen)
    if met is Condition.HELD:
        return "asked to wait (Retry-After)"
    if met is Condition.RAMP:
        return f"closed again, {seen.share:.0%} of the flow for now"
    said = in_words(seen.why)
    if seen.override is not Override.NONE and seen.state is not State.CLOSED:
        return f"{said} ({seen.state} beneath)"
    return said


def why_changed(transition: Transition) -> str:
    return in_words(explain(transition.reason, transition.numbers))


def in_words(reason: str) -> str:
    return _UNEXPLAINED.get(reason, reason)


def outlook(seen: Snapshot, now: float) -> str:
    """What comes next; empty when only a person can change something."""
    if seen.override is not Override.NONE:
        return "" if seen.override_until is None else f"ends {ahead(seen.override_until, now)}"
    if seen.throttled_until is not None:
        return f"calls {ahead(seen.throttled_until, now)}"
    if seen.state is State.HALF_OPEN and seen.probes_in_flight:
        return "probing now"
    if seen.state is State.CLOSED or seen.probe_at is None:
        return ""
    return "probe is due" if seen.probe_at <= now else f"probe {ahead(seen.probe_at, now)}"


def since(seen: Snapshot) -> float | None:
    """When its condition began; a Retry-After does not say."""
    if condition(seen) is Condition.HELD:
        return None
    # An override leaves `changed_at` alone, but takes a generation: the millisecond it happened in, or hardly later.
    return seen.changed_at if seen.override is Override.NONE else seen.generation / 1000


def times(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
