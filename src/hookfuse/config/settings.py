"""Settings: the environment (`HOOKFUSE_*`) and an optional TOML file, made into one frozen object.

The environment wins over the file, and what was typed on the command line over both. Every setting has one name: the
field `worker_lease` is `HOOKFUSE_WORKER_LEASE` in the environment and `worker_lease` in the file. A value that does not
do is refused with a sentence that names the variable; one that may hold a password is never repeated.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hookfuse.config import readers
from hookfuse.config.readers import Hidden, Unfit
from hookfuse.core.notice import Event
from hookfuse.core.policy import Policy
from hookfuse.core.retry import RetrySchedule
from hookfuse.errors import InvalidField, InvalidInput

PREFIX = "HOOKFUSE_"
FILE = f"{PREFIX}CONFIG"
URL = f"{PREFIX}URL"
API_KEY = f"{PREFIX}API_KEY"
ELSEWHERE = frozenset({FILE, URL, API_KEY})
"""Variables that begin like settings and are none: where the file is, and what the command line calls the API with."""

_TESTS = f"{PREFIX}TEST_"
_NEVER_SHOWN = frozenset({"dashboard_password", "notice_chat_url", "notice_webhook_url", "notice_webhook_secret"})
"""Whoever knows them may use them: no part is fit to be seen."""
_TOGETHER = (
    ("database_listen_url", "database_pooled"),
    ("notice_email", "smtp_url"),
    ("notice_webhook_url", "notice_webhook_secret"),
)


def _setting(read: Callable[[object], Any], default: object, says: str, *, secret: bool = False) -> Any:
    return field(default=default, metadata={"read": read, "says": says, "secret": secret})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set. `load` makes it, and fills in the defaults that depend on others."""

    data_dir: Path = _setting(
        readers.path, Path("~/.local/share/hookfuse"), "The folder of the database file and the master key."
    )
    host: str = _setting(readers.host, "127.0.0.1", "The address to listen on; `0.0.0.0` for all.")
    port: int = _setting(readers.whole(0, 65_535), 8400, "The port to listen on; `0` for any that is free.")
    database_url: str = _setting(
        readers.database_url,
        "",
        "`postgresql://…`, or `sqlite:///FILE`. By default a file in the data folder.",
        secret=True,
    )
    database_pooled: bool = _setting(
        readers.switch, False, "Whether Postgres is reached through a pooler in transaction mode."
    )
    database_listen_url: str | None = _setting(
        readers.postgres_url,
        None,
        "Behind a pooler: Postgres itself, which wakes workers at once. Without it they look once a second.",
        secret=True,
    )
    redis_url: str | None = _setting(
        readers.redis_url,
        None,
        "Where processes share their breakers: `redis://…`. Without it each has its own.",
        secret=True,
    )
    key_file: Path = _setting(
        readers.path, Path(), "The master key, which seals secrets. By default `master.key` in the data folder."
    )
    allowed_networks: tuple[str, ...] = _setting(
        readers.networks, (), "Networks that may be dialled beside public addresses, as CIDRs with commas between."
    )
    forbidden_networks: tuple[str, ...] = _setting(
        readers.networks, (), "Networks that are never dialled, as CIDRs with commas between."
    )
    proxy_url: str | None = _setting(
        readers.proxy_url, None, "The egress proxy, `http://host:port`, if that is the only way out.", secret=True
    )
    policy: Policy = _setting(
        readers.policy, Policy(), "The breaker policy of endpoints without one: a profile's name, or a policy as JSON."
    )
    retry_delays: RetrySchedule = _setting(
        readers.retry_delays, RetrySchedule(), "Seconds between the attempts of a delivery, with commas between."
    )
    payload_limit: int = _setting(
        readers.whole(1024, 16 << 20), 256 << 10, "The most bytes that a request to the API may carry."
    )
    rate_limit: int | None = _setting(
        readers.whole(1, 1_000_000), None, "The most requests a second of one API key in one process."
    )
    worker_slots: int = _setting(
        readers.whole(1, 100_000), 2048, "Requests that one process has in flight at most, unanswered ones aside."
    )
    worker_batch: int = _setting(readers.whole(1, 10_000), 1024, "Deliveries that are claimed at once at most.")
    worker_lease: float = _setting(
        readers.number(1, 86_400, "seconds"), 300.0, "Seconds after which a lost worker's deliveries come back."
    )
    worker_grace: float = _setting(
        readers.number(0, 3_600, "seconds"),
        20.0,
        "Seconds that requests in flight get when the program is asked to stop.",
    )
    request_timeout: float = _setting(
        readers.number(0.1, 3_600, "seconds"),
        30.0,
        "The longest that a request may take, in seconds, whatever an endpoint asks.",
    )
    retention_days: float = _setting(
        readers.number(0, 3_660, "days"),
        90.0,
        "Days that messages are kept after their deliveries ended; `0`: for ever.",
    )
    smtp_url: str | None = _setting(
        readers.smtp_url,
        None,
        "The mail server for notices: `smtp://user:password@host:587`, or `smtps://…`.",
        secret=True,
    )
    notice_from: str = _setting(readers.email, "hookfuse@localhost", "The address that mails come from.")
    notice_email: tuple[str, ...] = _setting(
        readers.emails, (), "Who gets notices by e-mail where an application chose nothing; commas between."
    )
    notice_chat_url: str | None = _setting(
        readers.notice_url, None, "The incoming webhook of a chat, for the same.", secret=True
    )
    notice_webhook_url: str | None = _setting(
        readers.notice_url, None, "Where operational webhooks go, for the same.", secret=True
    )
    notice_webhook_secret: str | None = _setting(
        readers.signing_secret, None, "What signs them: `whsec_…`.", secret=True
    )
    notice_events: tuple[str, ...] = _setting(
        readers.events, tuple(Event), "What notices are about where an application chose nothing; commas between."
    )
    notice_quiet: float = _setting(
        readers.number(0, 604_800, "seconds"), 900.0, "Seconds in which an endpoint is told of once, not fifty times."
    )
    dashboard: bool = _setting(readers.switch, True, "Whether to serve the dashboard at `/dashboard`.")
    dashboard_password: str | None = _setting(
        readers.password, None, "A password for the dashboard, beside API keys: 12 characters or more.", secret=True
    )
    dashboard_role: str = _setting(
        readers.one_of("read", "admin"), "read", "What the password is good for: `read` or `admin`."
    )
    log_format: str = _setting(
        readers.one_of("auto", "console", "json"), "auto", "`json`, `console`, or `auto`: console on a terminal."
    )
    log_level: str = _setting(
        readers.one_of("debug", "info", "warning", "error"), "info", "`debug`, `info`, `warning` or `error`."
    )

    @property
    def embedded(self) -> bool:
        """Whether everything is in one process and one file."""
        return self.database_url.startswith("sqlite:")


