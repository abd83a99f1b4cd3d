"""A leader as a process of its own, which meets its end, or a pause, in mid-sample.

    python -m tests.sampling.leader DATABASE REDIS KEY_FILE POINT

POINT is `killed` (after the first scripts of a judgement have run) or `stopped` (a sample is counted, and not judged).
It says on its output what it does, a line each.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hookfuse import profiles
from hookfuse.app.station import Station, StationSettings
from hookfuse.core.duty import Duty, Tenure
from hookfuse.core.sample import Judgement
from hookfuse.delivery.leader import Leader
from hookfuse.delivery.targets import Defaults
from hookfuse.stores.redis import sampling
from hookfuse.stores.redis.commands import Call, Commands

LEASE = 1.0
POLICY = profiles.sampled(cool_off=600, sample_every=0.5)


def settings(database: str, redis: str, key_file: str) -> StationSettings:
    return StationSettings(database, Path(key_file), redis, defaults=Defaults(policy=POLICY))


def leader_of(station: Station, holder: str) -> Leader:
    async def sample(tenure: Tenure) -> None:
        while True:
            await station.sampler.sample(tenure)
            await asyncio.sleep(0.2)

    return Leader(station.store, {Duty.SAMPLING: sample}, holder=holder, lease=LEASE)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _die_in_mid_judgement() -> None:
    whole = Commands.judgements

    def partly(self: Commands, samples: Any, fence: int, floor: int) -> Iterator[Call]:
        samples = list(samples)
        for nth, call in enumerate(whole(self, samples, fence, floor)):
            if samples and nth == sampling._CALLS_TOGETHER:
                os.kill(os.getpid(), signal.SIGKILL)
            yield call

    Commands.judgements = partly  # type: ignore[method-assign]


def _stop_before_judging(station: Station) -> None:
    judge = station.breakers.judge

    async def late(samples: Any, **words: Any) -> Judgement:
        if not samples:
            return await judge(samples, **words)
        say(f"counted {len(samples)}")
        os.kill(os.getpid(), signal.SIGSTOP)
        # Going on it may hear first that it was replaced, and be cancelled; what was on its way is on its way.
        judging = asyncio.ensure_future(judge(samples, **words))
        judging.add_done_callback(lambda task: say(f"judged {len(task.result()[0])} replaced {task.result()[2]}"))
        return await asyncio.shield(judging)

    station.breakers.judge = late  # type: ignore[method-assign]


async def main() -> None:
    *place, point = sys.argv[1:]
    station = Station(settings(*place))
    if point == "killed":
        _die_in_mid_judgement()
    else:
        _stop_before_judging(station)
    async with station, leader_of(station, "victim"):
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
