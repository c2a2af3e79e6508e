"""The curator of a dataset in this process: a kernel over the state folder beside the catalog.

It protects what is released, not the data from the person who runs it.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dither.answer.curator_access import AskedThrough
from dither.answer.earlier_releases import list_earlier_releases
from dither.answer.history import History, read_history
from dither.answer.question_log import read_questions, record_question
from dither.catalog import Catalog
from dither.catalog.explain import horizon
from dither.catalog.file.load import load
from dither.catalog.storage import catalog_hash
from dither.commands import CHARGED_IS_STORED, name_catalog, naming_catalog
from dither.errors import ParameterError, RefusedError
from dither.plan.algebra import Cells, Plan
from dither.privacy.kernel.kernel import DRY_RUN, Priced, Release
from dither.privacy.kernel.opening import open_kernel
from dither.privacy.kernel.request import Price, Request
from dither.privacy.ledger import LedgerView, Pot
from dither.privacy.ledger.reports import Reports
from dither.publish.budget import PotBalances
from dither.publish.certificate import EMBEDDED, CertificateMode, write_body
from dither.publish.derived import write_derived_body
from dither.publish.library import LIBRARY, NO_TOTAL
from dither.publish.seal import sign
from dither.publish.signing import ensure_signing_key
from dither.question.recipe import Recipe
from dither.rules import PrivacyRule
from dither.state import State

if TYPE_CHECKING:
    import pyarrow as pa

    from dither.answer.leased import OpenFixedLease, OpenLease, OpenOnlineLease
    from dither.publish.lease_certificate import LeaseRemarks
    from dither.steward.rehearsal import Rehearsals


@dataclass(frozen=True)
class AnswerRemarks:
    """What a certificate says of the answer that was computed from a release."""

    sql: str
    limits: tuple[str, ...]
    post_processing: tuple[str, ...]
    commitment: str


class EmbeddedCurator:
    """A registered dataset, opened by its catalog."""

    def __init__(
        self,
        catalog: str | Path | Catalog,
        state: str | Path | None = None,
        *,
        is_served: bool = False,
    ) -> None:
        """Open the dataset.

        Served, it follows what the steward registers, whatever the file says by then, and its
        messages name no path: they go to people on other machines.
        """
        written = catalog if isinstance(catalog, Catalog) else load(catalog)
        self._state = State.beside(Path(written.file), state)
        self._is_served = is_served
        self._file = Path("CATALOG" if is_served else written.file)
        with naming_catalog(self._file):
            self.kernel = open_kernel(self._state)
        self.reports = Reports.from_ledger(self.kernel.ledger)
        self._rehearsals: Rehearsals | None = None
        self._public_rows: dict[str, pa.Table] = {}
        self._public_rows_of: int | None = None
        self._catalog_hash = catalog_hash(written)
        self._check_catalog()

    @property
    def asked_through(self) -> AskedThrough:
        """Embedded mode, and the user of this computer."""
        return AskedThrough("embedded", getpass.getuser())

    def _check_catalog(self) -> None:
        """The catalog that this dataset was opened with is the registered one."""
        if not self._is_served and self.kernel.version.catalog_hash != self._catalog_hash:
            raise RefusedError(
                f"catalog changed since version {self.kernel.version.number}: run "
                f"'{name_catalog('dither register CATALOG', self._file)}', or connect again if it "
                "was registered just now",
                rule=PrivacyRule.CATALOG,
            )

    def view(self, pot: str) -> LedgerView:
        """What the ledger says about a pot. The newest registered version is read with it."""
        with naming_catalog(self._file):
            view = self.kernel.view(pot)
        self._check_catalog()
        return view

    def has_answer(self, priced: Priced) -> bool:
        """Whether the answer to a priced request is stored, for those who may repeat it.

        Where groups are kept apart, a pot is not told what the others have asked.
        """
        path = priced.view.path
        is_separate = bool(path) and path[-1].policy == "separate"
        return self.reports.has_answer(priced.key, priced.request.pot if is_separate else None)

    def release(self, priced: Priced, *, fresh: bool, sql: str | None) -> Release:
        """Release a request, or hand out the stored answer; a new text goes into the log."""
        try:
            with naming_catalog(self._file):
                if fresh:
                    release = self.kernel.release(priced.request)
                else:
                    release = self.kernel.answer(priced.request, priced.version.rules)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(CHARGED_IS_STORED)
            raise
        if sql is not None and not release.repeated:
            record_question(self._state.root, release.release_id, priced.request.pot, sql)
        return release

    def list_earlier(self, view: LedgerView, plan: Plan) -> tuple[Release, ...]:
        """Releases over the rows of a plan, from which a question may be answered for free."""
        return list_earlier_releases(self.kernel, self.reports, view, plan)

    def read_public(self, table: str) -> pa.Table:
        """The pinned rows of a public table; read once for each version."""
        from dither.answer.public_rows import decode_public_rows
        from dither.privacy.kernel.public_rows import read_public_rows

        version = self.kernel.version
        if self._public_rows_of != version.number:
            self._public_rows = {}
            self._public_rows_of = version.number
        if table not in self._public_rows:
            declared = version.catalog.table(table)
            rows = read_public_rows(self.kernel, version, declared.name)
            self._public_rows[table] = decode_public_rows(rows, declared, version.facts)
        return self._public_rows[table]

    def list_earlier_of(self, pot: str, plan: Plan) -> tuple[Release, ...]:
        """The same for one pot: releases that were asked from it."""
        view = self.view(pot)
        return list_earlier_releases(self.kernel, self.reports, view, plan, pot=pot)

    def rehearse(self, request: Request, longest_s: float | None = None) -> Release:
        """The request on an invented table; what invents it is imported for the first rehearsal.

        The engine has `longest_s` seconds for each statement; None is no limit.
        """
        if self._rehearsals is None:
            from dither.steward.rehearsal import Rehearsals

            self._rehearsals = Rehearsals()
        priced = self.kernel.price(replace(request, context=DRY_RUN))
        return self._rehearsals.rehearse(priced, longest_s)

    def open_lease(self, price: Price, pot: str) -> OpenLease:
        """Charge a pot for a lease, whose steps this process chooses as they come."""
        from dither.answer.leased import OpenLease

        return OpenLease(self.kernel, price, pot)

    def open_fixed_lease(self, first: Request, steps: int) -> OpenFixedLease:
        """Charge a pot for steps of one loss, whose queries this process chooses as they come."""
        from dither.answer.leased import OpenFixedLease

        return OpenFixedLease(self.kernel, first, steps)

    def check_fixed_lease(self, first: Request, steps: int) -> None:
        """Price and refuse a lease of fixed steps as opening it would; nothing is charged."""
        from dither.privacy.kernel.lease import state_plan

        state_plan(self.kernel, self.kernel.price(first).loss * steps, first.pot)

    def open_online_lease(
        self, price: Price, cells: Cells, total_share: Fraction, epochs: int, pot: str
    ) -> OpenOnlineLease:
        """Charge a pot for comparisons, whose estimates this process chooses as they come."""
        from dither.answer.leased import OpenOnlineLease

        return OpenOnlineLease(self.kernel, price, cells, total_share, epochs, pot)

    def run_algorithm(self, name: str, terms: Mapping[str, Any], pot: str) -> str | None:
        """None: the caller runs the algorithm, which takes its steps from a lease here."""
        return None

    def list_pots(self) -> tuple[Pot, ...]:
        """All pots, without the charges under way."""
        return self.reports.pots(under_way=False)

    def read_history(self, pot: str) -> History:
        """What was asked from a pot, with the texts of the questions."""
        questions = read_questions(self._state.root)
        return read_history(self.reports, pot, self.kernel.ledger.ensure_anchored, questions)

    def certify(
        self, release: Release, recipe: Recipe, steps: tuple[str, ...], commitment: str
    ) -> dict[str, Any]:
        """What was promised for a release, signed with the dataset's key."""
        limits = tuple(limit for atom in recipe.atoms for limit in atom.limits)
        remarks = AnswerRemarks(recipe.sql, limits, steps, commitment)
        return self.sign_release(release, remarks, EMBEDDED)

    def certify_earlier(
        self, sources: tuple[Release, ...], recipe: Recipe, steps: tuple[str, ...], commitment: str
    ) -> dict[str, Any]:
        """What was promised for the releases that an answer was computed from, signed."""
        limits = tuple(limit for atom in recipe.atoms for limit in atom.limits)
        remarks = AnswerRemarks(recipe.sql, limits, steps, commitment)
        return self.sign_earlier(sources, remarks, recipe.plan_hash, EMBEDDED)

    def sign_earlier(
        self,
        sources: tuple[Release, ...],
        remarks: AnswerRemarks,
        plan_hash: str,
        mode: CertificateMode,
    ) -> dict[str, Any]:
        """The certificate of an answer from these releases: what they promise together."""
        release = sources[0]
        signed = self.sign_release(release, remarks, mode)
        total = self.reports.path(release.priced.request.pot)[-1]
        body = write_derived_body(signed["body"], sources, total, plan_hash)
        return sign(body, ensure_signing_key(self._state))

    def sign_release(
        self, release: Release, remarks: AnswerRemarks, mode: CertificateMode
    ) -> dict[str, Any]:
        """The certificate of a release: what the ledger knows, and the remarks on its answer."""
        if release.version.context == DRY_RUN:
            raise ParameterError(
                "a dry run is about nobody and promises nothing: ask without dry_run=True"
            )
        if release.version.context == LIBRARY:
            raise ParameterError(f"{NO_TOTAL}: register the data: dither quickstart --help")
        mode = replace(mode, not_promised=(*mode.not_promised, *self._list_losses()))
        balances = PotBalances(self.list_pots(), horizon=horizon(self.kernel.catalog))
        pots = {pot.name: pot for pot in balances.pots}
        path = self.reports.path(release.priced.request.pot)
        body = write_body(
            release,
            remarks.sql,
            remarks.limits,
            tuple(pots[pot.name] for pot in path),
            self.reports.incidents(),
            remarks.post_processing,
            balances.person(),
            remarks.commitment,
            mode,
        )
        return sign(body, ensure_signing_key(self._state))

    def sign_lease(self, release_id: str, remarks: LeaseRemarks) -> dict[str, Any] | None:
        """The certificate of a lease that is over; None for a frame, which promises no total, and
        where the ledger does not know a release that the lease's result was made from."""
        from dither.publish.lease_certificate import write_lease_body

        version = self.kernel.version
        records = {record.release_id: record for record in self.reports.history()}
        record = records[release_id]
        if not records.keys() >= {*remarks.sources}:
            return None
        if version.context == LIBRARY or record.public["version"] != version.number:
            return None
        mode = replace(EMBEDDED, not_promised=(*EMBEDDED.not_promised, *self._list_losses()))
        balances = PotBalances(self.list_pots(), horizon=horizon(self.kernel.catalog))
        pots = {pot.name: pot for pot in balances.pots}
        path = tuple(pots[pot.name] for pot in self.reports.path(record.pot))
        incidents = self.reports.incidents()
        person = balances.person()
        sources = tuple(records[source] for source in remarks.sources)
        body = write_lease_body(record, version, remarks, path, incidents, person, mode, sources)
        return sign(body, ensure_signing_key(self._state))

    def _list_losses(self) -> list[str]:
        """What certificates say of entries that a restore could not bring back."""
        return [
            f"entries {first} to {'an unknown last one' if last is None else last} of the ledger "
            "were lost: what they released is not counted, and every budget was closed then"
            for first, last in self.reports.losses()
        ]

    def name_commands(self, message: str) -> str:
        """A message whose commands name this catalog's file."""
        return name_catalog(message, self._file)
