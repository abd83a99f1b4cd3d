"""Runs the benchmarks: all of them, or those that are named.

The exit status says whether the bars that we hold ourselves to were met.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
from datetime import date
from importlib.metadata import version

from benchmarks import document
from benchmarks.report import Report

NAMES = ("calls", "keys", "edge", "shared", "sender", "delivery", "ingest", "sampling")
LIBRARIES = ("hookfuse", "pybreaker", "circuitbreaker", "aiobreaker", "purgatory", "interlock-cb", "redis", "fastapi")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; none: all")
    parser.add_argument("--write", action="store_true", help="put the results into docs/benchmarks.md")
    asked = parser.parse_args()
    for name in asked.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark {name}; there are {', '.join(NAMES)}.")
    try:
        here = _here()
    except ModuleNotFoundError as missing:
        raise SystemExit(f"{missing.name} is missing: `make bench` installs the libraries to compare with.") from None
    reports: dict[str, Report] = {}
    for name in asked.names or NAMES:
        reports[name] = report = importlib.import_module(f"benchmarks.{name}").main()
        text = f"{here}\n\n{report}"
        print(f"{name}\n{'=' * len(name)}\n{text}\n", flush=True)
        if asked.write:
            document.write(name, text)
    missed = [f"{name}: {bar.claim}" for name, report in reports.items() for bar in report.bars if not bar.met]
    if missed:
        print("We promise more than this run has shown. Not met:", *missed, sep="\n  ", file=sys.stderr)
    return 1 if missed else 0


def _here() -> str:
    """When and where this was measured, and what."""
    versions = ", ".join(f"{library} {version(library)}" for library in LIBRARIES)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{date.today()}, {platform.python_implementation()} {platform.python_version()}, {machine}\n{versions}"


if __name__ == "__main__":
    sys.exit(main())
