"""The REST API as the command line calls it: a plain client, whose every error is a sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from hookfuse.config.settings import API_KEY, URL
from hookfuse.errors import HookfuseError, InvalidInput

_DEFAULT = "http://127.0.0.1:8400"
_DEADLINE = 30.0
_PAGE = 100


class RemoteError(HookfuseError):
    """The service refused, failed or cannot be reached. The message says which, in its words."""

    def __init__(self, sentence: str, status: int | None = None, body: object = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.body = body

    @property
    def code(self) -> str:
        """The code of its problem+json; what is no answer of ours has one of two others."""
        if isinstance(self.body, dict) and "code" in self.body:
            return str(self.body["code"])
        return "unreachable" if self.status is None else "unexpected_answer"


class Remote:
    """A service at a URL, with a key for it."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"{URL} must be the address of the service, such as {_DEFAULT}.")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self.place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._base = parts.path.rstrip("/")
        self._connection = kind(parts.hostname, parts.port, timeout=_DEADLINE)
        self._headers = {"authorization": f"Bearer {key}"} if key else {}

    @classmethod
    def of_environment(cls, *, needs_key: bool = True) -> Self:
        key = os.environ.get(API_KEY, "")
        if needs_key and not key:
            raise InvalidInput(
                f"Put an API key into {API_KEY}; `hookfuse serve` shows the first one when it first starts."
            )
        return cls(os.environ.get(URL) or _DEFAULT, key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str, **query: object) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        return self.ask("GET", f"{path}?{urlencode(given, doseq=True)}" if given else path)

    def post(self, path: str, body: Mapping[str, Any] | bytes | None = None, **headers: str) -> Any:
        return self.ask("POST", path, {} if body is None else body, headers)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.ask("PUT", path, body)

    def delete(self, path: str) -> None:
        self.ask("DELETE", path)

    def pages(self, path: str, limit: int | None = None, **query: object) -> Iterator[dict[str, Any]]:
        """Everything of a list, page by page, up to `limit`."""
        seen, iterator = 0, None
        while True:
            size = _PAGE if limit is None else min(_PAGE, limit - seen)
            page = self.get(path, limit=size, iterator=iterator, **query)
            yield from page["data"]
            seen += len(page["data"])
            iterator = page.get("iterator")
            if page.get("done", True) or not page["data"] or seen == limit:
                return

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Bytes are sent as they are: someone's own JSON."""
        sent = dict(self._headers) | {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        data = json.dumps(body).encode() if isinstance(body, Mapping) else body
        if data is not None:
            sent["content-type"] = "application/json"
        try:
            self._connection.request(method, f"{self._base}{path}", data, sent)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            self._connection.close()
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise RemoteError(
                f"The service at {self.place} cannot be reached: {why}. Its address is in {URL}."
            ) from error
        try:
            read = json.loads(content) if content else None
        except ValueError:
            raise RemoteError(
                f"What answers at {self.place} is not Hookfuse ({answer.status}).", answer.status
            ) from None
        if answer.status == 401:
            raise RemoteError(f"The service at {self.place} does not know the key in {API_KEY}.", 401, read)
        if answer.status >= 400:
            raise RemoteError(_sentence(answer.status, read), answer.status, read)
        return read


def path(*parts: str) -> str:
    """A path of the API whose parts are someone's text."""
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def _sentence(status: int, problem: Any) -> str:
    """What a problem+json says."""
    if not isinstance(problem, dict) or "detail" not in problem:
        return f"The service answered {status}."
    detail = problem["detail"]
    if isinstance(detail, list):
        said = "; ".join(f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg', '')}" for each in detail)
    else:
        said = str(detail)
    return f"{said.rstrip('.')} ({problem.get('code', status)})."
