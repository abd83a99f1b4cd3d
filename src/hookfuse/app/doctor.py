"""Looks at everything that a process of the service needs, and says what to do about what is wrong.

Nothing is changed: no folder or key is made, no migration applied.
"""

from __future__ import annotations

import asyncio
import os
import resource
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from ipaddress import ip_network
from pathlib import Path

from hookfuse.app.doctor_servers import look_at_mail, look_at_postgres, look_at_redis, look_at_sqlite
from hookfuse.app.findings import Finding, bad, good, poor
from hookfuse.app.parts import networks_of, station_settings
from hookfuse.config import Loaded, Settings
from hookfuse.core.addresses import Networks, parse_address
from hookfuse.errors import HookfuseError
from hookfuse.sealing import read_or_make_key
from hookfuse.transport import Proxy

_ONLY_OWNER = 0o077
_READ_AND_WRITE = 0o600
_SPARE_FILES = 256
_WIDE = 2**25
_INSIDE = ("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "::1", "fd00::1")
_NEVER = ("169.254.169.254", "fe80::1", "100.100.100.200")
_HTTP = 80
_DEADLINE = 5.0


async def examine(loaded: Loaded) -> AsyncIterator[Finding]:
    """Everything that can be known without starting; the servers last, because they may take their time."""
    settings = loaded.settings
    yield good("versions", f"Hookfuse {version('hookfuse')} on Python {sys.version.split()[0]}")
    for look in (_settings(loaded), _lease(settings), _files(settings), _limits(settings), _guard(settings)):
        for finding in look:
            yield finding
    if settings.proxy_url is not None:
        yield await _proxy(Proxy.parse(settings.proxy_url))
    if settings.smtp_url is not None:
        yield await look_at_mail(settings)
    if settings.embedded:
        for finding in look_at_sqlite(settings):
            yield finding
    else:
        async for finding in look_at_postgres(settings):
            yield finding
    async for finding in look_at_redis(settings):
        yield finding


def _settings(loaded: Loaded) -> Iterator[Finding]:
    for sentence in loaded.unknown:
        yield poor("settings", sentence.rstrip("."), "Correct its name, or remove it.")
    if not loaded.unknown:
        yield good("settings", "every variable is known")


def _lease(settings: Settings) -> Iterator[Finding]:
    lease, longest = settings.worker_lease, settings.request_timeout
    try:
        station_settings(settings)
    except HookfuseError as error:
        yield bad("lease", str(error).rstrip("."), "Raise the one, or lower the other.")
    else:
        yield good("lease", f"{lease:g} s, longer than any request ({longest:g} s)")


def _files(settings: Settings) -> Iterator[Finding]:
    folder, key = settings.data_dir, settings.key_file
    if not folder.exists():
        yield good("data folder", f"{folder} is not there yet; the first start makes it")
    else:
        yield _private("data folder", folder, 0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            yield bad("data folder", f"{folder} cannot be written to", "Change its owner, or use HOOKFUSE_DATA_DIR.")
    if not key.exists():
        yield good("master key", f"{key} is not there yet; the first start makes it")
    else:
        try:
            keys = read_or_make_key(key)
        except HookfuseError as error:
            yield bad("master key", str(error).rstrip("."), _key_remedy(key))
        else:
            yield good("master key", f"{keys.newest.hex()} seals; {_others(len(keys.by_id) - 1)} in {key}")
    if settings.embedded:
        file = Path(settings.database_url.removeprefix("sqlite://"))
        if file.exists():
            yield _private("database file", file, 0o600)


def _key_remedy(key: Path) -> str:
    if stat.S_IMODE(key.stat().st_mode) & ~_READ_AND_WRITE:
        return f"Run: chmod 600 {key}"
    return "Nothing that is sealed can be opened without it: copy it from where the database was first used."


def _others(count: int) -> str:
    return {0: "no other is", 1: "1 older one is"}.get(count, f"{count} older ones are")


def _private(about: str, file: Path, wanted: int) -> Finding:
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & _ONLY_OWNER:
        return poor(about, f"others may use {file} ({mode:04o})", f"Run: chmod {wanted:o} {file}")
    return good(about, f"{file} is its owner's alone")


def _limits(settings: Settings) -> Iterator[Finding]:
    # The service asks for as many as it may have.
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    # As many requests again may be out that nobody answers.
    in_flight = 2 * settings.worker_slots
    wanted = in_flight + _SPARE_FILES
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        yield poor(
            "open files",
            f"{allowed} are allowed, and {in_flight} requests may be in flight",
            f"Run: ulimit -n {wanted}, or lower HOOKFUSE_WORKER_SLOTS.",
        )
    else:
        yield good("open files", "enough for every request in flight")


def _guard(settings: Settings) -> Iterator[Finding]:
    """What would be dialled if an endpoint asked for it."""
    networks = networks_of(settings)
    dialled = [text for text in _NEVER if _may_dial(networks, text)]
    if dialled:
        yield bad("egress guard", f"it would dial {', '.join(dialled)}", "Report this: no setting should allow it.")
    wide = [text for text in settings.allowed_networks if ip_network(text).num_addresses >= _WIDE]
    inside = [text for text in _INSIDE if _may_dial(networks, text)]
    if wide:
        yield poor(
            "egress guard",
            f"{', '.join(wide)} lets endpoints reach much of the inside",
            "Narrow HOOKFUSE_ALLOWED_NETWORKS to the networks of receivers.",
        )
    elif inside:
        yield good("egress guard", f"dials public addresses and {', '.join(settings.allowed_networks)}")
    else:
        yield good("egress guard", "dials public addresses only")


def _may_dial(networks: Networks, text: str) -> bool:
    address = parse_address(text)
    assert address is not None
    return networks.verdict(address, _HTTP) is None


async def _proxy(proxy: Proxy) -> Finding:
    try:
        async with asyncio.timeout(_DEADLINE):
            _, writer = await asyncio.open_connection(proxy.host, proxy.port)
    except (OSError, TimeoutError):
        return bad(
            "egress proxy", f"{proxy.host}:{proxy.port} cannot be reached", "Mend HOOKFUSE_PROXY_URL, or the proxy."
        )
    writer.close()
    return good("egress proxy", f"{proxy.host}:{proxy.port} takes connections")
