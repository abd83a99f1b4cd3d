"""What holds for every guarded client, on a real server."""

from __future__ import annotations

import pickle

import pytest

from hookfuse import BreakerOpen, Outcome, State
from hookfuse.errors import InvalidInput, InvalidKey
from hookfuse.testing import ManualClock
from tests.unit.integrations.clients import AsyncClient, Client
from tests.unit.integrations.conftest import COOL_OFF, Connect
from tests.unit.integrations.endpoint import Endpoint, unused_url


def trip(client: Client, endpoint: Endpoint) -> None:
    endpoint.answer(500)
    assert [client.get(endpoint.url), client.get(endpoint.url)] == [500, 500]
    assert client.inspect("ep").state is State.OPEN


def make_probe_due(client: Client, endpoint: Endpoint, clock: ManualClock) -> None:
    trip(client, endpoint)
    endpoint.answer(200)
    endpoint.arrived.clear()
    clock.advance(COOL_OFF)


def test_success_is_counted(client: Client, endpoint: Endpoint) -> None:
    """A 2xx answer counts as one success."""
    endpoint.answer(201)
    assert client.get(endpoint.url) == 201
    assert client.inspect("ep").totals == (1, 0, 0)


def test_open_breaker_sends_nothing(client: Client, endpoint: Endpoint) -> None:
    """Failures are returned as responses until they trip; from then on no request reaches the server."""
    trip(client, endpoint)
    with pytest.raises(BreakerOpen):
        client.get(endpoint.url)
    assert len(endpoint.paths) == 2


def test_refusal_is_a_connection_error(client: Client, endpoint: Endpoint) -> None:
    """Code that handles the client's own connection errors handles a refusal too."""
    trip(client, endpoint)
    with pytest.raises(client.connection_error) as caught:
        client.get(endpoint.url)
    assert isinstance(caught.value, BreakerOpen)


def test_refusal_tells_what_breaker_open_tells(client: Client, endpoint: Endpoint, clock: ManualClock) -> None:
    """A refusal has the facts and the sentence of a plain BreakerOpen."""
    trip(client, endpoint)
    with pytest.raises(BreakerOpen) as caught:
        client.get(endpoint.url)
    refusal = caught.value
    assert (refusal.key, refusal.state, refusal.reason) == ("ep", "open", "open")
    assert refusal.retry_at == clock.now() + COOL_OFF
    assert str(refusal).startswith("Call to 'ep' refused: open (failures in a row: 2, limit 2); try again at ")
    assert str(refusal) == str(BreakerOpen(*refusal.args))


def test_refusal_survives_pickling(client: Client, endpoint: Endpoint) -> None:
    """A refusal can cross to another process, as results of worker pools do."""
    trip(client, endpoint)
    with pytest.raises(BreakerOpen) as caught:
        client.get(endpoint.url)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is type(caught.value)
    assert str(copy) == str(caught.value)


def test_probe_closes(client: Client, endpoint: Endpoint, clock: ManualClock) -> None:
    """After the cool-off one request passes as a probe, and its success closes the breaker."""
    make_probe_due(client, endpoint, clock)
    assert client.get(endpoint.url) == 200
    assert client.inspect("ep").state is State.CLOSED
    assert client.get(endpoint.url) == 200


def test_failed_probe_opens_again(client: Client, endpoint: Endpoint, clock: ManualClock) -> None:
    """A probe that fails opens the breaker for another cool-off."""
    make_probe_due(client, endpoint, clock)
    endpoint.answer(500)
    assert client.get(endpoint.url) == 500
    with pytest.raises(BreakerOpen):
        client.get(endpoint.url)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_holds(client: Client, endpoint: Endpoint, clock: ManualClock, status: int) -> None:
    """429 and 503 with a Retry-After hold the key for that long and count as no failure."""
    endpoint.answer(status, {"Retry-After": "20"})
    assert client.get(endpoint.url) == status
    endpoint.answer(200)
    clock.advance(19.999)
    with pytest.raises(BreakerOpen) as caught:
        client.get(endpoint.url)
    assert caught.value.reason == "throttled"
    assert client.inspect("ep").totals.failed == 0
    clock.advance(0.001)
    assert client.get(endpoint.url) == 200


def test_retry_after_date_is_counted_on_the_servers_clock(client: Client, endpoint: Endpoint) -> None:
    """A Retry-After date holds as long as it lies after the answer's Date, whatever our own clock says."""
    headers = {"Date": "Thu, 01 Jan 1998 00:00:00 GMT", "Retry-After": "Thu, 01 Jan 1998 00:00:40 GMT"}
    endpoint.answer(503, headers)
    client.get(endpoint.url)
    with pytest.raises(BreakerOpen) as caught:
        client.get(endpoint.url)
    assert caught.value.retry_after == 40


def test_failure_by_status_is_kept_in_words(client: Client, endpoint: Endpoint) -> None:
    """A failure by status is kept as the status and its standard phrase."""
    endpoint.answer(503)
    client.get(endpoint.url)
    assert [failure.message for failure in client.inspect("ep").failures] == ["503 Service Unavailable"]


def test_unknown_status_is_kept_as_a_number(client: Client, endpoint: Endpoint) -> None:
    """A status without a standard phrase is kept as it is."""
    endpoint.answer(599)
    client.get(endpoint.url)
    assert [failure.message for failure in client.inspect("ep").failures] == ["599"]


