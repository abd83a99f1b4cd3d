"""Headers that a user adds to the requests of an endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hookfuse.errors import InvalidInput, shown

COUNT: Final = 32
NAME_LENGTH: Final = 128
VALUE_LENGTH: Final = 4096
TOTAL_LENGTH: Final = 16_384

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[!-~]([ -~\t]*[!-~])?|")

# What frames the message, belongs to one hop, or is made by Hookfuse itself.
_RESERVED: Final = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "content-encoding", "content-type", "connection"),
        *("keep-alive", "te", "trailer", "upgrade", "expect", "http2-settings", "x-idempotency-key"),
    )
)
# Signatures are ours; the others open a metadata service to whoever can send them, or speak to a proxy.
_RESERVED_PREFIXES: Final = (
    "webhook-",
    "svix-",
    "proxy-",
    "metadata",
    "x-aws-ec2-metadata-",
    "x-google-metadata-",
    "x-identity-header",
    "x-metadata-token",
)


def check_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The headers as pairs, or InvalidInput that names the one that cannot be sent."""
    if len(headers) > COUNT:
        raise InvalidInput(f"An endpoint may have {COUNT} headers at most, got {len(headers)}.")
    seen: set[str] = set()
    total = 0
    for name, value in headers.items():
        _check_name(name)
        _check_value(name, value)
        if name.lower() in seen:
            raise InvalidInput(f"The header {shown(name)} is given twice.")
        seen.add(name.lower())
        total += len(name) + len(value)
    if total > TOTAL_LENGTH:
        raise InvalidInput(f"The headers of an endpoint may have {TOTAL_LENGTH} bytes together, got {total}.")
    return tuple(headers.items())


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise InvalidInput(f"A header's name is letters, digits and hyphens, got {shown(name)}.")
    if len(name) > NAME_LENGTH:
        raise InvalidInput(f"The name of the header {shown(name)} may have {NAME_LENGTH} bytes at most.")
    lower = name.lower()
    if lower in _RESERVED or lower.startswith(_RESERVED_PREFIXES):
        raise InvalidInput(f"The header {shown(name)} is reserved and cannot be set.")


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise InvalidInput(
            f"The value of the header {shown(name)} must be visible ASCII, with spaces and tabs only inside."
        )
    if len(value) > VALUE_LENGTH:
        raise InvalidInput(f"The value of the header {shown(name)} may have {VALUE_LENGTH} bytes at most.")
