"""Breakers inside requests: an adapter to mount on a session.

    breakers = Breakers(policy=Policy(trip=Streak(5), cool_off=30))
    adapter = BreakerAdapter(breakers, key=lambda request: urlsplit(request.url).hostname)
    with requests.Session() as session:
        session.mount("https://", adapter)
        session.get("https://example.com/")    # refused: requests.ConnectionError, which is also a BreakerOpen

The latency of a call ends when the headers have arrived, and so does what a breaker sees of it: a body that
breaks later is not counted. Retries by `max_retries` are inside one call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeAlias

import requests
from requests.adapters import HTTPAdapter

from hookfuse.breakers import Breakers
from hookfuse.core.outcome import Outcome
from hookfuse.errors import BreakerOpen
from hookfuse.integrations._judging import check_setup, judge, read_answer, refusals_as

__all__ = ["BreakerAdapter", "CallRefused", "classify_response"]

KeyOf: TypeAlias = Callable[[requests.PreparedRequest], str | None]
Classify: TypeAlias = Callable[[requests.Response], Outcome]


class CallRefused(requests.exceptions.ConnectionError, BreakerOpen):
    """The breaker refused the request and nothing was sent."""

    def __init__(self, *args: Any, request: requests.PreparedRequest | None = None) -> None:
        BreakerOpen.__init__(self, *args)
        self.request = request
        self.response = None

    # A connection error of requests is an OSError, whose own text would come first.
    __str__ = BreakerOpen.__str__


def classify_response(response: requests.Response) -> Outcome:
    """2xx is OK, 429 and 503 with a Retry-After are throttled, a redirect counts nothing, the rest is FAILURE."""
    return read_answer(response.status_code, response.headers)


class BreakerAdapter(HTTPAdapter):
    """For requests.Session. A request whose `key` is None is not guarded; `classify` judges a response not yet read.

    `options` are those of HTTPAdapter, such as `max_retries`.
    """

    # What requests pickles; breakers that cannot be pickled then say so at once.
    __attrs__: list[str] = [*HTTPAdapter.__attrs__, "_breakers", "_key", "_classify"]  # noqa: RUF012

    def __init__(
        self, breakers: Breakers, *, key: KeyOf, classify: Classify = classify_response, **options: Any
    ) -> None:
        check_setup("BreakerAdapter", Breakers, breakers, key, classify)
        super().__init__(**options)
        self._breakers = breakers
        self._key = key
        self._classify = classify

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        key = self._key(request)
        if key is None:
            return super().send(request, *args, **kwargs)
        with ExitStack() as undo:
            with refusals_as(CallRefused, request=request), self._breakers.guard(key) as call:
                response = super().send(request, *args, **kwargs)
                undo.callback(response.close)
                judge(call, self._classify, response, response.status_code)
            undo.pop_all()
        return response
