"""Arrays as Postgres writes them. The driver looks at each element of a list several times, at a text only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def texts(values: Sequence[str | None]) -> str:
    try:
        # Most are all there, and have nothing in them that would have to be escaped.
        joined = '","'.join(values)  # type: ignore[arg-type]
    except TypeError:
        joined = "\\"
    if "\\" in joined or joined.count('"') != 2 * (len(values) - 1):
        return "{" + ",".join(["NULL" if each is None else _quoted(each) for each in values]) + "}"
    return '{"' + joined + '"}'


def numbers(values: Iterable[int | None]) -> str:
    return "{" + ",".join(["NULL" if each is None else str(each) for each in values]) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
