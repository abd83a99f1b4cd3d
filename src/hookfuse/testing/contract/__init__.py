"""The contract of breaker stores, as pytest classes. Run it on a store of your own:

    from hookfuse.testing import ManualClock
    from hookfuse.testing.contract import BreakerStoreContract, World

    class TestMyStore(BreakerStoreContract):
        @pytest.fixture
        def world(self):
            clock = ManualClock()
            return World(MyStore(clock=clock), clock)

Each test runs twice, through `Breakers` and through `AsyncBreakers`. The clock must be the one by which the store
decides; a store that uses a server's time needs a way to swap it for tests.
"""

from hookfuse.testing.contract.guarding import Guarding
from hookfuse.testing.contract.keeping import Keeping
from hookfuse.testing.contract.obeying import Obeying
from hookfuse.testing.contract.probing import Probing
from hookfuse.testing.contract.tripping import Tripping
from hookfuse.testing.contract.world import FACES, World

__all__ = ["FACES", "BreakerStoreContract", "World"]


class BreakerStoreContract(Tripping, Probing, Obeying, Keeping, Guarding):
    """Everything that a breaker store promises."""
