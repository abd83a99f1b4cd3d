"""What breakers cost that a fleet shares through Redis: one real server, reached over TCP on this machine."""

from benchmarks.shared.run import main

__all__ = ["main"]
