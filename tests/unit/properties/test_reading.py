"""What comes from outside is read as one of few things: responses as outcomes, addresses as keys."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from hookfuse import HookfuseError, Outcome, endpoint_id
from hookfuse.core.keys import check_key
from hookfuse.core.outcome import Kind, classify_status, parse_retry_after
from tests.unit.properties.strategies import HUGE, junk, look


@look(150)
@given(seconds=st.sampled_from(HUGE) | junk)
def test_any_retry_after_is_clamped_or_refused(seconds: Any) -> None:
    """`Outcome.throttled` holds for a second to an hour, or refuses what is no duration."""
    try:
        outcome = Outcome.throttled(seconds)
    except HookfuseError as error:
        assert str(error)
    else:
        assert outcome.kind is Kind.THROTTLED
        assert outcome.retry_after is not None
        assert 1 <= outcome.retry_after <= 3600
        assert repr(outcome)


headers = st.one_of(
    st.text(max_size=40),
    st.integers().map(str),
    st.floats().map(str),
    st.from_regex(r"\A(Mon|Wed|), ?\d{1,3} (Jan|Feb|Foo) \d{1,9} \d{1,3}:\d{1,3}(:\d{1,3})? ?(GMT|[+-]\d{2,8}|)\Z"),
    st.sampled_from(
        ["", " ", "1e999", "-1", "nan", "inf", "1_0", "Wed, 21 Oct 2015 07:28:00 GMT", "9" * 5_000, "\x00"]
    ),
)


@look(300)
@given(status=st.integers(-10, 1000) | junk, header=headers | junk, now=st.floats())
@example(status=429, header="1e999", now=0.0)
def test_any_response_has_an_outcome(status: Any, header: Any, now: float) -> None:
    """A status and a Retry-After give an outcome whatever they are; only what is no status at all is refused."""
    try:
        outcome = classify_status(status, header, now=now)
    except HookfuseError as error:
        assert str(error)
    else:
        assert (outcome.kind is Kind.OK) == (200 <= status < 300)
        assert outcome.kind is not Kind.THROTTLED or status in (429, 503)


@look(300)
@given(header=headers | junk, now=st.floats() | st.just(1.7e9))
def test_any_header_gives_seconds_or_none(header: Any, now: float) -> None:
    """A Retry-After header is a wait of a second to an hour, or None."""
    try:
        wait = parse_retry_after(header, now)
    except HookfuseError as error:
        assert str(error)
    else:
        assert wait is None or 1 <= wait <= 3600


urls = st.one_of(
    st.builds(
        "{}://{}{}{}".format,
        st.sampled_from(["http", "HTTPS", "ftp", ""]),
        st.text(max_size=8),
        *[st.text(max_size=6)] * 2,
    ),
    st.sampled_from(
        ["http://[::1", "http://[::1]:x", "https://h:99999", "http://h:-1", "http://\u2100.test", "//h", "http://", "x"]
    ),
    st.text(max_size=30),
)


@look(250)
@given(tenant=st.text(max_size=5) | junk, url=urls | junk, drop_query=st.booleans() | junk)
def test_any_url_has_an_id_or_is_refused(tenant: Any, url: Any, drop_query: Any) -> None:
    """`endpoint_id` gives a usable key, always the same one, or refuses what is no web address."""
    try:
        key = endpoint_id(tenant, url, drop_query=drop_query)
    except HookfuseError as error:
        assert str(error)
    else:
        assert check_key(key) == key == endpoint_id(tenant, url, drop_query=drop_query)


names = st.text(st.sampled_from("a|x:1/,"), max_size=4)


@look(150)
@given(one=st.tuples(names, names, names), other=st.tuples(names, names, names))
def test_different_endpoints_have_different_ids(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """Tenant, path and query tell endpoints apart, whatever signs are in them; only a trailing slash does not."""
    ids = [endpoint_id(tenant, f"https://h.test/p{path}?{query}") for tenant, path, query in (one, other)]
    same = [(tenant, path.rstrip("/"), query) for tenant, path, query in (one, other)]
    assert (ids[0] == ids[1]) == (same[0] == same[1])
