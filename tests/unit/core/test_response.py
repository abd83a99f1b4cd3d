"""What an answer means for its delivery and for its endpoint."""

from __future__ import annotations

import pytest

from hookfuse import Outcome
from hookfuse.core.response import ResponsePolicy, Step, Verdict, judge
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.errors import InvalidInput

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT
PLAIN = ResponsePolicy()
# 200: go on; 400: stop; anything else: three retries, a minute apart.
REMINDERS = ResponsePolicy(final=("400",), retry=("100-599",), retries=3, gap=60)


def answer(status: int, **headers: str) -> SendResult:
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return SendResult(status, None, 0.1, fields)


def trouble(kind: Trouble) -> SendResult:
    return SendResult(None, kind, 0.1)


def ask(
    result: SendResult, made: int = 0, policy: ResponsePolicy = PLAIN, schedule: RetrySchedule | None = None
) -> Verdict:
    return judge(result, made, schedule or RetrySchedule(), policy, NOW, 0.5)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_success(status: int) -> None:
    """Any 2xx is sent and OK, also in the last attempt."""
    for made in (0, 5):
        assert ask(answer(status), made) == Verdict(Step.SENT, Outcome.OK, "ok")


@pytest.mark.parametrize(
    "status", [100, 101, 199, 300, 301, 304, 308, 400, 404, 418, 429, 500, 503, 599, 0, 99, 600, 999]
)
def test_everything_else_fails_and_is_tried_again(status: int) -> None:
    """Every other status, redirects and impossible ones too, is a failure that follows the schedule."""
    assert ask(answer(status)) == Verdict(Step.RETRY, Outcome.FAILURE, f"status_{status}", 30_000)
    assert ask(answer(status), made=4) == Verdict(Step.RETRY, Outcome.FAILURE, f"status_{status}", 86_400_000)
    assert ask(answer(status), made=5) == Verdict(Step.FAILED, Outcome.FAILURE, "exhausted")


@pytest.mark.parametrize("kind", [kind for kind in Trouble if not kind.ours])
def test_troubles(kind: Trouble) -> None:
    """An endpoint that gives no whole answer fails, and the delivery follows the schedule."""
    assert ask(trouble(kind)) == Verdict(Step.RETRY, Outcome.FAILURE, kind.value, 30_000)
    assert ask(trouble(kind), made=5) == Verdict(Step.FAILED, Outcome.FAILURE, "exhausted")


def test_a_half_answer_is_no_success() -> None:
    """A 200 whose connection broke before its end is a failure."""
    half = SendResult(200, Trouble.DISCONNECTED, 0.1)
    assert ask(half) == Verdict(Step.RETRY, Outcome.FAILURE, "disconnected", 30_000)


@pytest.mark.parametrize("made", [0, 5, 100])
def test_our_own_fault(made: int) -> None:
    """Our own fault spends no attempt, charges no breaker, and never ends a delivery."""
    assert ask(trouble(Trouble.LOCAL), made) == Verdict(Step.RETRY, Outcome.IGNORED, "local", 10_000, spent=False)


@pytest.mark.parametrize("made", [0, 5, 100])
def test_blocked(made: int) -> None:
    """A blocked destination spends no attempt, is tried again slowly, and is flagged for someone to look at."""
    expected = Verdict(
        Step.RETRY, Outcome.IGNORED, "destination_blocked", 3_600_000, spent=False, flag="destination_blocked"
    )
    assert ask(trouble(Trouble.BLOCKED), made) == expected


@pytest.mark.parametrize(("made", "delay_ms"), [(0, 30_000), (4, 86_400_000), (5, 3_600_000)])
def test_gone(made: int, delay_ms: int) -> None:
    """410 disables the endpoint, charges no breaker, and keeps its delivery, even in the last attempt."""
    assert ask(answer(410), made) == Verdict(Step.RETRY, Outcome.IGNORED, "gone", delay_ms, spent=False, disable=True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "hold"),
    [
        ("120", 120),
        ("0", 1),
        ("-1", 1),
        ("nan", 1),
        ("-inf", 1),
        ("1e309", 3_600),
        ("9" * 400, 3_600),
        ("Tue, 14 Nov 2023 22:15:20 GMT", 120),
        ("Tue, 14 Nov 2000 22:14:20 GMT", 1),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3_600),
    ],
)
def test_throttled(status: int, header: str, hold: float) -> None:
    """429 and 503 with a Retry-After throttle for what it says, within 1 s and 1 h, and are tried no sooner."""
    verdict = ask(answer(status, retry_after=header))
    assert verdict == Verdict(Step.RETRY, Outcome.throttled(hold), "throttled", max(30_000, int(hold * 1000)))


@pytest.mark.parametrize("header", ["", "soon", "Tue, 99 Nov 2023 22:14:20 GMT", "\x00", "12 s"])
def test_unreadable_retry_after(header: str) -> None:
    """A Retry-After that cannot be read is as good as none."""
    assert ask(answer(429, retry_after=header)) == Verdict(Step.RETRY, Outcome.FAILURE, "status_429", 30_000)


def test_throttling_ends_too() -> None:
    """A throttled attempt is spent, so an endpoint that always throttles does not keep a delivery for ever."""
    verdict = ask(answer(429, retry_after="10"), made=5)
    assert verdict == Verdict(Step.FAILED, Outcome.throttled(10), "exhausted")


