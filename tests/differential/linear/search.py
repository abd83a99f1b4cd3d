"""Is there an order of a history's operations that the model could have gone through?

An order explains a history if it keeps real time (what had returned before another was invoked comes first) and if the
model, taking the calls one after the other, gives every recorded result. The search is Wing and Gong's: of the
operations that may come next, try each; with Lowe's memory of what was reached, a set of operations done and a model,
so that no place is searched twice.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf

from tests.differential.linear.history import Advance, Call, History, Operation, Record, told
from tests.differential.linear.model import Model, View, everything, latest


@dataclass
class Verdict:
    """`order` explains the history, or is None; then `furthest` is as far as any order got, and `stuck` says why."""

    history: History
    order: History | None
    furthest: History = ()
    stuck: tuple[tuple[Operation, object], ...] = ()

    def __str__(self) -> str:
        if self.order is not None:
            return f"in this order:\n{told(self.order)}"
        because = "\n".join(f"  {operation}\n    but the machine: {result}" for operation, result in self.stuck)
        return (
            f"no order explains this history:\n{told(self.history)}\n"
            f"the furthest that any order got:\n{told(self.furthest)}\nand then:\n{because}"
        )


def explain(history: History, start: Model, view: View = everything) -> Verdict:
    """Search for an order in which the model gives the recorded results, as far as `view` compares them."""
    return _Search(history, view).run(start)


class _Search:
    def __init__(self, history: History, view: View) -> None:
        self._history = tuple(sorted(history, key=lambda operation: operation.returned))
        self._results = [view(operation.result) for operation in self._history]
        self._view = view
        shown = self._history if view is everything else ()
        bounds = enumerate(latest(operation.result) for operation in shown)
        self._latest = [(nth, marks) for nth, marks in bounds if min(marks) < inf]
        self._all = (1 << len(history)) - 1
        self._reached: set[tuple[int, Hashable]] = set()
        self._order: list[Operation] = []
        self._furthest: History = ()
        self._stuck: list[tuple[Operation, object]] = []

    def run(self, start: Model) -> Verdict:
        if self._from(0, start):
            return Verdict(self._history, tuple(self._order))
        return Verdict(self._history, None, self._furthest, tuple(self._stuck))

    def _from(self, done: int, model: Model) -> bool:
        if done == self._all:
            return True
        place = (done, model.identity())
        if place in self._reached:
            return False
        self._reached.add(place)
        behind = self._behind(done, model)
        if behind:
            self._give_up([(operation, "this lies behind") for operation in behind])
            return False
        for nth, after in self._next(done, model):
            self._order.append(self._history[nth])
            if self._from(done | 1 << nth, after):
                return True
            self._order.pop()
        return False

    def _next(self, done: int, model: Model) -> list[tuple[int, Model]]:
        """What may come next, and the model after it: all that was invoked before anything left had returned."""
        left = [nth for nth in range(len(self._history)) if not done >> nth & 1]
        first = self._history[left[0]].returned
        fitting: list[tuple[int, Model]] = []
        unlike: list[tuple[Operation, object]] = []
        kinds: set[Hashable] = set()
        for nth in left:
            operation = self._history[nth]
            if operation.invoked > first:
                continue
            kind = model.kind(operation.call)
            if kind is not None:
                # Of two reports that do and say the same, the one that returned first may as well come first.
                kind = (kind, self._results[nth])
                if kind in kinds:
                    continue
                kinds.add(kind)
            after, result = model.apply(operation.call)
            if self._view(result) != self._results[nth]:
                unlike.append((operation, result))
            elif self._only_looks(operation.call, model, after):
                return [(nth, after)]
            else:
                fitting.append((nth, after))
        if not fitting:
            self._give_up(unlike)
        return fitting

    def _give_up(self, because: list[tuple[Operation, object]]) -> None:
        if len(self._order) > len(self._furthest) or not self._stuck:
            self._furthest, self._stuck = tuple(self._order), because

    def _behind(self, done: int, model: Model) -> list[Operation]:
        """What is left but can no longer come, because what its result shows only grows and has grown past it."""
        marks = model.marks()
        return [
            self._history[nth]
            for nth, bound in self._latest
            if not done >> nth & 1 and any(mark > most for mark, most in zip(marks, bound, strict=True))
        ]

    def _only_looks(self, call: Call, model: Model, after: Model) -> bool:
        """Whether a call that fits here changes nothing, here or later: then every order may as well have it here.

        A report is not such a call: one that changes nothing here may do so later. A lease that is not there to be
        given back will not be there later, and a full answer to `admit` fixes the ticket that comes with it.
        """
        if isinstance(call, Record | Advance) or not after.same_breaker(model):
            return False
        return self._view is everything or after.same_tickets(model)
