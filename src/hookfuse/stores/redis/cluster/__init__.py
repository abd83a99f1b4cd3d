"""Redis Cluster: the slots are spread over several primaries, and may move.

Calls. The driver's own cluster client sends a command again when it has timed out. An outcome must not be sent twice,
so calls go through plain clients, one for each node, and `journey.py` says what happens with each answer: a redirection
or a missing script was not run and is sent on, an answer that did not come is lost.

Following. A blocking read may not span slots, so nobody can wait on all streams at once. Instead each shard has a bell:
a shard channel that its scripts ring when they append to the stream. One connection to each primary listens to the
bells of its shards (`bells.py`), and what rang is read from its place in the stream on. A bell that was not heard does
no harm: whoever listens anew, to another node or after a lost connection, looks at all shards there first.

A node that is away takes its own shards with it, and no others.
"""
