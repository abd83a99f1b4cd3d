"""TLS: how we ask for it, how much of it we take, and what its failures mean."""

from __future__ import annotations

import builtins
import ssl
from typing import Any, Final

from hookfuse.core.sending import Trouble
from hookfuse.transport.troubles import Failure, is_ours

# By the numbers of OpenSSL's certificate verification.
_CERTIFICATE: Final = {
    9: "is not valid yet",
    10: "has expired",
    18: "is self-signed",
    19: "is signed by an unknown root",
    20: "is signed by an unknown issuer",
    21: "comes without its chain",
    62: "is for another name",
    64: "is for another address",
}

_MOST_BESIDE: Final = 131_072
"""Bytes of handshakes, tickets and the like. The largest chain of certificates that OpenSSL takes has 100 KiB."""
_RECORD: Final = 64
"""Bytes, and a few more than there are around the data of a record. There may be a record for each byte of data."""


class TooMuchBeside(ssl.SSLError):
    """A server goes on and on with TLS itself."""


class Metered(ssl.SSLObject):
    """Counts what comes beside data.

    Whoever reads data never hears of the rest, and a server may send it without end: new tickets, for example, instead
    of an answer or while the connection is idle.
    """

    incoming: ssl.MemoryBIO
    beside = 0
    """Bytes that came and were no data."""
    _data = 0

    def do_handshake(self) -> None:
        before = self.incoming.pending
        try:
            super().do_handshake()
        finally:
            self._count(before, 0)

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        before, data = self.incoming.pending, 0
        try:
            got = super().read(len, buffer)
            data = got if isinstance(got, int) else builtins.len(got)
        finally:
            self._count(before, data)
        return got

    def _count(self, before: int, data: int) -> None:
        self._data += data
        self.beside += before - self.incoming.pending - data
        if self.beside > _MOST_BESIDE + _RECORD * self._data:
            raise TooMuchBeside


def client_context() -> ssl.SSLContext:
    """Certificates and names are verified by the roots of the system; HTTP/1.1 is all that we offer."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def tls_failure(error: Exception) -> Failure:
    """The failure of a handshake, or of the session after it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = _CERTIFICATE.get(error.verify_code, f"is refused: {error.verify_message}")
        return Failure(Trouble.TLS, f"The certificate {why}.")
    if isinstance(error, TooMuchBeside):
        return Failure(Trouble.TLS, "Too much came that was no data.")
    if isinstance(error, ssl.SSLError) and error.reason:
        return Failure(Trouble.TLS, f"The handshake failed: {error.reason.lower().replace('_', ' ')}.")
    if isinstance(error, OSError) and is_ours(error.errno):
        return Failure(Trouble.LOCAL, f"{error.strerror}.")
    return Failure(Trouble.TLS, "The connection ended in the handshake.")
