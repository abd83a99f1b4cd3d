"""REST: parse, call, serialise.

An operation is a function with a typed body, query and answer, entered in a table (`routes.py`). The table makes the
routes (`dispatch.py`), the checks of keys and tenants, the audit log, and the OpenAPI document (`openapi.py`), so none
of them can forget one. Only sending a message leaves that path: it is asked for thousands of times a second
(`ingest.py`).

What the API works with comes from outside, as ports and delivery verbs (`parts.py`).
"""
