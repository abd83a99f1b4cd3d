"""The connection that writes down what arrived, before it is answered."""

from __future__ import annotations

import asyncio
import hashlib
import time
from inspect import isawaitable

from hookfuse.testing.receivers.answers import Arrival
from hookfuse.testing.receivers.behaviours import answerer
from hookfuse.testing.receivers.connection import Connection, Directory, Open
from hookfuse.testing.receivers.endpoint import Choice, Endpoint
from hookfuse.testing.receivers.hostile import Reset
from hookfuse.testing.receivers.ledger import Receipt


class RecordingConnection(Connection):
    """Also writes down what arrived, and lets a test's own function choose the answer."""

    def __init__(self, directory: Directory, open_ones: Open) -> None:
        super().__init__(directory, open_ones)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._headers, self._body = {}, []

    def _answer(self, endpoint: Endpoint) -> None:
        arrival = Arrival(endpoint.name, time.time(), self._headers, b"".join(self._body))
        if endpoint.choice is not None:
            self._record(endpoint, arrival, None)
            self._choosing = asyncio.get_running_loop().create_task(self._choose(endpoint, endpoint.choice, arrival))
            return
        assert endpoint.answer is not None
        answer = endpoint.answer(arrival)
        self._record(endpoint, arrival, answer.status)
        if endpoint.instant is not None:
            self._write(endpoint, endpoint.instant)
        else:
            self._begin(endpoint, answer)

    async def _choose(self, endpoint: Endpoint, choice: Choice, arrival: Arrival) -> None:
        try:
            chosen = choice(arrival)
            behaviour = await chosen if isawaitable(chosen) else chosen
            answer = answerer(behaviour)(arrival)
        except Exception as error:
            self._directory.errors.append(error)
            answer = Reset(in_response=False).begin()
        self._choosing = None
        self._begin(endpoint, answer)

    def _record(self, endpoint: Endpoint, arrival: Arrival, status: int | None) -> None:
        assert self._directory.ledger is not None
        self._directory.ledger.add(
            Receipt(
                webhook_id=arrival.headers.get("webhook-id", ""),
                endpoint=endpoint.name,
                arrived_at=arrival.arrived_at,
                sha256=hashlib.sha256(arrival.body).hexdigest(),
                verified=_verified(endpoint, arrival),
                status=status,
            )
        )


def _verified(endpoint: Endpoint, arrival: Arrival) -> bool | None:
    if endpoint.verify is None:
        return None
    try:
        endpoint.verify(arrival.body, dict(arrival.headers))
    except Exception:
        # Whatever a verifier raises, it did not accept the signature.
        return False
    return True
