"""Secrets are sealed at rest; the master key is made once, kept private, and never shown."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.core.secret import Secret
from hookfuse.errors import BadKeyFile, BrokenSeal, InvalidField, InvalidInput, SealingError, UnknownKey
from hookfuse.ports import Ed25519, Sealer
from hookfuse.sealing import AesGcmSealer, CurveEd25519, MasterKeys, read_or_make_key
from tests.unit.properties.strategies import look

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
ABOUT = b"ep_1"


def sealer(*keys: bytes) -> Sealer:
    return AesGcmSealer(MasterKeys(keys))


@look(200)
@given(st.binary(max_size=300), st.binary(max_size=50))
def test_round_trip(plain: bytes, about: bytes) -> None:
    """What is sealed opens, is not readable, and is sealed differently each time."""
    one, two = sealer(NEW).seal(plain, about), sealer(NEW).seal(plain, about)
    assert one != two
    assert len(plain) < 4 or plain not in one
    assert sealer(NEW).open(one, about) == plain


@look(300)
@given(st.binary(max_size=40), st.data())
def test_every_bit_counts(plain: bytes, data: st.DataObject) -> None:
    """A seal with any bit changed, or cut anywhere, does not open."""
    sealed = sealer(NEW).seal(plain, ABOUT)
    at, bit = data.draw(st.integers(0, len(sealed) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(sealed)
    changed[at] ^= 1 << bit
    for broken in (bytes(changed), sealed[:at], sealed + b"\0"):
        with pytest.raises(SealingError):
            sealer(NEW, OLD).open(broken, ABOUT)


def test_about() -> None:
    """A secret that is copied to another endpoint does not open there."""
    sealed = sealer(NEW).seal(b"secret", b"ep_1")
    for about in (b"ep_2", b"", b"ep_1 "):
        with pytest.raises(BrokenSeal, match="belongs to something else"):
            sealer(NEW).open(sealed, about)


def test_rotation() -> None:
    """The newest key seals, every key opens, and what an older one sealed is known to need sealing anew."""
    before = sealer(OLD).seal(b"secret", ABOUT)
    both = sealer(NEW, OLD)
    assert both.open(before, ABOUT) == b"secret"
    assert both.needs_resealing(before)
    after = both.seal(b"secret", ABOUT)
    assert not both.needs_resealing(after)
    assert sealer(NEW).open(after, ABOUT) == b"secret"
    with pytest.raises(UnknownKey, match="not at hand"):
        sealer(OLD).open(after, ABOUT)


@pytest.mark.parametrize("sealed", [b"", b"\x01", b"\x02" + bytes(60), b"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])
def test_not_sealed(sealed: bytes) -> None:
    """What was never sealed is refused as such, and needs sealing."""
    with pytest.raises(BrokenSeal, match="form"):
        sealer(NEW).open(sealed, ABOUT)
    assert sealer(NEW).needs_resealing(sealed)


def test_nothing_is_shown() -> None:
    """Neither a key nor a secret is in any repr or error."""
    keys = MasterKeys([NEW, OLD])
    seen = [repr(keys), repr(AesGcmSealer(keys))]
    for trial in (
        lambda: sealer(OLD).open(sealer(NEW).seal(b"secret", ABOUT), ABOUT),
        lambda: sealer(NEW).open(sealer(NEW).seal(b"secret", ABOUT), b"ep_2"),
        lambda: MasterKeys([NEW[:31]]),
    ):
        with pytest.raises((SealingError, InvalidInput)) as caught:
            trial()
        seen.append(repr(caught.value) + str(caught.value))
    for text in seen:
        for key in (NEW, OLD):
            assert key.hex()[:16] not in text
            assert b64encode(key).decode()[:16] not in text
            assert repr(key)[2:18] not in text
        assert "b'secret'" not in text


@pytest.mark.parametrize("keys", [[], [b""], [bytes(31)], [bytes(33)], [NEW, bytes(16)]])
def test_bad_keys(keys: list[bytes]) -> None:
    """Keys that are not 32 bytes, or none at all, are refused."""
    with pytest.raises(InvalidInput):
        MasterKeys(keys)


def test_the_key_file_is_made_once(tmp_path: Path) -> None:
    """The first start makes a private file, the next reads the same key, and nothing is left beside it."""
    file = tmp_path / "master.key"
    made = read_or_make_key(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_or_make_key(str(file)).by_id == made.by_id
    assert os.listdir(tmp_path) == ["master.key"]
    assert read_or_make_key(tmp_path / "other.key").by_id != made.by_id


def test_private_whatever_the_umask(tmp_path: Path) -> None:
    """A careless umask does not open the file to others."""
    before = os.umask(0)
    try:
        read_or_make_key(tmp_path / "master.key")
    finally:
        os.umask(before)
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600


STARTING = """
import sys
from hookfuse.sealing import read_or_make_key
print("ready", flush=True)
sys.stdin.read()
print(read_or_make_key(sys.argv[1]))
"""


def test_processes_that_start_at_once(tmp_path: Path) -> None:
    """Of many processes that start together all get the one key that was made."""
    command = [sys.executable, "-c", STARTING, str(tmp_path / "master.key")]
    starting = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment())
        for _ in range(4)
    ]
    for process in starting:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in starting:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    shown = {process.communicate(timeout=60)[0] for process in starting}
    assert shown == {f"{read_or_make_key(tmp_path / 'master.key')!r}\n"}
    assert os.listdir(tmp_path) == ["master.key"]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_a_file_of_several_keys(tmp_path: Path) -> None:
    """A file may hold older keys below the newest."""
    file = tmp_path / "master.key"
    _write(file, b64encode(NEW) + b"\n" + b64encode(OLD) + b"\n")
    keys = read_or_make_key(file)
    sealed = sealer(OLD).seal(b"secret", ABOUT)
    assert AesGcmSealer(keys).open(sealed, ABOUT) == b"secret"
    assert keys.newest == MasterKeys([NEW]).newest


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o700, 0o4600])
def test_wrong_permissions(tmp_path: Path, mode: int) -> None:
    """A file that others may read is refused with what to do, and is left as it was."""
    file = tmp_path / "master.key"
    read_or_make_key(file)
    file.chmod(mode)
    with pytest.raises(BadKeyFile, match=f"permissions {mode:04o}.*chmod 600"):
        read_or_make_key(file)
    assert file.stat().st_mode & 0o7777 == mode


def test_read_only_is_private_enough(tmp_path: Path) -> None:
    """A file that not even its owner may write is fine."""
    file = tmp_path / "master.key"
    made = read_or_make_key(file)
    file.chmod(0o400)
    assert read_or_make_key(file).by_id == made.by_id


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_someone_elses_file(tmp_path: Path) -> None:
    """A file that belongs to another user is refused."""
    file = tmp_path / "master.key"
    read_or_make_key(file)
    os.chown(file, 12_345, -1)
    with pytest.raises(BadKeyFile, match="belongs to user 12345"):
        read_or_make_key(file)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b64encode(NEW[:31]), "Key 1 .* is not"),
        (b64encode(NEW) + b"\nnonsense%\n", "Key 2 .* is not"),
        (b"\x00\xff" * 20, "Key 1 .* is not"),
        (NEW, "Key 1 .* is not"),
    ],
)
def test_bad_content(tmp_path: Path, content: bytes, says: str) -> None:
    """A file that holds something else is refused, is not quoted, and is never written over."""
    file = tmp_path / "master.key"
    _write(file, content)
    with pytest.raises(BadKeyFile, match=says) as caught:
        read_or_make_key(file)
    assert "nonsense" not in str(caught.value)
    assert file.read_bytes() == content


def _fifo(file: Path) -> None:
    os.mkfifo(file, 0o600)


def _dangling(file: Path) -> None:
    file.symlink_to(file.parent / "gone" / "key")


@pytest.mark.parametrize("make", [Path.mkdir, _fifo, _dangling])
def test_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A folder, a pipe or a link to nowhere in its place is refused at once, without waiting."""
    file = tmp_path / "master.key"
    make(file)
    with pytest.raises(BadKeyFile):
        read_or_make_key(file)


