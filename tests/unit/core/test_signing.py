"""Signatures are those of Standard Webhooks: the official package and published examples agree."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from hookfuse.core.secret import PublicKey, Secret, SecretRing
from hookfuse.core.signing import Rejection, Verification, headers, signatures, verify
from hookfuse.errors import InvalidInput
from hookfuse.sealing import CurveEd25519
from tests.unit.properties.strategies import look

NOW = 1_614_265_330.0
TIMESTAMP = 1_614_265_330
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
BODY = b'{"test": 2432232314}'
SHARED = Secret.parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
SHARED_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
PAIR = Secret.parse("whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==")
PAIR_SIGNATURE = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
PUBLIC = PublicKey.parse("whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=")
CURVE = CurveEd25519()
OTHER = Secret(bytes(24))

keys = st.binary(min_size=24, max_size=64)


def signed(*secrets: Secret, body: bytes = BODY) -> dict[str, str]:
    """Headers by the last of the secrets, the ones before it in their overlap."""
    ring = SecretRing(secrets[0])
    for secret in secrets[1:]:
        ring = ring.rotated(secret, NOW)
    return dict(headers(ring, ID, TIMESTAMP, body, NOW, CURVE.sign))


def check(received: dict[str, str], *trusted: Secret | PublicKey, now: float = NOW, body: bytes = BODY) -> Verification:
    return verify(trusted, received, body, now, verify_ed25519=CURVE.verify)


def test_published_signatures() -> None:
    """The published examples of both schemes come out byte for byte."""
    assert signatures(SecretRing(SHARED), ID, TIMESTAMP, BODY, NOW) == SHARED_SIGNATURE
    assert signatures(SecretRing(PAIR), ID, TIMESTAMP, BODY, NOW, CURVE.sign) == PAIR_SIGNATURE


def test_headers() -> None:
    """A webhook has three headers in lower case, and on request its id once more."""
    plain = headers(SecretRing(SHARED), ID, TIMESTAMP, BODY, NOW)
    assert plain == (
        ("webhook-id", ID),
        ("webhook-timestamp", str(TIMESTAMP)),
        ("webhook-signature", SHARED_SIGNATURE),
    )
    again = headers(SecretRing(SHARED), ID, TIMESTAMP, BODY, NOW, repeat_id=True)
    assert again == (*plain, ("x-idempotency-key", ID))


@look(200)
@given(keys, st.text(st.characters(codec="utf-8")), st.text("abcXYZ019_-", min_size=1, max_size=40))
def test_the_official_verifier_agrees(key: bytes, text: str, message_id: str) -> None:
    """The official package accepts what we sign, for every key length, id and body that it can read."""
    secret, body, now = Secret(key), text.encode(), time.time()
    ring = SecretRing(OTHER).rotated(secret, now)
    found = dict(headers(ring, message_id, int(now), body, now))
    Webhook(secret.text).verify(body, found, json_parse=False)
    Webhook(OTHER.text).verify(body, found, json_parse=False)
    assert verify([secret], found, body, now)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret.text).verify(body + b" ", found, json_parse=False)


@look(200)
@given(keys, st.binary())
def test_any_bytes(key: bytes, body: bytes) -> None:
    """Bodies are bytes: what is not UTF-8 is signed and verified all the same."""
    secret = Secret(key)
    assert check(signed(secret, body=body), secret, body=body)


def test_rotation() -> None:
    """During the overlap both secrets sign, the new one first, and a receiver with either accepts."""
    found = signed(SHARED, PAIR)
    assert found["webhook-signature"] == f"{PAIR_SIGNATURE} {SHARED_SIGNATURE}"
    for trusted in (SHARED, PAIR, PUBLIC):
        assert check(found, trusted)
    assert check(found, OTHER) == Verification(Rejection.NO_MATCH)
    assert check(found, OTHER, SHARED)


def test_header_names_in_any_case() -> None:
    """A receiver's framework may spell header names as it likes."""
    assert verify([SHARED], {name.title(): value for name, value in signed(SHARED).items()}, BODY, NOW)


