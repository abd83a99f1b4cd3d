"""Endpoints made ready to be sent to: read once for each version, with the defaults behind their settings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hookfuse.core.addresses import Networks
from hookfuse.core.delivery import Claim
from hookfuse.core.destination import Destination
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.policy import Policy
from hookfuse.core.response import ResponsePolicy
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.secret import SecretRing
from hookfuse.errors import HookfuseError, InvalidInput
from hookfuse.ports import Directory, Sealer

_MOST_KEPT = 100_000


@dataclass(frozen=True, slots=True)
class Defaults:
    """What an endpoint gets that says nothing of its own, and whose application does not either."""

    policy: Policy = field(default_factory=Policy)
    retry: RetrySchedule = field(default_factory=RetrySchedule)
    response: ResponsePolicy = field(default_factory=ResponsePolicy)


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint as a courier needs it."""

    endpoint_id: str
    version: int
    key: str
    policy: Policy
    retry: RetrySchedule
    response: ResponsePolicy
    cap: int
    timeout: float
    flag: str
    destination: Destination | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ring: SecretRing | None = None
    trouble: str = ""
    """Why it cannot be sent to, if it cannot."""


class Targets:
    """The targets of this process, by endpoint; a claim of a newer version has its endpoint read again."""

    def __init__(
        self,
        directory: Directory,
        sealer: Sealer,
        *,
        networks: Networks | None = None,
        defaults: Defaults | None = None,
        longest_timeout: float = math.inf,
    ) -> None:
        self._directory = directory
        self._sealer = sealer
        self._networks = networks or Networks()
        self._defaults = defaults or Defaults()
        self._longest_timeout = longest_timeout
        self._policy = self._defaults.policy
        self._known: dict[str, Target] = {}
        self._by_key: dict[str, set[str]] = {}

    def policy_for(self, key: str) -> Policy | None:
        """The breaker policy of a key: that of the endpoint which was read last."""
        for endpoint_id in self._by_key.get(key, ()):
            target = self._known.get(endpoint_id)
            if target is not None:
                return target.policy
        return None

    def known(self, endpoint_id: str) -> Target | None:
        """As it was read last."""
        return self._known.get(endpoint_id)

    def endpoints_of(self, key: str) -> list[str]:
        """The endpoints known here that share this breaker."""
        return list(self._by_key.get(key, ()))

    async def of(self, claims: Iterable[Claim]) -> Mapping[str, Target]:
        """The target of each claim's endpoint; one that is not in it does not exist."""
        found: dict[str, Target] = {}
        missing: set[str] = set()
        for claim in claims:
            known = self._known.get(claim.endpoint_id)
            if known is None or known.version < claim.version:
                missing.add(claim.endpoint_id)
            else:
                found[claim.endpoint_id] = known
        return {**found, **await self.read(list(missing))} if missing else found

    async def read(self, ids: list[str]) -> Mapping[str, Target]:
        """Know these endpoints as they are stored now."""
        endpoints = await self._directory.endpoints(ids)
        preset = await self._directory.default_policy()
        self._policy = self._defaults.policy if preset is None else self._readable(preset)
        applications: dict[str, Application | None] = {}
        found: dict[str, Target] = {}
        for endpoint in endpoints:
            if endpoint.app_id not in applications:
                applications[endpoint.app_id] = await self._directory.application(endpoint.app_id)
            found[endpoint.id] = self._prepare(endpoint, applications[endpoint.app_id])
        for target in found.values():
            self._keep(target)
        return found

    def _readable(self, preset: Mapping[str, Any]) -> Policy:
        try:
            return Policy.from_dict(preset)
        except (HookfuseError, TypeError, ValueError):
            # A version that knows more may have stored it; it must not end the worker.
            return self._defaults.policy

    def _keep(self, target: Target) -> None:
        self._drop(target.endpoint_id)
        if len(self._known) >= _MOST_KEPT:
            self._drop(next(iter(self._known)))
        self._known[target.endpoint_id] = target
        self._by_key.setdefault(target.key, set()).add(target.endpoint_id)

    def _drop(self, endpoint_id: str) -> None:
        old = self._known.pop(endpoint_id, None)
        if old is not None:
            sharing = self._by_key[old.key]
            sharing.discard(endpoint_id)
            if not sharing:
                del self._by_key[old.key]

    def _prepare(self, endpoint: Endpoint, application: Application | None) -> Target:
        of_app: dict[str, Any] = {}
        if application is not None:
            of_app = {"policy": application.policy, "retry": application.retry}
        policy = endpoint.policy or of_app.get("policy")
        retry = endpoint.retry or of_app.get("retry")
        common: dict[str, Any] = {
            "endpoint_id": endpoint.id,
            "version": endpoint.version,
            "key": endpoint.key,
            "policy": self._policy,
            "retry": self._defaults.retry,
            "response": self._defaults.response,
            "cap": endpoint.cap,
            # The limit may have been lowered since it was stored, and leases rely on it.
            "timeout": min(endpoint.timeout_ms / 1000, self._longest_timeout),
            "flag": endpoint.flag,
        }
        try:
            read = {
                "policy": self._policy if policy is None else Policy.from_dict(policy),
                "retry": self._defaults.retry if retry is None else RetrySchedule.from_data(retry),
                "response": self._response(endpoint),
            }
        except (HookfuseError, TypeError, ValueError):
            # One endpoint's settings must not end the worker of all.
            return Target(**common, trouble="settings_unreadable")
        common |= read
        try:
            return Target(
                **common,
                destination=Destination.parse(endpoint.url, networks=self._networks),
                headers=self._headers(endpoint),
                ring=self._ring(endpoint),
            )
        except InvalidInput:
            # Its URL was fine when it was stored, and its network has been forbidden since.
            return Target(**common, trouble="destination_blocked")
        except HookfuseError:
            return Target(**common, trouble="secret_unreadable")

    def _response(self, endpoint: Endpoint) -> ResponsePolicy:
        if endpoint.response is None:
            return self._defaults.response
        return ResponsePolicy.from_data(endpoint.response)

    def _headers(self, endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
        if not endpoint.headers:
            return ()
        opened = json.loads(self._sealer.open(endpoint.headers, endpoint.id.encode()))
        return tuple((name, value) for name, value in opened.items())

    def _ring(self, endpoint: Endpoint) -> SecretRing | None:
        if not endpoint.secret:
            return None
        return SecretRing.from_data(json.loads(self._sealer.open(endpoint.secret, endpoint.id.encode())))
