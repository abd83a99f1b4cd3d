"""The pattern that many articles publish: one script asked before every call, and told of its outcome after it.

It shares its counts through Redis, as ours does, and is what one would write in an afternoon.
"""

from __future__ import annotations

import time
from typing import Any

import redis
import redis.asyncio

from benchmarks.subjects import AsyncWork, Work

_SCRIPT = """
-- KEYS 1 breaker · ARGV 1 check, success or failure · 2 now · 3 threshold · 4 window · 5 cool-off, in seconds
local key, op, now = KEYS[1], ARGV[1], tonumber(ARGV[2])
local state = redis.call('HGET', key, 'state') or 'closed'
local fail_count = tonumber(redis.call('HGET', key, 'fail_count') or '0')
local opened_at = tonumber(redis.call('HGET', key, 'opened_at') or '0')
local window_start = tonumber(redis.call('HGET', key, 'window_start') or '0')
if now - window_start > tonumber(ARGV[4]) then
  window_start = now
  fail_count = 0
end
local allowed = 1
if op == 'check' then
  if state == 'open' and now - opened_at >= tonumber(ARGV[5]) then
    state = 'half_open'
  elseif state == 'open' then
    allowed = 0
  end
elseif op == 'success' then
  if state == 'half_open' then
    state = 'closed'
    fail_count = 0
  end
else
  fail_count = fail_count + 1
  if state == 'half_open' or fail_count >= tonumber(ARGV[3]) then
    state = 'open'
    opened_at = now
  end
end
redis.call('HSET', key, 'state', state, 'fail_count', fail_count, 'opened_at', opened_at,
  'window_start', window_start)
redis.call('EXPIRE', key, 3600)
return {allowed, state}
"""
_THRESHOLD, _WINDOW, _COOL_OFF = 5, 60, 30


class Refused(Exception):
    """The breaker is open."""


def _arguments(op: str) -> list[str | float]:
    return [op, time.time(), _THRESHOLD, _WINDOW, _COOL_OFF]


class TwoScripts:
    """For threads."""

    def __init__(self, client: redis.Redis) -> None:
        self._script: Any = client.register_script(_SCRIPT)

    def guard(self, work: Work, key: str) -> Work:
        script, keys = self._script, [f"two:{key}"]

        def guarded() -> object:
            if not script(keys=keys, args=_arguments("check"))[0]:
                raise Refused
            try:
                result = work()
            except Exception:
                script(keys=keys, args=_arguments("failure"))
                raise
            script(keys=keys, args=_arguments("success"))
            return result

        return guarded


class AsyncTwoScripts:
    """For asyncio."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._script: Any = client.register_script(_SCRIPT)

    def guard(self, work: AsyncWork, key: str) -> AsyncWork:
        script, keys = self._script, [f"two:{key}"]

        async def guarded() -> object:
            if not (await script(keys=keys, args=_arguments("check")))[0]:
                raise Refused
            try:
                result = await work()
            except Exception:
                await script(keys=keys, args=_arguments("failure"))
                raise
            await script(keys=keys, args=_arguments("success"))
            return result

        return guarded
