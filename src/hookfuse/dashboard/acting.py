"""Doing what a button says: once, for our own page's form, and with the visitor's key."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from hookfuse.dashboard.actions import ACTIONS, Action
from hookfuse.dashboard.client import Answer, Fault, Refused, faults
from hookfuse.dashboard.forms import Form
from hookfuse.dashboard.origins import is_own_page
from hookfuse.dashboard.policy_form import field_of
from hookfuse.dashboard.visits import Visit

_FOREIGN = "This was not sent by this page; load it again."


async def act(visit: Visit) -> Response:
    action = ACTIONS.get(visit.path["name"])
    form = await Form.of(visit.request)
    if action is None or form is None:
        return _refused(visit, 404, [Fault("", "There is no such action.")])
    if not is_own_page(visit.request) or not visit.session.owns(form.text("token")):
        return _refused(visit, 403, [Fault("", _FOREIGN)])
    try:
        call = action.call(form)
    except Refused as refused:
        return _refused(visit, refused.status, refused.faults)
    answer = await visit.send(call)
    if "hx-request" not in visit.request.headers:
        return RedirectResponse(_back(form), 303)
    command = visit.curl(call)
    if not answer.ok:
        return _refused(visit, answer.status, _placed(answer), command)
    return _done(visit, action, form, answer, command)


def _done(visit: Visit, action: Action, form: Form, answer: Answer, command: str) -> Response:
    # Every part of the page that can change looks again.
    headers = {"hx-trigger": "live"} if action.method != "GET" else None
    return visit.fragment(
        action.shows or "results/done.html",
        headers=headers,
        action=action,
        form=form,
        data=answer.data,
        curl=command,
    )


def _refused(visit: Visit, status: int, found: list[Fault], command: str = "") -> Response:
    return visit.fragment("results/refused.html", status=status, answered=status, faults=found, curl=command)


def _placed(answer: Answer) -> list[Fault]:
    return [Fault(field_of(each.field), each.says) for each in faults(answer)]


def _back(form: Form) -> str:
    """Without scripts: to the page that the form was on."""
    back = form.text("back")
    return back if back.startswith("/dashboard") and "//" not in back and "\\" not in back else "/dashboard"
