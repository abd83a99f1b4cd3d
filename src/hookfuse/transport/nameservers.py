"""Asking name servers, so that none that hangs can hold up anything but its own question.

Both kinds of address are asked for at once, over a UDP socket of its own with a random port and random numbers. Who
does not answer soon is asked again, the next server first; an earlier answer is still taken. A truncated answer is
asked for over TCP.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from itertools import cycle
from secrets import randbelow
from time import monotonic
from typing import Final, TypeAlias

from hookfuse.core.sending import Trouble
from hookfuse.transport.dns import Kind, NotAnAnswer, Reply, question, read_reply
from hookfuse.transport.troubles import Failure, is_ours, os_failure

Server: TypeAlias = tuple[str, int]

_PAUSES: Final = (0.15, 0.35, 1.0, 2.5)
"""Seconds to wait after each time of asking."""
_GRACE: Final = 0.1
"""Seconds that a kind of address may be later than the other, once there are some of that."""
_BIGGEST: Final = 65_535

_UNREACHABLE: Final = Failure(Trouble.LOCAL, "No name server can be reached.")
_SILENT: Final = Failure(Trouble.DNS, "The name servers did not answer in time.")
_GIVEN_UP: Final = Failure(Trouble.LOCAL, "The name was given up before there was an answer.")
_UNABLE: Final = Failure(Trouble.DNS, "The name servers could not answer.")


class Lookup:
    """One name, asked for until there is an answer or no more patience."""

    def __init__(self, name: str, servers: Sequence[Server]) -> None:
        self._name = name
        self._servers = servers
        self._loop = asyncio.get_running_loop()
        self._channels: dict[Server, _Channel] = {}
        self._replies: dict[Kind, Reply] = {}
        self._refused = False
        self._errors: list[Failure] = []
        self._patience_until = float("inf")
        self._given_up = False
        self._changed = asyncio.Event()
        self.answered_by: Server | None = None

    async def run(self) -> list[Reply] | Failure:
        """Replies of which at least one has addresses or says that there are none, or why there is no answer."""
        try:
            for pause, server in zip(_PAUSES, cycle(self._servers), strict=False):
                if await self._ask(server, pause):
                    break
        finally:
            for channel in self._channels.values():
                channel.close()
        return self._outcome()

    def give_up(self) -> None:
        """End now, with what there is. That there is nothing yet is then our own doing."""
        self._given_up = True
        self._changed.set()

    async def _ask(self, server: Server, pause: float) -> bool:
        """Ask a server and wait; true once nothing more need be asked."""
        if self._given_up:
            return True
        channel = self._channels.get(server)
        if channel is None:
            try:
                channel = self._channels[server] = _Channel(self, self._name, server, self._loop)
            except OSError as error:
                self._note(error, at_once=True)
                return self._is_over()
        channel.ask([kind for kind in Kind if kind not in self._replies])
        until = monotonic() + pause
        while not self._is_over() and not channel.useless:
            left = min(until, self._patience_until) - monotonic()
            if left <= 0:
                break
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self._is_over()

    def _is_over(self) -> bool:
        return (
            self._given_up
            or len(self._replies) == len(Kind)
            or any(reply.missing for reply in self._replies.values())
            or monotonic() >= self._patience_until
        )

    def _outcome(self) -> list[Reply] | Failure:
        replies = list(self._replies.values())
        if any(reply.addresses or reply.missing for reply in replies) or len(replies) == len(Kind):
            return replies
        if self._given_up:
            return _GIVEN_UP
        if self._refused:
            return _UNABLE
        ours = next((failure for failure in self._errors if failure.trouble is Trouble.LOCAL), None)
        if ours is not None:
            return ours
        heard_nothing = bool(self._channels) and not all(channel.useless for channel in self._channels.values())
        return _SILENT if heard_nothing or replies else _UNREACHABLE

    # What channels tell.

    def replied(self, server: Server, kind: Kind, reply: Reply) -> None:
        self._replies.setdefault(kind, reply)
        self.answered_by = self.answered_by or server
        if reply.addresses:
            self._patience_until = min(self._patience_until, monotonic() + _GRACE)
        self._changed.set()

    def refused(self) -> None:
        self._refused = True
        self._changed.set()

    def broke(self, error: OSError) -> None:
        self._note(error, at_once=False)
        self._changed.set()

    def _note(self, error: OSError, *, at_once: bool) -> None:
        if is_ours(error.errno, at_once=at_once):
            self._errors.append(os_failure(error.errno, Trouble.DNS, at_once=at_once))


class _Channel:
    """A socket from one lookup to one server."""

    def __init__(self, lookup: Lookup, name: str, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._lookup = lookup
        self._name = name
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

    def ask(self, kinds: Sequence[Kind]) -> None:
        self.useless = False
        for kind in kinds:
            # Asked again with the same number, so that the answer to the first time is still one.
            number = self._waiting.setdefault(kind, randbelow(0x10000))
            try:
                self._socket.send(question(self._name, kind, number))
            except BlockingIOError:
                pass  # as good as lost on the way
            except OSError as error:
                self._broken(error)

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
        for kind, number in list(self._waiting.items()):
            try:
                reply = read_reply(data, self._name, kind, number)
            except NotAnAnswer:
                continue
            self._take(kind, reply)

    def _take(self, kind: Kind, reply: Reply) -> None:
        if reply.truncated:
            if kind not in self._streams:
                self._streams[kind] = self._loop.create_task(self._ask_by_stream(kind))
            return
        del self._waiting[kind]
        if not reply.refused:
            self._lookup.replied(self._server, kind, reply)
            return
        self.useless = not self._waiting
        self._lookup.refused()

    async def _ask_by_stream(self, kind: Kind) -> None:
        number = self._waiting[kind]
        message = question(self._name, kind, number)
        try:
            reader, writer = await asyncio.open_connection(*self._server)
            try:
                writer.write(len(message).to_bytes(2) + message)
                data = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
            finally:
                writer.transport.abort()
            reply = read_reply(data, self._name, kind, number)
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
