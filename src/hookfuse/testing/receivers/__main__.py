"""Receivers as a process of their own; prints the port that endpoints share on one line, then serves.

    python -m hookfuse.testing.receivers --port 0 --spec '{"shop": {"kind": "ok"}}' --ledger arrived.jsonl

With --control it takes further specs on standard input, one line each, adds or changes those endpoints, and answers
each line with the counts of all, an empty one with the sum of their requests; it ends when its input does.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import signal
import ssl
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hookfuse.errors import InvalidInput
from hookfuse.testing.receivers.endpoint import Verify
from hookfuse.testing.receivers.ledger import FileLedger
from hookfuse.testing.receivers.receivers import Receivers
from hookfuse.testing.receivers.spec import Order, read_orders

_LONGEST_LINE = 1 << 26


def main() -> None:
    options = _options().parse_args()
    spec = Path(options.spec[1:]).read_text() if options.spec.startswith("@") else options.spec
    try:
        _runner()(_serve(options, read_orders(spec)))
    except InvalidInput as error:
        sys.exit(f"hookfuse.testing.receivers: {error}")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hookfuse.testing.receivers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--spec", default="{}", help="endpoints by name, as JSON, or @FILE")
    parser.add_argument("--ledger", metavar="FILE", help="write down what arrives; without it, only count")
    parser.add_argument("--certificate", metavar="PEM", help="speak TLS, with the chain and key of this file")
    parser.add_argument(
        "--verifier",
        metavar="MODULE:CLASS",
        default="standardwebhooks:Webhook",
        help="checks signatures of endpoints with a secret: CLASS(secret).verify(body, headers)",
    )
    parser.add_argument("--control", action="store_true", help="take changes on standard input, and end with it")
    return parser


def _runner() -> Any:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


async def _serve(options: argparse.Namespace, orders: dict[str, Order]) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    ledger = FileLedger(options.ledger) if options.ledger else None
    async with Receivers(
        host=options.host, port=options.port, tls=_tls(options.certificate), ledger=ledger, counting=ledger is None
    ) as receivers:
        _obey(receivers, orders, options.verifier)
        _say(str(receivers.port))
        if options.control:
            await _control(receivers, options.verifier, ended)
        else:
            await ended.wait()


def _tls(certificate: str | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def _control(receivers: Receivers, verifier: str, ended: asyncio.Event) -> None:
    """Until the input ends, or a signal comes first."""
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    signalled = asyncio.create_task(ended.wait())
    signalled.add_done_callback(lambda _: reader.feed_eof())
    try:
        async for line in reader:
            _say(_reply(receivers, line, verifier))
    finally:
        signalled.cancel()
        transport.close()


def _reply(receivers: Receivers, line: bytes, verifier: str) -> str:
    if not line.strip():
        return json.dumps({"requests": receivers.requests})
    try:
        _obey(receivers, read_orders(line), verifier)
    except InvalidInput as error:
        return json.dumps({"error": str(error)})
    found = {name: {"url": receivers[name].url, **asdict(counts)} for name, counts in receivers.counts.items()}
    return json.dumps({"endpoints": found, "connections": receivers.connections, "strays": receivers.strays})


def _obey(receivers: Receivers, orders: dict[str, Order], verifier: str) -> None:
    for name, order in orders.items():
        if name in receivers:
            receivers.change(name, order.behaviour)
        else:
            verify = None if order.secret is None else _verify(verifier, order.secret)
            receivers.add(name, order.behaviour, own_port=order.own_port, verify=verify)


def _verify(verifier: str, secret: str) -> Verify:
    module, _, name = verifier.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)(secret)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"the verifier {verifier} cannot be used: {error}.") from error
    verify: Verify = made.verify
    return verify


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
