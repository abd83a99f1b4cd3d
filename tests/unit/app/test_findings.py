"""What the doctor makes of a server's clock."""

from __future__ import annotations

import pytest

from hookfuse.app.findings import Standing, skew

ASKED, ANSWERED = 1000.0, 1003.0


@pytest.mark.parametrize("theirs", [ASKED, 1001.5, ANSWERED, ASKED - 1.9, ANSWERED + 1.9])
def test_an_answer_that_took_its_time(theirs: float) -> None:
    """A clock that may have agreed while it was asked is not blamed for how long that took."""
    assert skew("Redis", theirs, ASKED, ANSWERED).standing is Standing.GOOD


@pytest.mark.parametrize(("theirs", "off"), [(ASKED - 600, 600), (ANSWERED + 7, 7)])
def test_a_wrong_clock(theirs: float, off: int) -> None:
    """A clock that is behind or ahead is told with how far it is off, and what to do."""
    found = skew("Postgres", theirs, ASKED, ANSWERED)
    assert found.standing is Standing.POOR
    assert found.says == f"is {off} s off from this machine's"
    assert "NTP" in found.remedy
