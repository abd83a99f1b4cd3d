"""SQL lives in .sql files: statements and functions in named blocks, and numbered migrations.

A block that lists something is marked `both ways` and makes two statements: its own, and `NAME_back` with every ASC and
DESC exchanged. One of first tries that is marked `late too` makes another of retries, which says late for fresh.

Texts have to fit into a database.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)((?:, both ways|, late too)?)$", re.MULTILINE)
_FILE = re.compile(r"^queries(_\w+)?\.sql$")
_NUMBER = re.compile(r"^(\d{4})_\w+\.sql$")
_DIRECTION = re.compile(r"\b(ASC|DESC)\b")


class Migration(NamedTuple):
    number: int
    name: str
    text: str


def statements(package: str) -> dict[str, str]:
    """The blocks of a package's queries*.sql by their names."""
    found: dict[str, str] = {}
    for file in files(package).iterdir():
        if _FILE.match(file.name):
            for name, block in _blocks(file.read_text("utf-8")):
                if name in found:
                    raise ValueError(f"{file.name} of {package} has a second block {name}.")
                found[name] = block
    return found


def _blocks(text: str) -> list[tuple[str, str]]:
    _, *parts = _NAME.split(text)
    found = []
    for name, mark, part in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        block = part.strip().removesuffix(";")
        found.append((name, block))
        if mark == ", both ways":
            backwards = _DIRECTION.sub(lambda word: "DESC" if word[0] == "ASC" else "ASC", block)
            found.append((f"{name}_back", backwards))
        elif mark == ", late too":
            found.append((name.replace("fresh", "late"), block.replace("fresh", "late")))
    return found


def migrations(package: str) -> list[Migration]:
    """The migrations of a package, in their order."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        match = _NUMBER.match(file.name)
        if match:
            found.append(Migration(int(match[1]), file.name.removesuffix(".sql"), file.read_text("utf-8")))
    return sorted(found)


def functions(package: str) -> list[str]:
    """The functions of a package's database, each as what puts it in the place of an older one."""
    found = sorted(files(package).joinpath("functions").iterdir(), key=lambda file: file.name)
    return [block for file in found for _, block in _blocks(file.read_text("utf-8"))]


def storable(text: str) -> str:
    """A text that endpoints had a hand in, without what databases cannot hold: half characters, and NUL in Postgres."""
    if "\x00" not in text and text.isascii():
        return text
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def searched(text: str) -> str:
    """A text to be found in either case. Of A to Z only: databases differ on other letters."""
    return storable(text).translate(_LOWER)


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