def test_refused_connection_is_a_failure(client: Client) -> None:
    """An error of the client passes through unchanged and is kept as a failure with its class."""
    with pytest.raises(client.connection_error) as caught:
        client.get(unused_url())
    assert not isinstance(caught.value, BreakerOpen)
    assert [failure.type for failure in client.inspect("ep").failures] == [client.when_nobody_listens]


def test_each_reset_request_is_one_failure(client: Client, endpoint: Endpoint) -> None:
    """A cut connection counts once for every request that the server saw."""
    endpoint.reset()
    with pytest.raises(client.any_error):
        client.get(endpoint.url)
    assert client.inspect("ep").totals.failed == len(endpoint.paths) > 0


def test_without_a_key_nothing_is_guarded(connect: Connect, endpoint: Endpoint) -> None:
    """A request whose key is None passes, however often it fails, and is not counted."""
    client = connect(key=lambda _: None)
    endpoint.answer(500)
    assert [client.get(endpoint.url) for _ in range(3)] == [500] * 3
    assert client.inspect("ep").totals == (0, 0, 0)


def test_key_is_found_from_the_request(connect: Connect, endpoint: Endpoint) -> None:
    """`key` gets the client's own request, so breakers can be told apart by URL."""
    client = connect(key=lambda request: str(request.url).removeprefix(endpoint.url))
    endpoint.answer(500)
    client.get(f"{endpoint.url}/a")
    assert client.inspect("/a").streak == 1
    assert client.inspect("/b").streak == 0


def test_followed_redirect_counts_once(client: Client, endpoint: Endpoint) -> None:
    """A redirect that the client follows is one success, not a failure and a success."""
    assert client.get(f"{endpoint.url}/moved") == 200
    assert endpoint.paths == ["/moved", "/"]
    assert client.inspect("ep").totals == (1, 0, 0)


def test_probe_follows_a_redirect(client: Client, endpoint: Endpoint, clock: ManualClock) -> None:
    """A probe that is redirected hands its turn to the request that the redirect leads to."""
    make_probe_due(client, endpoint, clock)
    assert client.get(f"{endpoint.url}/moved") == 200
    assert client.inspect("ep").state is State.CLOSED


def test_classify_overrides_the_status(connect: Connect, endpoint: Endpoint) -> None:
    """`classify` has the last word on a response."""
    client = connect(classify=lambda response: Outcome.OK)
    endpoint.answer(404)
    assert client.get(endpoint.url) == 404
    assert client.inspect("ep").totals == (1, 0, 0)


@pytest.mark.parametrize("fault", [lambda _: 1 / 0, lambda _: None], ids=["raises", "nonsense"])
def test_faulty_classify_is_not_held_against_the_endpoint(connect: Connect, endpoint: Endpoint, fault: object) -> None:
    """A `classify` that raises or returns nonsense says so to the caller and counts nothing."""
    client = connect(classify=fault)
    with pytest.raises((ZeroDivisionError, InvalidInput)):
        client.get(endpoint.url)
    assert client.inspect("ep").totals == (0, 0, 0)


def test_response_that_never_reaches_its_caller_is_closed(connect: Connect, endpoint: Endpoint) -> None:
    """When `classify` fails, the connection is not left behind as one in use."""
    responses: list[object] = []
    client = connect(classify=responses.append)
    endpoint.hold_body()
    with pytest.raises(InvalidInput, match="classify must return an Outcome, got None"):
        client.get(endpoint.url)
    assert [client.is_closed(response) for response in responses] == [True]


def test_latency_ends_with_the_headers(client: Client, endpoint: Endpoint, clock: ManualClock) -> None:
    """The time that the body takes is no part of the recorded latency."""
    endpoint.before_headers = lambda: clock.advance(0.25)
    endpoint.hold_body()

    def body_takes_five_seconds() -> None:
        clock.advance(5)
        endpoint.release()

    client.get(endpoint.url, body_takes_five_seconds)
    assert client.inspect("ep").mean_latency == 0.25


def test_cancelled_probe_is_given_back(async_client: AsyncClient, endpoint: Endpoint, clock: ManualClock) -> None:
    """A cancelled probe frees its slot at once, and the next request may probe."""
    make_probe_due(async_client, endpoint, clock)
    endpoint.hang()
    async_client.cancel(endpoint.url, once=endpoint.wait_for_request)
    found = async_client.inspect("ep")
    assert (found.state, found.probes_in_flight) == (State.HALF_OPEN, 0)
    endpoint.release()
    assert async_client.get(endpoint.url) == 200
    assert async_client.inspect("ep").state is State.CLOSED


def test_unusable_key_is_refused(connect: Connect, endpoint: Endpoint) -> None:
    """A key that is not a string is answered with a sentence before anything is sent."""
    client = connect(key=lambda _: 7)
    with pytest.raises(InvalidKey, match="non-empty string"):
        client.get(endpoint.url)
    assert endpoint.paths == []


@pytest.mark.parametrize("name", ["key", "classify"])
def test_key_and_classify_must_be_functions(connect: Connect, name: str) -> None:
    """A string or a coroutine function in the place of a plain function is refused at once."""

    async def coroutine(_: object) -> None: ...

    for wrong in ("ep", coroutine):
        with pytest.raises(InvalidInput, match=f"{name} must be a plain function of the re"):
            connect(**{name: wrong})
