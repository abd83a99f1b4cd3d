"""Where a webhook goes: a URL, parsed once by a strict grammar of our own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL that is fit to be dialled; whether its addresses are, is decided when dialling."""

    url: str
    """Normalised: scheme and host in lower case, no default port."""
    tls: bool
    host: str
    port: int
    target: str
    """Path and query as given, at least "/"."""
