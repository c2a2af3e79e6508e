"""What was released, as replies need it: a line of history, and the release of a certificate."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dither.answer.history import PaidRelease
from dither.canonical import fraction_text
from dither.errors import ParameterError
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.ledger.reports import Record
from dither.protocol import documents
from dither.protocol.messages import PaidReleaseDocument


def write_paid_release(release: PaidRelease, shows_text: bool) -> PaidReleaseDocument:
    """A line of history; the text of a question is for those who may read texts."""
    return PaidReleaseDocument(
        release_id=release.release_id,
        released_at=release.released_at,
        version=release.version,
        asks=release.asks,
        charged=fraction_text(release.charged),
        delta=fraction_text(release.delta),
        measure=release.measure,
        superseded_by=release.superseded_by,
        unit=release.unit,
        sql=release.sql if shows_text else None,
        price=documents.write_price(release.price),
    )


def find_release(history: Iterable[Record], priced: Priced, release_id: str) -> Release:
    """The stored release that answered a request, by what the ledger says of it.

    Where groups are kept apart, it is one that the request's own pot paid for.
    """
    pot = priced.request.pot
    is_separate = any(outer.policy == "separate" for outer in priced.view.path)
    for record in history:
        if is_separate and pot not in (*record.pots, *record.shared_by):
            continue
        if record.release_id == release_id and record.request_hash == priced.key:
            return _make_release(record, priced)
    raise ParameterError(
        "no stored release answered this request: ask again, then ask for the certificate"
    )


def _make_release(record: Record, priced: Priced) -> Release:
    """The release of a record, without its values."""
    assert record.released_at is not None
    pot = priced.request.pot
    charge = record.charges.get(pot)
    nothing = Fraction(0)
    return Release(
        record.release_id,
        priced,
        (),
        nothing if charge is None else charge.amount,
        nothing,
        nothing,
        record.released_at,
        record.charges,
        pot not in record.pots,
    )
