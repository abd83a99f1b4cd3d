"""Messages and deliveries in Postgres (15 or newer), for as many processes as there are.

Each verb is one transaction, most of them one statement, and all instants are the database's. Lanes are rows: a claim
locks a few that are free and takes what is due in them, so workers neither wait for one another nor send anything twice
(`claim.py`). Accepting touches no lane; it leaves a bell, which the next claim hears. Nothing outlives its deadline
(`connections.py`): a call that could not be done in time raises `StoreUnavailable`, and reaches the server again by
itself when it is back.

What must be on the disk is: only claims are committed without waiting for it. A claim that a crash of the server took
back is sent again, as after a crash of its worker; and the log is written in order, so a settled delivery that is on
the disk has its claim there too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hookfuse.core import bounds
from hookfuse.core.delivery import (
    Attempt,
    Chosen,
    Claim,
    Claims,
    Deferral,
    Delivery,
    DeliveryState,
    Place,
    Rescued,
    Settlement,
)
from hookfuse.core.duty import Tenure
from hookfuse.core.endpoint import Application, Endpoint, Stop
from hookfuse.core.message import Answer, Message, NewMessage, check_message
from hookfuse.core.notice import NoticeRules
from hookfuse.core.state import Transition
from hookfuse.core.stored import check_application, check_changes, check_endpoint
from hookfuse.core.upkeep import Applied, Backlog, Sealed
from hookfuse.stores.postgres import accept, claim, desk, directory, outbox, settle, upkeep
from hookfuse.stores.postgres.bell import Bell
from hookfuse.stores.postgres.connections import Connections, Purpose
from hookfuse.stores.postgres.leading import Leading
from hookfuse.stores.postgres.members import Members
from hookfuse.stores.postgres.notices import Notices
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.postgres.schema import migrate
from hookfuse.stores.postgres.serving import Serving

__all__ = ["PostgresStore"]


class PostgresStore(Serving, Notices, Leading, Members):
    """A delivery store in the schema `hookfuse` of the database at `url`. It belongs to the event loop that opens it.

    `pool_size` is how many connections there may be for each of accepting, delivering and looking. `pooled` says that
    `url` leads to a pooler of transactions; name the server itself in `listen_url` to be woken by it, else the store
    looks for work once a second. No call takes longer than `deadline` seconds. `notices` says what people are told of,
    where an application did not choose otherwise.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 4,
        pooled: bool = False,
        listen_url: str | None = None,
        deadline: float = 5.0,
        notices: NoticeRules | None = None,
    ) -> None:
        self._url = url
        self._pooled = pooled
        self._rules = notices or NoticeRules()
        bounds.whole("pool_size", pool_size, 1, 1000)
        self._deadline = bounds.seconds("deadline", deadline, 0.1, 60)
        self._connections = Connections(url, size=pool_size, pooled=pooled, deadline=self._deadline)
        self._routes = accept.Routes()
        self._turns = claim.Turns()
        self._bell = Bell(listen_url or (None if pooled else url), self._notify, answers_within=self._deadline)

    async def open(self) -> None:
        await migrate(self._url, pooled=self._pooled, connect_within=self._deadline)
        await self._connections.open()
        self._bell.open()

    async def close(self) -> None:
        await self._bell.close()
        await self._connections.close()

    async def add_application(self, application: Application) -> Application:
        check_application(application)
        return await self._connections.change(Purpose.DESK, lambda db: directory.add_application(db, application))

    async def application(self, id_or_uid: str) -> Application | None:
        return await self._connections.alone(Purpose.DESK, lambda db: directory.application_of(db, id_or_uid))

    async def change_application(self, id_: str, changes: Mapping[str, Any]) -> Application | None:
        check_changes(Application, changes)
        return await self._connections.change(Purpose.DESK, lambda db: directory.change_application(db, id_, changes))

    async def delete_application(self, id_: str) -> bool:
        return await self._connections.change(Purpose.DESK, lambda db: directory.delete_application(db, id_))

    async def pause_application(self, id_: str, paused: bool) -> Application | None:
        found = await self._connections.change(Purpose.DESK, lambda db: directory.pause_application(db, id_, paused))
        self._bell.ring()
        return found

    async def add_endpoint(self, endpoint: Endpoint) -> Endpoint:
        check_endpoint(endpoint)
        return await self._connections.change(Purpose.DESK, lambda db: directory.add_endpoint(db, endpoint))

    async def endpoint(self, app_id: str, id_or_uid: str) -> Endpoint | None:
        return await self._connections.alone(Purpose.DESK, lambda db: directory.endpoint_of(db, app_id, id_or_uid))

    async def endpoints(self, ids: Sequence[str]) -> Sequence[Endpoint]:
        return await self._connections.alone(Purpose.DESK, lambda db: directory.endpoints_of(db, ids))

    async def change_endpoint(
        self, id_: str, changes: Mapping[str, Any], *, version: int | None = None
    ) -> Endpoint | None:
        check_changes(Endpoint, changes)
        found = await self._connections.change(
            Purpose.DESK, lambda db: directory.change_endpoint(db, id_, changes, version)
        )
        self._bell.ring()
        return found

    async def stop_endpoint(
        self,
        id_: str,
        stop: Stop,
        reason: str = "",
        *,
        because: Transition | None = None,
        tenure: Tenure | None = None,
    ) -> Endpoint | None:
        return await self._connections.change(
            Purpose.DESK, lambda db: outbox.stop_endpoint(db, id_, stop, reason, because, tenure, self._rules)
        )

    async def start_endpoint(self, id_: str, stop: Stop) -> Endpoint | None:
        found = await self._connections.change(
            Purpose.DESK, lambda db: outbox.start_endpoint(db, id_, stop, self._rules)
        )
        self._bell.ring()
        return found

    async def delete_endpoint(self, id_: str) -> bool:
        return await self._connections.change(Purpose.DESK, lambda db: directory.delete_endpoint(db, id_))

    async def accept(self, messages: Sequence[NewMessage]) -> Sequence[Answer]:
        for message in messages:
            check_message(message)
        run = self._connections.alone if accept.is_plain(messages) else self._connections.together
        answers = await run(Purpose.ACCEPT, lambda db: accept.accept(db, self._routes, messages))
        self._bell.ring()
        return answers

    async def claim(self, limit: int, *, lease_ms: int, failing_limit: int, token: int | None = None) -> Claims:
        return await self._connections.alone(
            Purpose.DELIVER, lambda db: claim.claim(db, limit, lease_ms, failing_limit, token, self._turns)
        )

    async def disclaim(self, tokens: Sequence[int]) -> Mapping[int, int]:
        found = await self._connections.alone(Purpose.DELIVER, lambda db: settle.disclaim(db, tokens))
        if found:
            self._bell.ring()
        return found

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[Claim]:
        # People hear of what failed for good, in the same transaction.
        told = any(each.state is DeliveryState.FAILED for each in settlements)
        run = self._connections.together if told else self._connections.alone
        stale = await run(Purpose.DELIVER, lambda db: outbox.settle(db, settlements, self._rules))
        self._bell.ring_here()
        return stale

    async def defer(self, deferrals: Sequence[Deferral]) -> None:
        await self._connections.alone(Purpose.DELIVER, lambda db: settle.defer(db, deferrals))
        self._bell.ring_here()

    async def unblock(self, endpoint_ids: Sequence[str]) -> None:
        await self._connections.alone(Purpose.DELIVER, lambda db: upkeep.unblock(db, endpoint_ids))
        self._bell.ring()

    async def rescue(self, *, deaths: int, limit: int = 1000, tenure: Tenure | None = None) -> Rescued:
        rescued = await self._connections.together(
            Purpose.DELIVER, lambda db: outbox.rescue(db, deaths, limit, tenure, self._rules)
        )
        if rescued.returned:
            self._bell.ring()
        return rescued

    async def older(self, than_ms: int) -> int:
        return await self._connections.alone(Purpose.DESK, lambda db: db.fetchval(SQL["older_messages"], than_ms))

    async def prune(self, *, older_than_ms: int, limit: int = 1000, tenure: Tenure | None = None) -> int:
        return await self._connections.together(Purpose.DESK, lambda db: upkeep.prune(db, older_than_ms, limit, tenure))

    async def wait(self, seconds: float) -> None:
        await self._bell.wait(seconds)

    async def message(self, app_id: str, id_or_uid: str) -> Message | None:
        return await self._connections.alone(Purpose.DESK, lambda db: desk.message_of(db, app_id, id_or_uid))

    async def delivery(self, message_id: str, endpoint_id: str) -> Delivery | None:
        return await self._connections.alone(Purpose.DESK, lambda db: desk.delivery_of(db, message_id, endpoint_id))

    async def deliveries(self, chosen: Chosen, *, after: Place | None = None, limit: int = 100) -> Sequence[Delivery]:
        return await self._connections.alone(Purpose.DESK, lambda db: desk.deliveries(db, chosen, after, limit))

    async def count(self, chosen: Chosen) -> int:
        return await self._connections.alone(Purpose.DESK, lambda db: desk.count(db, chosen))

    async def attempts(self, message_id: str, endpoint_id: str | None = None) -> Sequence[Attempt]:
        return await self._connections.alone(Purpose.DESK, lambda db: desk.attempts(db, message_id, endpoint_id))

    async def retry(self, pairs: Sequence[Place]) -> int:
        done = await self._connections.change(Purpose.DESK, lambda db: desk.retry(db, pairs), alone=True)
        self._bell.ring()
        return done

    async def cancel(self, pairs: Sequence[Place]) -> int:
        return await self._connections.change(Purpose.DESK, lambda db: desk.cancel(db, pairs), alone=True)

    async def expunge(self, app_id: str, message_id: str) -> bool:
        return await self._connections.change(Purpose.DESK, lambda db: desk.expunge(db, app_id, message_id))

    async def backlog(self) -> Backlog:
        return await self._connections.alone(Purpose.DESK, upkeep.backlog)

    async def sealed_page(self, after: str, limit: int) -> Sequence[Sealed]:
        return await self._connections.alone(Purpose.DESK, lambda db: upkeep.sealed_page(db, after, limit))

    async def reseal(self, before: Sealed, after: Sealed) -> bool:
        return await self._connections.alone(Purpose.DESK, lambda db: upkeep.reseal(db, before, after))

    async def applied_migrations(self) -> Sequence[Applied]:
        return await self._connections.alone(Purpose.DESK, upkeep.applied_migrations)

    def _ring(self) -> None:
        self._bell.ring()

    async def _notify(self, sender: str) -> None:
        async def notify(db: Any) -> None:
            await db.fetchrow(SQL["notify"], sender)

        await self._connections.alone(Purpose.DESK, notify)
