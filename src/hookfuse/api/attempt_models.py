"""Attempts, and what became of deliveries, as they look outside."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Any

import msgspec

from hookfuse.api.endpoint_models import EndpointOut
from hookfuse.api.messages import MessageOut
from hookfuse.api.wire import Channel, EventTypeNames, Instant, Iterator, Limit, Uid, Wire, instant, instant_or_none
from hookfuse.core.delivery import Attempt, Delivery, DeliveryState
from hookfuse.core.next_step import NextStep


class MessageStatus(IntEnum):
    """0 success, 1 pending, 2 failed, 3 sending, 4 cancelled."""

    SUCCESS = 0
    PENDING = 1
    FAIL = 2
    SENDING = 3
    CANCELED = 4


class StatusText(StrEnum):
    SUCCESS = "success"
    PENDING = "pending"
    FAIL = "fail"
    SENDING = "sending"
    CANCELED = "canceled"


class TriggerType(IntEnum):
    """0 by the schedule, 1 by hand."""

    SCHEDULED = 0
    MANUAL = 1


class StatusCodeClass(IntEnum):
    """By hundreds; 0: there was no response."""

    NONE = 0
    INFORMATION = 100
    SUCCESS = 200
    REDIRECT = 300
    CLIENT_ERROR = 400
    SERVER_ERROR = 500


_STATUS = {
    DeliveryState.SENT: MessageStatus.SUCCESS,
    DeliveryState.PENDING: MessageStatus.PENDING,
    DeliveryState.FAILED: MessageStatus.FAIL,
    DeliveryState.SENDING: MessageStatus.SENDING,
    DeliveryState.CANCELLED: MessageStatus.CANCELED,
}
STATES = {status: state for state, status in _STATUS.items()}


class AttemptOut(Wire):
    id: str
    msg_id: str
    endpoint_id: str
    url: str
    response: str
    """The beginning of the response's body."""
    response_status_code: int
    """0: there was no response, and `trouble` says why."""
    response_duration_ms: int
    status: MessageStatus
    status_text: StatusText
    trigger_type: TriggerType
    timestamp: Instant
    attempt_number: int
    trouble: str
    detail: str
    msg: MessageOut | None


class EndpointMessageOut(MessageOut):
    """A message, and what became of it at one endpoint."""

    status: MessageStatus
    status_text: StatusText
    next_attempt: Instant | None


class MessageEndpointOut(EndpointOut):
    """An endpoint, and what became of one message there."""

    status: MessageStatus
    status_text: StatusText
    next_attempt: Instant | None


class AttemptedQuery(Wire, rename=None):
    limit: Limit = 50
    iterator: Iterator | None = None
    status: MessageStatus | None = None
    channel: Channel | None = None
    event_types: EventTypeNames | None = None
    before: Instant | None = None
    after: Instant | None = None
    with_content: bool = True
    expanded_statuses: bool = True
    """SDKs send it; all statuses are told anyway."""


class AttemptsQuery(AttemptedQuery, rename=None):
    status_code_class: StatusCodeClass | None = None
    with_msg: bool = False


class AttemptQuery(Wire, rename=None):
    expanded_statuses: bool = True


class MessageAttemptsQuery(AttemptsQuery, rename=None):
    endpoint_id: Uid | None = None


def attempt_told(
    attempt: Attempt, urls: Mapping[str, str], msg: MessageOut | None = None, *, content: bool = True
) -> AttemptOut:
    succeeded = attempt.status is not None and 200 <= attempt.status < 300
    return AttemptOut(
        id=attempt.id,
        msg_id=attempt.message_id,
        endpoint_id=attempt.endpoint_id,
        url=urls.get(attempt.endpoint_id, ""),
        response=attempt.response.decode("utf-8", "replace") if content else "",
        response_status_code=attempt.status or 0,
        response_duration_ms=attempt.latency_ms,
        status=MessageStatus.SUCCESS if succeeded else MessageStatus.FAIL,
        status_text=StatusText.SUCCESS if succeeded else StatusText.FAIL,
        trigger_type=TriggerType.MANUAL if attempt.manual else TriggerType.SCHEDULED,
        timestamp=instant(attempt.at_ms),
        attempt_number=attempt.number,
        trouble=attempt.trouble,
        detail=attempt.detail,
        msg=msg,
    )


def endpoint_message(message: MessageOut, delivery: Delivery, step: NextStep) -> EndpointMessageOut:
    return EndpointMessageOut(**msgspec.structs.asdict(message), **_progress(delivery, step))


def message_endpoint(endpoint: EndpointOut, delivery: Delivery, step: NextStep) -> MessageEndpointOut:
    return MessageEndpointOut(**msgspec.structs.asdict(endpoint), **_progress(delivery, step))


def _progress(delivery: Delivery, step: NextStep) -> dict[str, Any]:
    status = _STATUS[delivery.state]
    return {
        "status": status,
        "status_text": StatusText[status.name],
        "next_attempt": instant_or_none(step.at_ms),
    }
