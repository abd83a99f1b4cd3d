"""Cryptography that the standard library does not have: secrets sealed at rest, and Ed25519.

Secrets are sealed with a master key that lives in a file of its own, apart from the database. A seal is about
something, an endpoint's id, so that a row copied to another endpoint does not open there. The newest key seals and
all open: to replace a key, put a new one above it, seal everything anew, then take the old one away.
"""

from hookfuse.sealing.aes import AesGcmSealer
from hookfuse.sealing.curve import CurveEd25519
from hookfuse.sealing.keys import MasterKeys, read_or_make_key

__all__ = ["AesGcmSealer", "CurveEd25519", "MasterKeys", "read_or_make_key"]
