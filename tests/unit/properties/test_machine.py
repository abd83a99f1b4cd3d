"""Breakers under any history: several callers, two keys, operators, changing policies and a clock that slips.

Calls are admitted and settled apart, so reports come in any order, late, twice or never. Hypothesis makes histories
that are clever and, when they fail, short; the walks are dull and long, and many.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from hookfuse import Policy
from hookfuse.core.state import Order
from hookfuse.core.window import Counts
from tests.unit.properties.strategies import LATENCIES, OUTCOMES, TOUCHY, look, touchy, touchy_policies
from tests.unit.properties.walks import hold, seeds
from tests.unit.properties.world import World

SETTLEMENTS = ["ok", "failure", "failure", "ok", "failure", *OUTCOMES, "release"]
WAITS = [None, None, 0, 1, 700, 4_000]
BACK = [1, 400, 60_000, 3_700_000]

keys = st.sampled_from(["a", "b"])
settlements = st.sampled_from(SETTLEMENTS)
latencies = st.sampled_from(LATENCIES)
tallies = st.none() | st.builds(
    Counts, st.integers(0, 4), st.integers(0, 4), st.integers(0, 2), st.integers(0, 3), st.integers(0, 900)
)


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(Policy(), Policy())

    @initialize(a=touchy_policies, b=touchy_policies)
    def begin(self, a: Policy, b: Policy) -> None:
        self.world = World(a, b)

    @rule(key=keys)
    def admit(self, key: str) -> None:
        self.world.admit(key=key)

    @rule(pick=st.integers(0, 5), name=settlements, latency=latencies)
    def settle(self, pick: int, name: str, latency: float | None) -> None:
        self.world.settle(pick=pick, name=name, latency=latency)

    @rule(key=keys, name=settlements, latency=latencies)
    def call(self, key: str, name: str, latency: float | None) -> None:
        self.world.call(key=key, name=name, latency=latency)

    @rule(key=keys, name=settlements, latency=latencies)
    def call_in_time(self, key: str, name: str, latency: float | None) -> None:
        self.world.call_in_time(key=key, name=name, latency=latency)

    @rule(key=keys, order=st.sampled_from(Order), wait=st.sampled_from(WAITS))
    def order(self, key: str, order: Order, wait: int | None) -> None:
        self.world.order(key=key, order=order, wait=wait)

    @rule(key=keys, tally=tallies)
    def evaluate(self, key: str, tally: Counts | None) -> None:
        self.world.evaluate(key=key, tally=tally)

    @rule(key=keys, policy=touchy_policies)
    def change_policy(self, key: str, policy: Policy) -> None:
        self.world.change_policy(key=key, policy=policy)

    @rule(pick=st.integers(0, 30), off=st.integers(-1, 1))
    def step_to_an_edge(self, pick: int, off: int) -> None:
        self.world.step_to_an_edge(pick=pick, off=off)

    @rule(step=st.integers(0, 20) | st.integers(0, 3_000))
    def step(self, step: int) -> None:
        self.world.step(step=step)

    @rule(step=st.sampled_from(BACK))
    def step_back(self, step: int) -> None:
        self.world.step_back(step=step)

    @invariant()
    def check(self) -> None:
        self.world.check()


def test_any_history_keeps_the_rules() -> None:
    """Under any history the store does what the rules say, and announces exactly that, once."""
    run_state_machine_as_test(Histories, settings=look(100, stateful_step_count=40, report_multiple_bugs=False))


Step = tuple[str, dict[str, Any]]

DRAWS: dict[str, tuple[int, Callable[[random.Random], dict[str, Any]]]] = {
    "admit": (15, lambda draw: {"key": draw.choice("ab")}),
    "settle": (20, lambda draw: {"pick": draw.randrange(9), **_ending(draw)}),
    "call": (25, lambda draw: {"key": draw.choice("ab"), **_ending(draw)}),
    "call_in_time": (12, lambda draw: {"key": draw.choice("ab"), **_ending(draw)}),
    "order": (5, lambda draw: {"key": draw.choice("ab"), "order": draw.choice([*Order]), "wait": draw.choice(WAITS)}),
    "evaluate": (5, lambda draw: {"key": draw.choice("ab"), "tally": _tally(draw)}),
    "change_policy": (1, lambda draw: {"key": draw.choice("ab"), "policy": _policy(draw)}),
    "step_to_an_edge": (14, lambda draw: {"pick": draw.randrange(30), "off": draw.randint(-1, 1)}),
    "step": (4, lambda draw: {"step": draw.choice([0, 1, 7, 99, 100, 500, draw.randrange(5_000)])}),
    "step_back": (1, lambda draw: {"step": draw.choice(BACK)}),
}


def _policy(draw: random.Random) -> Policy:
    return touchy(**{name: draw.choice(choices) for name, choices in TOUCHY.items()})


def _ending(draw: random.Random) -> dict[str, Any]:
    return {"name": draw.choice(SETTLEMENTS), "latency": draw.choice(LATENCIES)}


def _tally(draw: random.Random) -> Counts | None:
    sizes = [draw.randrange(most) for most in (5, 5, 3, 4, 900)]
    return Counts(*sizes) if draw.random() < 0.5 else None


def walk(policies: list[Policy], steps: list[Step]) -> Exception | None:
    """What went wrong on the way."""
    # The store draws the jitter of its cool-offs from here.
    random.seed(0)
    world = World(*policies)
    for step, words in steps:
        try:
            getattr(world, step)(**words)
            world.check()
        except Exception as error:
            return error
    return None


def test_long_walks_keep_the_rules() -> None:
    """Under many long random histories, too, the store does what the rules say."""
    names, weights = [*DRAWS], [weight for weight, _ in DRAWS.values()]
    for seed in seeds(150):
        draw = random.Random(seed)
        policies = [_policy(draw), _policy(draw)]
        steps = [(name, DRAWS[name][1](draw)) for name in draw.choices(names, weights, k=120)]
        hold(seed, policies, steps, partial(walk, policies))
