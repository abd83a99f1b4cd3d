"""How much memory something takes at its worst moment."""

from __future__ import annotations

import tracemalloc
from types import TracebackType


class Peak:
    """`bytes` is the most that Python had allocated at one time of what the block allocated.

    The highest mark of the process would not do: it hides whatever is lower than something before it.
    """

    bytes = 0

    def __enter__(self) -> Peak:
        tracemalloc.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
