"""One delivery: its message, and every attempt with request and response side by side."""

from __future__ import annotations

from starlette.responses import Response

from hookfuse.dashboard.actions import ACTIONS
from hookfuse.dashboard.curls import delivery_curl
from hookfuse.dashboard.forms import Form
from hookfuse.dashboard.visits import Visit

_ATTEMPTS = "50"


async def show(visit: Visit) -> Response:
    app, message_id, endpoint_id = visit.path["app"], visit.path["message"], visit.path["endpoint"]
    at = ("app", app)
    owner, delivery, message = await visit.get_all(
        at, (*at, "delivery", message_id, endpoint_id), (*at, "msg", message_id)
    )
    attempts = await visit.get(*at, "attempt", "msg", message_id, endpoint_id=endpoint_id, limit=_ATTEMPTS)
    payload = await visit.payload(app, message_id)
    form = Form({"app": [app], "message": [message_id], "endpoint": [endpoint_id]})
    return visit.page(
        "delivery.html",
        "deliveries",
        app=owner,
        delivery=delivery,
        message=message,
        payload=payload,
        attempts=attempts["data"],
        request_curl=delivery_curl(delivery["url"], message["id"], payload),
        actions=ACTIONS,
        curls={name: visit.curl(ACTIONS[name].call(form)) for name in ("retry", "cancel")},
    )
