"""One call into SQLite for many rows.

A statement that takes rows has one `VALUES (?, ...)` in it, which is repeated for as many rows as there are. It is
prepared for some sizes only; rows of NULLs fill it up, and the statement passes over them. What it finds comes back as
one row of JSON.

Such statements say OR FAIL. With the usual OR ABORT SQLite copies every page before it changes it, to be able to take
back half a statement, and that takes longer than the change itself. Here a job that fails is undone as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import apsw
import msgspec

SIZES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512)
_VALUES = re.compile(r"VALUES (\((?:\?(?:, )?)+\))")

_NUMBERED = re.compile(r"\?\d")

decode = msgspec.json.decode


class Many:
    """A statement for many rows. Its other values are named ?1 and so on, and stand before the rows."""

    def __init__(self, statement: str) -> None:
        found = _VALUES.search(statement)
        if found is None or _NUMBERED.search(statement, found.end()):
            raise ValueError(f"It takes one VALUES (?, ...), and all other values before it: {statement!r}.")
        row = found[1]
        self._width = row.count("?")
        before, after = statement[: found.start(1)], statement[found.end(1) :]
        self.texts = {size: f"{before}{', '.join([row] * size)}{after}" for size in SIZES}

    def run(self, db: apsw.Connection, rows: Sequence[tuple[Any, ...]], *others: Any) -> int:
        """Returns how many rows were changed."""
        changed = 0
        for text, values in self._calls(rows, others):
            db.execute(text, values)
            changed += db.changes()
        return changed

    def gather(self, db: apsw.Connection, rows: Sequence[tuple[Any, ...]], *others: Any) -> list[Any]:
        """What a statement finds that answers with a JSON array."""
        return list(chain.from_iterable(decode(row[0]) for row in self.ask(db, rows, *others)))

    def ask(self, db: apsw.Connection, rows: Sequence[tuple[Any, ...]], *others: Any) -> Iterator[Any]:
        """The row that each call answers with."""
        for text, values in self._calls(rows, others):
            yield db.execute(text, values).fetchone()

    def _calls(self, rows: Sequence[tuple[Any, ...]], others: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for start in range(0, len(rows), SIZES[-1]):
            some = rows[start : start + SIZES[-1]]
            size = next(size for size in SIZES if size >= len(some))
            filling = (None,) * (self._width * (size - len(some)))
            yield self.texts[size], (*others, *chain.from_iterable(some), *filling)


def gathered(db: apsw.Connection, statement: str, values: tuple[Any, ...]) -> Any:
    """What a statement answers that gathers what it finds in JSON."""
    text: Any = db.execute(statement, values).get
    return decode(text)
