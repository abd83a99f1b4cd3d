"""How long everything takes: the story fits into the seconds it is given, and its policy with it."""

from __future__ import annotations

from dataclasses import dataclass

from hookfuse.core.policy import Policy
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.rules import Streak
from hookfuse.errors import InvalidInput

SHORTEST, LONGEST = 10.0, 600.0

_MINUTE = 60.0
_HOUR = 3_600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The story's length in seconds, and what follows from it. Instants are seconds after the story's beginning."""

    seconds: float = _MINUTE
    rate: float = 10.0
    """Messages a second; each goes to every receiver."""
    burst: int = 5
    """How many are sent in one go."""

    patience: float = 0.0
    """Seconds in which a turn must happen; 0: plenty. A busy machine is slow, and that alone is no failure."""

    def __post_init__(self) -> None:
        if not SHORTEST <= self.seconds <= LONGEST:
            raise InvalidInput(f"A story takes from {SHORTEST:g} to {LONGEST:g} seconds.")
        object.__setattr__(self, "patience", self.patience or max(30.0, 2 * self.seconds))

    @property
    def break_at(self) -> float:
        return self._of_a_minute(12)

    @property
    def hold_at(self) -> float:
        return self._of_a_minute(16)

    @property
    def compare_at(self) -> float:
        return self._of_a_minute(21)

    @property
    def heal_at(self) -> float:
        return self._of_a_minute(40)

    @property
    def policy(self) -> Policy:
        return Policy(
            trip=Streak(5),
            cool_off=self._of_a_minute(12),
            cool_off_factor=2,
            cool_off_max=self._of_a_minute(48),
            ramp=self._of_a_minute(12),
            # Not longer than the second cool-off: whoever asks beside a probe comes back when its lease would end.
            probe_lease=self._of_a_minute(24),
            forget_after=_HOUR,
        )

    @property
    def retry(self) -> RetrySchedule:
        # Many short delays: a flaky receiver must not use them up.
        return RetrySchedule(tuple(map(self._of_a_minute, (2, 4, *(8,) * 10))))

    def _of_a_minute(self, seconds: float) -> float:
        return seconds * self.seconds / _MINUTE
