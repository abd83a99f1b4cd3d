"""Work on many deliveries that goes on after its request was answered.

It is done page by page in the process that took the request, and each page writes down how far it has come. So anyone
can look at it or cancel it from anywhere. A task whose process died stops growing and is told as failed; doing the same
again is safe, because what was done is no longer chosen.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

from hookfuse.core.delivery import Chosen, Place
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.paging import Mark, Span
from hookfuse.core.record import Task, TaskKind, TaskStatus
from hookfuse.errors import HookfuseError
from hookfuse.ports import DeliveryStore

_PAGE = 500
_SILENT_MS = 60_000

_log = logging.getLogger("hookfuse.api")


class TaskRunner:
    def __init__(self, store: DeliveryStore) -> None:
        self._store = store
        self._running: set[asyncio.Task[None]] = set()

    async def retry(self, kind: TaskKind, chosen: Chosen, subject: str, total: int) -> Task:
        """Send the chosen deliveries again, oldest first."""
        return await self._start(kind, chosen.app_id, subject, self._walk(chosen, self._store.retry), total)

    async def cancel(self, chosen: Chosen, subject: str, total: int) -> Task:
        """Cancel the chosen deliveries."""
        pages = self._walk(chosen, self._store.cancel)
        return await self._start(TaskKind.BULK_CANCEL, chosen.app_id, subject, pages, total)

    async def replay_missing(self, app_id: str, endpoint_id: str, span: Span) -> Task:
        """Deliver the messages of a time that the endpoint would get today and never got."""
        return await self._start(TaskKind.REPLAY, app_id, endpoint_id, self._walk_missing(app_id, endpoint_id, span))

    async def close(self) -> None:
        """Stop at once; what was begun is told as failed."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _start(
        self, kind: TaskKind, app_id: str, subject: str, pages: AsyncIterator[tuple[int, int]], total: int | None = None
    ) -> Task:
        id_ = make_id(IdKind.TASK, int(time.time() * 1000), random.randbytes(ENTROPY_BYTES))
        task = await self._store.add_task(Task(id_, kind, app_id, subject, total=total))
        running = asyncio.create_task(self._run(task, pages), name=f"hookfuse-{id_}")
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return task

    async def _run(self, task: Task, pages: AsyncIterator[tuple[int, int]]) -> None:
        seen = changed = 0
        status = TaskStatus.FAILED
        try:
            async for looked, done in pages:
                seen += looked
                changed += done
                if not await self._store.advance_task(task.id, TaskStatus.RUNNING, seen, changed):
                    return
            status = TaskStatus.FINISHED
        except HookfuseError as error:
            _log.warning("task %s stopped: %s", task.id, error)
        finally:
            await self._end(task, status, seen, changed)

    async def _end(self, task: Task, status: TaskStatus, seen: int, changed: int) -> None:
        try:
            await self._store.advance_task(task.id, status, seen, changed)
        except HookfuseError as error:
            _log.warning("the end of task %s was not written: %s", task.id, error)

    async def _walk(
        self, chosen: Chosen, change: Callable[[Sequence[Place]], Awaitable[int]]
    ) -> AsyncIterator[tuple[int, int]]:
        # By mark: what is changed leaves the chosen ones, and nothing may be passed over.
        span = Span(_PAGE)
        while page := await self._store.deliveries_page(chosen, span):
            places = [Place(each.message_id, each.endpoint_id) for each in page]
            yield len(places), await change(places)
            span = replace(span, after=Mark(0, *places[-1]))

    async def _walk_missing(self, app_id: str, endpoint_id: str, span: Span) -> AsyncIterator[tuple[int, int]]:
        span = replace(span, limit=_PAGE)
        while page := await self._store.missing_page(app_id, endpoint_id, span):
            yield len(page), await self._store.add_deliveries(endpoint_id, [each.id for each in page])
            span = replace(span, after=Mark(page[-1].created_ms, page[-1].id))


def current(task: Task, now_ms: int) -> Task:
    """A task as it should be told: one that has been silent for a minute has lost its process."""
    if task.status is TaskStatus.RUNNING and now_ms - task.updated_ms > _SILENT_MS:
        return replace(task, status=TaskStatus.FAILED)
    return task
