"""Small drawings as SVG. Their sizes are attributes, because pages carry no styles of their own."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT = 96, 24
_BAR_WIDTH = 100


def gauge(value: float, limit: float, *, judged: bool = True) -> Markup:
    """How much of a limit is reached, with a mark at the limit."""
    full = max(limit, value, 1e-9)
    filled = round(_BAR_WIDTH * min(value / full, 1.0), 2)
    mark = round(_BAR_WIDTH * limit / full, 2)
    level = "unjudged" if not judged else "over" if value >= limit else "near" if value >= 0.6 * limit else "calm"
    return Markup(
        '<svg class="gauge {}" viewBox="0 0 100 6" preserveAspectRatio="none" role="presentation">'
        '<rect class="track" width="100" height="6"></rect>'
        '<rect class="fill" width="{}" height="6"></rect>'
        '<rect class="limit" x="{}" width="1.2" height="6"></rect></svg>'
    ).format(level, filled, min(mark, 98.8))


def sparkline(ok: Sequence[int], failed: Sequence[int]) -> Markup:
    """Attempts over time: what went well above, what failed in another colour beneath it."""
    most = max((good + bad for good, bad in zip(ok, failed, strict=True)), default=0)
    if not most:
        return Markup(
            '<svg class="spark" viewBox="0 0 {0} {1}"><path class="none" d="M0 {2}H{0}"></path></svg>'
        ).format(_WIDTH, _HEIGHT, _HEIGHT - 1)
    step = _WIDTH / len(ok)
    bars = Markup("").join(
        _bar(place * step, step, good / most, bad / most)
        for place, (good, bad) in enumerate(zip(ok, failed, strict=True))
    )
    return Markup('<svg class="spark" viewBox="0 0 {} {}" role="presentation">{}</svg>').format(_WIDTH, _HEIGHT, bars)


def _bar(x: float, step: float, good: float, bad: float) -> Markup:
    tall, low = good * (_HEIGHT - 2), bad * (_HEIGHT - 2)
    made = Markup("")
    width = round(max(step - 1, 0.8), 2)
    if bad:
        made += Markup('<rect class="bad" x="{:.2f}" y="{:.2f}" width="{}" height="{:.2f}"></rect>').format(
            x, _HEIGHT - max(low, 1.0), width, max(low, 1.0)
        )
    if good:
        made += Markup('<rect class="good" x="{:.2f}" y="{:.2f}" width="{}" height="{:.2f}"></rect>').format(
            x, _HEIGHT - low - max(tall, 1.0), width, max(tall, 1.0)
        )
    return made
