"""Breakers in this process's memory: `MemoryStore(clock=...)`."""

from hookfuse.local import MemoryStore

__all__ = ["MemoryStore"]
