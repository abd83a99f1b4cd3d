"""How a setting is read: from the text of a variable, or from a value of the TOML file.

A reader returns the value, or raises `Unfit` with what would do; it never repeats what it was given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from hookfuse import profiles
from hookfuse.core.addresses import Networks
from hookfuse.core.destination import Destination
from hookfuse.core.mail import MailServer, check_address
from hookfuse.core.notice import Event
from hookfuse.core.policy import Policy
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.secret import Secret
from hookfuse.errors import InvalidInput
from hookfuse.transport import Proxy

_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII | re.IGNORECASE)
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_POSTGRES = ("postgresql", "postgres")
_DEFAULT = "default"
_SHORTEST_PASSWORD, _LONGEST_PASSWORD = 12, 256
_REDIS = ("redis", "rediss", "unix")


class Unfit(Exception):
    """A value does not do; `must` says what would."""

    def __init__(self, must: str) -> None:
        super().__init__(must)
        self.must = must


class Hidden:
    """Stands in a message for what may hold a password."""

    def __repr__(self) -> str:
        return "something that is not shown here"


def whole(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Unfit(f"be a whole number from {low} to {high}")
        return value

    return read


def number(low: float, high: float, unit: str) -> Callable[[object], float]:
    def read(value: object) -> float:
        try:
            found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        except ValueError:
            found = None
        if found is None or not low <= found <= high:
            raise Unfit(f"be a number of {unit} from {low:g} to {high:g}")
        return found

    return read


def switch(value: object) -> bool:
    found = value if isinstance(value, bool) else _SWITCH.get(str(value).lower())
    if found is None:
        raise Unfit("be true or false")
    return found


def one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise Unfit(f"be {', '.join(words[:-1])} or {words[-1]}")
        return str(value)

    return read


def path(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise Unfit("be a path")
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError:
        raise Unfit("be a path that does not begin with ~, because there is no home folder") from None


def host(value: object) -> str:
    text = str(value)
    try:
        return str(ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    if not _HOST_NAME.fullmatch(text) or text.replace(".", "").isdigit():
        raise Unfit("be an address or a name to listen on, such as 127.0.0.1")
    return text


def database_url(value: object) -> str:
    must = "be postgresql://user:password@host:5432/name, or sqlite:///path/of/a/file"
    text = _url(value, must, (*_POSTGRES, "sqlite"))
    if not text.lower().startswith("sqlite:"):
        return text
    file = text.removeprefix("sqlite://")
    if not file.startswith("/") or file.endswith("/"):
        raise Unfit(must)
    return f"sqlite://{path(file)}"


def postgres_url(value: object) -> str:
    return _url(value, "be postgresql://user:password@host:5432/name", _POSTGRES)


def redis_url(value: object) -> str:
    must = "be redis://user:password@host:6379/0, rediss://… or unix://…, with signs of the password percent-encoded"
    return _url(value, must, _REDIS)


def proxy_url(value: object) -> str:
    try:
        Proxy.parse(str(value))
    except InvalidInput:
        raise Unfit("be http://host:port or http://user:password@host:port") from None
    return str(value)


def password(value: object) -> str:
    if not isinstance(value, str) or not _SHORTEST_PASSWORD <= len(value) <= _LONGEST_PASSWORD:
        raise Unfit(f"have {_SHORTEST_PASSWORD} to {_LONGEST_PASSWORD} characters")
    return value


def smtp_url(value: object) -> str:
    try:
        MailServer.parse(str(value))
    except InvalidInput:
        raise Unfit("be smtp://user:password@host:587, smtp://host or smtps://…, with signs percent-encoded") from None
    return str(value)


def email(value: object) -> str:
    try:
        return check_address(value)
    except InvalidInput:
        raise Unfit("be an e-mail address such as ops@example.com") from None


def emails(value: object) -> tuple[str, ...]:
    return tuple(email(each) for each in _several(value, "be e-mail addresses, with commas between"))


def notice_url(value: object) -> str:
    try:
        # Whether its address may be dialled is decided when dialling, by the networks that are set then.
        return Destination.parse(str(value), networks=Networks(allowed=("0.0.0.0/0", "::/0"))).url
    except InvalidInput:
        raise Unfit("be a URL such as https://example.com/hook") from None


def signing_secret(value: object) -> str:
    try:
        return Secret.parse(value).text
    except InvalidInput:
        raise Unfit("be a signing secret: whsec_ and the base64 of 24 to 64 random bytes") from None


def events(value: object) -> tuple[str, ...]:
    must = f"be some of {', '.join(Event)}, with commas between"
    try:
        return tuple(Event(str(each)) for each in _several(value, must))
    except ValueError:
        raise Unfit(must) from None


def _several(value: object, must: str) -> list[object]:
    found = [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not found:
        raise Unfit(must)
    return list(found)


def networks(value: object) -> tuple[str, ...]:
    must = "be networks such as 10.0.0.0/8, with commas between"
    found = tuple(each.strip() for each in value.split(",") if each.strip()) if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise Unfit(must)
    try:
        Networks(allowed=tuple(found))
    except InvalidInput:
        raise Unfit(must) from None
    return tuple(found)


def policy(value: object) -> Policy:
    """A profile by its name, with or without numbers of its own, or a policy as data."""
    try:
        if value == _DEFAULT:
            return Policy()
        if isinstance(value, str) and value in profiles.__all__:
            made: Policy = getattr(profiles, value)()
            return made
        return Policy.from_dict(json.loads(value) if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (InvalidInput, ValueError, TypeError) as error:
        why = f": {error}" if isinstance(error, InvalidInput) else ""
        raise Unfit(
            f"be {_DEFAULT}, one of the profiles {', '.join(profiles.__all__)}, or a policy as JSON{why.rstrip('.')}"
        ) from None


def retry_delays(value: object) -> RetrySchedule:
    must = "be seconds with commas between, such as 30,300,1800"
    try:
        given = [float(each) for each in value.split(",")] if isinstance(value, str) else value
        return RetrySchedule(tuple(given))  # type: ignore[arg-type]
    except (InvalidInput, ValueError, TypeError):
        raise Unfit(must) from None


def without_password(url: str) -> str:
    """A URL as people may see it."""
    try:
        parts = urlsplit(url)
        user, password = parts.username or "", parts.password
        place = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(hidden)"
    if parts.scheme == "sqlite":
        return url
    netloc = f"{user}:***@{place}" if password is not None else f"{user}@{place}" if user else place
    query = urlencode([(name, "***" if "pass" in name else kept) for name, kept in parse_qsl(parts.query)], safe="*/")
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def text_of(value: Any) -> str:
    """A value in the form in which it would be given."""
    if isinstance(value, Policy):
        if value == Policy():
            return _DEFAULT
        return next((name for name in profiles.__all__ if getattr(profiles, name)() == value), value.to_json())
    if isinstance(value, RetrySchedule):
        return ",".join(f"{delay:g}" for delay in value.delays)
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _url(value: object, must: str, schemes: Sequence[str]) -> str:
    if not isinstance(value, str):
        raise Unfit(must)
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise Unfit(must) from None
    # A password with a bare slash or hash: its rest would be taken for something to show.
    if parts.scheme not in schemes or port == 0 or "@" in f"{parts.path}{parts.fragment}":
        raise Unfit(must)
    return value
