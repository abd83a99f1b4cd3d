"""Event types that producers describe. Messages of others are accepted all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EventType:
    name: str
    description: str = ""
    archived: bool = False
    deprecated: bool = False
    schemas: Mapping[str, Any] | None = None
    """A JSON Schema for each version."""
    group_name: str | None = None
    feature_flags: tuple[str, ...] | None = None
    created_ms: int = 0
    updated_ms: int = 0
