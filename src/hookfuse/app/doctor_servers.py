"""The doctor's look at databases and Redis."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from hookfuse.app.findings import Finding, bad, good, poor, skew
from hookfuse.app.fleet import describe
from hookfuse.app.parts import networks_of
from hookfuse.config import Settings
from hookfuse.config.readers import without_password
from hookfuse.core.mail import MailServer
from hookfuse.core.member import Member, Presence, in_order
from hookfuse.core.sending import Trouble
from hookfuse.errors import HookfuseError
from hookfuse.stores.sql import migrations
from hookfuse.transport import Proxy, SmtpMailer

_DEADLINE = 5.0
_OLDEST_POSTGRES = 15
_OLDEST_REDIS = (7, 0)
_NAMED = 3


def look_at_sqlite(settings: Settings) -> Iterator[Finding]:
    import apsw

    yield good("SQLite", f"version {apsw.sqlite_lib_version()}")
    file = Path(settings.database_url.removeprefix("sqlite://"))
    if not file.exists():
        yield poor(
            "database",
            f"{file} is not there yet",
            "The first start makes it. If there is one elsewhere, name its folder in HOOKFUSE_DATA_DIR.",
        )
        return
    if _in_use(file):
        yield good("database", f"{file} is in use by a running service")
    try:
        db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        sound = db.execute("PRAGMA quick_check(1)").get
        applied = int(db.execute("SELECT max(number) FROM migrations").get)
        db.close()
    except apsw.Error as error:
        yield bad(
            "database", f"{file} cannot be read: {error}", "Restore it from a backup, or remove it to begin anew."
        )
        return
    if sound != "ok":
        yield bad("database", f"{file} is damaged: {sound}", "Restore it from a backup.")
    else:
        yield good("database", f"{file} is sound")
    yield _migrated("hookfuse.stores.sqlite", applied)


async def look_at_postgres(settings: Settings) -> AsyncIterator[Finding]:
    import asyncpg  # type: ignore[import-untyped]

    from hookfuse.stores.postgres.members import read

    place = without_password(settings.database_url)
    options = {"statement_cache_size": 0} if settings.database_pooled else {}
    try:
        db = await asyncpg.connect(settings.database_url, timeout=_DEADLINE, command_timeout=_DEADLINE, **options)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        yield bad("database", f"{place} cannot be reached: {_said(error)}", "Mend HOOKFUSE_DATABASE_URL or the server.")
        return
    try:
        version = db.get_server_version()
        asked = time.time()
        theirs = float(await db.fetchval("SELECT extract(epoch FROM clock_timestamp())"))
        yield _version("Postgres", (version.major, version.minor), (_OLDEST_POSTGRES, 0))
        yield skew("Postgres", theirs, asked, time.time())
        known = await db.fetchval("SELECT to_regclass('hookfuse.migrations') IS NOT NULL")
        applied = int(await db.fetchval("SELECT max(number) FROM hookfuse.migrations")) if known else 0
        yield good("database", f"{place} answers")
        yield _migrated("hookfuse.stores.postgres", applied)
        if await db.fetchval("SELECT to_regclass('hookfuse.members') IS NOT NULL"):
            yield _attending(await read(db))
    except asyncpg.PostgresError as error:
        yield bad("database", f"{place} refuses: {_said(error)}", "Give its user the schema `hookfuse`.")
    finally:
        await db.close(timeout=_DEADLINE)
    if settings.database_listen_url is not None:
        yield await _listening(settings.database_listen_url)


async def _listening(url: str) -> Finding:
    import asyncpg

    place = without_password(url)
    try:
        db = await asyncpg.connect(url, timeout=_DEADLINE, command_timeout=_DEADLINE)
        try:
            await db.execute("LISTEN hookfuse")
        finally:
            await db.close(timeout=_DEADLINE)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        remedy = "Mend HOOKFUSE_DATABASE_LISTEN_URL; until then workers look for messages once a second."
        return poor("waking", f"{place} cannot be listened to: {_said(error)}", remedy)
    return good("waking", f"{place} wakes workers")


async def look_at_redis(settings: Settings) -> AsyncIterator[Finding]:
    if settings.redis_url is None:
        if not settings.embedded:
            yield poor("Redis", "breakers are not shared between processes", "Name a Redis in HOOKFUSE_REDIS_URL.")
        return
    import redis.asyncio

    try:
        place = describe(settings.redis_url)
        client = redis.asyncio.Redis.from_url(
            settings.redis_url, socket_timeout=_DEADLINE, socket_connect_timeout=_DEADLINE
        )
    except (HookfuseError, ValueError, TypeError):
        yield bad("Redis", "its URL cannot be read", "Mend HOOKFUSE_REDIS_URL.")
        return
    try:
        info = await client.info()
        asked = time.time()
        seconds, micros = await client.time()
        yield _version("Redis", tuple(int(part) for part in str(info["redis_version"]).split(".")[:2]), _OLDEST_REDIS)
        yield skew("Redis", seconds + micros / 1e6, asked, time.time())
        yield good("Redis", f"{place} answers")
        if info.get("maxmemory_policy", "noeviction") != "noeviction" and info.get("maxmemory"):
            yield poor("Redis", "it may evict breakers when it is full", "Set maxmemory-policy to noeviction.")
    except (redis.exceptions.RedisError, OSError, TimeoutError) as error:
        yield bad("Redis", f"{place} cannot be used: {_said(error)}", "Mend HOOKFUSE_REDIS_URL or the server.")
    finally:
        await client.aclose()


async def look_at_mail(settings: Settings) -> Finding:
    """No mail is sent; `hookfuse notice test` sends one."""
    assert settings.smtp_url is not None
    server = MailServer.parse(settings.smtp_url)
    place = f"{server.host}:{server.port}"
    proxy = None if settings.proxy_url is None else Proxy.parse(settings.proxy_url)
    mailer = SmtpMailer(server, networks_of(settings), proxy=proxy, deadline=_DEADLINE)
    try:
        seen = await mailer.look()
    finally:
        await mailer.close()
    if seen.trouble:
        return bad("mail server", f"{place} cannot be used: {seen.trouble}", _mail_remedy(seen.trouble))
    if not seen.encrypted:
        return poor(
            "mail server",
            f"{place} takes mails, but offers no STARTTLS, so they travel in the clear",
            "Turn TLS on there, or use smtps:// in HOOKFUSE_SMTP_URL.",
        )
    return good("mail server", f"{place} takes mails over {'TLS' if server.tls else 'STARTTLS'}")


def _mail_remedy(trouble: str) -> str:
    if trouble.startswith(Trouble.BLOCKED):
        return "Add its network to HOOKFUSE_ALLOWED_NETWORKS."
    return "Mend HOOKFUSE_SMTP_URL (host, port, smtp:// or smtps://, user and password), or the server."


def _version(name: str, found: tuple[int, ...], oldest: tuple[int, int]) -> Finding:
    shown = ".".join(map(str, found))
    if found < oldest:
        return bad(name, f"version {shown} is too old", f"Use {name} {oldest[0]}.{oldest[1]} or newer.")
    return good(name, f"version {shown}")


def _migrated(package: str, applied: int) -> Finding:
    numbers = [each.number for each in migrations(package)]
    missing = sum(number > applied for number in numbers)
    if applied > numbers[-1]:
        return bad("migrations", "the database was made by a newer Hookfuse", "Install that version or a newer one.")
    if missing:
        return poor(
            "migrations",
            f"{missing} of {len(numbers)} are still to be applied",
            "Run `hookfuse migrate`, or just start.",
        )
    return good("migrations", f"all {len(numbers)} are applied")


def _attending(members: Sequence[Member]) -> Finding:
    silent = [each for each in in_order(members) if each.presence is Presence.SILENT]
    if not silent:
        return good("processes", f"{len(members)} of the fleet running, none silent")
    named = [f"{each.report.host} (pid {each.report.pid})" for each in silent[:_NAMED]]
    more = [f"{len(silent) - _NAMED} more"] if len(silent) > _NAMED else []
    return poor(
        "processes",
        f"{len(silent)} of {len(members)} fell silent: {', '.join(named + more)}",
        "They were killed or are cut off: look at their logs. What they had in hand is sent again by others.",
    )


def _in_use(file: Path) -> bool:
    try:
        lock = os.open(f"{file}.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _said(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return f"no answer within {_DEADLINE:g} s"
    refused: BaseException | None = error
    while refused is not None:
        if isinstance(refused, OSError) and refused.errno is not None:
            # What asyncio writes there repeats the address; a resolver has numbers of its own.
            return os.strerror(refused.errno) if refused.errno in errno.errorcode else str(refused.strerror)
        refused = refused.__cause__ or refused.__context__
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
