"""HTTP statuses as people write them: "404", "4xx", "500-599"."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from hookfuse.errors import InvalidPolicy

LOWEST, HIGHEST = 100, 599

_WRITTEN = re.compile(r"([1-5])xx|([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?", re.ASCII)
_FORMS = 'be a status or a range of them from 100 to 599, such as "404", "4xx" or "500-504"'


class Span(NamedTuple):
    """Statuses from `low` to `high`, both included."""

    low: int
    high: int

    @classmethod
    def parse(cls, field: str, written: object) -> Self:
        text = str(written) if type(written) is int else written
        match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidPolicy(field, _FORMS, written)
        hundred, low, high = match.groups()
        if hundred is not None:
            return cls(int(hundred) * 100, int(hundred) * 100 + 99)
        span = cls(int(low), int(high or low))
        if span.low > span.high:
            raise InvalidPolicy(field, "name the lower status of a range first", written)
        return span

    @property
    def width(self) -> int:
        return self.high - self.low + 1

    def covers(self, status: int) -> bool:
        return self.low <= status <= self.high

    def overlaps(self, other: Span) -> bool:
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return str(self.low)
        if self.low % 100 == 0 and self.high == self.low + 99:
            return f"{self.low // 100}xx"
        return f"{self.low}-{self.high}"
