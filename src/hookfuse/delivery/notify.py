"""Sends what is in the outbox: the duty `notices`, done by one process for the fleet.

A notice is claimed with a lease, posted, and settled. A process that dies in between leaves it to the next one, which
posts it again with the same id; that is the only way in which anyone is told twice. One that stood still beyond the
lease posts nothing when it goes on, because others may have. Each channel has slots and a deadline of its own, so a
mail server that hangs holds up mails and nothing else. What cannot be posted comes back on a schedule, and is given up,
visibly, after its last attempt.

The same duty looks for endpoints that have failed for long (`look_for_failing`), and for what nobody wrote down or
finished (`reconcile.py`).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hookfuse.core.duty import Tenure
from hookfuse.core.notice import STAGES_MS, Notice, NoticeChannel, NoticeState, Occurrence
from hookfuse.core.retry import RetrySchedule
from hookfuse.delivery.notify_addresses import AddressBook
from hookfuse.delivery.notify_channels import DEADLINE, Post, Posted
from hookfuse.delivery.notify_texts import Story
from hookfuse.delivery.reconcile import Reconciler
from hookfuse.errors import StoreError
from hookfuse.ports import DeliveryStore

_log = logging.getLogger("hookfuse.notices")

_GRACE: Final = 5.0
_SETTLE_PAUSE: Final = 0.5


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """slots            notices of one channel that are under way at most
    lease            seconds after which another process may post a notice again
    poll             seconds between looks into the outbox
    look_every       seconds between looks for what nobody wrote down, and for those that fail for long
    retry            when a notice is posted again
    stages_ms        how long an endpoint has failed when that is told
    """

    slots: int = 8
    lease: float = 2 * DEADLINE + 5
    poll: float = 1.0
    look_every: float = 15.0
    retry: RetrySchedule = field(
        default_factory=lambda: RetrySchedule((10.0, 60.0, 300.0, 1_800.0, 7_200.0, 21_600.0), 0.1)
    )
    stages_ms: Sequence[int] = STAGES_MS


class Notifier:
    def __init__(
        self,
        store: DeliveryStore,
        posts: Mapping[NoticeChannel, Post],
        book: AddressBook,
        reconciler: Reconciler,
        settings: NotifySettings | None = None,
        *,
        on_failing: Callable[[Occurrence], None] = lambda occurrence: None,
        on_end: Callable[[Notice, NoticeState], None] = lambda notice, state: None,
    ) -> None:
        self._store = store
        self._posts = posts
        self._book = book
        self._reconciler = reconciler
        self._settings = settings or NotifySettings()
        self._on_failing = on_failing
        self._on_end = on_end

    async def run(self, tenure: Tenure) -> None:
        """For as long as the duty is held."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_on(tenure))
            for channel in self._posts:
                tasks.create_task(self._serve(channel, tenure))

    async def _look_on(self, tenure: Tenure) -> None:
        pause = self._settings.poll
        while True:
            try:
                await self._reconciler.look(tenure)
                for happened in await self._store.look_for_failing(self._settings.stages_ms, tenure):
                    self._on_failing(happened)
            except StoreError as error:
                _log.warning("looking for what to tell waits for the stores: %s", error)
            # What is missing is kept at the second look, so after a change of leaders the second comes soon.
            await asyncio.sleep(pause)
            pause = min(pause * 4, self._settings.look_every)

    async def _serve(self, channel: NoticeChannel, tenure: Tenure) -> None:
        hands: set[asyncio.Task[None]] = set()
        try:
            while True:
                room = self._settings.slots - len(hands)
                # Counted from the question: by the database's clock no lease ends sooner.
                ends = time.monotonic() + self._settings.lease
                claimed = await self._claim(channel, room, tenure) if room else []
                for notice in claimed:
                    task = asyncio.create_task(self._see_through(notice, ends), name=f"hookfuse-notice-{channel}")
                    hands.add(task)
                    task.add_done_callback(hands.discard)
                if not claimed or len(claimed) == room:
                    await asyncio.sleep(self._settings.poll)
        finally:
            # What is under way is still ours by its own lease; cut off now, it would be posted twice.
            if hands:
                await asyncio.wait(hands, timeout=_GRACE)
                for task in hands:
                    task.cancel()

    async def _claim(self, channel: NoticeChannel, room: int, tenure: Tenure) -> Sequence[Notice]:
        try:
            lease_ms = int(self._settings.lease * 1000)
            return await self._store.claim_notices(channel, room, lease_ms=lease_ms, tenure=tenure)
        except StoreError as error:
            _log.warning("notices wait for the database: %s", error)
            return []

    async def _see_through(self, notice: Notice, ends: float) -> None:
        """`ends` is when its lease does, by the clock itself: the loop's is as old as its turn, and may have stood."""
        try:
            async with asyncio.timeout(DEADLINE + 1):
                posted = await self._post(notice, ends)
        except TimeoutError:
            posted = Posted(f"no end within {DEADLINE:g} s")
        except Exception as error:
            _log.exception("posting the notice %s went wrong here", notice.id)
            posted = Posted(f"{type(error).__name__} here")
        while time.monotonic() < ends:
            try:
                await self._settle(notice, posted)
                return
            except StoreError as error:
                # The receiver has it: while the lease lasts, nobody else will post it.
                _log.warning("settling the notice %s waits for the database: %s", notice.id, error)
                await asyncio.sleep(_SETTLE_PAUSE)

    async def _post(self, notice: Notice, ends: float) -> Posted:
        if notice.attempts > self._settings.retry.attempts:
            return Posted("every process that posted it was lost")
        try:
            addresses = await self._book.of(notice.app_id)
            app = await self._store.application(notice.app_id)
            ids = [] if notice.endpoint_id is None else [notice.endpoint_id]
            endpoints = await self._store.endpoints(ids) if ids else []
        except StoreError as error:
            return Posted(f"the database is away: {error}")
        if addresses is None:
            return Posted("the addresses cannot be read")
        if time.monotonic() >= ends:
            return Posted("its lease had ended before it was posted")
        return await self._posts[notice.channel].post(Story(notice, app, next(iter(endpoints), None)), addresses)

    async def _settle(self, notice: Notice, posted: Posted) -> None:
        if posted.taken:
            held = await self._end(notice, NoticeState.SENT)
            _say(logging.INFO, "sent", notice)
        else:
            delay_ms = self._settings.retry.delay_ms(notice.attempts, random.random())
            if delay_ms is None:
                held = await self._end(notice, NoticeState.FAILED, posted.trouble)
                _say(logging.ERROR, f"given up: {posted.trouble}", notice)
            else:
                held = await self._store.settle_notice(
                    notice, NoticeState.PENDING, reason=posted.trouble, delay_ms=delay_ms
                )
                _say(logging.WARNING, f"not sent, again in {delay_ms / 1000:.0f} s: {posted.trouble}", notice)
        if not held:
            _log.warning("the lease of the notice %s was lost before it was settled", notice.id)

    async def _end(self, notice: Notice, state: NoticeState, reason: str = "") -> bool:
        held = await self._store.settle_notice(notice, state, reason=reason)
        if held:
            self._on_end(notice, state)
        return held


def _say(level: int, what: str, notice: Notice) -> None:
    _log.log(
        level, "notice %s (%s by %s, attempt %d) %s", notice.id, notice.event, notice.channel, notice.attempts, what
    )
