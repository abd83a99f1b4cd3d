"""Secrets, sealed for what they belong to: endpoints' signing secrets and headers, and where notices go."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from hookfuse.core.endpoint import Endpoint
from hookfuse.core.headers import check_headers
from hookfuse.core.notice import NoticeSettings
from hookfuse.core.secret import Scheme, Secret, SecretRing
from hookfuse.delivery.notify_addresses import Addresses, open_addresses, seal_addresses
from hookfuse.ports import Ed25519, Sealer

_KEY_BYTES = 32
_PREFIXES = ("whsec_", "whsk_", "whpk_")


class Vault:
    def __init__(self, sealer: Sealer, curve: Ed25519) -> None:
        self._sealer = sealer
        self._curve = curve

    def secret(self, text: str | None) -> Secret:
        """The given secret, with or without its prefix, or a new one."""
        if text is None:
            return Secret(os.urandom(_KEY_BYTES))
        secret = Secret.parse(text if text.startswith(_PREFIXES) else f"whsec_{text}")
        if secret.scheme is Scheme.ED25519:
            self._curve.check(secret)
        return secret

    def seal_ring(self, endpoint_id: str, ring: SecretRing) -> bytes:
        return self._sealer.seal(json.dumps(ring.to_data()).encode(), endpoint_id.encode())

    def open_ring(self, endpoint: Endpoint) -> SecretRing | None:
        if not endpoint.secret:
            return None
        return SecretRing.from_data(json.loads(self._sealer.open(endpoint.secret, endpoint.id.encode())))

    def seal_headers(self, endpoint_id: str, headers: Mapping[str, str]) -> bytes:
        """Checked first: a header that cannot be sent is refused here."""
        if not headers:
            return b""
        return self._sealer.seal(json.dumps(dict(check_headers(headers))).encode(), endpoint_id.encode())

    def open_headers(self, endpoint: Endpoint) -> dict[str, str]:
        if not endpoint.headers:
            return {}
        found: dict[str, str] = json.loads(self._sealer.open(endpoint.headers, endpoint.id.encode()))
        return found

    def seal_addresses(self, app_id: str, addresses: Addresses) -> bytes:
        return seal_addresses(self._sealer, app_id, addresses)

    def open_addresses(self, settings: NoticeSettings) -> Addresses:
        return open_addresses(self._sealer, settings)
