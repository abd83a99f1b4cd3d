"""The statements of queries.sql by their names."""

from hookfuse.stores.sql import statements

SQL = statements("hookfuse.stores.sqlite")
