"""What can be typed: `hookfuse breakers list`, and so on. Each command opens the fleet, asks, and hands over."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from hookfuse.breakers import Breakers
from hookfuse.cli import running, upkeep
from hookfuse.cli.attending import workers
from hookfuse.cli.demonstrating import demo
from hookfuse.cli.endpoints import endpoints
from hookfuse.cli.guarding import breaker
from hookfuse.cli.listing import print_list, worst_first
from hookfuse.cli.messages import deliveries, messages
from hookfuse.cli.misuse import Commands
from hookfuse.cli.noticing import notices
from hookfuse.cli.orders import give_order
from hookfuse.cli.receiving import listen
from hookfuse.cli.records import breaker_record
from hookfuse.cli.resources import apps, keys, policies
from hookfuse.cli.showing import is_known, print_breaker, unknown
from hookfuse.cli.speaking import console, errors_in_one_sentence, refuse, say, say_json
from hookfuse.cli.times import read_duration, read_instant
from hookfuse.cli.watching import Watch
from hookfuse.cli.words import Condition, condition
from hookfuse.core.keys import check_key
from hookfuse.core.state import Order

if TYPE_CHECKING:
    from hookfuse.app.fleet import Fleet

_LOOK = "Look"
_DECIDE = "Decide"
_USE = "Use it (HOOKFUSE_URL, HOOKFUSE_API_KEY)"

app = typer.Typer(
    name="hookfuse",
    cls=Commands,
    help="Webhook delivery, with a circuit breaker for every endpoint.",
    epilog="Begin with: hookfuse serve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
breakers = typer.Typer(
    help="Look at the breakers that a fleet shares through Redis, and decide over them.",
    epilog="HOOKFUSE_REDIS_URL saves typing --redis, and keeps a password out of the list of processes.",
    no_args_is_help=True,
)
running.register(app)
app.command(rich_help_panel=running.PANEL)(demo)
upkeep.register(app)
app.command(rich_help_panel=_USE)(workers)
app.command(rich_help_panel=_USE)(listen)
for group, name in (
    (apps, "app"),
    (endpoints, "endpoint"),
    (messages, "message"),
    (deliveries, "delivery"),
    (breaker, "breaker"),
    (notices, "notice"),
    (policies, "policy"),
    (keys, "key"),
):
    app.add_typer(group, name=name, rich_help_panel=_USE)
app.add_typer(breakers, name="breakers", rich_help_panel="Breakers without the service")

Key = Annotated[str, typer.Argument(metavar="KEY", help="The breaker's key.", show_default=False)]
Url = Annotated[
    str,
    typer.Option(
        "--redis",
        metavar="URL",
        envvar="HOOKFUSE_REDIS_URL",
        help="Where the breakers are: redis://, rediss://, unix://, redis+cluster:// or rediss+cluster://.",
        show_default=False,
    ),
]
Prefix = Annotated[str, typer.Option("--prefix", help="The prefix of the workers' store.")]
Shards = Annotated[
    int | None,
    typer.Option("--shards", min=1, max=1024, help="How many shards; by default what is stored.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on each line.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; everyone sees it.", show_default=False)]
Actor = Annotated[str, typer.Option("--actor", help="Who decides; by default $USER.", show_default=False)]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hookfuse {version('hookfuse')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@breakers.command("list", rich_help_panel=_LOOK)
def list_breakers(
    state: Annotated[Condition | None, typer.Option("--state", help="Only those.", show_default=False)] = None,
    redis: Url = "",
    prefix: Prefix = "hookfuse",
    shards: Shards = None,
    json: Json = False,
) -> None:
    """Every breaker that is not plainly closed, worst first."""
    from hookfuse.app.fleet import NothingStored

    if state is Condition.CLOSED:
        raise refuse("Only breakers that are not plainly closed are listed; `show KEY` tells of any.")
    with errors_in_one_sentence():
        try:
            with _open(redis, prefix, shards) as fleet:
                found = worst_first([seen for seen in fleet.unhealthy() if state in (None, condition(seen))])
                now = fleet.pulse().now
        except NothingStored:
            if not json:
                say(Text(f"No worker has stored breakers under the prefix {prefix!r} yet."))
            return
    if json:
        for seen in found:
            say_json(breaker_record(seen))
    elif found:
        print_list(console(), found, now)
    else:
        say("All breakers are closed." if state is None else f"No breaker is {state}.")


@breakers.command(rich_help_panel=_LOOK)
def show(key: Key, redis: Url = "", prefix: Prefix = "hookfuse", shards: Shards = None, json: Json = False) -> None:
    """Everything that is known of one breaker."""
    from hookfuse.app.fleet import NothingStored

    with errors_in_one_sentence():
        check_key(key)
        try:
            with _open(redis, prefix, shards) as fleet:
                seen = fleet.breakers.inspect(key)
                now = fleet.pulse().now
        except NothingStored:
            seen, now = Breakers().inspect(key), 0.0
    if json:
        say_json(breaker_record(seen))
    elif is_known(seen):
        print_breaker(console(), seen, now)
    else:
        say(unknown(key))


@breakers.command(rich_help_panel=_LOOK)
def watch(redis: Url = "", prefix: Prefix = "hookfuse", shards: Shards = None, json: Json = False) -> None:
    """Transitions as they happen, one line each."""
    with errors_in_one_sentence(), _open(redis, prefix, shards) as fleet:
        try:
            Watch(fleet, as_json=json).run()
        except KeyboardInterrupt:
            pass


def _add_lasting_order(order: Order, explanation: str) -> None:
    def command(
        key: Key,
        reason: Reason = "",
        actor: Actor = "",
        lasts: Annotated[
            str, typer.Option("--for", metavar="DURATION", help="30m, 2h, 1d ...; else for good.", show_default=False)
        ] = "",
        until: Annotated[
            str, typer.Option("--until", metavar="TIME", help="ISO 8601; UTC if it does not say.", show_default=False)
        ] = "",
        redis: Url = "",
        prefix: Prefix = "hookfuse",
        shards: Shards = None,
        json: Json = False,
    ) -> None:
        if lasts and until:
            raise refuse("Use --for or --until, not both.")
        try:
            seconds = read_duration(lasts) if lasts else None
            end = read_instant(until) if until else None
        except ValueError as error:
            raise refuse(f"{'--for' if lasts else '--until'} cannot be read: {error}.") from None
        with errors_in_one_sentence(), _open(redis, prefix, shards) as fleet:
            give_order(fleet, order, key, reason=reason, actor=actor or _user(), lasts=seconds, until=end, as_json=json)

    _register(order, explanation, command)


def _add_order(order: Order, explanation: str) -> None:
    def command(
        key: Key,
        reason: Reason = "",
        actor: Actor = "",
        redis: Url = "",
        prefix: Prefix = "hookfuse",
        shards: Shards = None,
        json: Json = False,
    ) -> None:
        with errors_in_one_sentence(), _open(redis, prefix, shards) as fleet:
            give_order(fleet, order, key, reason=reason, actor=actor or _user(), as_json=json)

    _register(order, explanation, command)


def _register(order: Order, explanation: str, command: Callable[..., None]) -> None:
    breakers.command(order.value.replace("_", "-"), help=explanation, rich_help_panel=_DECIDE)(command)


def _user() -> str:
    return os.environ.get("USER") or "operator"


_add_lasting_order(Order.FORCE_OPEN, "Refuse every call, for a time or for good.")
_add_lasting_order(Order.FORCE_CLOSED, "Let every call pass, whatever its outcome.")
_add_order(Order.UNFORCE, "End a force-open (a probe decides next) or a force-closed.")
_add_order(Order.PROBE, "Let the next call probe an open breaker now.")
_add_order(Order.DISABLE, "Refuse every call until someone enables it.")
_add_order(Order.ENABLE, "Let a disabled breaker probe again.")
_add_order(Order.RESET, "Close it, with nothing held against it; ends an override too.")


def _open(url: str, prefix: str, shards: int | None) -> Fleet:
    if not url:
        raise refuse("Say where the breakers are, with --redis redis://host:6379/0 or in HOOKFUSE_REDIS_URL.")
    # Brings the Redis client, which most commands do without.
    from hookfuse.app.fleet import Fleet

    return Fleet(url, prefix=prefix, shards=shards)
