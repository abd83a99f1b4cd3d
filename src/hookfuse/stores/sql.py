"""SQL lives in .sql files: statements in named blocks, and numbered migrations. Texts have to fit into a database."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_NUMBER = re.compile(r"^(\d{4})_\w+\.sql$")


class Migration(NamedTuple):
    number: int
    name: str
    text: str


def statements(package: str) -> dict[str, str]:
    """The blocks of a package's queries.sql by their names."""
    text = files(package).joinpath("queries.sql").read_text("utf-8")
    _, *parts = _NAME.split(text)
    return {name: block.strip().removesuffix(";") for name, block in zip(parts[::2], parts[1::2], strict=True)}


def migrations(package: str) -> list[Migration]:
    """The migrations of a package, in their order."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        match = _NUMBER.match(file.name)
        if match:
            found.append(Migration(int(match[1]), file.name.removesuffix(".sql"), file.read_text("utf-8")))
    return sorted(found)


def storable(text: str) -> str:
    """A text that endpoints had a hand in, without what databases cannot hold: half characters, and NUL in Postgres."""
    if "\x00" not in text and text.isascii():
        return text
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
