"""Policies: how breakers judge, by default, for an application, or for an endpoint.

A policy is what the library calls by that name, with the same words: an object such as `{"window": 60, "trip": [...]}`,
or the name of a profile with its settings. What is set takes effect at the next delivery, on all workers.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta

from hookfuse import profiles
from hookfuse.api.call import Call
from hookfuse.api.problems import Problem, invalid, not_found
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Wire
from hookfuse.core.endpoint import Endpoint
from hookfuse.core.policy import Policy
from hookfuse.errors import InvalidField, InvalidInput

routes = Routes("Policies")

Profile = StrEnum("Profile", {name.upper(): name for name in profiles.__all__})  # type: ignore[misc]


class Level(StrEnum):
    ENDPOINT = "endpoint"
    APPLICATION = "application"
    DEFAULT = "default"


class PolicyIn(Wire):
    """Either a policy, or a profile with its settings."""

    policy: dict[str, Any] | None = None
    profile: Profile | None = None
    settings: dict[str, Any] | None = None


_EITHER = {"anyOf": [{"required": ["policy"]}, {"required": ["profile"]}]}
EitherIn = Annotated[PolicyIn, Meta(extra_json_schema=_EITHER)]


class PolicyOut(Wire):
    own: dict[str, Any] | None
    """What is set here; null: nothing."""
    effective: dict[str, Any]
    """What holds."""
    level: Level
    """Where that is set."""


class ProfileOut(Wire):
    name: str
    description: str
    settings: dict[str, Any]
    """What can be set, with its default."""


class ProfilesOut(Wire):
    data: list[ProfileOut]


@routes.get("/profile")
async def list_profiles(call: Call) -> ProfilesOut:
    """List the profiles that a policy can be made of."""
    return ProfilesOut(data=[_profile(name) for name in profiles.__all__])


@routes.get("/policy")
async def get_default_policy(call: Call) -> PolicyOut:
    """Get the policy of endpoints that have none, and whose application has none."""
    return await _told(call, Level.DEFAULT)


@routes.put("/policy", needs=Needs.ADMIN)
async def set_default_policy(call: Call, body: EitherIn) -> PolicyOut:
    """Set the default policy."""
    await call.parts.store.change_default_policy(_read(body).to_dict())
    return await _told(call, Level.DEFAULT)


@routes.delete("/policy", needs=Needs.ADMIN)
async def delete_default_policy(call: Call) -> None:
    """Return to the policy in the settings of the program."""
    await call.parts.store.change_default_policy(None)


@routes.get("/app/{app_id}/policy")
async def get_application_policy(call: Call) -> PolicyOut:
    """Get the policy of an application."""
    return await _told(call, Level.APPLICATION)


@routes.put("/app/{app_id}/policy")
async def set_application_policy(call: Call, body: EitherIn) -> PolicyOut:
    """Set the policy of an application, for its endpoints that have none of their own."""
    await call.parts.store.change_application(call.app.id, {"policy": _read(body).to_dict()})
    await call.find_app()
    return await _told(call, Level.APPLICATION)


@routes.delete("/app/{app_id}/policy")
async def delete_application_policy(call: Call) -> None:
    """Return to the default policy."""
    await call.parts.store.change_application(call.app.id, {"policy": None})


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/policy")
async def get_endpoint_policy(call: Call) -> PolicyOut:
    """Get the policy of an endpoint."""
    return await _told(call, Level.ENDPOINT, await call.endpoint())


@routes.put("/app/{app_id}/endpoint/{endpoint_id}/policy")
async def set_endpoint_policy(call: Call, body: EitherIn) -> PolicyOut:
    """Set the policy of an endpoint."""
    found = await call.endpoint()
    changed = await call.parts.store.change_endpoint(found.id, {"policy": _read(body).to_dict()})
    if changed is None:
        raise not_found("endpoint")
    return await _told(call, Level.ENDPOINT, changed)


@routes.delete("/app/{app_id}/endpoint/{endpoint_id}/policy")
async def delete_endpoint_policy(call: Call) -> None:
    """Return to the policy of the application."""
    await call.parts.store.change_endpoint((await call.endpoint()).id, {"policy": None})


async def _told(call: Call, at: Level, endpoint: Endpoint | None = None) -> PolicyOut:
    """The first that is set, from the endpoint up."""
    preset = await call.parts.store.default_policy()
    levels: dict[Level, Mapping[str, Any] | None] = {
        Level.ENDPOINT: None if endpoint is None else endpoint.policy,
        Level.APPLICATION: None if call.app_known is None else call.app_known.policy,
        Level.DEFAULT: preset,
    }
    level = next((each for each, policy in levels.items() if policy is not None), Level.DEFAULT)
    found = levels[level]
    effective = call.parts.defaults.policy if found is None else Policy.from_dict(found)
    own = levels[at]
    return PolicyOut(own=None if own is None else dict(own), effective=effective.to_dict(), level=level)


def _read(body: PolicyIn) -> Policy:
    if (body.policy is None) is (body.profile is None):
        raise invalid("Give either a policy or a profile.", "body")
    if body.profile is not None:
        return _from_profile(body.profile, body.settings or {})
    if body.settings is not None:
        raise invalid("They come with a profile.", "body", "settings")
    try:
        return Policy.from_dict(body.policy or {})
    except InvalidField as error:
        raise invalid(str(error), "body", "policy", error.field) from error
    except InvalidInput as error:
        raise invalid(str(error), "body", "policy") from error


def _from_profile(name: str, settings: Mapping[str, Any]) -> Policy:
    make = getattr(profiles, name)
    known = inspect.signature(make).parameters
    for setting in settings:
        if setting not in known:
            raise invalid(f"It must be one of {', '.join(known)}.", "body", "settings", setting)
    try:
        found: Policy = make(**settings)
    except InvalidInput as error:
        raise _blamed(make, settings, error) from error
    return found


def _blamed(make: Any, settings: Mapping[str, Any], error: InvalidInput) -> Problem:
    """Which setting it was: the error names a field of the policy that the profile makes."""
    for name, value in settings.items():
        try:
            make(**{name: value})
        except InvalidInput as alone:
            return invalid(str(alone), "body", "settings", name)
    return invalid(str(error), "body", "settings")


def _profile(name: str) -> ProfileOut:
    make = getattr(profiles, name)
    description = (inspect.getdoc(make) or "").partition("\n")[0]
    settings = {each.name: each.default for each in inspect.signature(make).parameters.values()}
    return ProfileOut(name=name, description=description, settings=settings)
