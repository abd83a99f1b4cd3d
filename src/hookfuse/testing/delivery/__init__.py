"""The promises of a delivery store, as tests that every store runs.

Subclass `DeliveryStoreContract` with a fixture `bench` that yields a `Bench`: an open store and the clock that it
decides by. The tests are coroutines; anyio's pytest plugin runs them.
"""

from hookfuse.testing.delivery.accepting import Accepting
from hookfuse.testing.delivery.attending import Attending
from hookfuse.testing.delivery.auditing import Auditing
from hookfuse.testing.delivery.bench import Bench
from hookfuse.testing.delivery.claiming import Claiming
from hookfuse.testing.delivery.directing import Directing
from hookfuse.testing.delivery.disclaiming import Disclaiming
from hookfuse.testing.delivery.handling import Handling
from hookfuse.testing.delivery.leading import Leading
from hookfuse.testing.delivery.listing import Listing
from hookfuse.testing.delivery.noticing import Noticing
from hookfuse.testing.delivery.outbox import Posting
from hookfuse.testing.delivery.overviewing import Overviewing
from hookfuse.testing.delivery.refusing import Refusing
from hookfuse.testing.delivery.serving import Serving
from hookfuse.testing.delivery.settling import Settling
from hookfuse.testing.delivery.standing import StandingFast
from hookfuse.testing.delivery.tallying import Tallying
from hookfuse.testing.delivery.telling import Telling
from hookfuse.testing.delivery.upkeep import Upkeeping

__all__ = ["Bench", "DeliveryStoreContract"]


class DeliveryStoreContract(
    Accepting,
    Claiming,
    Settling,
    Disclaiming,
    Directing,
    Refusing,
    Handling,
    Listing,
    Overviewing,
    Serving,
    Auditing,
    Noticing,
    Posting,
    Telling,
    Upkeeping,
    Leading,
    Attending,
    Tallying,
    StandingFast,
):
    """Everything that a delivery store promises."""