def test_no_folder(tmp_path: Path) -> None:
    """A folder that does not exist is named in the error."""
    with pytest.raises(BadKeyFile, match="No such file or directory"):
        read_or_make_key(tmp_path / "missing" / "master.key")


def _write(file: Path, content: bytes) -> None:
    file.touch(0o600)
    file.write_bytes(content)


CURVE: Ed25519 = CurveEd25519()


def test_generated_pairs() -> None:
    """A generated secret is whole, signs what its public key verifies, and is new each time."""
    secret = CURVE.generate()
    assert secret.public is not None
    CURVE.check(secret)
    signature = CURVE.sign(secret.key, b"message")
    assert CURVE.verify(secret.public.key, signature, b"message")
    assert not CURVE.verify(secret.public.key, signature, b"messagE")
    assert not CURVE.verify(secret.public.key, signature[:-1], b"message")
    assert not CURVE.verify(secret.public.key, bytes(64), b"message")
    assert not CURVE.verify(b"\xff" * 32, signature, b"message")
    assert CURVE.generate() != secret


def test_halves_that_do_not_belong_together() -> None:
    """A private key with another's public key is refused without showing it; a shared secret has no halves."""
    one, two = CURVE.generate(), CURVE.generate()
    assert two.public is not None
    mixed = Secret(one.key, two.public.key)
    with pytest.raises(InvalidField, match=r"^secret must hold") as caught:
        CURVE.check(mixed)
    assert mixed.text not in str(caught.value)
    CURVE.check(Secret(bytes(32)))
