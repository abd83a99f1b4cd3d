"""What can be asked of the demo, and the settings that follow."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from hookfuse.config import load
from hookfuse.demo.plan import LONGEST, SHORTEST, Plan
from hookfuse.demo.settings import Wanted, environment
from hookfuse.errors import InvalidInput

POSTGRES, REDIS = "postgresql://localhost/x", "redis://localhost"


@pytest.mark.parametrize("seconds", [0, -1, SHORTEST - 0.1, LONGEST + 1, math.nan, math.inf])
def test_length_of_the_story(seconds: float) -> None:
    """A story that nobody could follow, or would wait for, is refused."""
    with pytest.raises(InvalidInput, match="from 10 to 600 seconds"):
        Plan(seconds)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"workers": 3}, "--database-url and --redis-url"),
        ({"workers": 3, "redis_url": REDIS}, "--database-url and --redis-url"),
        ({"workers": 3, "database_url": POSTGRES}, "--database-url and --redis-url"),
        ({"workers": 0}, "--workers is a number"),
        ({"workers": 99, "database_url": POSTGRES, "redis_url": REDIS}, "--workers is a number"),
        ({"database_url": "sqlite:///some/file"}, "--database-url names a Postgres"),
        ({"database_url": "mysql://secret@x"}, "--database-url"),
        ({"redis_url": "http://secret@x"}, "--redis-url"),
        ({"port": 70_000}, "--port"),
    ],
)
def test_refusals(given: dict[str, Any], sentence: str) -> None:
    """What cannot be done is refused with the option's name, and a URL is not repeated."""
    with pytest.raises(InvalidInput, match=sentence) as caught:
        Wanted(**given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("seconds", [SHORTEST, 60.0, LONGEST])
def test_everything_scales(tmp_path: Path, seconds: float) -> None:
    """The settings are valid at every length, and the policy's times are the same share of it."""
    settings = load(environment(Wanted(Plan(seconds)), tmp_path, None)).settings
    assert settings.embedded
    assert settings.policy == Plan(seconds).policy
    assert settings.policy.cool_off_ms / 1000 == pytest.approx(seconds * 12 / 60, abs=0.001)
    assert settings.retry_delays.delays == pytest.approx(Plan(seconds).retry.delays, rel=1e-4)
