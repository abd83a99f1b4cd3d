"""Every error that Hookfuse raises.

    HookfuseError
    ├── InvalidInput          (also a ValueError) a value that cannot be used; says which and what would do
    │   ├── InvalidPolicy     a policy field out of its bounds; has `.field`
    │   └── InvalidKey        a breaker key that is not a usable string
    ├── AlreadySettled        (also a RuntimeError) an admission recorded or released twice
    └── BreakerOpen           the call was refused; has `.key`, `.state`, `.retry_at`, `.reason`

What is expected is a value, not an exception: `admit` returns a refusal as an `Admission`.
`BreakerOpen` exists for the guarded forms (`guard`, `protect`, the client integrations), where there is
no value to return.
"""

from __future__ import annotations

from datetime import UTC, datetime


class HookfuseError(Exception):
    """The root of the tree: catch it to catch everything that is ours."""


class InvalidInput(HookfuseError, ValueError):
    """A value that cannot be used. The message names it and says what would do."""


class InvalidPolicy(InvalidInput):
    """A policy field is out of its bounds. The message names the field and the bound."""

    def __init__(self, field: str, must: str, got: object) -> None:
        super().__init__(field, must, got)
        self.field = field
        self.must = must
        self.got = got

    def __str__(self) -> str:
        return f"{self.field} must {self.must}, got {self.got!r}."


class InvalidKey(InvalidInput):
    """A breaker key must be a non-empty string of at most 512 bytes."""


class AlreadySettled(HookfuseError, RuntimeError):
    """An admission is recorded or released once. Ask `admit` again for the next call."""


class BreakerOpen(HookfuseError):
    """The call was refused. Come back at `retry_at` (Unix seconds; None: once an operator lets it pass)."""

    def __init__(
        self,
        key: str,
        state: str,
        retry_at: float | None,
        reason: str,
        *,
        retry_after: float | None = None,
        why: str = "",
    ) -> None:
        super().__init__(key, state, retry_at, reason)
        self.key = key
        self.state = state
        self.retry_at = retry_at
        self.reason = reason
        self.retry_after = retry_after
        self.why = why

    def __str__(self) -> str:
        because = f" ({self.why})" if self.why else ""
        if self.retry_at is None:
            when = "it stays refused until someone enables or unforces it"
        else:
            clock = datetime.fromtimestamp(self.retry_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            wait = "" if self.retry_after is None else f", in {self.retry_after:.3g} s"
            when = f"try again at {clock}{wait}"
        return f"Call to {self.key!r} refused: {self.reason}{because}; {when}."
