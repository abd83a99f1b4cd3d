"""Every error that Hookfuse raises.

    HookfuseError
    ├── InvalidInput          (also a ValueError) a value that cannot be used; says which and what would do
    │   ├── InvalidField      a named field that does not do; has `.field`
    │   │   └── InvalidPolicy a policy field out of its bounds
    │   └── InvalidKey        a breaker key that is not a usable string
    ├── AlreadySettled        (also a RuntimeError) an admission recorded or released twice
    ├── Conflict              an id of one's own (uid) that is taken
    ├── StoreError            a store cannot do its work
    │   └── StoreUnavailable  it did not answer in time, or refused the connection
    ├── SealingError          a secret cannot be sealed or opened
    │   ├── UnknownKey        no key at hand made the seal
    │   ├── BrokenSeal        what was sealed was changed, or is about something else
    │   └── BadKeyFile        the file of the master keys cannot be used
    └── BreakerOpen           the call was refused; has `.key`, `.state`, `.retry_at`, `.reason`

What is expected is a value, not an exception: `admit` returns a refusal as an `Admission`.
`BreakerOpen` exists for the guarded forms (`guard`, `protect`, the client integrations), where there is
no value to return.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

_SHOWN = 120


def shown(value: object) -> str:
    """A value as an error message shows it: never too long, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class HookfuseError(Exception):
    """The root of the tree: catch it to catch everything that is ours."""


class InvalidInput(HookfuseError, ValueError):
    """A value that cannot be used. The message names it and says what would do."""


class InvalidField(InvalidInput):
    """A field does not do. The message names the field and what would do."""

    def __init__(self, field: str, must: str, got: object) -> None:
        super().__init__(field, must, got)
        self.field = field
        self.must = must
        self.got = got

    def __str__(self) -> str:
        return f"{self.field} must {self.must}, got {shown(self.got)}."


class InvalidPolicy(InvalidField):
    """A policy field is out of its bounds. The message names the field and the bound."""


class InvalidKey(InvalidInput):
    """A breaker key must be a non-empty string of at most 512 bytes."""


class AlreadySettled(HookfuseError, RuntimeError):
    """An admission is recorded or released once. Ask `admit` again for the next call."""


class Conflict(HookfuseError):
    """Something with this uid exists already. Use another uid, or change the one that exists."""


class StoreError(HookfuseError):
    """A store cannot do its work: wrong settings, wrong data, no permission. The message says which."""


class StoreUnavailable(StoreError):
    """The store did not answer in time or cannot be reached. What was asked may or may not have been done."""


class SealingError(HookfuseError):
    """A secret cannot be sealed or opened. The message never shows a secret or a key."""


class UnknownKey(SealingError):
    """No master key at hand made this seal. Add the key that did to the key file."""


class BrokenSeal(SealingError):
    """What was sealed was changed since, was cut, or is about something else."""


class BadKeyFile(SealingError):
    """The file of the master keys cannot be read, made or trusted. The message says why."""


class BreakerOpen(HookfuseError):
    """The call was refused. Come back at `retry_at` (Unix seconds; None: once an operator lets it pass)."""

    # The facts are the exception's args and nothing else is made until someone reads it: this is what an open
    # breaker costs per call.
    if TYPE_CHECKING:

        def __init__(
            self,
            key: str,
            state: str,
            retry_at: float | None,
            reason: str,
            why: str = "",
            retry_after: float | None = None,
        ) -> None: ...

    @property
    def key(self) -> str:
        return str(self.args[0])

    @property
    def state(self) -> str:
        """The breaker's state at the refusal."""
        state: str = self.args[1]
        return state

    @property
    def retry_at(self) -> float | None:
        """When to come back, in Unix seconds of the store's clock."""
        instant: float | None = self.args[2]
        return instant

    @property
    def reason(self) -> str:
        """Why this call: open, probing, throttled, disabled or forced_open."""
        reason: str = self.args[3]
        return reason

    @property
    def why(self) -> str:
        """What opened the breaker, in words."""
        return str(self.args[4]) if len(self.args) > 4 else ""

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait, as of the refusal."""
        seconds: float | None = self.args[5] if len(self.args) > 5 else None
        return seconds

    def __str__(self) -> str:
        because = f" ({self.why})" if self.why else ""
        if self.retry_at is None:
            when = "it stays refused until someone enables or unforces it"
        else:
            clock = datetime.fromtimestamp(self.retry_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            wait = "" if self.retry_after is None else f", in {self.retry_after:.3g} s"
            when = f"try again at {clock}{wait}"
        return f"Call to {self.key!r} refused: {self.reason}{because}; {when}."
