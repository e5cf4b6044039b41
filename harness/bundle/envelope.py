"""DSSE: a payload, its type, and an Ed25519 signature over both; one spelling, one signature."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from harness.bundle.archive import tampered
from harness.errors import LoadError, UsageError

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def key_id(key: Ed25519PublicKey) -> str:
    """Hex SHA-256 of the raw public key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def seal(payload: bytes, key: Ed25519PrivateKey) -> bytes:
    """The envelope as JSON text."""
    return _spelled(payload, key_id(key.public_key()), key.sign(_pae(payload)))


def opened(envelope: bytes, key: Ed25519PublicKey) -> bytes:
    """The payload, if it was signed by `key` and the envelope is spelled as we spell it. Raises Tampered."""
    try:
        data = json.loads(envelope)
        payload = base64.b64decode(data["payload"], validate=True)
        (signature,) = data["signatures"]
        signed, signer = base64.b64decode(signature["sig"], validate=True), signature["keyid"]
        canonical = _spelled(payload, str(signer), signed)
    except (ValueError, TypeError, KeyError, LookupError, binascii.Error, RecursionError) as error:
        raise tampered(f"its envelope cannot be read: {type(error).__name__}") from error
    if canonical != envelope:
        raise tampered("its envelope was altered")
    if signer != key_id(key):
        raise tampered(f"it was signed by another key ({str(signer)[:64]}) than the one given ({key_id(key)})")
    try:
        key.verify(signed, _pae(payload))
    except InvalidSignature as error:
        raise tampered("its signature does not fit its statement") from error
    return payload


def _pae(payload: bytes) -> bytes:
    """DSSE v1 pre-authentication encoding."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _spelled(payload: bytes, signer: str, signature: bytes) -> bytes:
    data = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": signer, "sig": base64.b64encode(signature).decode()}],
    }
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


def make_keys(stem: Path) -> tuple[Path, Path]:
    """Writes STEM.key (for its owner alone) and STEM.pub, both PEM. Raises UsageError, and then leaves what was there."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    paths = stem.with_name(f"{stem.name}.key"), stem.with_name(f"{stem.name}.pub")
    if paths[1].exists():
        raise UsageError("there is a key already, and keys are never written over", where=str(paths[1]), fix="name another --output")
    for path, content, mode in ((paths[0], private, 0o600), (paths[1], public, 0o644)):
        _write_new(path, content, mode)
    return paths


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
    except FileExistsError as error:
        raise UsageError("there is a key already, and keys are never written over", where=str(path), fix="name another --output") from error
    except OSError as error:
        raise UsageError(f"the key cannot be written: {error.strerror}", where=str(path), fix="name a writable place with --output") from error


def private_key(path: Path) -> Ed25519PrivateKey:
    """From PEM. Raises LoadError."""
    fix = "make one with `harness bundle keygen`"
    try:
        key = serialization.load_pem_private_key(_read(path, fix), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise LoadError("this is no private key without a password", where=str(path), fix=fix) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise LoadError("this private key is not Ed25519", where=str(path), fix=fix)
    return key


def _read(path: Path, fix: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LoadError(f"the key cannot be read: {error.strerror}", where=str(path), fix=fix) from error
