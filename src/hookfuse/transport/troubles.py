"""What went wrong, and whose fault it is."""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple

from hookfuse.core.sending import Trouble


class Failure(NamedTuple):
    """Why there is no response, as it goes into a SendResult."""

    trouble: Trouble
    detail: str
    exhausted: bool = False
    """For want of file descriptors."""


CLOSED: Final = Failure(Trouble.LOCAL, "The sender is closed.")

_OURS: Final = frozenset(
    (
        *(errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.ENETDOWN),
        *(errno.EACCES, errno.EPERM),
    )
)
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE))


def is_ours(code: int | None, *, at_once: bool = False) -> bool:
    """Whether an error number blames this machine.

    "Network unreachable" does if the system said so at once, because it has no route. Said later, a router on the
    way did, and that is the endpoint's network.
    """
    return code in _OURS or (at_once and code == errno.ENETUNREACH)


def os_failure(code: int | None, otherwise: Trouble, *, at_once: bool = False) -> Failure:
    """The failure of an error number: our own, or `otherwise`."""
    text = os.strerror(code) if code else "Failed"
    trouble = Trouble.LOCAL if is_ours(code, at_once=at_once) else otherwise
    return Failure(trouble, f"{text}.", code in _EXHAUSTED)
