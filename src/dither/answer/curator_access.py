"""What a connection asks of the curator of one dataset, whatever lies between the two.

`embedded.py` asks a kernel in this process, `remote/` sends messages to a curator in another one.
Everything else of a question (reading, binding, offers, previews, tables, intervals) is the same
code on public facts and released values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from dither.answer.history import History
from dither.catalog import Catalog
from dither.plan.algebra import Cells, Plan
from dither.plan.analyse import NEWEST_RULES
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.release import Version
from dither.privacy.kernel.request import Price, Request
from dither.privacy.ledger import LedgerView, Pot
from dither.question.recipe import Recipe

if TYPE_CHECKING:
    import pyarrow as pa

    from dither.answer.leased import OpenFixedLease, OpenLease, OpenOnlineLease
    from dither.publish.lease_certificate import LeaseRemarks


class Pricer(Protocol):
    """What prices requests by public facts alone: a kernel, or the copy of its facts elsewhere."""

    @property
    def version(self) -> Version:
        """The registered version that requests are priced by."""

    @property
    def catalog(self) -> Catalog:
        """The catalog of that version."""

    def price_at(
        self, request: Request, view: LedgerView | None = None, rules: int = NEWEST_RULES
    ) -> Priced:
        """Mechanisms, loss and key of a request."""


@dataclass(frozen=True)
class AskedThrough:
    """How answers reach the asker, and by which name the asker is known: two lines of a result."""

    mode: str
    principal: str


class CuratorAccess(Protocol):
    """The curator of one dataset, as a connection sees it."""

    @property
    def kernel(self) -> Pricer:
        """What prices requests here; the curator prices each request again by itself."""

    @property
    def asked_through(self) -> AskedThrough:
        """The mode and the principal of this access."""

    def view(self, pot: str) -> LedgerView:
        """Read the terms of a pot, and take the newest registered version."""

    def has_answer(self, priced: Priced) -> bool:
        """Whether the answer to a priced request is stored, and so is free or cheap."""

    def release(self, priced: Priced, *, fresh: bool, sql: str | None) -> Release:
        """Charge for a request, measure it and store the answer; or hand out the stored one.

        `sql` is the text of the question, kept beside the ledger as a remark.
        """

    def list_earlier(self, view: LedgerView, plan: Plan) -> tuple[Release, ...]:
        """Releases over the rows of a plan that every pot on the path of a view paid for."""

    def read_public(self, table: str) -> pa.Table:
        """The rows of a public table as they were registered; refused where they are not sent."""

    def rehearse(self, request: Request) -> Release:
        """Answer a request on invented rows."""

    def open_lease(self, price: Price, pot: str) -> OpenLease:
        """Charge a pot for a lease, whose steps run in this process; refused to remote askers."""

    def open_fixed_lease(self, first: Request, steps: int) -> OpenFixedLease:
        """Charge a pot for steps of one loss, in this process; refused to remote askers."""

    def open_online_lease(
        self, price: Price, cells: Cells, total_share: Fraction, epochs: int, pot: str
    ) -> OpenOnlineLease:
        """Charge a pot for online answers, in this process; refused to remote askers."""

    def run_algorithm(self, name: str, terms: Mapping[str, Any], pot: str) -> str | None:
        """Run a named algorithm where the data is, as one job: the text of what it made.

        None where its steps can be released to this process one by one: the caller then runs it.
        """

    def list_pots(self) -> tuple[Pot, ...]:
        """All pots that the asker may see, by what was released until now."""

    def read_history(self, pot: str) -> History:
        """The releases that a pot paid for."""

    def certify(
        self, release: Release, recipe: Recipe, steps: tuple[str, ...], commitment: str
    ) -> dict[str, Any]:
        """The signed certificate of a release."""

    def certify_earlier(
        self, sources: tuple[Release, ...], recipe: Recipe, steps: tuple[str, ...], commitment: str
    ) -> dict[str, Any]:
        """The signed certificate of an answer that was computed from these releases alone."""

    def sign_lease(self, release_id: str, remarks: LeaseRemarks) -> dict[str, Any] | None:
        """The signed certificate of a lease that is over; None where none is given."""

    def name_commands(self, message: str) -> str:
        """A message with the commands that it names, as the reader can type them."""
