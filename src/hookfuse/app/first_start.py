"""The first start: a folder and a master key that only their owner may read, and the first API key.

The database says whether it is the first: whoever finds no key in it makes one, and shows it once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hookfuse.api.keys import make_first_key
from hookfuse.app.parts import station_settings
from hookfuse.app.station import Station
from hookfuse.config import Settings
from hookfuse.errors import BadKeyFile, InvalidInput, UnknownKey

_ONLY_OWNER = 0o700
_SAMPLE = 100


@dataclass(frozen=True, slots=True)
class Started:
    """Ready: where it listens, and the first admin key if this was the first start."""

    address: tuple[str, int] | None
    admin_key: str | None


def make_folder(settings: Settings) -> None:
    """The data folder, for its owner alone. One that was there before is left as it is; `doctor` looks at it."""
    # Whatever this process makes is nobody else's to read.
    os.umask(0o077)
    for folder in dict.fromkeys((settings.data_dir, settings.key_file.parent, _database_folder(settings))):
        try:
            folder.mkdir(mode=_ONLY_OWNER, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"The folder {folder} cannot be made: {error.strerror}. Name another one in HOOKFUSE_DATA_DIR."
            ) from error


def _database_folder(settings: Settings) -> Path:
    return Path(settings.database_url.removeprefix("sqlite://")).parent if settings.embedded else settings.data_dir


async def check_master_key(station: Station, settings: Settings) -> None:
    """Refuse to run with another master key than the one that sealed what is stored."""
    for each in await station.store.sealed_page("", _SAMPLE):
        for sealed in (each.secret, each.headers):
            try:
                if sealed:
                    station.sealer.open(sealed, each.endpoint_id.encode())
            except UnknownKey as error:
                raise BadKeyFile(
                    f"The database holds secrets that were not sealed with the key in {settings.key_file}. Copy the "
                    "key file from where the database was first used, or name it in HOOKFUSE_KEY_FILE."
                ) from error


async def prepare(settings: Settings) -> str | None:
    """All of it, ahead of the processes that will serve; returns the first admin key if there was none."""
    async with Station(station_settings(settings)) as station:
        await check_master_key(station, settings)
        return await make_first_key(station.store)
