"""What breakers did lately, as this process has heard it. It begins with the process."""

from __future__ import annotations

from collections import OrderedDict, deque

from hookfuse.breakers import AsyncBreakers
from hookfuse.core.state import Transition

KEPT = 50
_MOST_KEYS = 10_000


class History:
    """The last transitions of each breaker; those that were silent for longest are forgotten first."""

    def __init__(self, breakers: AsyncBreakers) -> None:
        self._by_key: OrderedDict[str, deque[Transition]] = OrderedDict()
        self._subscription = breakers.subscribe(self._heard)

    def of(self, key: str) -> list[Transition]:
        """Newest first."""
        return list(reversed(self._by_key.get(key, ())))

    def close(self) -> None:
        self._subscription.close()

    def _heard(self, transition: Transition) -> None:
        self._by_key.setdefault(transition.key, deque(maxlen=KEPT)).append(transition)
        self._by_key.move_to_end(transition.key)
        if len(self._by_key) > _MOST_KEYS:
            self._by_key.popitem(last=False)