SETTINGS = MappingProxyType({each.name: each for each in fields(Settings)})
"""The fields by name; their metadata says how they are read, and what they mean."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, where each of them came from, and variables that look like settings and are none."""

    settings: Settings
    origins: Mapping[str, str]
    unknown: tuple[str, ...]


def variable(name: str) -> str:
    """The variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def load(
    environ: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    options: Mapping[str, object] | None = None,
) -> Loaded:
    """Read everything. `options` are what was typed, by the names of the settings; None there means not typed."""
    found = os.environ if environ is None else environ
    place = file or (Path(found[FILE]) if found.get(FILE) else None)
    given: dict[str, tuple[str, str, object]] = {}
    if place is not None:
        for name, value in _read_file(place).items():
            given[name] = (f"{name} in {place}", f"{variable(name)} ({name} in {place})", value)
    for name in SETTINGS:
        if found.get(variable(name)):
            given[name] = (variable(name), variable(name), found[variable(name)])
    for name, value in (options or {}).items():
        if value is not None:
            typed = f"--{name.replace('_', '-')}"
            given[name] = (typed, f"{typed} ({variable(name)})", value)
    settings = _with_defaults({name: _read(name, title, value) for name, (_, title, value) in given.items()})
    origins = {name: given[name][0] if name in given else "default" for name in SETTINGS}
    return Loaded(settings, origins, _unknown(found))


def _read(name: str, title: str, value: object) -> object:
    how = SETTINGS[name].metadata
    try:
        return how["read"](value)
    except Unfit as unfit:
        raise InvalidField(title, unfit.must, Hidden() if how["secret"] else value) from None


def _with_defaults(values: dict[str, Any]) -> Settings:
    folder: Path = values.setdefault("data_dir", readers.path(SETTINGS["data_dir"].default))
    values.setdefault("database_url", f"sqlite://{folder / 'hookfuse.db'}")
    values.setdefault("key_file", folder / "master.key")
    for one, other in _TOGETHER:
        if values.get(one) and not values.get(other):
            raise InvalidInput(f"{variable(one)} needs {variable(other)} beside it.")
    return Settings(**values)


def _read_file(place: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(place.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(f"The settings file {place} ({FILE}) cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The settings file {place} ({FILE}) is not valid TOML: {error}.") from None
    for name in content:
        if name not in SETTINGS:
            raise InvalidInput(f"{name} in {place} is no setting{_meant(name, tuple(SETTINGS))}.")
    return content


def _unknown(environ: Mapping[str, str]) -> tuple[str, ...]:
    known = {variable(name) for name in SETTINGS} | ELSEWHERE
    return tuple(
        f"{name} is no setting{_meant(name, tuple(known))}."
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in known and not name.startswith(_TESTS)
    )


def _meant(name: str, known: tuple[str, ...]) -> str:
    # What all of them begin with would make any two of them near.
    own = {each.removeprefix(PREFIX): each for each in known}
    close = get_close_matches(name.removeprefix(PREFIX), own, 1)
    return f"; perhaps {own[close[0]]} is meant" if close else "; `hookfuse config` lists them"


def shown(settings: Settings, name: str) -> str:
    """A setting as people may see it: without passwords, in the form in which it would be given."""
    value = getattr(settings, name)
    if value is None or value == ():
        return ""
    if name in _NEVER_SHOWN:
        return "***"
    if SETTINGS[name].metadata["secret"]:
        return readers.without_password(value)
    return readers.text_of(value)
