"""What a store refuses before it writes: every store the same, by the name of the field."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookfuse.core.delivery import Chosen
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.listing import MessageFilter
from hookfuse.core.message import Accepted, NewMessage
from hookfuse.core.paging import Span
from hookfuse.errors import Conflict, InvalidField, InvalidInput
from hookfuse.testing.delivery.bench import Bench, OnBench

Row = tuple[str, tuple[Any, ...]]

_HALF = "half \ud800"
_NUL = "nul \0"
_LARGE = 1 << 70
_DEEP: Any = {}
for _ in range(100):
    _DEEP = {"deeper": _DEEP}

_NO_TEXT = (None, 5, b"bytes", _HALF, _NUL)
_NO_UID = ("", 0, b"bytes", _HALF, _NUL, "two words", "x" * 257)
_NO_METADATA: tuple[Any, ...] = (
    None,
    [],
    "text",
    {"a": 1},
    {1: "a"},
    {"": "a"},
    {"a": _HALF},
    {_NUL: "a"},
    {"a": None},
)
_NO_SETTINGS = ("text", [1], {"a": float("nan")}, {"a": {1}}, {1: 2}, {"a": [_NUL]}, {_HALF: 1}, {"a": _LARGE}, _DEEP)
_NO_NAMES = ((), "a.b", ("two words",), (None,), (_HALF,), {"a"}, ("x",) * 501)

APPLICATION: tuple[Row, ...] = (
    ("name", ("", "x" * 1025, *_NO_TEXT)),
    ("uid", (*_NO_UID, "app_1")),
    ("metadata", (*_NO_METADATA, {str(n): "" for n in range(51)})),
    ("policy", _NO_SETTINGS),
    ("retry", _NO_SETTINGS),
    ("paused_ms", (-1, _LARGE, "x", 1.5)),
)
ENDPOINT: tuple[Row, ...] = (
    ("url", ("", "x" * 2049, *_NO_TEXT)),
    ("uid", (*_NO_UID, "ep_1")),
    ("description", ("x" * 4097, *_NO_TEXT)),
    ("metadata", _NO_METADATA),
    ("event_types", _NO_NAMES),
    ("channels", _NO_NAMES),
    ("headers", (None, "text", bytearray(1))),
    ("secret", (None, "text", 5)),
    ("policy", _NO_SETTINGS),
    ("retry", _NO_SETTINGS),
    ("response", _NO_SETTINGS),
    ("breaker_key", ("", 5, _HALF, _NUL, "two words", "x" * 129)),
    ("cap", (None, "x", "7", 1.5, True, 0, -5, 10_001, _LARGE)),
    ("rate_limit", ("x", 1.5, False, 0, -5, 1_000_001, _LARGE)),
    ("timeout_ms", (None, "x", 1.5, 0, -1, 99, 3_600_001, _LARGE)),
    ("fifo", (None, 1, "yes")),
    ("flag", _NO_TEXT),
    ("offer", _NO_TEXT),
)
MESSAGE: tuple[Row, ...] = (
    ("id", ("", "x" * 257, *_NO_TEXT)),
    ("app_id", ("", "x" * 257, *_NO_TEXT)),
    ("event_type", ("", "x" * 257, *_NO_TEXT)),
    ("payload", (None, "text", 5, bytearray(1))),
    ("uid", (0, b"bytes", _HALF, _NUL, "x" * 8_000)),
    ("channels", (None, "eu", {"eu"}, ("eu", None), ("eu", _HALF), (_NUL,), ("x" * 257,), ("x",) * 51)),
    ("deliver_ms", (-1, _LARGE, 1 << 60, "x", 1.5, True)),
    ("idempotency_key", (0, b"bytes", _HALF, _NUL, "x" * 8_000)),
    ("fingerprint", (None, "text")),
)
_ID: Row = ("id", ("", "x" * 257, *_NO_TEXT))
_FIXED: tuple[Row, ...] = tuple((name, ("other",)) for name in ("id", "created_ms", "updated_ms", "color"))
_FIXED_OF_ENDPOINT = tuple((name, (1,)) for name in ("app_id", "stop", "version", "disabled_ms", "disabled_reason"))


class Refusing(OnBench):
    async def test_a_bad_application_is_refused_by_its_field(self, bench: Bench) -> None:
        """An application with a value that cannot be kept is refused by the field's name, and is not stored."""

        async def add(field: str, value: Any) -> object:
            return await bench.store.add_application(Application(**{"id": "app_2", "name": "x", field: value}))

        await _refused(add, (_ID, *APPLICATION, ("created_ms", (-1, "x")), ("updated_ms", (None,))))
        assert await bench.store.applications_page(Span()) == []

    async def test_a_bad_endpoint_is_refused_by_its_field(self, bench: Bench) -> None:
        """An endpoint with a value that cannot be kept is refused by the field's name, and is not stored."""
        await bench.application()

        async def add(field: str, value: Any) -> object:
            given = {"id": "ep_2", "app_id": "app_1", "url": "https://example.com/", field: value}
            return await bench.store.add_endpoint(Endpoint(**given))

        more: tuple[Row, ...] = (
            ("app_id", ("", "app_none", *_NO_TEXT)),
            ("stop", (None, "x", -1, 16)),
            ("disabled_ms", (-1, "x")),
            ("disabled_reason", _NO_TEXT),
            ("version", (None, 0, _LARGE)),
        )
        await _refused(add, (_ID, *ENDPOINT, *more))
        assert await bench.store.endpoints_page("app_1", Span()) == []

    async def test_a_bad_change_is_refused_by_its_field(self, bench: Bench) -> None:
        """A change to what cannot be kept or changed is refused by the field's name, with all that came along."""
        application, endpoint = await bench.application(), await bench.endpoint()
        bench.clock.advance(1)

        async def change_application(field: str, value: Any) -> object:
            return await bench.store.change_application("app_1", {"name": "other", field: value})

        async def change_endpoint(field: str, value: Any) -> object:
            return await bench.store.change_endpoint("ep_1", {"cap": 3, field: value})

        await _refused(change_application, (*APPLICATION, *_FIXED))
        await _refused(change_endpoint, (*ENDPOINT, *_FIXED, *_FIXED_OF_ENDPOINT))
        assert await bench.store.application("app_1") == application
        assert await bench.store.endpoints(["ep_1"]) == [endpoint]

    async def test_a_bad_message_is_refused_by_its_field(self, bench: Bench) -> None:
        """A message that cannot be kept is refused by the field's name, however it comes, and nothing is stored."""
        await bench.application()
        await bench.endpoint()

        def made(field: str, value: Any) -> NewMessage:
            return NewMessage(**{"id": "msg_x", "app_id": "app_1", "event_type": "a", "payload": b"{}", field: value})

        async def accept(field: str, value: Any) -> object:
            return await bench.store.accept([bench.message(), made(field, value)])

        async def accept_for(field: str, value: Any) -> object:
            return await bench.store.accept_for(made(field, value), "ep_1")

        await _refused(accept, MESSAGE)
        await _refused(accept_for, MESSAGE)
        assert await bench.store.messages_page(MessageFilter("app_1"), Span()) == []
        assert await bench.store.count(Chosen("app_1")) == 0

    async def test_what_is_just_within_is_kept(self, bench: Bench) -> None:
        """The longest texts and the largest numbers, in any script, are kept as they were given."""
        text = "\N{SNOWMAN}"
        metadata = {text * 256: text * 1024}
        application = await bench.application(uid="x" * 256, metadata=metadata, policy={"a": [1.5, None, {text: True}]})
        assert (application.uid, application.metadata) == ("x" * 256, metadata)
        assert application.policy == {"a": [1.5, None, {text: True}]}
        longest: dict[str, Any] = {
            "description": text * 4096,
            "event_types": tuple(f"type.{n}" for n in range(500)),
            "channels": tuple(f"channel-{n}" for n in range(50)),
            "breaker_key": "x" * 128,
            "cap": 10_000,
            "rate_limit": 1_000_000,
            "timeout_ms": 3_600_000,
        }
        endpoint = await bench.endpoint(**longest)
        assert {name: getattr(endpoint, name) for name in longest} == longest
        # In as many bytes as there can be.
        name = "\N{GRINNING FACE}" * 256
        message = bench.message(
            event_type=name, uid=name, idempotency_key=name, fingerprint=b"x", channels=(name,) * 50, deliver_ms=0
        )
        assert await bench.store.accept([message]) == [Accepted(message.id, bench.now_ms, 0)]
        found = await bench.store.message("app_1", name)
        assert found is not None
        assert (found.event_type, found.channels) == (name, (name,) * 50)

    async def test_what_cannot_be_looked_for(self, bench: Bench) -> None:
        """A name or a number that no store can hold is bad input wherever it is given, not an error of a driver."""
        asked: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: bench.store.application(_HALF),
            lambda: bench.store.endpoint("app_1", _HALF),
            lambda: bench.store.message("app_1", _HALF),
            lambda: bench.store.older(_LARGE),
            lambda: bench.store.delete_endpoint(_HALF),
            lambda: bench.store.change_application(_HALF, {"name": "x"}),
        )
        for ask in asked:
            with pytest.raises(InvalidInput):
                await ask()

    async def test_an_id_that_is_taken(self, bench: Bench) -> None:
        """A second one with the same id is a conflict that names the id, not a uid that nobody gave."""
        await bench.application()
        await bench.endpoint()
        for add in (bench.application, bench.endpoint):
            with pytest.raises(Conflict, match=r"id '(app|ep)_1'"):
                await add()


async def _refused(ask: Callable[[str, Any], Awaitable[object]], table: tuple[Row, ...]) -> None:
    """Whatever a table of bad values holds is refused by its field's name."""
    wrong = []
    for field, values in table:
        for value in values:
            try:
                await ask(field, value)
            except InvalidField as error:
                if error.field == field and field in str(error):
                    continue
                wrong.append(f"{field}={value!r:.40}: {error.field}")
            except Exception as error:
                wrong.append(f"{field}={value!r:.40}: {error!r}")
            else:
                wrong.append(f"{field}={value!r:.40} was taken")
    assert not wrong, wrong
