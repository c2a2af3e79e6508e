"""What goes through the kernel, as plain data.

A priced request comes in, a release goes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dither.canonical import digest_plain, fraction_text
from dither.catalog import Catalog
from dither.plan.algebra import Keys
from dither.plan.analyse import NEWEST_RULES
from dither.plan.analysed_query import Analyses
from dither.plan.facts import NO_FACTS, Facts
from dither.privacy.kernel.calibrate import Calibrated
from dither.privacy.kernel.randomise import Values
from dither.privacy.kernel.request import Request
from dither.privacy.ledger import Charge, LedgerView
from dither.privacy.losses import Loss
from dither.version import LOSS_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Priced",
    "Release",
    "Values",
    "Version",
    "from_bytes",
    "load_libraries",
    "repeat_key",
    "table_bytes",
    "to_bytes",
]


@dataclass(frozen=True)
class Version:
    """One registered version: what a request is priced and answered by, all seven steps through.

    `rules` are those of stability by which plans are analysed. Under earlier ones than the newest
    stored answers are found, and nothing is measured.
    """

    number: int
    catalog: Catalog
    catalog_hash: str
    context: str
    facts: Facts = NO_FACTS
    rules: int = NEWEST_RULES

    @cached_property
    def kernel_analyses(self) -> Analyses:
        """What the kernel prices and measures by: analyses of plans that it copied itself.

        Only the kernel reads this. A plan of somebody else may claim the hash of another plan.
        """
        return Analyses(self.catalog, self.facts, self.rules)

    @cached_property
    def analyses(self) -> Analyses:
        """Analyses for previews, explanations and audits. The kernel never reads them."""
        return Analyses(self.catalog, self.facts, self.rules)


@dataclass(frozen=True)
class Priced:
    """A request with all that follows from it and the catalog.

    It is public, and known before any data is read.
    """

    request: Request
    steps: tuple[Calibrated, ...]
    loss: Loss
    version: Version
    key: str
    view: LedgerView  # what the ledger said when it was priced; RESERVE decides again


@dataclass(frozen=True)
class Release:
    """What leaves: noisy integers and selected keys, one tuple per step, with price and balance.

    `repeated` says that it is the stored answer to a question asked before; `charged` is then 0, or
    what a pot paid that had not paid for it.
    """

    release_id: str
    priced: Priced
    values: Values
    charged: Fraction
    spent_after: Fraction
    cap: Fraction
    released_at: str
    charges: dict[str, Charge] = field(default_factory=dict)
    repeated: bool = False

    @property
    def version(self) -> Version:
        """The registered version that it speaks of."""
        return self.priced.version


def repeat_key(
    request: Request, steps: tuple[Calibrated, ...], loss: Loss, delta: Fraction, version: Version
) -> str:
    """Hash all that the law of an answer depends on: the key of its stored release.

    (Rule values-for-payers.) It covers lineage, version, catalog (bounds, limits, domains), unit,
    neighbours, queries, families, weights, price, delta, the exact mechanisms and their loss, the
    meaning of losses, and nothing else. Not the pot: another group may pay for the same answer.
    """
    request_json = request.to_json()
    return digest_plain(
        {
            "v": 1,
            "lineage": version.catalog.lineage,
            "version": version.number,
            "catalog": version.catalog_hash,
            "unit": version.catalog.unit.label,
            "neighbours": version.catalog.neighbours,
            "steps": request_json["steps"],
            "price": request_json["price"],
            "delta": fraction_text(delta),
            "facts": version.facts.hash,
            "mechanisms": [[step.mechanism.stored_name, step.loss().to_json()] for step in steps],
            "widths": [step.width for step in steps],
            "loss": loss.to_json(),
            "loss_version": LOSS_VERSION,
        }
    )


def to_bytes(priced: Priced, values: Values) -> bytes:
    """Write what leaves as an Arrow stream: one row, with one list per step.

    The type of a list follows from the query and the public width.
    """
    import pyarrow as pa

    columns = [
        pa.array([_stored(step, cells)], pa.list_(_type(step)))
        for step, cells in zip(priced.steps, values, strict=True)
    ]
    return table_bytes(pa.table(columns, names=[f"step_{i}" for i in range(len(columns))]))


def _type(calibrated: Calibrated) -> pa.DataType:
    """Choose the Arrow type in which the numbers or keys of a step are stored."""
    import pyarrow as pa

    if isinstance(calibrated.step.query, Keys):
        return pa.list_(pa.string())
    return pa.int64() if calibrated.width < 2**63 else pa.decimal128(38, 0)


def _stored(calibrated: Calibrated, cells: tuple[Any, ...]) -> list[Any]:
    """Turn the released cells of a step into values of the Arrow type that `_type` chose."""
    if isinstance(calibrated.step.query, Keys):
        return [list(labels) for labels in cells]
    return list(cells) if calibrated.width < 2**63 else [Decimal(cell) for cell in cells]


def load_libraries() -> None:
    """Makes pyarrow and the noise import what they need (pandas, mpmath) before a charge.

    After it, a failing import would be an incident, and while Python ends some imports fail.
    """
    import mpmath.ctx_iv  # noqa: F401
    import pyarrow as pa

    pa.array([0])


def table_bytes(table: pa.Table) -> bytes:
    """Write an Arrow table as the bytes of an Arrow stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(stream: bytes) -> Values:
    """Read the values of a stored release: a tuple for each step, of integers or of keys."""
    import pyarrow as pa

    table = pa.ipc.open_stream(stream).read_all()
    return tuple(
        tuple(tuple(cell) if isinstance(cell, list) else int(cell) for cell in column[0].as_py())
        for column in table.columns
    )
