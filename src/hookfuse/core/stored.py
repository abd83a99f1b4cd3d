"""What a store keeps of applications and endpoints, checked before it writes: every store refuses the same, by name.

A value that is refused names its field. Whether a URL may be dialled or a policy makes sense is not asked here: that is
for whoever sets them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from hookfuse.core import bounds
from hookfuse.core.destination import URL_LENGTH
from hookfuse.core.endpoint import (
    LONGEST_TIMEOUT_MS,
    METADATA_LENGTH,
    METADATA_NAME_LENGTH,
    MOST_CAP,
    MOST_EVENT_TYPES,
    MOST_METADATA,
    MOST_RATE,
    NAME_LENGTH,
    SHORTEST_TIMEOUT_MS,
    TEXT_LENGTH,
    Application,
    Endpoint,
    Stop,
)
from hookfuse.core.ids import ID_LENGTH, IdKind, check_breaker_key, check_channel, check_event_type, check_uid
from hookfuse.core.message import LATEST_MS, MOST_CHANNELS
from hookfuse.errors import InvalidField

Check: TypeAlias = Callable[[str, Any], object]

_DEEPEST: Final = 16
_LARGEST: Final = (1 << 63) - 1
_FIXED: Final = frozenset(
    {"id", "app_id", "stop", "version", "created_ms", "updated_ms", "disabled_ms", "disabled_reason"}
)


def check_application(application: Application) -> None:
    for name, check in _APPLICATION.items():
        check(name, getattr(application, name))


def check_endpoint(endpoint: Endpoint) -> None:
    for name, check in _ENDPOINT.items():
        check(name, getattr(endpoint, name))


def check_changes(kind: type[Application | Endpoint], changes: Mapping[str, Any]) -> None:
    """What is changed of one that is stored."""
    checks = _APPLICATION if kind is Application else _ENDPOINT
    for name, value in changes.items():
        if name not in checks or name in _FIXED:
            can = ", ".join(sorted(checks.keys() - _FIXED))
            raise InvalidField(name, f"be left alone; what can be changed: {can}", value)
        checks[name](name, value)


def _text(least: int, most: int) -> Check:
    return lambda field, value: bounds.text(field, value, least, most)


def _whole(low: int, high: int) -> Check:
    return lambda field, value: bounds.whole(field, value, low, high)


def _or_none(check: Check) -> Check:
    return lambda field, value: None if value is None else check(field, value)


def _names(check: Callable[[object, str], object], most: int) -> Check:
    def names(field: str, value: object) -> None:
        if not isinstance(value, tuple | list) or not 1 <= len(value) <= most:
            raise InvalidField(field, f"be 1 to {most} names, or None", value)
        for each in value:
            check(each, field)

    return names


def _metadata(field: str, value: object) -> None:
    if not isinstance(value, Mapping) or len(value) > MOST_METADATA:
        raise InvalidField(field, f"be a mapping of at most {MOST_METADATA} texts", value)
    for name, each in value.items():
        bounds.text(field, name, 1, METADATA_NAME_LENGTH)
        bounds.text(field, each, 0, METADATA_LENGTH)


def _sealed(field: str, value: object) -> None:
    if not isinstance(value, bytes):
        # Its kind alone: it may be a secret that someone forgot to seal.
        raise InvalidField(field, "be sealed bytes", type(value))


def _truth(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidField(field, "be True or False", value)


def _settings(field: str, value: object) -> None:
    if not isinstance(value, Mapping) or not _is_plain(dict(value)):
        raise InvalidField(field, "be plain data that JSON can hold, by its names, or None", value)


def _is_plain(value: object, deep: int = 0) -> bool:
    match value:
        case None | bool():
            return True
        case int():
            return -_LARGEST <= value <= _LARGEST
        case float():
            return bounds.finite(value) is not None
        case str():
            return bounds.is_storable(value)
        case list() | tuple() if deep < _DEEPEST:
            return all(_is_plain(each, deep + 1) for each in value)
        case dict() if deep < _DEEPEST:
            names = all(isinstance(name, str) and bounds.is_storable(name) for name in value)
            return names and all(_is_plain(each, deep + 1) for each in value.values())
        case _:
            return False


_instant: Final = _whole(0, LATEST_MS)

_APPLICATION: Final[Mapping[str, Check]] = {
    "id": _text(1, ID_LENGTH),
    "name": _text(1, NAME_LENGTH),
    "uid": _or_none(lambda field, value: check_uid(IdKind.APP, value, field)),
    "metadata": _metadata,
    "policy": _or_none(_settings),
    "retry": _or_none(_settings),
    "paused_ms": _or_none(_instant),
    "created_ms": _instant,
    "updated_ms": _instant,
}
_ENDPOINT: Final[Mapping[str, Check]] = {
    "id": _text(1, ID_LENGTH),
    "app_id": _text(1, ID_LENGTH),
    "url": _text(1, URL_LENGTH),
    "uid": _or_none(lambda field, value: check_uid(IdKind.ENDPOINT, value, field)),
    "description": _text(0, TEXT_LENGTH),
    "metadata": _metadata,
    "event_types": _or_none(_names(check_event_type, MOST_EVENT_TYPES)),
    "channels": _or_none(_names(check_channel, MOST_CHANNELS)),
    "headers": _sealed,
    "secret": _sealed,
    "policy": _or_none(_settings),
    "retry": _or_none(_settings),
    "response": _or_none(_settings),
    "breaker_key": _or_none(lambda field, value: check_breaker_key(value, field)),
    "cap": _whole(1, MOST_CAP),
    "rate_limit": _or_none(_whole(1, MOST_RATE)),
    "timeout_ms": _whole(SHORTEST_TIMEOUT_MS, LONGEST_TIMEOUT_MS),
    "fifo": _truth,
    "stop": _whole(0, sum(Stop)),
    "disabled_ms": _or_none(_instant),
    "disabled_reason": _text(0, TEXT_LENGTH),
    "flag": _text(0, TEXT_LENGTH),
    "offer": _text(0, TEXT_LENGTH),
    "version": _whole(1, _LARGEST),
    "created_ms": _instant,
    "updated_ms": _instant,
}
