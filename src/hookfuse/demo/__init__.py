"""`hookfuse demo`: the whole service on one loopback port, six receivers, and a story that shows what breakers are for.

    plan       how long everything takes          receivers    who takes the messages, and how well
    show       all of it put together             producer     who sends them
    story      one turn after the other           watch        what has happened so far
    books      who was told what, and the sums    doomed       what plain retrying would have done
    telling    what the terminal says             board        how the receivers are right now
    hall       the service in this process        switchboard  break and heal receivers over REST
    crew       worker processes                   worker       one of them
    folder     a place that is gone afterwards    database     the same in Postgres
    settings   what was asked for                 draining     whether a backlog came at the ramp

A turn of the story is something that was seen to happen, in a transition, in a receiver's ledger or in the store. What
does not happen within its patience ends the story with a sentence that says so.
"""
