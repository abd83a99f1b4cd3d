"""When a failed attempt is made again. A schedule is data: it compares, hashes, and round-trips as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from hookfuse.core import bounds
from hookfuse.core.bounds import DAY, milliseconds
from hookfuse.core.plain import given_fields
from hookfuse.errors import InvalidInput, InvalidPolicy, shown

MOST_RETRIES = 50
LONGEST_DELAY = 30 * DAY
MOST_JITTER = 0.5


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """The waits between the attempts of a delivery: n delays make n + 1 attempts.

    delays  seconds before the second attempt, the third, and so on; none: one attempt only
    jitter  the share by which a delay is drawn longer or shorter, so that what failed together
            does not come back together
    """

    delays: tuple[float, ...] = (30.0, 300.0, 1_800.0, 7_200.0, 86_400.0)
    jitter: float = 0.1

    def __post_init__(self) -> None:
        given: object = self.delays
        if not isinstance(given, list | tuple) or len(given) > MOST_RETRIES:
            raise InvalidPolicy("delays", f"be a list of at most {MOST_RETRIES} durations in seconds", given)
        delays = tuple(bounds.seconds(f"delays[{at}]", each, 0, LONGEST_DELAY) for at, each in enumerate(given))
        object.__setattr__(self, "delays", delays)
        object.__setattr__(self, "jitter", bounds.number("jitter", self.jitter, 0, MOST_JITTER))

    @property
    def attempts(self) -> int:
        """How many attempts a delivery gets at most."""
        return len(self.delays) + 1

    def delay_ms(self, attempts_made: int, draw: float) -> int | None:
        """The wait after that many attempts; None: it was the last one. `draw`, in [0, 1), is the random part."""
        if attempts_made < 1:
            raise InvalidInput(f"A delay follows at least one attempt, got attempts_made={shown(attempts_made)}.")
        if attempts_made > len(self.delays):
            return None
        return spread_ms(self.delays[attempts_made - 1], self.jitter, draw)

    def to_data(self) -> dict[str, Any]:
        """Plain data, ready for JSON; `from_data` gives an equal schedule."""
        return {"delays": list(self.delays), "jitter": self.jitter}

    @classmethod
    def from_data(cls, data: object) -> Self:
        return cls(**given_fields(cls, data))


def spread_ms(seconds: float, jitter: float, draw: float) -> int:
    """A duration, longer or shorter by up to the share `jitter`, as `draw` in [0, 1) says."""
    return int(milliseconds(seconds) * (1 + jitter * (2 * draw - 1)) + 0.5)
