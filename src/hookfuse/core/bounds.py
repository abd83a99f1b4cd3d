"""Checks that turn a bad value into one sentence which names the field and the bound."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TypeAlias

from hookfuse.errors import InvalidField, InvalidInput, InvalidPolicy

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


def text(field: str, value: object, least: int, most: int) -> str:
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise InvalidField(field, f"be a text of {least} to {most:,} characters", value)
    if not is_storable(value):
        raise InvalidField(field, "be a text without NUL and without half of a surrogate pair", value)
    return value


def is_storable(text: str) -> bool:
    """Whether every store can hold a text: Postgres takes no NUL, and no database half of a surrogate pair."""
    if "\0" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


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
