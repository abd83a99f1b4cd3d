"""The Lua scripts: one file per verb, put together from includes, known to the server by their SHA-1."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple

_INCLUDE = re.compile(r"^--#include (.+)$", re.MULTILINE)


class Script(NamedTuple):
    name: str
    source: str
    sha: str


Includes = tuple[tuple[str, str], ...]
"""Includes to use instead of the files of that name: tests swap the clock, or break a rule on purpose."""


def ringing(swapped: Includes) -> Includes:
    """The same includes, and scripts that ring the bells of a cluster's shards."""
    return (*swapped, ("bell", _read("bell_cluster")))


@cache
def script(name: str, swapped: Includes = ()) -> Script:
    """A verb's script with its includes in place of the line that names them."""
    texts = dict(swapped)

    def read(part: str) -> str:
        return texts[part] if part in texts else _read(part)

    source = _INCLUDE.sub(lambda line: "\n".join(read(part) for part in line[1].split()), read(name))
    return Script(name, source, sha1(source.encode()).hexdigest())


def _read(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text("utf-8")
