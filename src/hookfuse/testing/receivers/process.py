"""Receivers in a process of their own, driven from this one: for benchmarks, and for tests that kill things."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hookfuse.errors import HookfuseError, InvalidInput
from hookfuse.testing.receivers.behaviours import Behaviour
from hookfuse.testing.receivers.endpoint import Counts
from hookfuse.testing.receivers.spec import Order, write_orders

_ENDS_WITHIN = 10.0
_ENDED = "the receivers' process has ended."


class ReceiversProcess:
    """The same words as `Receivers`, without waiting for anything but the other process.

    It ends with this process, however that ends, because its input ends then. Without a ledger file it only counts.
    """

    def __init__(self, *, ledger: str | Path | None = None, certificate: str | Path | None = None) -> None:
        self._command = [sys.executable, "-m", "hookfuse.testing.receivers", "--control"]
        if ledger is not None:
            self._command += ["--ledger", str(ledger)]
        if certificate is not None:
            self._command += ["--certificate", str(certificate)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.port = int(self._line())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.communicate(timeout=_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def add(self, name: str, behaviour: Behaviour, *, secret: str | None = None, own_port: bool = False) -> str:
        """A new endpoint; returns its URL."""
        return self.add_all({name: Order(behaviour, secret, own_port)})[name]

    def add_all(self, orders: dict[str, Order]) -> dict[str, str]:
        """Many new endpoints in one go; returns the URLs of all that there are."""
        answer = self._ask(orders)
        return {name: found["url"] for name, found in answer["endpoints"].items()}

    def change(self, name: str, behaviour: Behaviour) -> None:
        self._ask({name: Order(behaviour)})

    @property
    def counts(self) -> dict[str, Counts]:
        found = self._ask({})["endpoints"]
        return {name: _counts(entry) for name, entry in found.items()}

    @property
    def requests(self) -> int:
        """Those of all endpoints: cheap, so that who waits for them does not disturb."""
        return int(self._answer("")["requests"])

    @property
    def connections(self) -> int:
        return int(self._ask({})["connections"])

    @property
    def strays(self) -> int:
        return int(self._ask({})["strays"])

    def _ask(self, orders: dict[str, Order]) -> dict[str, Any]:
        return self._answer(write_orders(orders))

    def _answer(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise HookfuseError(_ENDED) from error
        answer: dict[str, Any] = json.loads(self._line())
        if "error" in answer:
            raise InvalidInput(answer["error"])
        return answer

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise HookfuseError(_ENDED)
        return line


def _counts(entry: dict[str, Any]) -> Counts:
    answers = {int(status): number for status, number in entry["answers"].items()}
    return Counts(entry["requests"], entry["in_flight"], entry["most_in_flight"], answers)
