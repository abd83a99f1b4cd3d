"""Both parts: the API alone on both stores, and the whole way on Postgres."""

from __future__ import annotations

from benchmarks.delivery.world import places
from benchmarks.ingest import taking, whole
from benchmarks.report import Report

_NOTES = f"""\
Messages of 1 KB with an idempotency key each, over kept connections, the best of {taking.ROUNDS} rounds of
{taking.MESSAGES:,}; commits are synced, but for claims, and what FastAPI answers is only checked. Clients, servers,
database, Redis and sink share this machine's cores. The whole way: {whole.MESSAGES:,} messages over
{whole.CONNECTIONS} connections to {whole.ENDPOINTS} endpoints, at most {whole.UNDER_WAY:,} under way at once;
the middle of {whole.ROUNDS} rounds, each compared with the aiohttp of its own round."""


def main() -> Report:
    with places() as known:
        first, bars = taking.measure(known)
        second, more = whole.measure(next(place for place in known if place.redis is not None))
    return Report([first, second], _NOTES, [*bars, *more])
