"""Seals every secret anew with the newest master key, so that an older one can be taken away.

Workers may run meanwhile, if they already have the newest key. A page at a time, and each endpoint is replaced only if
nobody changed it since it was read: whoever did has sealed it with the newest key already. Stopped half-way, it
goes on with what is left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from hookfuse.core.upkeep import Sealed
from hookfuse.delivery.notify_addresses import about
from hookfuse.ports import DeliveryStore, Sealer

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Resealed:
    """So far: endpoints and settings looked at, and how many of them were sealed anew."""

    seen: int
    changed: int


async def reseal(store: DeliveryStore, sealer: Sealer) -> AsyncIterator[Resealed]:
    seen = changed = 0
    after = ""
    while page := await store.sealed_page(after, _PAGE):
        for each in page:
            anew = _anew(each, sealer)
            if anew != each and await store.reseal(each, anew):
                changed += 1
        seen += len(page)
        after = page[-1].endpoint_id
        yield Resealed(seen, changed)
    after = ""
    while settings := await store.notice_settings_from(after, _PAGE):
        for found in settings:
            sealed = _renewed(found.sealed, sealer, about(found.app_id))
            if sealed != found.sealed and await store.reseal_notices(found, sealed):
                changed += 1
        seen += len(settings)
        after = settings[-1].app_id
        yield Resealed(seen, changed)


def _anew(found: Sealed, sealer: Sealer) -> Sealed:
    belongs_to = found.endpoint_id.encode()
    secret, headers = (_renewed(sealed, sealer, belongs_to) for sealed in (found.secret, found.headers))
    return Sealed(found.endpoint_id, secret, headers)


def _renewed(sealed: bytes, sealer: Sealer, belongs_to: bytes) -> bytes:
    if not sealed or not sealer.needs_resealing(sealed):
        return sealed
    return sealer.seal(sealer.open(sealed, belongs_to), belongs_to)
