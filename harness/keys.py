"""Ed25519 public keys as people hand them over: PEM, or the 32 raw bytes in base64; as words, or in a file."""

from __future__ import annotations

import base64
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from harness.errors import LoadError

LONGEST = 4096
"""Characters of a key; a longer text is neither a path nor a key."""


def public_key(given: str | Path, *, where: str, fix: str) -> Ed25519PublicKey:
    """`given`: a file's path, or the key itself. Raises LoadError, which says `where` the key was asked for and how to `fix` it."""
    try:
        return _read(_content(str(given)))
    except OSError as error:
        raise LoadError(f"the key cannot be read: {error.strerror}", where=str(given), fix=fix) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise LoadError("not an Ed25519 public key, nor a file that holds one", where=where, fix=fix) from error


def encoded(key: Ed25519PublicKey) -> str:
    """The 32 raw bytes in base64, as gateways tell theirs."""
    return base64.b64encode(key.public_bytes_raw()).decode("ascii")


def _content(given: str) -> str:
    if len(given) >= LONGEST:
        return given
    path = Path(given)
    return path.read_text(encoding="ascii") if path.is_file() else given


def _read(content: str) -> Ed25519PublicKey:
    """Raises ValueError or UnsupportedAlgorithm."""
    if "-----BEGIN" not in content:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(content.strip(), validate=True))
    key = load_pem_public_key(content.encode())
    if not isinstance(key, Ed25519PublicKey):
        raise TypeError("another algorithm's")
    return key
