"""Breakers inside HTTP clients: `httpx`, `requests` and `aiohttp`, each an optional extra with its own module here.

A request that `key` names is guarded: its answer is judged by its status, its error as everywhere else, and while
the breaker is open nothing is sent. The caller sees what it would see without a breaker, except for a refusal,
which is both a `BreakerOpen` and the client's own connection error.
"""
