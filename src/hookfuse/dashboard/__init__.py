"""Pages for people: how every endpoint stands, and what to do about it.

The pages know nothing that the REST API does not tell, and do nothing that it does not do: whatever a page shows or
changes is a request to the API application in the same process, with the key that its visitor logged in with. So keys,
tenants, validation and the audit log are the API's, a number on a page is the API's number, and every button can be
shown as the `curl` command that does the same.

site        the routes of the pages, and the headers of every answer
client      requests to the API, within the process
visits      a request with a session: who asks, and what they may
sessions    sealed cookies                      entrance    logging in and out
lockout     who has guessed too often           origins     whether a request is our own page's
actions     what buttons do, as a table         acting      doing one of them
forms       text of forms as JSON               policy_form the editor of policies
curls       requests as commands                live        the stream that tells pages to look again
views       templates                           words       values as people read them
drawing     sparklines and gauges, as SVG       statics     styles and scripts
demo        receivers of the demo, to be broken
pages/      one module for each page
"""

from hookfuse.dashboard.live import Live
from hookfuse.dashboard.site import Dashboard, Furnishing, Setting

__all__ = ["Dashboard", "Furnishing", "Live", "Setting"]
