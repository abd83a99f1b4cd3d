"""What stores keep of breakers' transitions, the outbox of notices about them, and who carries mails.

Whatever people are to be told of is put into the outbox in the transaction that writes it down: by
`keep_transitions`, and also by `stop_endpoint`, `start_endpoint`, `settle` and `rescue`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookfuse.core.duty import Tenure
from hookfuse.core.history import Entry, Head, Unstopped
from hookfuse.core.mail import Mail, Mailed
from hookfuse.core.notice import Notice, NoticeChannel, NoticeSettings, NoticeState, Occurrence, Waiting
from hookfuse.core.paging import Span
from hookfuse.core.state import Transition


class History(Protocol):
    async def keep_transitions(self, transitions: Sequence[Transition]) -> Sequence[Transition]:
        """Write these down; returns those that nobody had written before."""
        ...

    async def heads(self, keys: Sequence[str]) -> Sequence[Head]:
        """The last transition of each of these breakers that is kept."""
        ...

    async def unhealthy_heads(self, after: str, limit: int) -> Sequence[Head]:
        """Breakers that were not closed by what is kept, by key."""
        ...

    async def unstopped(self, after: str, limit: int) -> Sequence[Unstopped]:
        """Enabled endpoints behind breakers that were disabled by what is kept, by endpoint."""
        ...

    async def transitions_page(
        self, span: Span, *, app_id: str | None = None, key: str | None = None
    ) -> Sequence[Entry]:
        """By generation (`Mark.at_ms`), then by key: of one breaker, of one application, or all."""
        ...

    async def prune_history(self, *, older_than_ms: int, limit: int = 1000, tenure: Tenure | None = None) -> int:
        """Forget up to `limit` transitions, and as many notices that have ended; returns how many of both."""
        ...


class Outbox(Protocol):
    async def claim_notices(
        self, channel: NoticeChannel, limit: int, *, lease_ms: int, tenure: Tenure | None = None
    ) -> Sequence[Notice]:
        """Take notices that are due, or whose lease has ended; each claim counts as an attempt."""
        ...

    async def settle_notice(self, notice: Notice, state: NoticeState, *, reason: str = "", delay_ms: int = 0) -> bool:
        """Write what became of a claim; PENDING comes back after the delay. False: its lease was lost."""
        ...

    async def notices_page(
        self, span: Span, *, app_id: str | None = None, state: NoticeState | None = None
    ) -> Sequence[Notice]:
        """By id, which is by time."""
        ...

    async def notice_settings(self, app_id: str) -> NoticeSettings | None: ...

    async def notice_settings_from(self, after: str, limit: int) -> Sequence[NoticeSettings]:
        """Of all applications, by id."""
        ...

    async def change_notice_settings(self, settings: NoticeSettings) -> NoticeSettings: ...

    async def delete_notice_settings(self, app_id: str) -> bool: ...

    async def reseal_notices(self, before: NoticeSettings, sealed: bytes) -> bool:
        """Replace a seal by another of the same content; False: it was changed meanwhile, and stays as it is."""
        ...

    async def tell(self, happened: Occurrence) -> None:
        """Put something into the outbox that no other verb tells of."""
        ...

    async def notices_waiting(self) -> Sequence[Waiting]:
        """What has not ended yet, by channel."""
        ...

    async def look_for_failing(self, stages_ms: Sequence[int], tenure: Tenure | None = None) -> Sequence[Occurrence]:
        """Put those into the outbox that have failed for as long as a stage; returns what is new."""
        ...


class Notices(History, Outbox, Protocol):
    """Both."""


class Mailer(Protocol):
    """Hands mails to a server. What goes wrong there is a value."""

    async def send(self, mail: Mail) -> Mailed: ...

    async def close(self) -> None: ...
