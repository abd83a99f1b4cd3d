"""From an accepted message to one visible end for each endpoint.

A message is accepted in one transaction with a delivery for each matching endpoint (`accept.py`). Workers claim due
deliveries lane by lane (`worker.py`), ask the endpoint's breaker, sign, send, judge the answer and report it
(`courier.py`), and settle in batches (`settler.py`). A claim is a lease: whoever comes too late changes nothing, and
what a lost worker held comes back when its lease ends (`rescue.py`), to be taken with care (`suspects.py`).

An open breaker costs no attempt: the claim is given back and its lane is blocked until the breaker wants a probe. A
lane is the queue of one endpoint, and only its first row is looked at, so that what waits there costs nobody anything.
A new lane sends one request at a time and widens with every success, so that a hanging endpoint holds few slots
before its breaker has seen enough.

What breakers do is written down by every process that hears of it, once (`chronicle.py`), and what people are to hear
of it goes out from an outbox (`notify.py`).
"""
