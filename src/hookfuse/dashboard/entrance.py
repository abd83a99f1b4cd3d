"""Logging in and out: with an API key, or with the password of the settings, which stands for a key of its own."""

from __future__ import annotations

import logging
import math
from hashlib import sha256
from hmac import compare_digest

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hookfuse.core.access import well_formed
from hookfuse.dashboard.client import ApiClient, Call
from hookfuse.dashboard.forms import Form
from hookfuse.dashboard.lockout import Lockout
from hookfuse.dashboard.origins import address_of, is_exposed, is_own_page, is_secure
from hookfuse.dashboard.sessions import LIFETIME, Session, Sessions
from hookfuse.dashboard.views import Views
from hookfuse.dashboard.visits import THEME_COOKIE

PATH = "/dashboard/login"
HOME = "/dashboard"
_COOKIE = "hookfuse-session"
# With this prefix browsers take a cookie only over TLS, and only from this very host.
_SECURE_COOKIE = f"__Host-{_COOKIE}"
_UNKNOWN = "This is no valid key or password."

_log = logging.getLogger("hookfuse.dashboard")


class Entrance:
    def __init__(
        self, client: ApiClient, sessions: Sessions, views: Views, password: str | None, password_key: str | None
    ) -> None:
        self._client = client
        self._sessions = sessions
        self._views = views
        self._password = None if password is None else _digest(password)
        self._password_key = password_key
        self._lockout = Lockout()

    def session(self, request: Request) -> Session | None:
        return self._sessions.read(request.cookies.get(_name(request)))

    async def show(self, request: Request) -> Response:
        if self.session(request) is not None:
            return RedirectResponse(_after(request.query_params.get("next", "")), 303)
        return self._form(request, request.query_params.get("next", ""))

    async def enter(self, request: Request) -> Response:
        form = await Form.of(request)
        if form is None or not is_own_page(request):
            return self._form(request, "", "This form was not sent by this page.", 403)
        address, after = address_of(request), form.text("next")
        wait = self._lockout.wait(address)
        if wait:
            return self._locked(request, after, wait)
        key = await self._key_of(form.text("key"))
        if key is None:
            self._lockout.failed(address)
            _log.warning("someone at %s gave no valid key or password", address)
            wait = self._lockout.wait(address)
            return self._locked(request, after, wait) if wait else self._form(request, after, _UNKNOWN, 401)
        self._lockout.succeeded(address)
        response = RedirectResponse(_after(after), 303)
        self._set_cookie(request, response, self._sessions.begin(key), int(LIFETIME))
        return response

    async def leave(self, request: Request, session: Session | None) -> Response:
        if session is not None:
            self._sessions.end(session)
        return self.turn_away(request)

    def turn_away(self, request: Request) -> Response:
        """To the login, without a session."""
        asked = request.url.path if request.method == "GET" and request.url.path != HOME else ""
        target = f"{PATH}?next={asked}" if asked.startswith("/dashboard/") else PATH
        if "hx-request" in request.headers:
            response = Response(headers={"hx-redirect": PATH})
        else:
            response = RedirectResponse(target, 303)
        self._set_cookie(request, response, "", 0)
        return response

    async def _key_of(self, typed: str) -> str | None:
        """The key that was meant, if it is good."""
        if self._password is not None and compare_digest(_digest(typed), self._password):
            typed = self._password_key or ""
        if not well_formed(typed):
            return None
        answer = await self._client.send(typed, Call("GET", "/key/self"))
        return typed if answer.ok else None

    def _locked(self, request: Request, after: str, wait: float) -> Response:
        seconds = math.ceil(wait)
        response = self._form(request, after, f"Too many wrong tries. Try again in {seconds} s.", 429)
        response.headers["retry-after"] = str(seconds)
        return response

    def _form(self, request: Request, after: str, trouble: str = "", status: int = 200) -> Response:
        content = self._views.render(
            "login.html",
            after=after,
            trouble=trouble,
            exposed=is_exposed(request),
            with_password=self._password is not None,
            theme=request.cookies.get(THEME_COOKIE, "auto"),
        )
        return HTMLResponse(content, status)

    def _set_cookie(self, request: Request, response: Response, value: str, age: int) -> None:
        response.set_cookie(
            _name(request), value, max_age=age, path="/", secure=is_secure(request), httponly=True, samesite="strict"
        )


def _name(request: Request) -> str:
    return _SECURE_COOKIE if is_secure(request) else _COOKIE


def _after(path: str) -> str:
    """Only pages of ours: `//elsewhere` and `/\\elsewhere` would lead away."""
    return path if path == HOME or (path.startswith(f"{HOME}/") and "\\" not in path and "//" not in path) else HOME


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
