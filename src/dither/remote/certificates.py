"""Checks a certificate that came over the wire against what this side holds.

A gateway passes it on, and could pass on another one. The signature must be right and by the key
that signed the connection's certificates before; release, request, version, loss and the commitment
to the numbers must be those of the answer here.
"""

from __future__ import annotations

from typing import Any

from dither.canonical import digest
from dither.privacy.kernel.kernel import Release
from dither.privacy.losses import compose
from dither.protocol.errors import ProtocolError
from dither.publish.seal import check, write_certificate

REMEDY = "do not publish these numbers, and ask the data steward for the certificate of release"


def check_certificate(
    certificate: dict[str, Any], release: Release, commitment: str, key: str | None
) -> str:
    """The public key that signed a certificate; ProtocolError where it is not of this answer."""
    return _check_facts(certificate, _list_facts(release, commitment), release.release_id, key)


def check_derived_certificate(
    certificate: dict[str, Any], sources: tuple[Release, ...], commitment: str, key: str | None
) -> str:
    """The same for an answer that was computed from several releases."""
    names = ", ".join(source.release_id for source in sources)
    facts = _list_facts(sources[0], commitment) | {
        "release.id": f"derived from {names}",
        "release.request_hash": digest([source.priced.request.hash for source in sources]),
        "price.loss": compose(*(source.priced.loss for source in sources)).to_json(),
    }
    return _check_facts(certificate, facts, names, key)


def _check_facts(
    certificate: dict[str, Any], facts: dict[str, Any], release_id: str, key: str | None
) -> str:
    verdict = check(write_certificate(certificate), [] if key is None else [key])
    if verdict.body is None:
        raise ProtocolError(
            f"the certificate that came does not verify ({verdict.problems[0]}): {REMEDY} "
            f"{release_id}"
        )
    for name, expected in facts.items():
        section, _, field = name.partition(".")
        if verdict.body[section][field] != expected:
            raise ProtocolError(
                f"the certificate that came is of another answer (its {name} differs): {REMEDY} "
                f"{release_id}"
            )
    return verdict.key


def _list_facts(release: Release, commitment: str) -> dict[str, Any]:
    """What a certificate of this answer says, by section and field."""
    version = release.version
    return {
        "values.commitment": commitment,
        "release.id": release.release_id,
        "release.request_hash": release.priced.request.hash,
        "dataset.name": version.catalog.dataset,
        "dataset.version": version.number,
        "dataset.catalog_hash": version.catalog_hash,
        "price.loss": release.priced.loss.to_json(),
    }
