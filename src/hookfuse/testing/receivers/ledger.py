"""What arrived, written down before it is answered."""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Receipt:
    """One request that arrived whole."""

    webhook_id: str
    """Empty if the request had none."""
    endpoint: str
    arrived_at: float
    sha256: str
    """Of the body, in hexadecimal."""
    verified: bool | None
    """Whether the signature is right; None where nobody can tell."""
    status: int | None
    """What it is answered with; None if never wholly, or if a test's own function decides that later."""


class Ledger(Protocol):
    """Where receipts go, and come from."""

    def add(self, receipt: Receipt) -> None: ...
    def receipts(self) -> list[Receipt]: ...
    def close(self) -> None: ...


class MemoryLedger:
    """The newest receipts, oldest first."""

    def __init__(self, keep: int = 100_000) -> None:
        self._kept: deque[Receipt] = deque(maxlen=keep)
        self._added = 0

    def add(self, receipt: Receipt) -> None:
        self._kept.append(receipt)
        self._added += 1

    def receipts(self) -> list[Receipt]:
        return list(self._kept)

    def close(self) -> None:
        """Receipts stay readable."""

    @property
    def dropped(self) -> int:
        """How many receipts are gone because newer ones needed their place."""
        return self._added - len(self._kept)


class FileLedger:
    """Every receipt as a line of JSON at the end of a file, which other processes may read and write too."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def add(self, receipt: Receipt) -> None:
        # One unbuffered write: whole lines only, and nothing is lost when this process is killed.
        os.write(self._file, json.dumps(asdict(receipt)).encode() + b"\n")

    def receipts(self) -> list[Receipt]:
        return read_ledger(self._path)

    def close(self) -> None:
        os.close(self._file)


def read_ledger(path: str | Path) -> list[Receipt]:
    """The receipts of a file, in the order of their arrival there."""
    with Path(path).open(encoding="utf-8") as lines:
        return [Receipt(**json.loads(line)) for line in lines]
