"""Secrets are hidden, have one spelling, and overlap while they are rotated."""

from __future__ import annotations

import copy
import json
import pickle
from base64 import b64encode
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.core.secret import MOST_OLD, OldSecret, PublicKey, Scheme, Secret, SecretRing
from hookfuse.errors import InvalidField, InvalidInput, InvalidPolicy
from tests.unit.properties.strategies import junk, look

NOW = 1_700_000_000.0
DAY = 86_400.0
SHARED = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
PAIR = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
PUBLIC = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="

secrets = st.builds(Secret, st.binary(min_size=24, max_size=64)) | st.builds(
    Secret, st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32)
)


def numbered(number: int) -> Secret:
    return Secret(number.to_bytes(24))


def test_kinds() -> None:
    """The prefix tells the scheme, and only a pair has a public key."""
    assert Secret.parse(SHARED).scheme is Scheme.HMAC
    assert Secret.parse(SHARED).public is None
    assert Secret.parse(PAIR).scheme is Scheme.ED25519
    assert Secret.parse(PAIR).public == PublicKey.parse(PUBLIC)


@look(200)
@given(secrets)
def test_round_trip(secret: Secret) -> None:
    """A secret survives its text, copying and pickling, and still signs the same."""
    for again in (Secret.parse(secret.text), copy.deepcopy(secret), pickle.loads(pickle.dumps(secret))):
        assert again == secret
        assert hash(again) == hash(secret)
        assert again.fingerprint == secret.fingerprint
        assert again.hmac(b"a", b"b") == secret.hmac(b"ab", b"")
    if secret.public is not None:
        assert PublicKey.parse(secret.public.text) == secret.public


@look(200)
@given(secrets, secrets)
def test_fingerprints_differ(one: Secret, two: Secret) -> None:
    """Two secrets are equal exactly when their fingerprints are."""
    assert (one.fingerprint == two.fingerprint) == (one == two)


@pytest.mark.parametrize("text", [SHARED, PAIR])
def test_hidden(text: str) -> None:
    """Neither repr, str, format, asdict nor a ring's repr shows a secret."""
    secret = Secret.parse(text)
    ring = SecretRing(secret, (OldSecret(secret, NOW),))
    laid_open = text.partition("_")[2][:12]
    for seen in (repr(secret), str(secret), f"{secret}", repr(ring), repr(asdict(ring)), repr([secret.fingerprint])):
        assert laid_open not in seen
        assert secret.key.hex() not in seen
        assert repr(secret.key) not in seen


@pytest.mark.parametrize(
    "text",
    [
        "",
        "w",
        "whsec_",
        "whsec_%",
        "whsec_wronglength",
        f"whsec_{b64encode(bytes(23)).decode()}",
        f"whsec_{b64encode(bytes(65)).decode()}",
        SHARED.replace("whsec", "hwsec"),
        SHARED.upper(),
        f"{SHARED}\n",
        f" {SHARED}",
        f"{SHARED}==",
        SHARED.replace("+", "-"),
        SHARED[:-1],
        "whsec_" + "é" * 32,
        f"whsk_{b64encode(bytes(32)).decode()}",
        f"whsk_{b64encode(bytes(65)).decode()}",
        PAIR[:-4],
        f"{PAIR[:-3]}h==",
        PUBLIC,
        None,
        7,
        SHARED.encode(),
    ],
)
def test_bad_secrets(text: object) -> None:
    """What is no secret is refused with the field's name, and the message does not repeat it."""
    with pytest.raises(InvalidField, match=r"^secret must ") as caught:
        Secret.parse(text)
    assert caught.value.field == "secret"
    body = str(text).partition("_")[2].strip()
    assert len(body) < 4 or body not in repr(caught.value) + str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "whpk_", PUBLIC[:-4], PAIR, SHARED, f"whpk_{b64encode(bytes(31)).decode()}", None]
)
def test_bad_public_keys(text: object) -> None:
    """What is no public key is refused."""
    with pytest.raises(InvalidField, match=r"^public_key must "):
        PublicKey.parse(text)


