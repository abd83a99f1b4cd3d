"""What does a durable, signed, guarded delivery cost, beside a bare aiohttp loop that posts the same to the same sink?

Each part prints ratios of things that were measured in one run: see the modules for how.
"""

from benchmarks.delivery.run import main

__all__ = ["main"]
