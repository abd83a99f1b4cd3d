"""The master keys and their file.

The file has one key a line, the newest first, each as base64 of 32 bytes. It is made once, whole or not at all, and
only its owner may read it. Nothing here ever shows a key; a key's id is enough to tell which one is meant.
"""

from __future__ import annotations

import binascii
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from hookfuse.errors import BadKeyFile, InvalidInput

KEY_BYTES = 32
KEY_ID_BYTES = 8

_MOST_FILE_BYTES = 65_536
_ONLY_OWNER = 0o600


class MasterKeys:
    """Keys that seal secrets, the newest first."""

    __slots__ = ("by_id", "newest")

    by_id: Mapping[bytes, bytes]
    newest: bytes
    """The id of the key that seals."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise InvalidInput(f"Master keys are one or more keys of {KEY_BYTES} random bytes.")
        self.by_id = MappingProxyType({_key_id(key): bytes(key) for key in keys})
        self.newest = _key_id(keys[0])

    def __repr__(self) -> str:
        return f"<MasterKeys {', '.join(key_id.hex() for key_id in self.by_id)}>"


def read_or_make_key(path: str | os.PathLike[str]) -> MasterKeys:
    """The keys of a file; if there is none, it is made with one new key."""
    file = Path(path)
    try:
        if not file.exists():
            _make(file)
        return _parse(file, _read(file))
    except OSError as error:
        raise BadKeyFile(f"The key file {file} cannot be read or made: {error.strerror}.") from error


def _key_id(key: bytes) -> bytes:
    return sha256(b"hookfuse master key " + key).digest()[:KEY_ID_BYTES]


def _make(file: Path) -> None:
    """Write a new key beside the file, then give it the file's name, unless another process was first."""
    handle, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as made:
            made.write(binascii.b2a_base64(os.urandom(KEY_BYTES)))
            made.flush()
            os.fsync(made.fileno())
        try:
            os.link(beside, file)
        except FileExistsError:
            pass
    finally:
        os.unlink(beside)
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    # What is sealed must not outlive its key: the name has to be on disk before the first secret is.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(file: Path) -> bytes:
    # Not blocking, or opening a named pipe would wait for ever. The open file is judged, not its name.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as found:
        _check_private(file, os.fstat(found.fileno()))
        return found.read(_MOST_FILE_BYTES)


def _check_private(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BadKeyFile(f"The key file {file} is not a regular file.")
    if found.st_uid != os.geteuid():
        raise BadKeyFile(
            f"The key file {file} belongs to user {found.st_uid}, but we run as {os.geteuid()}: change its owner."
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & ~_ONLY_OWNER:
        raise BadKeyFile(
            f"The key file {file} has permissions {mode:04o}, so others could use the key: run chmod 600 {file}"
        )


def _parse(file: Path, content: bytes) -> MasterKeys:
    keys = []
    for number, line in enumerate(content.split(), start=1):
        try:
            key = binascii.a2b_base64(line, strict_mode=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise BadKeyFile(f"Key {number} of the key file {file} is not the base64 of {KEY_BYTES} bytes.")
        keys.append(key)
    if not keys:
        raise BadKeyFile(f"The key file {file} is empty. Restore it, or remove it if nothing was sealed with it yet.")
    return MasterKeys(keys)
