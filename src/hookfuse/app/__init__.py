"""The composition root: the only package that names concrete stores.

station      delivery: a store, breakers, a sender, and the worker and acceptor over them
web          the API over a station
service      a process of the service, from its start to its orderly end
surface      what it serves on its port                  parts        what the settings mean for these
first_start  folder, master key, first API key           processes    several of them on one port
health       whether it does its work; alarm says so     metrics      what Prometheus reads
logs         what it says                                tracing      the same as spans
retention    forgets old messages                        reseal       seals secrets anew
duties       what one process does for the fleet         notices      how people are told
doctor       what is wrong, and what to do               findings, doctor_servers
fleet        breakers that many processes share, for operators' tools
"""
