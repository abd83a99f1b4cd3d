"""Real HTTP endpoints on this machine that behave as they are told: well, slowly, badly, or not at all.

    async with Receivers() as receivers:
        url = receivers.add("shop", Flaky(share=0.5))
        ...                                          # deliver to it
        receivers.change("shop", Hang())             # break it
        await receivers["shop"].arrived(3)           # no test needs to sleep
        receivers["shop"].counts.most_in_flight      # proves a cap
        receivers.receipts()                         # what arrived, and whether its signature was right

    behaviours   endpoints that answer          answers      an answer as a value
    hostile      endpoints that do harm         playing      an answer on its way
    receivers    names, ports, counts           connection   requests in, answers out
    endpoint     one of them                    recording    the same, written down
    ledger       what arrived                   listener     a port, open or shut
    spec         behaviours as JSON             process      all of it as a process of its own

Needs httptools (`pip install "hookfuse[server]"`); on uvloop it is fast enough to stand behind a benchmark.
"""

from hookfuse.testing.receivers.answers import Answer, Arrival, Ending
from hookfuse.testing.receivers.behaviours import (
    Behaviour,
    Failing,
    Flaky,
    Gone,
    Ok,
    RateLimited,
    Redirect,
    Script,
    Slow,
    Unavailable,
)
from hookfuse.testing.receivers.endpoint import Choice, Counts, Endpoint, Verify
from hookfuse.testing.receivers.hostile import (
    BigHeader,
    Bomb,
    Dead,
    DripBody,
    DripHeaders,
    Hang,
    Huge,
    Malformed,
    Reset,
)
from hookfuse.testing.receivers.ledger import FileLedger, Ledger, MemoryLedger, Receipt, read_ledger
from hookfuse.testing.receivers.process import ReceiversProcess
from hookfuse.testing.receivers.receivers import Receivers
from hookfuse.testing.receivers.spec import Order

__all__ = [
    "Answer",
    "Arrival",
    "Behaviour",
    "BigHeader",
    "Bomb",
    "Choice",
    "Counts",
    "Dead",
    "DripBody",
    "DripHeaders",
    "Ending",
    "Endpoint",
    "Failing",
    "FileLedger",
    "Flaky",
    "Gone",
    "Hang",
    "Huge",
    "Ledger",
    "Malformed",
    "MemoryLedger",
    "Ok",
    "Order",
    "RateLimited",
    "Receipt",
    "Receivers",
    "ReceiversProcess",
    "Redirect",
    "Reset",
    "Script",
    "Slow",
    "Unavailable",
    "Verify",
    "read_ledger",
]
