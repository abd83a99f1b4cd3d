"""A running service with pages, receivers behind it, and visitors who notice everything that goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from hookfuse.testing.receivers import Behaviour, ReceiversProcess
from tests.service.programs import Served, environment, serving, until

PASSWORD = "correct horse battery staple"
LOGS_IN_WITHIN = 10_000
_WATCH = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`blocked: ${event.violatedDirective} ${event.blockedURI}`));
"""


class Site:
    """The service as its operator and its API's clients see it."""

    def __init__(self, program: Served, admin: str, receivers: ReceiversProcess, database: Path) -> None:
        self.program = program
        self.database = database
        self.url = program.url
        self.admin = admin
        self.receivers = receivers

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None, **query: str) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.program.port, timeout=20)
        try:
            target = f"/api/v1{path}?{urlencode(query)}" if query else f"/api/v1{path}"
            headers = {"authorization": f"Bearer {key or self.admin}", "content-type": "application/json"}
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def ok(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        status, data = self.ask(method, path, body, **query)
        assert status < 300, (status, data)
        return data

    def app(self, name: str = "Acme", **more: Any) -> str:
        return str(self.ok("POST", "/app", {"name": name, **more})["id"])

    def endpoint(self, app: str, url: str = "https://example.com/hook", **more: Any) -> str:
        return str(self.ok("POST", f"/app/{app}/endpoint", {"url": url, **more})["id"])

    def receiver(self, app: str, name: str, behaviour: Behaviour, **more: Any) -> str:
        """An endpoint with a receiver behind it."""
        return self.endpoint(app, self.receivers.add(name, behaviour), **more)

    def send(self, app: str, payload: Any = None, event_type: str = "invoice.paid") -> str:
        body = {"eventType": event_type, "payload": {"n": 1} if payload is None else payload}
        return str(self.ok("POST", f"/app/{app}/msg", body)["id"])

    def key(self, role: str, app: str | None = None) -> tuple[str, str]:
        """A new key: its id, and its text."""
        made = self.ok("POST", "/key", {"name": role, "role": role, **({"appId": app} if app else {})})
        return made["id"], made["key"]

    def delivered(self, app: str, message: str, endpoint: str, *states: str) -> Any:
        """A delivery, once it is in one of these states."""
        path = f"/app/{app}/delivery/{message}/{endpoint}"
        until(lambda: self.ok("GET", path)["state"] in states)
        return self.ok("GET", path)


class Visitor:
    """A browser of someone who logged in. Whatever the console says is kept."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.errors: list[str] = []
        self.expected: set[str] = set()
        """Parts of messages that a test provokes."""
        context.add_init_script(_WATCH)
        context.on("console", self._heard)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        self.page = context.new_page()
        self.page.on("dialog", lambda dialog: dialog.accept())
        self.page.set_default_timeout(LOGS_IN_WITHIN)

    def log_in(self, key: str) -> Page:
        self.go("/")
        self.page.fill("[name=key]", key)
        self.page.click("button:has-text('Log in')")
        self.page.wait_for_selector("nav[aria-label=Pages]")
        return self.page

    def go(self, path: str) -> int:
        answer = self.page.goto(f"{self.url}{path}")
        assert answer is not None
        return answer.status

    def complaints(self) -> list[str]:
        return [each for each in self.errors if not any(part in each for part in self.expected)]

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)


@contextmanager
def visiting(browser: Browser, url: str, **options: Any) -> Iterator[Visitor]:
    """A visitor whose console must be silent in the end."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
    try:
        visitor = Visitor(context, url)
        yield visitor
        assert visitor.complaints() == []
    finally:
        context.close()


@contextmanager
def running_site(folder: Path, **settings: str) -> Iterator[Site]:
    given = {"retry_delays": "0.1", "dashboard_password": PASSWORD, "log_level": "warning", **settings}
    env = environment(folder / "data", **given)
    with ReceiversProcess() as receivers, serving(env, log=folder / "log") as program:
        admin = program.wait_for("hfadmin_")
        yield Site(program, admin.strip(), receivers, folder / "data" / "hookfuse.db")
