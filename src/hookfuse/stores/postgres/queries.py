"""The statements of this package by their names."""

from __future__ import annotations

from hookfuse.stores.sql import statements

SQL = statements("hookfuse.stores.postgres")
