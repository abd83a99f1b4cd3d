"""The composition root: the only package that names concrete stores.

fleet    breakers that many processes share, for operators' tools
station  delivery: a store, breakers, a sender, and the worker and acceptor over them
"""
