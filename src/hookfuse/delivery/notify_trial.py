"""Sends a notice that tells of nothing, to see whether notices arrive."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping

from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.notice import Event, Notice, NoticeChannel, NoticeState
from hookfuse.delivery.notify_addresses import Addresses
from hookfuse.delivery.notify_channels import DEADLINE, Post, Posted
from hookfuse.delivery.notify_texts import Story


class NoticeTrial:
    """Dialled, signed and said as every notice is, but now, once, and past the outbox: whoever asked sees the end."""

    def __init__(self, posts: Mapping[NoticeChannel, Post]) -> None:
        self._posts = posts

    async def send(self, app_id: str, addresses: Addresses) -> dict[NoticeChannel, Posted]:
        """What came of it on each channel that has an address."""
        channels = addresses.channels
        posted = await asyncio.gather(*(self._post(app_id, channel, addresses) for channel in channels))
        return dict(zip(channels, posted, strict=True))

    async def _post(self, app_id: str, channel: NoticeChannel, addresses: Addresses) -> Posted:
        try:
            async with asyncio.timeout(DEADLINE + 1):
                return await self._posts[channel].post(Story(_notice(app_id, channel)), addresses)
        except TimeoutError:
            return Posted(f"no end within {DEADLINE:g} s")


def _notice(app_id: str, channel: NoticeChannel) -> Notice:
    now_ms = int(time.time() * 1000)
    id_ = make_id(IdKind.NOTICE, now_ms, random.randbytes(ENTROPY_BYTES))
    return Notice(
        id=id_,
        event=Event.TEST,
        channel=channel,
        app_id=app_id,
        endpoint_id=None,
        key=id_,
        generation=0,
        facts={"reason": "test", "why": "someone asked for it"},
        state=NoticeState.SENDING,
        folded=0,
        attempts=1,
        due_ms=None,
        reason="",
        at_ms=now_ms,
        created_ms=now_ms,
        ended_ms=None,
        token=0,
    )
