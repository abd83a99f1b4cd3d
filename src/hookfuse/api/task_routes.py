"""Tasks, as this API tells them and as SDKs know them (`background-task`)."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Any

from hookfuse.api.applications import ListQuery, Order
from hookfuse.api.call import Call, Reader
from hookfuse.api.problems import Problem, not_found
from hookfuse.api.routes import Routes
from hookfuse.api.tasks import current
from hookfuse.api.wire import Instant, Page, Wire, instant
from hookfuse.core.paging import Mark
from hookfuse.core.record import Task, TaskKind, TaskStatus

routes = Routes("Tasks")


class TaskOut(Wire):
    """Work on many deliveries, and how far it has come."""

    id: str
    task: TaskKind
    status: TaskStatus
    subject: str
    total: int | None
    seen: int
    changed: int
    created_at: Instant
    updated_at: Instant


class BackgroundStatus(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


class BackgroundTaskOut(Wire):
    """A task in the words of SDKs; a cancelled one is told as failed."""

    id: str
    task: TaskKind
    status: BackgroundStatus
    data: dict[str, Any]
    updated_at: Instant


@routes.get("/app/{app_id}/task")
async def list_tasks(call: Call, query: ListQuery) -> Page[TaskOut]:
    """List the tasks of an application."""
    reader = _reader(call, query, f"tasks {call.app.id}")
    found = await call.parts.store.tasks_page(call.app.id, reader.span)
    return reader.page(found, lambda each: Mark(0, each.id), task_told)


@routes.get("/app/{app_id}/task/{task_id}")
async def get_task(call: Call) -> TaskOut:
    """Get a task."""
    return task_told(await _task(call, call.app.id))


@routes.post("/app/{app_id}/task/{task_id}/cancel", errors=(409,))
async def cancel_task(call: Call) -> TaskOut:
    """Stop a task half-way; what it has done stays done."""
    task = await _task(call, call.app.id)
    if not await call.parts.store.cancel_task(task.id):
        raise Problem(409, "ended", f"It has ended already: {current(task, _now_ms()).status}.")
    return task_told(await _task(call, call.app.id))


@routes.get("/background-task")
async def list_background_tasks(call: Call, query: ListQuery) -> Page[BackgroundTaskOut]:
    """List the tasks that SDKs know, of all applications that the key may see."""
    reader = _reader(call, query, f"background tasks {call.key.app_id}")
    found = await call.parts.store.tasks_page(call.key.app_id, reader.span)
    page = reader.page(found, lambda each: Mark(0, each.id), lambda each: each)
    # SDKs refuse a whole page for one kind of task that they do not know.
    known = [background_told(each) for each in page.data if each.kind is not TaskKind.BULK_CANCEL]
    return Page(known, page.iterator, page.prev_iterator, page.done)


@routes.get("/background-task/{task_id}")
async def get_background_task(call: Call) -> BackgroundTaskOut:
    """Get a task as SDKs know it."""
    return background_told(await _task(call, call.key.app_id))


def _reader(call: Call, query: ListQuery, about: str) -> Reader:
    newest = query.order is Order.DESCENDING
    return Reader(call, about, limit=query.limit, iterator=query.iterator, newest_first=newest)


async def _task(call: Call, app_id: str | None) -> Task:
    found = await call.parts.store.task(call.id("task_id", "task"))
    if found is None or app_id not in (None, found.app_id):
        raise not_found("task")
    return found


def task_told(task: Task) -> TaskOut:
    task = current(task, _now_ms())
    return TaskOut(
        id=task.id,
        task=task.kind,
        status=task.status,
        subject=task.subject,
        total=task.total,
        seen=task.seen,
        changed=task.changed,
        created_at=instant(task.created_ms),
        updated_at=instant(task.updated_ms),
    )


def background_told(task: Task) -> BackgroundTaskOut:
    task = current(task, _now_ms())
    status = BackgroundStatus.FAILED if task.status is TaskStatus.CANCELLED else BackgroundStatus(task.status)
    data = {"total": task.total, "seen": task.seen, "changed": task.changed, "status": task.status.value}
    return BackgroundTaskOut(id=task.id, task=task.kind, status=status, data=data, updated_at=instant(task.updated_ms))


def _now_ms() -> int:
    return int(time.time() * 1000)
