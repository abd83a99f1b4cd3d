"""Sessions are sealed cookies: every process of a fleet can open them, and nobody else can read the key inside.

A session ends after `LIFETIME`, with its key, or when its visitor leaves. Whoever left is remembered by the process
that was told; the cookie itself is taken away from the browser.
"""

from __future__ import annotations

import binascii
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hmac import compare_digest

from hookfuse.errors import SealingError
from hookfuse.ports import Sealer

LIFETIME = 12 * 3_600.0
_ABOUT = b"hookfuse dashboard session"
_MOST_ENDED = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    key: str
    """The API key that the visitor logged in with."""
    token: str
    """What a form of this session carries, so that no other page can send it."""
    until: float

    def owns(self, token: str) -> bool:
        return compare_digest(self.token.encode(), token.encode())


class Sessions:
    def __init__(self, sealer: Sealer, now: Callable[[], float] = time.time) -> None:
        self._sealer = sealer
        self._now = now
        self._ended: dict[str, float] = {}

    def begin(self, key: str) -> str:
        """A new session, as the text of its cookie."""
        session = Session(key, secrets.token_urlsafe(24), self._now() + LIFETIME)
        sealed = self._sealer.seal(json.dumps(asdict(session)).encode(), _ABOUT)
        return urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, cookie: str | None) -> Session | None:
        if not cookie:
            return None
        try:
            sealed = urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
            session = Session(**json.loads(self._sealer.open(sealed, _ABOUT)))
        except (binascii.Error, ValueError, SealingError):
            return None
        return None if self._now() >= session.until or session.token in self._ended else session

    def end(self, session: Session) -> None:
        now = self._now()
        if len(self._ended) >= _MOST_ENDED:
            self._ended = {token: until for token, until in self._ended.items() if until > now}
        self._ended[session.token] = session.until
