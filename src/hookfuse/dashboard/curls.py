"""Requests as commands that can be copied. The key is never among them: the command reads it from the environment."""

from __future__ import annotations

import json
import shlex
from urllib.parse import urlencode

from hookfuse.dashboard.client import PREFIX, Call

_KEY = '-H "authorization: Bearer $HOOKFUSE_API_KEY"'


def curl(call: Call, base: str) -> str:
    """What does the same as this call at the API under `base`."""
    words = ["curl"]
    if call.method != "GET":
        words.append(f"-X {call.method}")
    query = f"?{urlencode(call.query)}" if call.query else ""
    words += [shlex.quote(f"{base}{PREFIX}{call.path}{query}"), _KEY]
    if call.body is not None:
        words += ["-H 'content-type: application/json'", f"-d {shlex.quote(json.dumps(call.body))}"]
    return " ".join(words)


def delivery_curl(url: str, message_id: str, payload: str) -> str:
    """A request like the one that was sent. It is not signed: the secret is nobody's to print."""
    headers = f"-H 'content-type: application/json' -H {shlex.quote(f'webhook-id: {message_id}')}"
    return f"curl -X POST {shlex.quote(url)} {headers} --data-binary {shlex.quote(payload)}"
