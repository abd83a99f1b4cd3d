"""What stores keep is checked field by field."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.stored import check_application, check_changes, check_endpoint
from hookfuse.errors import InvalidField

APPLICATION = Application("app_1", "one")
ENDPOINT = Endpoint("ep_1", "app_1", "https://example.com/")
NO_KIND: Any = object()


@pytest.mark.parametrize("name", [each.name for each in fields(Application)])
def test_every_field_of_an_application(name: str) -> None:
    """No field of an application is forgotten: each refuses what is of no kind that it could be."""
    check_application(APPLICATION)
    with pytest.raises(InvalidField) as refused:
        check_application(replace(APPLICATION, **{name: NO_KIND}))
    assert refused.value.field == name
    with pytest.raises(InvalidField) as refused:
        check_changes(Application, {name: NO_KIND})
    assert refused.value.field == name


@pytest.mark.parametrize("name", [each.name for each in fields(Endpoint)])
def test_every_field_of_an_endpoint(name: str) -> None:
    """No field of an endpoint is forgotten: each refuses what is of no kind that it could be."""
    check_endpoint(ENDPOINT)
    with pytest.raises(InvalidField) as refused:
        check_endpoint(replace(ENDPOINT, **{name: NO_KIND}))
    assert refused.value.field == name
    with pytest.raises(InvalidField) as refused:
        check_changes(Endpoint, {name: NO_KIND})
    assert refused.value.field == name


@pytest.mark.parametrize("name", ["secret", "headers"])
def test_what_was_not_sealed_is_not_shown(name: str) -> None:
    """A secret that someone forgot to seal is refused without being told."""
    with pytest.raises(InvalidField) as refused:
        check_changes(Endpoint, {name: "whsec_confidential"})
    assert "confidential" not in str(refused.value) + repr(refused.value)
