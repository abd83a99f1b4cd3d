"""TLS: how we ask for it, and what its failures mean."""

from __future__ import annotations

import ssl
from typing import Final

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
    if isinstance(error, ssl.SSLError) and error.reason:
        return Failure(Trouble.TLS, f"The handshake failed: {error.reason.lower().replace('_', ' ')}.")
    if isinstance(error, OSError) and is_ours(error.errno):
        return Failure(Trouble.LOCAL, f"{error.strerror}.")
    return Failure(Trouble.TLS, "The connection ended in the handshake.")
