"""Receivers that speak TLS, well and badly."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from hookfuse.testing.receivers import Dead, Hang, Ok, Receivers, Reset
from tests.unit.testing.calling import Client, request
from tests.unit.testing.conftest import Run


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """What a client trusts."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def serving(authority: trustme.CA, name: str = "hooks.example", not_after: datetime | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name, not_after=not_after).configure_cert(context)
    return context


def self_signed() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    alone = trustme.CA()
    with alone.cert_pem.tempfile() as certificate, alone.private_key_pem.tempfile() as key:
        context.load_cert_chain(certificate, key)
    return context


def test_good(run: Run, authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    """With a good certificate everything is as without TLS, keep-alive included."""

    async def scenario() -> None:
        async with Receivers(tls=serving(authority)) as receivers:
            url = receivers.add("ep")
            assert url.startswith("https://")
            client = await Client.connect(url, tls=trusting, name="hooks.example")
            for _ in range(2):
                client.send(request(url))
                assert (await client.reply()).status == 200
            await client.close()

    run(scenario())


@pytest.mark.parametrize("fault", ["expired", "wrong name", "self-signed"])
def test_bad(run: Run, authority: trustme.CA, trusting: ssl.SSLContext, fault: str) -> None:
    """A client that verifies refuses each bad certificate; nothing arrives, and the good endpoint serves on."""
    yesterday = datetime.now(UTC) - timedelta(days=1)
    bad, words = {
        "expired": (serving(authority, not_after=yesterday), "certificate has expired"),
        "wrong name": (serving(authority, "other.example"), "Hostname mismatch"),
        "self-signed": (self_signed(), "self-signed certificate"),
    }[fault]

    async def scenario() -> None:
        async with Receivers(tls=serving(authority)) as receivers:
            bad_url, good_url = receivers.add("bad", Ok(), tls=bad), receivers.add("good")
            with pytest.raises(ssl.SSLCertVerificationError, match=words):
                await Client.connect(bad_url, tls=trusting, name="hooks.example")
            client = await Client.connect(good_url, tls=trusting, name="hooks.example")
            client.send(request(good_url))
            assert (await client.reply()).status == 200
            await client.close()
            assert receivers["bad"].requests == 0

    run(scenario())


def test_behaviours_below_tls(run: Run, authority: trustme.CA, trusting: ssl.SSLContext) -> None:
    """Resetting, refusing and hanging work on the connection below, too."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            tls = serving(authority)
            url = receivers.add("reset", Reset(in_response=False), tls=tls)
            client = await Client.connect(url, tls=trusting, name="hooks.example")
            client.send(request(url))
            with pytest.raises(ConnectionResetError):
                await client.rest()
            await client.close()
            dead = receivers.add("dead", Dead(), tls=tls)
            with pytest.raises(ConnectionRefusedError):
                await Client.connect(dead, tls=trusting, name="hooks.example")
            hang = receivers.add("hang", Hang(), tls=tls)
            left_open = await Client.connect(hang, tls=trusting, name="hooks.example")
            left_open.send(request(hang))
            await receivers["hang"].arrived(1)
        await left_open.close()

    run(scenario())


def test_no_handshake(run: Run, authority: trustme.CA) -> None:
    """A client that connects and never speaks does not keep the receivers from closing."""

    async def scenario() -> None:
        async with Receivers(tls=serving(authority)) as receivers:
            silent = await Client.connect(receivers.add("ep"))
        await silent.close()

    run(scenario())
