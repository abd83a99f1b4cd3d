"""How many guarded calls a second, one after the other and with a hundred callers at once?

All contenders take turns, in a random order, and each counts with its best round. A round of ours ends when Redis has
counted its successes, so what happens in the background is paid for.

The guarded work is empty and the same for all. A caller that never has to wait would keep an event loop to itself, so
every task, whatever it calls, lets the others go on after twenty calls: often enough that all hundred advance together
(threads are switched some hundred times less often), and seldom enough that it is the guard that is measured, and not
the loop. Those who wait for Redis let the others go on by that alone.

In one more scene the work itself lets the others go on, so that all hundred calls are between their beginning and
their end at once. There every call has a turn of the loop in it, which takes longer than our guard does: the row with
nothing around the work says how much. It is shown and has no bar.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from enum import StrEnum
from itertools import repeat
from time import perf_counter, sleep

from benchmarks.report import Bar, progress, table
from benchmarks.shared import contenders
from benchmarks.shared.contenders import FLOOR, MIRROR, STRICT, TWO_SCRIPTS, Contender, Shares
from benchmarks.subjects import AsyncWork, W, Work
from hookfuse.errors import StoreUnavailable

ROUNDS = 5
CALLERS = 100
TIMES_AS_FAST = 100.0
STRICT_TIMES_AS_FAST = 3.0

TURN = 20
"""After so many calls a task lets the others go on."""

_MOST_ON_OWN_KEYS = 4_000


class Scene(StrEnum):
    ONE = "one caller"
    SAME_KEY = f"{CALLERS} callers"
    INSIDE = f"{CALLERS} inside at once"
    OWN_KEYS = f"{CALLERS} on own keys"


class Rates:
    """The calls a second of each contender of one face, by scene, in each round."""

    def __init__(self, face: str, scenes: list[Scene]) -> None:
        self.face = face
        self.scenes = scenes
        self.shares: dict[str, Shares] = {}
        self.made: dict[tuple[str, str], int] = defaultdict(int)
        self.counted: dict[tuple[str, str], int] = {}
        self._rates: dict[tuple[str, Scene], list[float]] = defaultdict(list)

    def make(self, contender: Contender[W], scene: Scene, calls: int) -> None:
        self.shares[contender.library] = contender.shares
        if contender.counted is not None:
            for key in _keys(scene):
                self.made[contender.library, key] += calls // len(_keys(scene))

    def time(self, contender: Contender[W], scene: Scene, calls: int, seconds: float) -> None:
        self._rates[contender.library, scene].append(calls / seconds)

    def best(self, library: str, scene: Scene) -> float | None:
        return max(self._rates.get((library, scene), ()), default=None)

    def ratio(self, scene: Scene, ours: str, other: str) -> float:
        """How many times as fast ours is; 0 if none of its rounds came to an end."""
        fast, slow = self.best(ours, scene), self.best(other, scene)
        return fast / slow if fast is not None and slow is not None else 0.0


def measure(url: str) -> tuple[list[str], list[Bar]]:
    faces = [asyncio.run(_tasks(url)), _threads(url)]
    bars = [bar for rates in faces for bar in (*_mirror_bars(rates), *_counted_bars(rates))]
    ratio = faces[0].ratio(Scene.SAME_KEY, STRICT, TWO_SCRIPTS)
    claim = f"asyncio, {Scene.SAME_KEY}: strict at least {STRICT_TIMES_AS_FAST:g}x as fast as {TWO_SCRIPTS}"
    bars.append(Bar(claim, f"{ratio:.2f}x", ratio >= STRICT_TIMES_AS_FAST))
    return [_table(rates) for rates in faces], bars


def _keys(scene: Scene) -> list[str]:
    return [f"own_{caller}" for caller in range(CALLERS)] if scene is Scene.OWN_KEYS else [f"ep_{scene.name}"]


def _batch(player: Contender[W], scene: Scene) -> int:
    return min(player.batch, _MOST_ON_OWN_KEYS) if scene is Scene.OWN_KEYS else player.batch


def _rounds(rates: Rates, players: list[Contender[W]]) -> Iterator[tuple[Contender[W], Scene]]:
    # interlock-cb polls Redis for every breaker, so a hundred of them would disturb the others.
    turns = [
        (player, scene)
        for player in players
        for scene in rates.scenes
        if not (scene is Scene.OWN_KEYS and player.shares is not Shares.COUNTS)
    ]
    for done in range(ROUNDS):
        progress(f"shared, {rates.face}, rounds", done, ROUNDS)
        yield from random.sample(turns, len(turns))
    progress(f"shared, {rates.face}, rounds", ROUNDS, ROUNDS)


async def _tasks(url: str) -> Rates:
    rates = Rates("asyncio", list(Scene))
    async with AsyncExitStack() as closing:
        players = await contenders.for_tasks(url, closing)
        guards: dict[tuple[str, Scene], list[AsyncWork]] = {}
        for player, scene in _rounds(rates, players):
            work = _others_first if scene is Scene.INSIDE else _nothing
            if (player.library, scene) not in guards:
                guards[player.library, scene] = its = [player.guard(work, key) for key in _keys(scene)]
                await asyncio.gather(*(guarded() for guarded in its))
                rates.make(player, scene, len(its))
            its, batch = guards[player.library, scene], _batch(player, scene)
            callers = 1 if scene is Scene.ONE else CALLERS
            start = perf_counter()
            await asyncio.gather(*(_call(its[caller % len(its)], batch // callers) for caller in range(callers)))
            rates.make(player, scene, batch)
            try:
                if player.counted is not None:
                    await player.counted(_keys(scene)[0])
            except StoreUnavailable:
                # No time to note; the successes that Redis has not got are missed when all are counted.
                continue
            rates.time(player, scene, batch, perf_counter() - start)
        await asyncio.sleep(0.1)
        for player in players:
            if player.counted is not None:
                for scene in rates.scenes:
                    for key in _keys(scene):
                        rates.counted[player.library, key] = await player.counted(key)
    return rates


async def _call(guarded: AsyncWork, calls: int) -> None:
    while calls:
        turn = min(calls, TURN)
        for _ in repeat(None, turn):
            await guarded()
        calls -= turn
        await asyncio.sleep(0)


async def _nothing() -> None:
    pass


async def _others_first() -> None:
    await asyncio.sleep(0)


def _threads(url: str) -> Rates:
    # Threads are switched wherever they are, so some are always inside.
    rates = Rates("threads", [scene for scene in Scene if scene is not Scene.INSIDE])
    with ExitStack() as closing:
        players = contenders.for_threads(url, closing)
        guards: dict[tuple[str, Scene], list[Work]] = {}
        for player, scene in _rounds(rates, players):
            if (player.library, scene) not in guards:
                guards[player.library, scene] = its = [player.guard(_pass, key) for key in _keys(scene)]
                _run([its[caller % len(its)] for caller in range(len(its))], 1)
                rates.make(player, scene, len(its))
            its, batch = guards[player.library, scene], _batch(player, scene)
            callers = 1 if scene is Scene.ONE else CALLERS
            seconds = _run([its[caller % len(its)] for caller in range(callers)], batch // callers)
            if player.counted is not None:
                start = perf_counter()
                player.counted(_keys(scene)[0])
                seconds += perf_counter() - start
            rates.make(player, scene, batch)
            rates.time(player, scene, batch, seconds)
        sleep(0.1)
        for player in players:
            if player.counted is not None:
                for scene in rates.scenes:
                    for key in _keys(scene):
                        rates.counted[player.library, key] = player.counted(key)
    return rates


def _run(guards: list[Work], calls: int) -> float:
    """Seconds from when all callers may go until the last is done."""
    if len(guards) == 1:
        start = perf_counter()
        _repeat(guards[0], calls)
        return perf_counter() - start
    ready = threading.Barrier(len(guards) + 1)

    def caller(guarded: Work) -> None:
        ready.wait()
        _repeat(guarded, calls)

    crowd = [threading.Thread(target=caller, args=(guarded,)) for guarded in guards]
    for thread in crowd:
        thread.start()
    ready.wait()
    start = perf_counter()
    for thread in crowd:
        thread.join()
    return perf_counter() - start


def _repeat(guarded: Work, calls: int) -> None:
    for _ in repeat(None, calls):
        guarded()


def _pass() -> None:
    pass


def _table(rates: Rates) -> str:
    rows = [
        [library, shares, *(_cell(rates, library, scene) for scene in rates.scenes)]
        for library, shares in rates.shares.items()
    ]
    order = [FLOOR, MIRROR, STRICT, TWO_SCRIPTS]
    rows.sort(key=lambda row: (order.index(row[0]) if row[0] in order else len(order), row[0]))
    return table([f"calls a second, {rates.face}", "shares", *rates.scenes], rows)


def _cell(rates: Rates, library: str, scene: Scene) -> str:
    rate = rates.best(library, scene)
    return "" if rate is None else f"{rate:,.0f}  {rates.ratio(scene, MIRROR, library):6.2f}x"


def _mirror_bars(rates: Rates) -> Iterator[Bar]:
    peers = [its for its, shares in rates.shares.items() if shares is Shares.COUNTS and its not in (MIRROR, STRICT)]
    for scene in (Scene.ONE, Scene.SAME_KEY):
        for peer in peers:
            ratio = rates.ratio(scene, MIRROR, peer)
            claim = f"{rates.face}, {scene}: mirror at least {TIMES_AS_FAST:g}x as fast as {peer}"
            yield Bar(claim, f"{ratio:.0f}x", ratio >= TIMES_AS_FAST)


def _counted_bars(rates: Rates) -> Iterator[Bar]:
    made, counted = sum(rates.made.values()), sum(rates.counted.values())
    yield Bar(f"{rates.face}: every success is counted in Redis", f"{counted:,} of {made:,}", counted == made)
