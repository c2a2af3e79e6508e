"""Earlier releases from which a question may be answered at no new loss (rule values-for-payers).

A source counted or added up the same rows of the version that is registered now, and was paid by
every pot on the path of the pot that asks; with the policy `global` the total has paid for all.
What a source measured is rebuilt from its stored request and priced again: only where that gives
the key under which the release is stored, and the first rules do not give the same key to other
noise, are its mechanisms known, and only then is it used.
Proof: docs/proofs/workloads.md#earlier-releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from dither.answer.earlier_rules import has_other_noise
from dither.errors import DitherError
from dither.plan.algebra import Cells, Linear, Plan, to_json
from dither.plan.stored_queries import read_query
from dither.privacy.kernel.kernel import Kernel, Priced, Release
from dither.privacy.kernel.release import from_bytes
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger import LedgerView
from dither.privacy.ledger.reports import Record, Reports

MOST_SOURCES = 20
"""The newest so many releases over the same rows are looked at."""


def list_earlier_releases(
    kernel: Kernel,
    reports: Reports,
    view: LedgerView,
    plan: Plan,
    *,
    pot: str | None = None,
) -> tuple[Release, ...]:
    """The newest releases over the rows of a plan that the asking pot may reuse, newest first.

    With a `pot`, only those that were asked from it: a served dataset shows values to nobody else.
    A suspended pot has none: it is refused, as for any other question. Reads the ledger and no
    data. The head is written first: no older ledger may forget who paid.
    """
    if not view.path or view.is_suspended:
        return ()
    kernel.ledger.ensure_anchored()
    rows = to_json(plan)
    sources: list[Release] = []
    for record in reversed(reports.history()):
        if len(sources) == MOST_SOURCES:
            break
        if pot is not None and record.pot != pot:
            continue
        if (
            _is_of_version(record, kernel)
            and _is_over(record, rows)
            and _has_paid(reports, record, view)
        ):
            sources += _rebuild(kernel, reports, record)
    return tuple(sources)


def _is_of_version(record: Record, kernel: Kernel) -> bool:
    """Whether a release is of the version that is registered now, and not answered again since."""
    public = record.public
    return (
        record.superseded_by is None
        and public.get("version") == kernel.version.number
        and public.get("catalog_hash") == kernel.version.catalog_hash
        and "request" in public
    )


def _has_paid(reports: Reports, record: Record, view: LedgerView) -> bool:
    """Whether every pot on the path paid for a release; under `global` the total, for all."""
    needed = view.path if view.path[-1].policy == "separate" else view.path[-1:]
    return {pot.name for pot in needed} <= reports.payers(record.seq)


def _is_over(record: Record, rows: dict[str, Any]) -> bool:
    """Whether a step of a release is over these rows."""
    return any(_find_rows(step["query"]) == rows for step in record.public["request"]["steps"])


def _rebuild(kernel: Kernel, reports: Reports, record: Record) -> Iterator[Release]:
    """The release of a record, where it is rebuilt to the same key, and the key says its noise."""
    try:
        request = _read_request(record.public["request"])
        priced = kernel.price_at(request, kernel.ledger.view(record.pot))
    except (ValueError, DitherError):
        return
    if has_other_noise(kernel, priced):
        return
    stored = reports.release(record.seq)
    if stored is not None and priced.key == record.request_hash:
        yield _make_release(priced, record, stored.arrow_bytes)


def _find_rows(query: dict[str, Any]) -> Any:
    """The rows of a stored query, as their canonical dict."""
    return query.get("cells", query).get("plan")


def _read_request(document: dict[str, Any]) -> Request:
    """The request of its stored dict."""
    steps = tuple(
        Step(read_query(step["query"]), step["family"], Fraction(step["weight"]))
        for step in document["steps"]
    )
    (price,) = document["price"].items()
    return Request(steps, Price(**{price[0]: Fraction(price[1])}), document["pot"])


def _make_release(priced: Priced, record: Record, arrow_bytes: bytes) -> Release:
    nothing = Fraction(0)
    return Release(
        record.release_id,
        priced,
        from_bytes(arrow_bytes),
        nothing,
        nothing,
        nothing,
        record.released_at or "",
        repeated=True,
    )


def list_measured_cells(release: Release) -> Iterator[tuple[int, Cells]]:
    """The steps of a release that added noise to cells of one count or sum, or to an operator's
    products with them, by their positions. Choices and blocks are no such steps."""
    for position, calibrated in enumerate(release.priced.steps):
        query = calibrated.step.query
        cells = query.cells if isinstance(query, Linear) else query
        if isinstance(cells, Cells) and len(cells.columns) == 1:
            yield position, cells
