"""The program as it runs dials nobody that it must not, and tells nobody what it must not."""

from __future__ import annotations

import json
import re
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from hookfuse.testing.receivers import Failing, Ok, ReceiversProcess
from tests.service.programs import Served, environment, serving, until

SECRET = "whsec_Y2FuYXJ5LWluLXRoZS1jb2FsLW1pbmUtMTIzNA=="
CANARIES = (
    "Y2FuYXJ5LWlu",
    "canary-in-the-coal-mine",
    "canary-header",
    "canary-payload",
    "canary-path",
    "canary-password",
)


class Caller:
    """Someone with a key."""

    def __init__(self, served: Served, key: str = "") -> None:
        found = re.search(r"^hfadmin\S+$", served.take_all(), re.MULTILINE)
        assert key or found
        self.key = key or (found[0] if found else "")
        self._port = served.port

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        headers = {"authorization": f"Bearer {self.key}"}
        connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse().read()
        connection.close()
        return json.loads(answer) if answer else None

    def attempts(self, message: str) -> list[Any]:
        found: list[Any] = self.ask("GET", f"/app/acme/attempt/msg/{message}")["data"]
        return found

    def send(self, **payload: str) -> str:
        return str(self.ask("POST", "/app/acme/msg", {"eventType": "a", "payload": payload})["id"])


def see_blocked(caller: Caller, message: str, endpoint: str) -> None:
    """The attempt says so, names no address, charges no breaker, and the endpoint is flagged."""
    until(lambda: bool(caller.attempts(message)))
    (attempt,) = caller.attempts(message)
    assert (attempt["trouble"], attempt["responseStatusCode"]) == ("destination_blocked", 0)
    assert "127.0.0.1" not in attempt["detail"]
    until(lambda: caller.ask("GET", f"/app/acme/endpoint/{endpoint}")["flag"] == "destination_blocked")
    breaker = caller.ask("GET", f"/app/acme/breaker/{endpoint}")
    assert (breaker["state"], breaker["failed"], breaker["streak"]) == ("closed", 0, 0)


def test_it_does_not_call_itself(env: dict[str, str], log: Path) -> None:
    """The port that the service itself listens on is not dialled, though its network is allowed."""
    with serving(env, log=log) as served:
        caller = Caller(served)
        caller.ask("POST", "/app", {"name": "Acme", "uid": "acme"})
        asked = served.metric('hookfuse_http_requests_total{status="4xx"}')
        caller.ask("POST", "/app/acme/endpoint", {"url": f"{served.url}/api/v1/app", "uid": "self"})
        see_blocked(caller, caller.send(), "self")
        assert served.metric('hookfuse_http_requests_total{status="4xx"}') == asked


def test_a_network_that_is_no_longer_allowed(tmp_path: Path, log: Path, outside: ReceiversProcess) -> None:
    """An endpoint that was stored while its network was allowed gets nothing once it is not."""
    data = tmp_path / "data"
    with serving(environment(data), log=log) as served:
        caller = Caller(served)
        caller.ask("POST", "/app", {"name": "Acme", "uid": "acme"})
        caller.ask("POST", "/app/acme/endpoint", {"url": outside.add("shop", Ok()), "uid": "shop"})
        caller.send()
        until(lambda: outside.counts["shop"].requests == 1)
        assert served.stop() == 0
    with serving(environment(data, forbidden_networks="127.0.0.0/8"), log=log) as served:
        again = Caller(served, caller.key)
        see_blocked(again, again.send(), "shop")
    assert outside.counts["shop"].requests == 1


def test_canaries(tmp_path: Path, log: Path, outside: ReceiversProcess) -> None:
    """No secret, header, payload, path of a URL or password is in logs, metrics, health or answers."""
    env = environment(
        tmp_path / "data", log_level="debug", dashboard_password="canary-password-1", retry_delays="0.05,0.05"
    )
    with serving(env, log=log) as served:
        caller = Caller(served)
        caller.ask("POST", "/app", {"name": "Acme", "uid": "acme"})
        url = f"{outside.add('bad', Failing())}?canary-path=1"
        body = {"url": url, "uid": "bad", "secret": SECRET, "headers": {"x-token": "canary-header"}}
        caller.ask("POST", "/app/acme/endpoint", body)
        message = caller.send(text="canary-payload")
        until(lambda: len(caller.attempts(message)) == 3)
        wrong = {**body, "uid": "other", "secret": f"{SECRET}!", "headers": {"host": "canary-header"}}
        said = [served.get(path)[1] for path in ("/metrics", "/healthz", "/readyz", "/api/v1/app")]
        said += [json.dumps(caller.ask("POST", "/app/acme/endpoint", wrong))]
        said += [json.dumps(caller.ask("GET", path)) for path in ("/audit", "/breaker", "/transition", "/key")]
        assert served.stop() == 0
        said.append(served.log)
        assert caller.key not in "".join(said)
        assert [canary for canary in CANARIES if canary in "".join(said)] == []
        assert "attempt" in served.log
