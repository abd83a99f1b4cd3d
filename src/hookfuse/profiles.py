"""Ready policies, one for each documented way of breaking.

| profile | trips on | opens for | comes back by |
|---|---|---|---|
| `redis_script` | failures in a rolling window; a success clears | the reset timeout | one probe, jittered |
| `sampled` | a share of failed calls, judged from samples | the breaker timeout | share of successes |
| `stoplight` | failures in a window, or of all time; a success clears | the cool-off | one probe |
| `latency` | mean latency or the number of errors, judged from samples | the circuit open time | one probe |
| `consecutive` | failures in a row, which disable the endpoint | the cooldown | one chance |

Each is a function that returns a `Policy`, with the numbers of its source as defaults.
"""

from __future__ import annotations

from hookfuse.core import bounds
from hookfuse.core.bounds import Duration
from hookfuse.core.policy import Evaluate, Policy
from hookfuse.core.rules import Count, Latency, Rate, Streak

__all__ = ["consecutive", "latency", "redis_script", "sampled", "stoplight"]


def redis_script(
    *,
    threshold: int = 5,
    window: Duration = 60,
    reset_timeout: Duration = 30,
    probe_lease: Duration = 5,
    jitter: float = 0.1,
) -> Policy:
    """`threshold` failures in a rolling window open it; one caller of the whole fleet probes.

    Set `probe_lease` above your request's deadline.
    """
    return Policy(
        trip=Count(threshold, success_clears=True),
        window=window,
        cool_off=reset_timeout,
        jitter=jitter,
        probe_lease=probe_lease,
    )


def sampled(
    *,
    sample_every: Duration = 30,
    cool_off: Duration = 30,
    failure_percent: float = 70,
    success_percent: float = 5,
    window: Duration = 300,
    min_calls: int = 10,
    disable_after: int | None = 10,
) -> Policy:
    """Every `sample_every` someone judges what the window holds; many trips in a row disable the endpoint.

    Nothing trips by itself: the service samples, or you call `breakers.evaluate(key)`.
    """
    return Policy(
        trip=Rate(bounds.number("failure_percent", failure_percent, 1, 100) / 100, min_calls=min_calls),
        close_rate=bounds.number("success_percent", success_percent, 1, 100) / 100,
        window=window,
        cool_off=cool_off,
        disable_after=disable_after,
        evaluate=Evaluate.SAMPLED,
        sample_every=sample_every,
    )


def stoplight(*, threshold: int = 3, window_size: Duration | None = None, cool_off_time: Duration = 60) -> Policy:
    """`threshold` failures within `window_size` (None: of all time) since the last success turn it red."""
    return Policy(trip=Count(threshold, success_clears=True), window=window_size, cool_off=cool_off_time)


def latency(
    *,
    mean: Duration = 5,
    errors: int = 50,
    every: Duration = 60,
    open_for: Duration = 300,
) -> Policy:
    """Mean latency or the number of errors between two runs opens it; thresholds differ per client.

    Judged from samples like `sampled`. Unlike its source it lets one probe through before full traffic.
    """
    seconds = bounds.seconds("mean", mean, 0.001, bounds.DAY)
    return Policy(
        trip=Latency(seconds, min_calls=1) | Count(errors),
        window=every,
        cool_off=open_for,
        evaluate=Evaluate.SAMPLED,
        sample_every=every,
    )


def consecutive(*, threshold: int = 5, cooldown: Duration = 3600) -> Policy:
    """`threshold` failures in a row disable the endpoint; after the cooldown it has one chance."""
    return Policy(trip=Streak(threshold), disable_after=1, reenable_after=cooldown)