def test_retry_after_of_other_statuses() -> None:
    """Other statuses fail all the same, but a longer Retry-After moves the next attempt, within an hour."""
    assert ask(answer(500, retry_after="90")) == Verdict(Step.RETRY, Outcome.FAILURE, "status_500", 90_000)
    assert ask(answer(302, retry_after="1e9")) == Verdict(Step.RETRY, Outcome.FAILURE, "status_302", 3_600_000)
    assert ask(answer(500, retry_after="5")).delay_ms == 30_000


def test_dates_are_read_by_the_clock_of_their_sender() -> None:
    """A Retry-After date counts from the answer's own Date, so that neither clock need be right."""
    result = answer(503, retry_after="Sun, 01 Jan 2017 00:02:00 GMT", date="Sun, 01 Jan 2017 00:00:00 GMT")
    assert ask(result).outcome == Outcome.throttled(120)
    broken = answer(503, retry_after="Tue, 14 Nov 2023 22:15:20 GMT", date="yesterday")
    assert ask(broken).outcome == Outcome.throttled(120)


def test_final() -> None:
    """A final status ends the delivery at once and is still a failure of the endpoint."""
    policy = ResponsePolicy(final=("400",))
    assert ask(answer(400), policy=policy) == Verdict(Step.FAILED, Outcome.FAILURE, "final_status")
    assert ask(answer(401), policy=policy).step is Step.RETRY


def test_sent() -> None:
    """A status that counts as delivered is sent and OK."""
    policy = ResponsePolicy(sent=("409",), final=("4xx",))
    assert ask(answer(409), policy=policy) == Verdict(Step.SENT, Outcome.OK, "status_409")


def test_ignored() -> None:
    """A status that is ignored follows the schedule and charges no breaker."""
    policy = ResponsePolicy(ignore=("404", "5xx"))
    assert ask(answer(404), policy=policy) == Verdict(Step.RETRY, Outcome.IGNORED, "status_404", 30_000)
    assert ask(answer(502), made=5, policy=policy) == Verdict(Step.FAILED, Outcome.IGNORED, "exhausted")
    assert ask(answer(400), policy=policy).outcome == Outcome.FAILURE


def test_own_retries() -> None:
    """200 goes on, 400 stops, anything else is retried three times with a minute in between."""
    assert ask(answer(200), policy=REMINDERS).step is Step.SENT
    assert ask(answer(400), policy=REMINDERS) == Verdict(Step.FAILED, Outcome.FAILURE, "final_status")
    verdicts = [ask(answer(500), made, REMINDERS) for made in range(5)]
    assert [verdict.delay_ms for verdict in verdicts] == [60_000, 60_000, 60_000, None, None]
    assert [verdict.reason for verdict in verdicts] == ["status_500"] * 3 + ["exhausted"] * 2


def test_own_retries_and_the_rest() -> None:
    """Own retries are for the statuses that they name; the others and troubles follow the schedule."""
    policy = ResponsePolicy(retry=("500-504",), retries=1, gap=5)
    assert ask(answer(502), 0, policy).delay_ms == 5_000
    assert ask(answer(502), 1, policy).step is Step.FAILED
    assert ask(answer(505), 1, policy).delay_ms == 300_000
    assert ask(trouble(Trouble.TIMEOUT), 1, policy).delay_ms == 300_000
    assert ask(answer(502, retry_after="20"), 0, policy).delay_ms == 20_000


def test_the_narrowest_speaks() -> None:
    """Of the ranges that cover a status the narrowest decides, whichever list it is in."""
    policy = ResponsePolicy(final=("4xx", "501"), retry=("408", "5xx"), sent=("405-409",))
    steps = {status: policy.step(status) for status in (400, 405, 408, 409, 410, 500, 501, 302)}
    assert steps == {
        400: Step.FAILED,
        405: Step.SENT,
        408: Step.RETRY,
        409: Step.SENT,
        410: Step.FAILED,
        500: Step.RETRY,
        501: Step.FAILED,
        302: None,
    }


def test_ranges_leave_special_statuses_alone() -> None:
    """410, and 429 and 503 with a Retry-After, keep their meaning in a range and lose it when they are named."""
    ranges = ResponsePolicy(final=("4xx",), ignore=("4xx", "5xx"))
    assert ask(answer(410), policy=ranges).disable
    assert ask(answer(429, retry_after="60"), policy=ranges).outcome == Outcome.throttled(60)
    assert ask(answer(429, retry_after="60"), policy=ranges).step is Step.RETRY
    assert ask(answer(429), policy=ranges).step is Step.FAILED

    named = ResponsePolicy(final=("410", "429"), ignore=("503",))
    assert ask(answer(410), policy=named) == Verdict(Step.FAILED, Outcome.FAILURE, "final_status")
    assert ask(answer(429, retry_after="60"), policy=named).step is Step.FAILED
    assert ask(answer(503, retry_after="60"), policy=named).outcome == Outcome.IGNORED


def test_neither_status_nor_trouble() -> None:
    """A result that says nothing is misuse."""
    with pytest.raises(InvalidInput, match="neither"):
        ask(SendResult(None, None, 0.1))
