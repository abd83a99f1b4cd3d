"""Where breakers live: each store is one folder or file, and none imports another."""
