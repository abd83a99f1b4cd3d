"""Delivery, put together: where messages live, who guards the endpoints, and who sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from hookfuse.app.duties import leader_of, process_name
from hookfuse.app.notices import mailer_of, posts_of
from hookfuse.breakers import AsyncBreakers
from hookfuse.config import variable
from hookfuse.core.addresses import Networks
from hookfuse.core.delivery import Claim
from hookfuse.core.notice import Notice, NoticeRules, NoticeState, Occurrence
from hookfuse.delivery.accept import Acceptor
from hookfuse.delivery.chronicle import Chronicle
from hookfuse.delivery.courier import OnAttempt
from hookfuse.delivery.egress import EgressWatch
from hookfuse.delivery.keeper import Keeper
from hookfuse.delivery.notify import Notifier, NotifySettings
from hookfuse.delivery.notify_addresses import AddressBook, NoticeDefaults
from hookfuse.delivery.reconcile import Reconciler
from hookfuse.delivery.sampler import Sampler
from hookfuse.delivery.targets import Defaults, Targets
from hookfuse.delivery.worker import Worker, WorkerSettings
from hookfuse.errors import InvalidInput, StoreError
from hookfuse.ports import BreakerStore, DeliveryStore
from hookfuse.sealing import AesGcmSealer, CurveEd25519, read_or_make_key
from hookfuse.stores.kept import KeptBreakers
from hookfuse.stores.memory import MemoryStore
from hookfuse.telemetry import Observer
from hookfuse.transport import HttpSender, Limits, Proxy


@dataclass(frozen=True, slots=True)
class StationSettings:
    """Where things are, and how they behave.

    database   "sqlite:///FILE" or "postgresql://…"
    redis      a Redis URL to share breakers through; None: breakers of this process
    key_file   the master key, made if it is not there
    networks   what may be dialled beside public addresses
    """

    database: str
    key_file: Path
    redis: str | None = None
    networks: Networks = field(default_factory=Networks)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    defaults: Defaults = field(default_factory=Defaults)
    limits: Limits | None = None
    proxy: Proxy | None = None
    pooled: bool = False
    """Whether Postgres is reached through a pooler in transaction mode."""
    listen: str | None = None
    """Where Postgres itself is, then: it wakes who waits. None: they look once a second."""
    retention_days: float = 0.0
    """How long messages are kept; 0: for ever."""
    notices: NoticeDefaults = field(default_factory=NoticeDefaults)
    notify: NotifySettings = field(default_factory=NotifySettings)


class Station:
    """Everything that delivery needs, for the event loop that opens it."""

    def __init__(
        self,
        settings: StationSettings,
        *,
        on_attempt: OnAttempt = lambda attempted: None,
        on_lost: Callable[[Sequence[Claim]], None] = lambda claims: None,
        on_suspect: Callable[[bool], None] = lambda suspect: None,
        on_transition: Observer = lambda transition: None,
        on_failing: Callable[[Occurrence], None] = lambda occurrence: None,
        on_notice: Callable[[Notice, NoticeState], None] = lambda notice, state: None,
    ) -> None:
        self.settings = settings
        self.name = process_name()
        """What the fleet knows this process by."""
        self.store = open_store(
            settings.database, pooled=settings.pooled, listen=settings.listen, notices=settings.notices.rules
        )
        self.kept = _kept_breakers(self.store, settings.redis)
        self.sealer = AesGcmSealer(read_or_make_key(settings.key_file))
        self.curve = CurveEd25519()
        self.targets = Targets(
            self.store,
            self.sealer,
            networks=settings.networks,
            defaults=settings.defaults,
            longest_timeout=settings.worker.longest_timeout,
        )
        self.breakers = AsyncBreakers(
            _breaker_store(settings.redis) if self.kept is None else self.kept,
            policy=settings.defaults.policy,
            policy_for=self.targets.policy_for,
        )
        self.sender = HttpSender(settings.networks, limits=settings.limits, proxy=settings.proxy)
        self.acceptor = Acceptor(self.store)
        self.egress = EgressWatch(on_suspect)
        self.shared = settings.redis is not None
        self.worker = Worker(
            self.store,
            self.breakers,
            self.sender,
            self.targets,
            settings.worker,
            sign_ed25519=self.curve.sign,
            egress=self.egress,
            on_attempt=on_attempt,
            on_lost=on_lost,
        )
        self.mailer = mailer_of(settings.notices, settings.networks, settings.proxy)
        self.posts = posts_of(self.sender, self.mailer, self.curve, settings.networks, settings.notices.mail_from)
        self._on_transition = on_transition
        notifier = Notifier(
            self.store,
            self.posts,
            AddressBook(self.store, self.sealer, settings.notices.addresses),
            Reconciler(self.store, self.breakers, on_transition),
            settings.notify,
            on_failing=on_failing,
            on_end=on_notice,
        )
        keeper = Keeper(self.store, self.breakers, self.targets) if self.shared else None
        self.sampler = Sampler(self.store, self.breakers, settings.defaults.policy, keeper)
        self.leader = leader_of(
            self.store,
            self.sampler,
            notifier,
            settings.worker,
            holder=self.name,
            retention_days=settings.retention_days,
            shared=self.shared,
        )
        """Does the fleet's common work; enter it to take part."""

    async def __aenter__(self) -> Self:
        await reach(self.store, self.settings.database)
        self._stack = AsyncExitStack()
        self._stack.push_async_callback(self.store.close)
        if self.kept is None:
            await self._stack.enter_async_context(Chronicle(self.store, self.breakers, self._on_transition))
        else:
            # They write down what they do themselves.
            await self.kept.load()
            self._stack.callback(self.breakers.subscribe(self._on_transition).close)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.acceptor.close()
        await self.sender.close()
        if self.mailer is not None:
            await self.mailer.close()
        await self.breakers.close()
        await self._stack.aclose()


def open_store(
    url: str, *, pooled: bool = False, listen: str | None = None, notices: NoticeRules | None = None
) -> DeliveryStore:
    """The delivery store of a URL; nothing is opened yet."""
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        from hookfuse.stores.sqlite import SqliteStore

        return SqliteStore(url.removeprefix("sqlite://"), notices=notices)
    if scheme in ("postgresql", "postgres"):
        from hookfuse.stores.postgres import PostgresStore

        return PostgresStore(url, pooled=pooled, listen_url=listen, notices=notices)
    # Without the URL itself: it may hold a password.
    raise InvalidInput("A database URL begins with sqlite:/// or postgresql://, and this one does not.")


async def reach(store: DeliveryStore, url: str) -> None:
    """Open it. A server that cannot be used is told with where its address is; a file is named by its error already."""
    try:
        await store.open()
    except StoreError as error:
        if url.startswith("sqlite:"):
            raise
        raise type(error)(f"{error} Its address is in {variable('database_url')}.") from error


def _kept_breakers(store: DeliveryStore, redis: str | None) -> KeptBreakers | None:
    """Breakers of a process that is alone with its file are kept there."""
    if redis is not None:
        return None
    from hookfuse.stores.sqlite import SqliteStore

    return KeptBreakers(store) if isinstance(store, SqliteStore) else None


def _breaker_store(url: str | None) -> BreakerStore:
    if url is None:
        return MemoryStore()
    from hookfuse.app.fleet import check_url
    from hookfuse.stores.redis import RedisStore

    try:
        check_url(url)
    except InvalidInput as error:
        raise InvalidInput(f"{error} It is in {variable('redis_url')}.") from error
    return RedisStore(url)