@pytest.mark.parametrize("trusted", [SHARED, PAIR, PUBLIC])
@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": str(TIMESTAMP + 1)},
        {"webhook-timestamp": f"0{TIMESTAMP}"},
        {"webhook-signature": "v1,"},
        {"webhook-signature": ","},
        {"webhook-signature": "v1"},
        {"webhook-signature": "v1,%%%"},
        {"webhook-signature": "v1,é v1a,é"},
        {"webhook-signature": SHARED_SIGNATURE.replace("v1,", "v1a,")},
        {"webhook-signature": PAIR_SIGNATURE.replace("v1a,", "v1,")},
        {"webhook-signature": SHARED_SIGNATURE.replace("v1,", "v2,")},
        {"webhook-signature": SHARED_SIGNATURE.replace("g0h", "g0H")},
        {"webhook-signature": PAIR_SIGNATURE.replace("hnO", "hno")},
        {"webhook-signature": " ".join(["v1,AAAA"] * 100 + [SHARED_SIGNATURE, PAIR_SIGNATURE])},
    ],
)
def test_changed_headers(trusted: Secret | PublicKey, change: dict[str, str]) -> None:
    """Whatever header is changed on the way, no signature matches any more."""
    assert check(signed(SHARED, PAIR) | change, trusted) == Verification(Rejection.NO_MATCH)


@pytest.mark.parametrize("trusted", [SHARED, PAIR, PUBLIC])
@pytest.mark.parametrize("body", [b"", BODY + b" ", BODY[1:], BODY.replace(b"2", b"3")])
def test_changed_body(trusted: Secret | PublicKey, body: bytes) -> None:
    """A body that is changed on the way matches no signature."""
    assert check(signed(SHARED, PAIR), trusted, body=body) == Verification(Rejection.NO_MATCH)


@pytest.mark.parametrize(
    ("change", "rejection"),
    [
        ({"webhook-id": ""}, Rejection.MISSING_HEADER),
        ({"webhook-timestamp": ""}, Rejection.MISSING_HEADER),
        ({"webhook-signature": ""}, Rejection.MISSING_HEADER),
        ({"webhook-id": "msg.1"}, Rejection.BAD_ID),
        ({"webhook-id": "msg\ud800"}, Rejection.BAD_ID),
        ({"webhook-timestamp": "soon"}, Rejection.BAD_TIMESTAMP),
        ({"webhook-timestamp": "-1"}, Rejection.BAD_TIMESTAMP),
        ({"webhook-timestamp": "nan"}, Rejection.BAD_TIMESTAMP),
        ({"webhook-timestamp": "1e9"}, Rejection.BAD_TIMESTAMP),
        ({"webhook-timestamp": "9" * 5000}, Rejection.BAD_TIMESTAMP),
        ({"webhook-timestamp": str(TIMESTAMP - 301)}, Rejection.TOO_OLD),
        ({"webhook-timestamp": str(TIMESTAMP + 301)}, Rejection.TOO_NEW),
    ],
)
def test_rejections(change: dict[str, str], rejection: Rejection) -> None:
    """What cannot be genuine is rejected with the reason, before any signature is looked at."""
    verification = check(signed(SHARED) | change, SHARED)
    assert not verification
    assert verification.rejection is rejection


def test_the_edges_of_the_tolerance() -> None:
    """Five minutes either way are still accepted."""
    found = signed(SHARED)
    assert check(found, SHARED, now=NOW + 300)
    assert check(found, SHARED, now=NOW - 300)


@pytest.mark.parametrize("message_id", ["", "msg.1", "msg 1", "msg\n", "x" * 257, "é"])
def test_ids_that_cannot_be_signed(message_id: str) -> None:
    """An id that could move the border to the timestamp, or break the header, is misuse."""
    with pytest.raises(InvalidInput):
        signatures(SecretRing(SHARED), message_id, TIMESTAMP, BODY, NOW)


def test_ed25519_is_passed_in() -> None:
    """Without the Ed25519 functions, v1a can neither be signed nor verified, and the error says what to pass."""
    with pytest.raises(InvalidInput, match="pass sign_ed25519"):
        signatures(SecretRing(PAIR), ID, TIMESTAMP, BODY, NOW)
    with pytest.raises(InvalidInput, match="pass verify_ed25519"):
        verify([PUBLIC], signed(PAIR), BODY, NOW)
