"""Hookfuse: circuit breakers by key, and webhook delivery built on them."""

from hookfuse import profiles
from hookfuse.breakers import AsyncBreakers, Breakers
from hookfuse.core.admission import Admission
from hookfuse.core.keys import endpoint_id
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Count, Latency, Rate, Slow, Streak
from hookfuse.core.state import Override, Snapshot, State, Transition
from hookfuse.errors import BreakerOpen, HookfuseError

__all__ = [
    "Admission",
    "AsyncBreakers",
    "BreakerOpen",
    "Breakers",
    "Count",
    "HookfuseError",
    "Latency",
    "Outcome",
    "Override",
    "Policy",
    "Rate",
    "Slow",
    "Snapshot",
    "State",
    "Streak",
    "Transition",
    "endpoint_id",
    "profiles",
]
