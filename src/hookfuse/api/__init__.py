"""REST: parse, call, serialise."""
