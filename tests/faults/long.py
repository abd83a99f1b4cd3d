"""The long form of the faults of delivery: bigger, and again and again with other draws until the time is over.

    python -m tests.faults.long                     everything, once
    python -m tests.faults.long F1 G1 --minutes 30  these two, for half an hour

A round that fails ends it. Its seed is printed; HOOKFUSE_SEED=… makes the same draws again.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

_HERE = Path(__file__).parent
_LEADER = _HERE.parent / "sampling" / "test_leader_lost.py"
"""Where the one fault is that takes a leader."""
_ONE_TEST = 1800
"""Seconds after which a test hangs."""


def main() -> int:
    options = _options().parse_args()
    names = [name.lower() for name in options.faults]
    known = _known()
    if unknown := sorted(set(names) - known):
        sys.exit(f"There is no fault {', '.join(unknown)}; there are {', '.join(sorted(known))}.")
    until = time.monotonic() + options.minutes * 60
    given = os.environ.get("HOOKFUSE_SEED")
    while True:
        code = _round(names, int(given) if given else random.randrange(1 << 32))
        if code != 0 or time.monotonic() >= until:
            return code


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.long", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="such as F1 or G10; all if none is named")
    parser.add_argument("--minutes", type=float, default=0, help="begin new rounds for so long; by default one round")
    return parser


def _known() -> set[str]:
    """The faults that have a test: each begins with its name."""
    words = (line.split("_")[1] for path in _tests() for line in path.read_text().splitlines() if _begins(line))
    return set(words)


def _tests() -> list[Path]:
    return [*sorted((_HERE / "delivery").glob("test_*.py")), _LEADER]


def _begins(line: str) -> bool:
    return line.startswith("async def test_")


def _round(names: list[str], seed: int) -> int:
    sys.stdout.write(f"HOOKFUSE_SEED={seed}\n")
    sys.stdout.flush()
    chosen = ["-k", " or ".join(f"test_{name}_" for name in names)] if names else []
    command = [sys.executable, "-m", "pytest", "-rP", f"--timeout={_ONE_TEST}", *map(str, _tests()), *chosen]
    ordeal = {**os.environ, "HOOKFUSE_ORDEAL": "long", "HOOKFUSE_SEED": str(seed)}
    return subprocess.run(command, env=ordeal, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
