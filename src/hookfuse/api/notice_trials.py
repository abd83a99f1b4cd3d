"""Trying the channels of notices by hand, before they are needed."""

from __future__ import annotations

from hookfuse.api.call import Call
from hookfuse.api.problems import Problem
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Wire
from hookfuse.core.notice import NOBODYS, NoticeChannel
from hookfuse.delivery.notify_addresses import Addresses

routes = Routes("Notices")


class NoticeTrialOut(Wire):
    channel: NoticeChannel
    ok: bool
    """Whether the receiver took it."""
    trouble: str
    """Why it did not; empty if it did."""


class NoticeTrialsOut(Wire):
    """One for each channel that has an address."""

    data: list[NoticeTrialOut]


@routes.post("/app/{app_id}/notices/test", errors=(409,))
async def send_test_notice(call: Call) -> NoticeTrialsOut:
    """Send a test notice now, on every channel that the application chose."""
    own = await call.parts.store.notice_settings(call.app.id)
    if own is None:
        # The addresses of the service belong to its operator, and not everyone may write there.
        raise Problem(409, "conflict", "The application chose no channels of its own.")
    return await _try(call, call.app.id, call.parts.vault.open_addresses(own))


@routes.post("/notices/test", needs=Needs.ADMIN)
async def send_service_test_notice(call: Call) -> NoticeTrialsOut:
    """Send a test notice now, on every channel of the service itself."""
    return await _try(call, NOBODYS, call.parts.notices.addresses)


async def _try(call: Call, app_id: str, addresses: Addresses) -> NoticeTrialsOut:
    posted = await call.parts.notice_trial.send(app_id, addresses)
    return NoticeTrialsOut(
        data=[NoticeTrialOut(channel=at, ok=each.taken, trouble=each.trouble) for at, each in posted.items()]
    )