def test_rotation() -> None:
    """The old secret signs beside the new one until the overlap ends, and not a moment longer."""
    ring = SecretRing(numbered(1)).rotated(numbered(2), NOW, overlap=60)
    assert ring.active(NOW) == (numbered(2), numbered(1))
    assert ring.active(NOW + 59.9) == (numbered(2), numbered(1))
    assert ring.active(NOW + 60) == (numbered(2),)


def test_rotation_drops_what_has_ended() -> None:
    """A rotation keeps older secrets that still sign, newest first, and drops the others."""
    ring = SecretRing(numbered(1)).rotated(numbered(2), NOW, 10).rotated(numbered(3), NOW, 100)
    assert ring.active(NOW) == (numbered(3), numbered(2), numbered(1))
    later = ring.rotated(numbered(4), NOW + 50, 100)
    assert [each.secret for each in later.old] == [numbered(3), numbered(2)]


def test_rotation_without_overlap() -> None:
    """With no overlap the replaced secret signs no more."""
    assert SecretRing(numbered(1)).rotated(numbered(2), NOW, 0) == SecretRing(numbered(2))


def test_rotation_to_a_known_secret() -> None:
    """A secret is never twice in a ring, whether it replaces itself or comes back."""
    ring = SecretRing(numbered(1))
    assert ring.rotated(numbered(1), NOW) == ring
    back = ring.rotated(numbered(2), NOW).rotated(numbered(1), NOW)
    assert back.active(NOW) == (numbered(1), numbered(2))


def test_too_many_rotations() -> None:
    """Rotating too often within the overlap is refused, unless the rotation has none."""
    ring = SecretRing(numbered(0))
    for number in range(1, MOST_OLD + 1):
        ring = ring.rotated(numbered(number), NOW)
    with pytest.raises(InvalidInput, match="older secrets"):
        ring.rotated(numbered(99), NOW)
    assert ring.rotated(numbered(99), NOW, 0).current == numbered(99)
    assert ring.rotated(numbered(99), NOW + DAY).active(NOW + DAY) == (numbered(99), numbered(MOST_OLD))


@pytest.mark.parametrize("overlap", [-1, 31 * DAY, float("nan"), "1"])
def test_bad_overlap(overlap: Any) -> None:
    """An overlap out of its bounds is refused by name."""
    with pytest.raises(InvalidPolicy, match=r"^overlap must"):
        SecretRing(numbered(1)).rotated(numbered(2), NOW, overlap)


@look(100)
@given(secrets, st.lists(st.tuples(secrets, st.floats(0, DAY)), max_size=5))
def test_rings_survive_json(first: Secret, rotations: list[tuple[Secret, float]]) -> None:
    """A ring survives JSON, always signs with its current secret first, and never twice with one."""
    ring = SecretRing(first)
    for secret, overlap in rotations:
        ring = ring.rotated(secret, NOW, overlap)
        assert ring.current == secret
    assert SecretRing.from_data(json.loads(json.dumps(ring.to_data()))) == ring
    active = ring.active(NOW)
    assert active[0] == ring.current
    assert len(set(active)) == len(active)


@look(200)
@given(junk)
def test_junk(value: Any) -> None:
    """Junk instead of a ring's data is refused without quoting it."""
    for data in (value, {"current": value}, {"current": SHARED, "old": value}, {"current": SHARED, "old": [value]}):
        try:
            SecretRing.from_data(data)
        except InvalidField as error:
            assert str(error) == "secrets must be what to_data gave, got something that is not shown here."


def test_bad_data_is_not_quoted() -> None:
    """Not even a misspelt field of a ring's data shows a secret in the error."""
    for data in ({"currant": SHARED}, {"current": SHARED, "old": [{"secret": SHARED, "until": SHARED}]}):
        with pytest.raises(InvalidField) as caught:
            SecretRing.from_data(data)
        assert SHARED not in repr(caught.value) + str(caught.value)
        assert caught.value.__suppress_context__
