"""Asking name servers, so that none that hangs can hold up anything but its own question.

Both kinds of address are asked for at once, over a UDP socket of its own with a random port and random numbers. Who
does not answer soon is asked again, the next server first; an earlier answer is still taken. A truncated answer is
asked for over TCP.

Thousands of names may be asked for in one instant, and the last of them waits for the work on all others. So a lookup
is no task: it is moved on by datagrams that come and by timers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from itertools import cycle
from os import urandom
from typing import Final, TypeAlias

from hookfuse.core.sending import Trouble
from hookfuse.transport.dns import Kind, NotAnAnswer, Reply, encode_name, question, read_reply
from hookfuse.transport.troubles import Failure, is_ours, os_failure

Server: TypeAlias = tuple[str, int]
Outcome: TypeAlias = list[Reply] | Failure
"""Replies of which at least one has addresses or says that there are none, or why there is no answer."""

_KINDS: Final = tuple(Kind)
_PAUSES: Final = (0.15, 0.35, 1.0, 2.5)
"""Seconds to wait after each time of asking."""
_GRACE: Final = 0.1
"""Seconds that a kind of address may be later than the other, once there are some of that."""
_BIGGEST: Final = 65_535

SILENT: Final = Failure(Trouble.DNS, "The name servers did not answer in time.")
GIVEN_UP: Final = Failure(Trouble.LOCAL, "The name was given up before there was an answer.")
_UNREACHABLE: Final = Failure(Trouble.LOCAL, "No name server can be reached.")
_UNABLE: Final = Failure(Trouble.DNS, "The name servers could not answer.")


class Lookup:
    """One name, asked for until there is an answer or no more patience; `on_end` is then called once."""

    def __init__(self, name: str, servers: Sequence[Server], on_end: Callable[[Lookup, Outcome], None]) -> None:
        self.name = name
        # Made here, so that whoever asks for what is no name is told at once.
        self.encoded = encode_name(name)
        self.answered_by: Server | None = None
        self._on_end = on_end
        self._tries = zip(_PAUSES, cycle(servers), strict=False)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._grace: asyncio.Handle | None = None
        self._channels: dict[Server, _Channel] = {}
        self._asked: _Channel | None = None
        self._replies: dict[Kind, Reply] = {}
        self._refused = False
        self._ours: Failure | None = None

    def begin(self) -> None:
        self._timer = self._loop.call_soon(self._ask)

    def give_up(self) -> None:
        """End now, with what there is. That there is nothing yet is then our own doing."""
        self._end(GIVEN_UP)

    def _ask(self) -> None:
        """Ask the next server; end if none is left."""
        kinds = [kind for kind in _KINDS if kind not in self._replies]
        for pause, server in self._tries:
            channel = self._channel(server)
            if channel is not None and channel.ask(kinds):
                self._asked = channel
                self._timer = self._loop.call_later(pause, self._ask)
                return
        self._end()

    def _channel(self, server: Server) -> _Channel | None:
        if server not in self._channels:
            try:
                self._channels[server] = _Channel(self, server, self._loop)
            except OSError as error:
                self.note(error, at_once=True)
            except (ValueError, OverflowError):
                pass  # what is no address cannot be reached
        return self._channels.get(server)

    def _end(self, otherwise: Failure | None = None) -> None:
        replies = list(self._replies.values())
        found = len(replies) == len(_KINDS) or any(reply.addresses or reply.missing for reply in replies)
        outcome = replies if found else otherwise or self._failure()
        for timer in (self._timer, self._grace):
            if timer is not None:
                timer.cancel()
        for channel in self._channels.values():
            channel.close()
        # Channels and their lookup refer to each other, which would keep both until the collector looks.
        self._timer = self._grace = self._asked = None
        self._channels.clear()
        self._on_end(self, outcome)

    def _failure(self) -> Failure:
        if self._refused:
            return _UNABLE
        if self._ours is not None:
            return self._ours
        silent = any(not channel.useless for channel in self._channels.values())
        return SILENT if silent or self._replies else _UNREACHABLE

    # What channels tell.

    def replied(self, server: Server, kind: Kind, reply: Reply) -> None:
        self._replies.setdefault(kind, reply)
        self.answered_by = self.answered_by or server
        if reply.missing or len(self._replies) == len(_KINDS):
            self._end()
        elif reply.addresses and self._grace is None:
            self._grace = self._loop.call_later(_GRACE, self._end)

    def refused(self) -> None:
        self._refused = True
        self._go_on()

    def broke(self, error: OSError) -> None:
        self.note(error, at_once=False)
        self._go_on()

    def note(self, error: OSError, *, at_once: bool) -> None:
        if self._ours is None and is_ours(error.errno, at_once=at_once):
            self._ours = os_failure(error.errno, Trouble.DNS, at_once=at_once)

    def _go_on(self) -> None:
        """Ask the next server at once, if nothing more will come from the last."""
        if self._timer is not None and self._asked is not None and self._asked.useless:
            self._timer.cancel()
            self._ask()


class _Channel:
    """A socket from one lookup to one server."""

    def __init__(self, lookup: Lookup, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._lookup = lookup
        self._server = server
        self._loop = loop
        self._waiting: dict[Kind, int] = {}
        self._streams: dict[Kind, asyncio.Task[None]] = {}
        self.useless = False
        """Nothing more will come from here: the server cannot be reached, or has refused all that was asked."""
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            # Connected, the socket takes datagrams from this server and no other.
            self._socket.connect(server)
            loop.add_reader(self._socket, self._readable)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, kinds: Sequence[Kind]) -> bool:
        """Whether there is reason to wait for answers."""
        self.useless = False
        for kind in kinds:
            # Asked again with the same number, so that the answer to the first time is still one.
            number = self._waiting.get(kind)
            if number is None:
                number = self._waiting[kind] = int.from_bytes(urandom(2))
            try:
                self._socket.send(question(self._lookup.encoded, kind, number))
            except BlockingIOError:
                pass  # as good as lost on the way
            except OSError as error:
                self.useless = True
                self._lookup.note(error, at_once=False)
        return not self.useless

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for stream in self._streams.values():
            stream.cancel()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_BIGGEST)
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(error)
            return
        for kind, number in self._waiting.items():
            try:
                reply = read_reply(data, self._lookup.name, kind, number)
            except NotAnAnswer:
                continue
            self._take(kind, reply)
            return

    def _take(self, kind: Kind, reply: Reply) -> None:
        if reply.truncated:
            if kind not in self._streams:
                self._streams[kind] = self._loop.create_task(self._ask_by_stream(kind, self._waiting[kind]))
            return
        del self._waiting[kind]
        if not reply.refused:
            self._lookup.replied(self._server, kind, reply)
            return
        self.useless = not self._waiting
        self._lookup.refused()

    async def _ask_by_stream(self, kind: Kind, number: int) -> None:
        message = question(self._lookup.encoded, kind, number)
        try:
            reader, writer = await asyncio.open_connection(*self._server)
            try:
                writer.write(len(message).to_bytes(2) + message)
                data = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
            finally:
                writer.transport.abort()
            reply = read_reply(data, self._lookup.name, kind, number)
        except OSError as error:
            self._broken(error)
        except (NotAnAnswer, EOFError):
            self._lookup.refused()
        else:
            if kind in self._waiting and not reply.truncated:
                self._take(kind, reply)

    def _broken(self, error: OSError) -> None:
        self.useless = True
        self._lookup.broke(error)
