"""Errors of the driver become ours. What is not known to be undone is never told as done, nor as undone."""

from __future__ import annotations

import asyncio

import asyncpg  # type: ignore[import-untyped]

from hookfuse.errors import HookfuseError, InvalidInput, StoreError, StoreUnavailable

_AGAIN = ("40001", "40P01")
_OTHER_SERVER = "25006"
# Connection, resources, operator, system, lock: the server cannot do it now.
_NOT_NOW = ("08", "53", "55", "57", "58", "25", "40", "XX")
_VALUES = ("22", "54")


def never_done(error: BaseException) -> bool:
    """Whether the server undid everything and asks for another try."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in _AGAIN


def passing(error: BaseException) -> bool:
    """Whether the connection is as good as before."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state[:2] not in ("08", "58", "XX") and not state.startswith("57P") and state != _OTHER_SERVER
    return isinstance(error, HookfuseError | asyncpg.DataError)


def translated(error: BaseException) -> BaseException:
    """An error of the driver as ours, with the sentence that it deserves."""
    if isinstance(error, HookfuseError):
        return error
    if isinstance(error, asyncpg.PostgresError):
        return _of_server(error)
    if isinstance(error, asyncpg.exceptions.DataError | UnicodeEncodeError):
        return InvalidInput(f"Postgres cannot hold this value: {_text(error)}.")
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return StoreUnavailable("Postgres did not answer in time; what was asked may or may not have been done.")
    if isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return StoreUnavailable(f"Postgres cannot be reached: {_text(error)}.")
    return error


def _of_server(error: asyncpg.PostgresError) -> HookfuseError:
    state = error.sqlstate or ""
    if state[:2] in _VALUES:
        return InvalidInput(f"Postgres cannot hold this value: {_text(error)}.")
    if state[:2] in _NOT_NOW:
        return StoreUnavailable(f"Postgres could not do it now: {_text(error)}.")
    return StoreError(f"Postgres refused: {_text(error)}.")


def _text(error: BaseException) -> str:
    if isinstance(error, asyncpg.PostgresError) and error.args:
        # Without its detail, which shows the row: it may hold secrets and what customers send.
        error = Exception(error.args[0])
    return str(error).rstrip(".") or type(error).__name__
