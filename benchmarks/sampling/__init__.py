"""What does sampled evaluation save, and what does a sample cost?"""

from benchmarks.sampling.run import main

__all__ = ["main"]
