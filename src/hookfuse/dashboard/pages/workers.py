"""Workers: every process of the fleet, what waits for them, and who leads."""

from __future__ import annotations

from collections import Counter

from starlette.responses import Response

from hookfuse.dashboard.visits import Visit

_DUTIES = {
    "sampling": "judges breakers whose policy is sampled",
    "notices": "sends what people are told",
    "retention": "forgets what is old",
    "rescue": "brings back what lost workers held",
}


async def show(visit: Visit) -> Response:
    seen, duties, processes = await visit.get_all(("overview",), ("duties",), ("processes",))
    found = processes["data"]
    return visit.page(
        "workers.html",
        "workers",
        seen=seen,
        duties=duties["data"],
        says=_DUTIES,
        processes=found,
        number=Counter(each["state"] for each in found),
    )
