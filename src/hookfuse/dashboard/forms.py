"""What was typed into a form, as the JSON that the API takes. What cannot be read is passed on: the API says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request

MOST_BYTES = 64 * 1024
_ROUND = "2030-01-31T18:00"
"""An instant at a full minute, whose seconds browsers leave out; the API wants them."""


class Form:
    """The fields of a form; one that is missing is empty."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = fields

    @classmethod
    async def of(cls, request: Request) -> Form | None:
        """None: it is too long to be one of ours."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return None
        return cls(parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True))

    def text(self, name: str) -> str:
        return self._fields.get(name, [""])[-1].strip()

    def exactly(self, name: str) -> str:
        return self._fields.get(name, [""])[-1]

    def every(self, name: str) -> list[str]:
        return [each for each in self._fields.get(name, []) if each]

    def has(self, name: str) -> bool:
        return name in self._fields

    def names(self, name: str) -> list[str] | None:
        """Words with commas or spaces between; None if there are none."""
        return self.text(name).replace(",", " ").split() or None

    def number(self, name: str) -> Any:
        """A number, None if nothing was typed, or else the text itself."""
        return number(self.text(name))

    def instant(self, name: str) -> str | None:
        """An instant as a field for date and time gives it. The zone is UTC, like every time on the pages."""
        text = self.text(name)
        if len(text) == len(_ROUND):
            text += ":00"
        return f"{text}Z" if text and not text.endswith("Z") and "+" not in text else text or None

    def later(self, name: str) -> str | None:
        """The instant that lies this many seconds ahead."""
        seconds = self.number(name)
        if not isinstance(seconds, int | float):
            return None
        return (datetime.now(UTC) + timedelta(seconds=min(seconds, 3e9))).isoformat()


def number(text: str) -> Any:
    if not text:
        return None
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def given(**fields: Any) -> dict[str, Any]:
    """A body without what was left empty."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
