"""One request in the hands of its operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hookfuse.api.parts import Parts
from hookfuse.api.problems import not_found
from hookfuse.api.wire import Page
from hookfuse.core.access import ApiKey
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.message import Message
from hookfuse.core.paging import FIRST, LAST, Mark, Span

R = TypeVar("R")
O = TypeVar("O")  # noqa: E741

# What an id or uid may be made of. Anything else names nothing, and no store need be asked.
_ID = re.compile(r"[A-Za-z0-9_.\-]{1,300}", re.ASCII)


class Call:
    """Who asks, for what, and with what the answer is made."""

    def __init__(self, parts: Parts, key: ApiKey, path: Mapping[str, str]) -> None:
        self.parts = parts
        self.key = key
        self.path = path
        self.status: int | None = None
        """Set it to answer with another status than the operation's first."""
        self.touched: list[str] = []
        """Ids of what was made, for the audit log; those in the path are known."""
        self._app: Application | None = None

    @property
    def app(self) -> Application:
        """The application in the path."""
        assert self._app is not None
        return self._app

    @property
    def app_known(self) -> Application | None:
        return self._app

    def id(self, name: str, what: str) -> str:
        """An id in the path that at least could be one."""
        text = self.path[name]
        if not _ID.fullmatch(text):
            raise not_found(what)
        return text

    async def find_app(self) -> Application | None:
        """The application in the path, if there is one and the key may see it."""
        if not _ID.fullmatch(self.path["app_id"]):
            return None
        found = await self.parts.store.application(self.path["app_id"])
        if found is not None and self.key.app_id not in (None, found.id):
            return None
        self._app = found
        return found

    async def find_endpoint(self) -> Endpoint | None:
        if not _ID.fullmatch(self.path["endpoint_id"]):
            return None
        return await self.parts.store.endpoint(self.app.id, self.path["endpoint_id"])

    async def endpoint(self) -> Endpoint:
        """The endpoint in the path."""
        found = await self.find_endpoint()
        if found is None:
            raise not_found("endpoint")
        return found

    async def message(self) -> Message:
        """The message in the path."""
        found = await self.parts.store.message(self.app.id, self.id("msg_id", "message"))
        if found is None:
            raise not_found("message")
        return found


class Reader:
    """A page of a list as it was asked for, in either order and either way."""

    def __init__(
        self,
        call: Call,
        about: str,
        *,
        limit: int,
        iterator: str | None,
        newest_first: bool = False,
        after: Mark = FIRST,
        before: Mark = LAST,
    ) -> None:
        self._cursors = call.parts.cursors
        self._about = about
        self._iterator = iterator
        self._limit = limit
        cursor = None if iterator is None else self._cursors.read(about, iterator)
        self._back = cursor is not None and cursor.backwards
        # One more than asked for tells whether there are more.
        self._from_end = newest_first is not self._back
        if cursor is not None:
            if self._from_end:
                before = min(before, cursor.mark)
            else:
                after = max(after, cursor.mark)
        self.span = Span(limit + 1, after, before, backwards=self._from_end)

    def page(self, rows: Sequence[R], mark: Callable[[R], Mark], out: Callable[[R], O]) -> Page[O]:
        """What was read, as a page: `mark` is the place of a row."""
        done = len(rows) <= self._limit
        kept = list(rows[: self._limit])
        if self._back:
            kept.reverse()
        if not kept:
            return Page([], self._iterator, None, done=True)
        return Page(
            [out(row) for row in kept],
            self._cursors.write(self._about, mark(kept[-1])),
            self._cursors.write(self._about, mark(kept[0]), backwards=True),
            done=done,
        )
