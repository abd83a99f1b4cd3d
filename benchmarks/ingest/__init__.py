"""What does it cost to take a message over HTTP and have it committed before the answer?

Each part prints ratios of things that were measured in one run: see the modules for how.
"""

from benchmarks.ingest.run import main

__all__ = ["main"]
