"""Other people's text, made safe to show where a terminal may read it."""

from __future__ import annotations


def inert(text: str) -> str:
    """Text that cannot steer a terminal: whatever is not printable becomes its escape, such as \\x1b."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else _escape(sign) for sign in text)


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape", "backslashreplace").decode("ascii")
