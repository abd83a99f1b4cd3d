"""Which headers an endpoint may have."""

from __future__ import annotations

import pytest

from hookfuse.core.headers import COUNT, NAME_LENGTH, TOTAL_LENGTH, VALUE_LENGTH, check_headers
from hookfuse.errors import InvalidInput


def test_plain_headers_pass_as_they_are() -> None:
    """Names keep their case, and values their inner spaces and tabs."""
    headers = {"X-Tenant": "a b\tc", "authorization": "Bearer abc==", "X_odd.name~": "", "Content-Language": "de"}
    assert check_headers(headers) == tuple(headers.items())


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "Content-Length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade", "Expect"),
        *("webhook-id", "Webhook-Signature", "svix-id", "Metadata-Flavor", "Metadata", "X-aws-ec2-metadata-token"),
        *("X-Google-Metadata-Request", "Proxy-Authorization", "Keep-Alive", "Content-Encoding", "Content-Type"),
    ],
)
def test_reserved_names_are_refused(name: str) -> None:
    """What frames the message, belongs to us or opens a metadata service cannot be set, in any case of letters."""
    for spelling in (name, name.lower(), name.upper()):
        with pytest.raises(InvalidInput, match=f"'{spelling}' is reserved"):
            check_headers({spelling: "x"})


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "a\0", "ä", " a", "a\t", "(a)", "a,b", "a\n", None])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    """A space, a control character or anything beyond ASCII in a name is refused, and the name is shown."""
    with pytest.raises(InvalidInput, match="header's name"):
        check_headers({name: "x"})


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\n", "\ra", "a\0", "ä", " a", "a ", "\t", "a\x7f", "a\x1b[0m", None])
def test_a_value_that_could_break_the_line_is_refused(value: str) -> None:
    """A control character or anything beyond ASCII in a value is refused, and its header is named."""
    with pytest.raises(InvalidInput, match="'X-Name'"):
        check_headers({"X-Name": value})


def test_the_same_name_twice_is_refused() -> None:
    """Two spellings of one name are one name."""
    with pytest.raises(InvalidInput, match="'x-a' is given twice"):
        check_headers({"X-A": "1", "x-a": "2"})


@pytest.mark.parametrize(
    "headers",
    [
        {f"x-{number}": "" for number in range(COUNT + 1)},
        {"x" * (NAME_LENGTH + 1): ""},
        {"x": "a" * (VALUE_LENGTH + 1)},
        {f"x-{number}": "a" * VALUE_LENGTH for number in range(TOTAL_LENGTH // VALUE_LENGTH + 1)},
    ],
)
def test_headers_are_bounded(headers: dict[str, str]) -> None:
    """Too many, too long and too much together are refused."""
    with pytest.raises(InvalidInput, match=r"at most|together"):
        check_headers(headers)
