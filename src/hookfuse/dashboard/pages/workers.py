"""Workers: who delivers, what waits for them, and who leads."""

from __future__ import annotations

from starlette.responses import Response

from hookfuse.dashboard.visits import Visit

_DUTIES = {
    "sampling": "judges breakers whose policy is sampled",
    "notices": "sends what people are told",
    "retention": "forgets what is old",
    "rescue": "brings back what lost workers held",
}


async def show(visit: Visit) -> Response:
    seen, duties = await visit.get_all(("overview",), ("duties",))
    return visit.page("workers.html", "workers", seen=seen, duties=duties["data"], says=_DUTIES)
