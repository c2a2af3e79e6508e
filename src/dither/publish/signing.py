"""The signing key of one dataset, and the public keys that this machine knows.

Files and bytes only.

The private key lies in the state folder, mode 0600, made when the first certificate is; the public
one beside it and in `$XDG_STATE_HOME/dither/keys`, so that certificates made on this machine are
recognised on it. In embedded mode whoever runs dither can read the private key: the certificate
says so.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dither.errors import DitherError
from dither.privacy.ledger import default_head_path
from dither.privacy.noise.source import fresh_bytes
from dither.state import State


def ensure_signing_key(state: State) -> Ed25519PrivateKey:
    """Read the dataset's key, or make it for the first certificate.

    Two processes at once get the same one.
    """
    file = state.root / "signing.key"
    if not file.exists():
        state.installation_id()  # refused where nothing was registered
        beside = state.root / f".signing.{fresh_bytes(8).hex()}.new"
        _write(beside, fresh_bytes(32), 0o600)
        with suppress(FileExistsError):  # another process was faster: its key is the one
            os.link(beside, file)
        beside.unlink()
    secret = file.read_bytes()
    if len(secret) != 32:
        raise DitherError(
            f"{file} is no signing key: restore it, or remove it to sign with a new one from now on"
        )
    key = Ed25519PrivateKey.from_private_bytes(secret)
    _remember(state, key.public_key().public_bytes_raw().hex())
    return key


def _remember(state: State, public: str) -> None:
    """Store the public key in the state folder and among the keys that this machine knows."""
    for file in (
        state.root / "signing.pub",
        _find_folder(state.installation_id()) / f"{public}.pub",
    ):
        if not file.exists() or file.read_text() != f"{public}\n":
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(file, f"{public}\n".encode(), 0o644)


def read_public_key(state: State) -> str | None:
    """Read the dataset's public key in hex; None where nothing was signed yet."""
    file = state.root / "signing.pub"
    return file.read_text().strip() if file.exists() else None


def forget_key(state: State) -> None:
    """Forget the public key of a dataset that is about to be thrown away."""
    public = state.root / "signing.pub"
    if public.exists():
        (_find_folder(state.installation_id()) / f"{public.read_text().strip()}.pub").unlink(
            missing_ok=True
        )


def list_known_keys() -> tuple[str, ...]:
    """List the public keys of the datasets that sign on this machine."""
    return tuple(sorted(file.stem for file in _find_folder("any").glob("*.pub")))


def _find_folder(installation: str) -> Path:
    return default_head_path(installation).parent.parent / "keys"


def _write(file: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
