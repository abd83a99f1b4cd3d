"""Everything put together, from an empty folder to nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass

from hookfuse.app.first_start import make_folder
from hookfuse.app.logs import set_up_logs
from hookfuse.config import Settings, load
from hookfuse.core.state import Transition
from hookfuse.demo.board import board
from hookfuse.demo.books import Books, Totals
from hookfuse.demo.crew import Crew
from hookfuse.demo.database import passing_database
from hookfuse.demo.folder import passing_folder
from hookfuse.demo.hall import Hall, while_serving
from hookfuse.demo.producer import Producer
from hookfuse.demo.receivers import CAST, VICTIM, DemoReceivers
from hookfuse.demo.settings import Wanted, environment
from hookfuse.demo.story import Stage, Story
from hookfuse.demo.telling import Teller
from hookfuse.demo.watch import Missed

_KILLED = 130
_SLOWED = 5.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended: with the sums; with a sentence, if a turn did not happen; or by a signal."""

    totals: Totals | None = None
    missed: str = ""


async def play(wanted: Wanted, teller: Teller) -> Ending:
    """The whole demo. A signal ends it in good order, a second one at once."""
    show = Show(wanted, teller)
    asked = asyncio.Event()
    with _heeding(asked):
        playing = asyncio.create_task(show.run())
        waiting = asyncio.create_task(asked.wait())
        await asyncio.wait([playing, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        playing.cancel()
        try:
            await playing
        except asyncio.CancelledError:
            pass
    if show.ending.totals is None:
        teller.say("Ended before the story did. Nothing is left behind.")
    return show.ending


class Show:
    """One performance; `ending` is how it ended, as far as it is known."""

    def __init__(self, wanted: Wanted, teller: Teller) -> None:
        self.ending = Ending()
        self._wanted = wanted
        self._plan = wanted.plan
        self._teller = teller
        self._began = time.monotonic()

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(passing_folder())
            database = None
            if self._wanted.database_url is not None:
                database = await stack.enter_async_context(passing_database(self._wanted.database_url))
            environ = environment(self._wanted, folder, database)
            settings = load(environ).settings
            set_up_logs(settings)
            make_folder(settings)
            stage, serving = await self._set_up(stack, settings, environ)
            live = self._teller.live()
            if live is not None:
                await stack.enter_async_context(board(live, stage))
            await while_serving(serving, self._perform(stage))

    async def _set_up(
        self, stack: AsyncExitStack, settings: Settings, environ: dict[str, str]
    ) -> tuple[Stage, asyncio.Task[None]]:
        books = Books()
        receivers = await stack.enter_async_context(DemoReceivers(books))
        hall = Hall(settings, receivers, books, self._wanted.workers)
        started = await stack.enter_async_context(hall.open())
        # A Redis that is away would be told only by a story without its turns.
        await hall.watch.inspect(VICTIM)
        assert started.address is not None
        assert started.admin_key is not None
        url = f"http://{started.address[0]}:{started.address[1]}"
        producer = Producer(url, started.admin_key, books)
        stack.push_async_callback(producer.close)
        await producer.set_up(receivers)
        hall.switchboard.know(producer.app_id, producer.endpoint_ids)
        crew = None
        if self._wanted.workers > 1:
            crew = await stack.enter_async_context(Crew(self._wanted.workers, environ, hall.watch.wake))
        self._teller.open(f"{url}/", started.admin_key, self._plan, self._wanted.workers)
        return Stage(receivers, producer, books, hall.watch, crew), hall.serving

    async def _perform(self, stage: Stage) -> None:
        missed = ""
        story = Story(self._plan, stage, self._teller.turn)
        self._began = time.monotonic()
        try:
            async with stage.producer.sending(self._plan):
                await story.run()
            await story.rest()
        except Missed as error:
            missed = str(error)
        totals = await self._count(stage)
        self.ending = Ending(totals, missed or _contradiction(totals))
        self._teller.close(totals)
        if self._wanted.lasting and not self.ending.missed:
            await self._last(stage)

    async def _last(self, stage: Stage) -> None:
        """On and on, slower, until someone ends it."""
        stage.books.close_accounts()
        names = {stage.key(name): name for name in CAST}

        def changed(made: Transition) -> None:
            self._teller.changed(names.get(made.key, made.key), time.monotonic() - self._began, made)

        self._teller.say("It goes on until Ctrl-C: break and heal receivers on the dashboard, and see what follows.")
        stage.watch.told = changed
        async with stage.producer.sending(self._plan, slowed=_SLOWED):
            await asyncio.Event().wait()

    async def _count(self, stage: Stage) -> Totals:
        ids, watch = stage.producer.endpoint_ids, stage.watch
        names = {id_: name for name, id_ in ids.items()}
        found = await watch.states(stage.producer.app_id)
        # Someone may have made an endpoint of their own meanwhile.
        states = {
            (place.message_id, names[place.endpoint_id]): state
            for place, state in found.items()
            if place.endpoint_id in names
        }
        avoided = 0
        for name, id_ in ids.items():
            changes = [each for each in stage.receivers.changes if each.name == name]
            avoided += await watch.avoided(id_, stage.key(name), changes, self._plan.retry.delays)
        return stage.books.totals(states, tuple(CAST), avoided=avoided, transitions=len(watch.transitions))


def _contradiction(totals: Totals) -> str:
    """What the story must not end with."""
    if totals.lost:
        return f"{totals.lost} deliveries were lost."
    if totals.avoided <= 0:
        return "The breaker did not avoid a single request."
    return ""


@contextmanager
def _heeding(asked: asyncio.Event) -> Iterator[None]:
    def heed() -> None:
        if asked.is_set():
            os._exit(_KILLED)
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heed)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
