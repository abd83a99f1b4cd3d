"""Rates that are measured in turns, and compared within each turn: a machine may be half as fast a minute later."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from benchmarks.report import table


class Rounds:
    """The first name is the floor; every round measures all names once."""

    def __init__(self, floor: str) -> None:
        self._floor = floor
        self._rates: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, rate: float) -> None:
        self._rates[name].append(rate)

    def __contains__(self, name: object) -> bool:
        return name in self._rates

    def ratio(self, name: str) -> float:
        """To the floor of the same round; the middle of all rounds."""
        floors = self._rates[self._floor]
        return median(rate / floor for rate, floor in zip(self._rates[name], floors, strict=True))

    def table(self, what: str) -> str:
        rows = [[name, f"{median(rates):,.0f}", f"{self.ratio(name):.2f}x"] for name, rates in self._rates.items()]
        return table([what, "rate", f"of {self._floor}"], rows)
