"""Where a page of a list begins and ends.

A list has one order, by an instant, then by ids. A page is named by marks that lie in it, not by numbers of rows, so
what is added or removed meanwhile neither repeats nor hides anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class Mark(NamedTuple):
    """A place in a list. Lists that are ordered by id alone leave the instant out."""

    at_ms: int
    id: str
    part: str = ""


# No id, uid or name begins with a tilde, and all of them sort below it.
FIRST: Final = Mark(-1, "")
LAST: Final = Mark(1 << 62, "~", "~")


@dataclass(frozen=True, slots=True)
class Span:
    """What lies between two marks, both excluded: the first `limit` of it, or the last, which then come last first."""

    limit: int = 50
    after: Mark = FIRST
    before: Mark = LAST
    backwards: bool = False
