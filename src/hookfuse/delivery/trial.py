"""Sends one request that belongs to no message, to see whether an endpoint is there, disabled or not."""

from __future__ import annotations

import random
import time

from hookfuse.core import signing
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.delivery.requesting import request_to
from hookfuse.delivery.targets import Targets
from hookfuse.ports import Sender


class Trial:
    """Signed and guarded as every request is. Its outcome is told to no breaker: a person asked for it."""

    def __init__(self, sender: Sender, targets: Targets, *, sign_ed25519: signing.SignEd25519 | None = None) -> None:
        self._sender = sender
        self._targets = targets
        self._sign_ed25519 = sign_ed25519

    async def send(self, endpoint_id: str, payload: bytes) -> SendResult:
        await self._targets.read([endpoint_id])
        target = self._targets.known(endpoint_id)
        if target is None or target.destination is None:
            return SendResult(None, Trouble.BLOCKED, 0.0, detail="" if target is None else target.trouble)
        now = time.time()
        id_ = make_id(IdKind.MESSAGE, int(now * 1000), random.randbytes(ENTROPY_BYTES))
        return await self._sender.send(request_to(target, id_, payload, now, self._sign_ed25519))
