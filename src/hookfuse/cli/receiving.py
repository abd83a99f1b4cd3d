"""`hookfuse listen`: a receiver on this machine that verifies what arrives and prints it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Annotated, Any

import typer
from rich.text import Text

from hookfuse.cli.options import Json
from hookfuse.cli.remote import Remote, path
from hookfuse.cli.speaking import errors_in_one_sentence, inert, refuse, say, say_json, words
from hookfuse.cli.times import clock
from hookfuse.core.secret import PublicKey, Secret
from hookfuse.core.signing import ID_HEADER, Verification, verify
from hookfuse.errors import HookfuseError

HOST = "127.0.0.1"
PORT = 8401

_MOST_BYTES = 1 << 20
_SHOWN = 200
_READY = b"ready\n"


@dataclass(frozen=True, slots=True)
class Arrived:
    """One request; `genuine` is None where there is no secret to check it with."""

    at: float
    id: str
    genuine: Verification | None
    status: int
    """What it was answered with."""
    body: bytes


class Receiver(ThreadingHTTPServer):
    """Answers every POST with `status` and shows it; ends after `count` of them."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], status: int, count: int | None, *, as_json: bool) -> None:
        super().__init__(address, _Handler)
        self.keys: tuple[Secret | PublicKey, ...] = ()
        self.status = status
        self._left = count
        self._as_json = as_json
        self._showing = Lock()

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"

    def arrived(self, headers: dict[str, str], body: bytes) -> None:
        now = time.time()
        genuine = verify(self.keys, headers, body, now, verify_ed25519=_ed25519()) if self.keys else None
        found = Arrived(now, headers.get(ID_HEADER, ""), genuine, self.status, body)
        with self._showing:
            self._show(found)

    def finished(self) -> None:
        """A request was answered."""
        with self._showing:
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    # Of its own thread: it waits until the server has ended.
                    Thread(target=self.shutdown).start()

    def _show(self, found: Arrived) -> None:
        genuine = None if found.genuine is None else bool(found.genuine)
        if self._as_json:
            text = found.body.decode("utf-8", "replace")
            say_json({"at": found.at, "id": found.id, "verified": genuine, "status": found.status, "body": text})
        else:
            say(_line(found))
        sys.stdout.flush()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > _MOST_BYTES:
            self.send_error(411 if not length.isdigit() else 413)
            self.close_connection = True
            return
        body = self.rfile.read(int(length))
        self.server.arrived({name.lower(): value for name, value in self.headers.items()}, body)
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()
        self.server.finished()

    def log_message(self, format: str, *args: Any) -> None:
        """What arrived is shown already."""


def listen(
    app: Annotated[
        str, typer.Option("--app", help="Make this application send here, and fetch the secret.", show_default=False)
    ] = "",
    secret: Annotated[
        str, typer.Option("--secret", help="The endpoint's secret, whsec_..., to verify with.", show_default=False)
    ] = "",
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = HOST,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 for any.")] = PORT,
    status: Annotated[int, typer.Option("--status", min=200, max=599, help="What to answer.")] = 200,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="End after so many; else with Ctrl-C.", show_default=False)
    ] = None,
    background: Annotated[bool, typer.Option("--background", help="Return once it listens, and go on.")] = False,
    json: Json = False,
    ready: Annotated[int | None, typer.Option("--ready", hidden=True)] = None,
) -> None:
    """Receive webhooks on this machine: verify their signatures and show them."""
    if background:
        raise typer.Exit(_go_to_background())
    with errors_in_one_sentence():
        try:
            receiver = Receiver((host, port), status, count, as_json=json)
        except OSError as error:
            raise refuse(
                f"Nothing can listen on {host} port {port}: {error.strerror}. Choose another --port."
            ) from None
        with receiver:
            text = _connect(app, receiver.url) if app else secret
            receiver.keys = (Secret.parse(text),) if text else ()
            _say_listening(receiver, app, as_json=json)
            if ready is not None:
                os.write(ready, _READY)
                os.close(ready)
            try:
                receiver.serve_forever(poll_interval=0.05)
            except KeyboardInterrupt:
                pass


def _connect(app: str, url: str) -> str:
    """Have the application send to this URL; returns the endpoint's secret."""
    with Remote.of_environment() as remote:
        known = (each for each in remote.pages(path("app", app, "endpoint")) if each["url"] == url)
        endpoint = next(known, None) or remote.post(
            path("app", app, "endpoint"), {"url": url, "description": "hookfuse listen"}
        )
        found: str = remote.get(path("app", app, "endpoint", endpoint["id"], "secret"))["key"]
    return found


def _say_listening(receiver: Receiver, app: str, *, as_json: bool) -> None:
    whose = f"; {app} sends here" if app else ""
    how = "" if receiver.keys else "; signatures are not checked without --app or --secret"
    say(Text(f"Listening on {receiver.url}{inert(whose)}{how}.", "dim"), stderr=as_json)
    sys.stdout.flush()


def _go_to_background() -> int:
    """Run the same command once more without --background, and leave when it listens."""
    reading, writing = os.pipe()
    typed = [word for word in sys.argv[1:] if word != "--background"]
    child = subprocess.Popen(
        [sys.executable, "-m", "hookfuse", *typed, "--ready", str(writing)],
        stdin=subprocess.DEVNULL,
        pass_fds=(writing,),
        process_group=0,  # Ctrl-C is for what runs in front
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        listens = pipe.read() == _READY
    if not listens:
        return child.wait()
    say(Text(f"It goes on in the background; end it with: kill {child.pid}", "dim"), stderr=True)
    # Not waited for: it outlives this process on purpose.
    child.returncode = 0
    return 0


def _line(found: Arrived) -> Text:
    line = Text.assemble((clock(found.at), "dim"), "  ")
    if found.genuine is None:
        line.append("not checked ", "yellow")
    elif found.genuine:
        line.append("verified    ", "bold green")
    else:
        line.append(f"refused ({found.genuine.rejection}) ", "bold red")
    line.append(f"{found.status}  ", "dim" if found.status < 300 else "yellow")
    line.append_text(words(found.id or "(no webhook-id)", "bold"))
    text = found.body.decode("utf-8", "replace")
    line.append(f"  {inert(text[:_SHOWN])}{'...' if len(text) > _SHOWN else ''}")
    return line


def _ed25519() -> Any:
    try:
        from hookfuse.sealing import CurveEd25519
    except ModuleNotFoundError as error:
        raise HookfuseError('Verifying signatures needs: pip install "hookfuse[server]"') from error
    return CurveEd25519().verify
