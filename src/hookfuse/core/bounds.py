"""Checks that turn a bad value into one sentence which names the field and the bound."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TypeAlias

from hookfuse.errors import InvalidInput, InvalidPolicy

Duration: TypeAlias = float | timedelta

DAY = 86_400.0


def whole(field: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidPolicy(field, f"be a whole number from {low:,} to {high:,}", value)
    return value


def share(field: str, value: object) -> float:
    number = finite(value)
    if number is None or not 0 < number <= 1:
        raise InvalidPolicy(field, "be a share above 0 and at most 1 (0.5 = 50 %)", value)
    return number


def number(field: str, value: object, low: float, high: float) -> float:
    found = finite(value)
    if found is None or not low <= found <= high:
        raise InvalidPolicy(field, f"be a number from {low:g} to {high:g}", value)
    return found


def seconds(field: str, value: object, low: float, high: float) -> float:
    found = value.total_seconds() if isinstance(value, timedelta) else finite(value)
    if found is None or not low <= found <= high:
        raise InvalidPolicy(field, f"be a duration from {low:g} to {high:,.0f} seconds, or a timedelta", value)
    return found


def past(until: float | None, now_ms: int) -> InvalidInput:
    """What an override is refused with that should end before the store's `now_ms`."""
    return InvalidInput(f"until must be in the future: it is {now_ms / 1000:.3f} for the store, got {until!r}.")


def milliseconds(duration: float) -> int:
    return int(duration * 1000 + 0.5)


def finite(value: object) -> float | None:
    """A number as a float; None for anything else, and for what no float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
