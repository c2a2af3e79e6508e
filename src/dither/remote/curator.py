"""A curator in another process, as a connection sees it.

Public facts are fetched once for each registered version; questions are bound, priced and previewed
here by the same code as in the curator. A release is asked for under the key that was computed
here, so that an answer about other facts than the preview's is never bought.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from dither.answer.curator_access import AskedThrough
from dither.answer.earlier_releases import list_measured_cells
from dither.answer.history import History, PaidRelease
from dither.answer.leased import OpenFixedLease, OpenLease, OpenOnlineLease
from dither.canonical import digest
from dither.catalog import Catalog
from dither.errors import DitherError, ParameterError
from dither.plan.algebra import Cells, Plan
from dither.plan.analyse import NEWEST_RULES
from dither.privacy.kernel.kernel import DRY_RUN, Priced, Release, Values, price_request
from dither.privacy.kernel.release import Version
from dither.privacy.kernel.request import Price, Request
from dither.privacy.ledger import LedgerView, Pot
from dither.privacy.noise.source import fresh_bytes
from dither.protocol import documents, messages, page_messages
from dither.protocol.errors import BusyError
from dither.protocol.job_messages import (
    FitTerms,
    JobDone,
    JobTerms,
    LinkedTerms,
    RunJob,
    SynthesizeTerms,
)
from dither.question.recipe import Recipe
from dither.remote.certificates import check_certificate, check_derived_certificate
from dither.remote.transport import Transport


class RemoteFacts:
    """The public facts of a dataset: what the curator's kernel prices by."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._views: dict[str, LedgerView] = {}
        self.fetch()

    def fetch(self) -> None:
        """Read the newest registered version."""
        document = self._transport.call(messages.ReadFacts(), messages.PublicFacts)
        self.version: Version = documents.read_version(document)
        self.principal = document.principal
        self.mode = document.mode

    @property
    def catalog(self) -> Catalog:
        """The registered catalog."""
        return self.version.catalog

    def view(self, pot: str) -> LedgerView:
        """The terms of a pot and of all that it is inside of; a newer version is fetched."""
        document = self._transport.call(messages.ReadView(pot=pot), messages.PotView)
        if document.version != self.version.number:
            self.fetch()
        windows = None
        if document.windows is not None:
            windows = (documents.read_pot(document.windows), ())
        view = LedgerView(None, tuple(map(documents.read_pot, document.path)), windows)
        self._views[pot] = view
        return view

    def find_view(self, pot: str) -> LedgerView | None:
        """The terms that were read before, where the pot was open: terms never change."""
        view = self._views.get(pot)
        return view if view is not None and view.path else None

    def price_at(
        self, request: Request, view: LedgerView | None = None, rules: int = NEWEST_RULES
    ) -> Priced:
        """Price a request by the public facts. The curator prices it again by itself."""
        view = self.view(request.pot) if view is None else view
        return price_request(request, self.version, view, rules)


class RemoteCurator:
    """The curator of one dataset, reached by calls."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._idempotency_key: str | None = None
        self._releases = 0
        self.uses_kept_views = False
        self.has_released = False
        self._signing_key: str | None = None
        self._lost_jobs: dict[str, str] = {}
        self._pots_ahead: Future[tuple[Pot, ...]] | None = None
        self.kernel = RemoteFacts(transport)

    def name_next_ask(self, idempotency_key: str | None) -> None:
        """Give the next question a key: sent again under the same one, it is bought once."""
        self._idempotency_key = idempotency_key
        self._releases = 0
        self.has_released = False

    def _make_release_key(self) -> str:
        """The key of the next release; a question over answers is several releases, in order."""
        if self._idempotency_key is None:
            return fresh_bytes(16).hex()
        self._releases += 1
        return f"{self._idempotency_key}:{self._releases}"

    @property
    def asked_through(self) -> AskedThrough:
        """The mode of the curator, and the principal that it takes the asker for."""
        return AskedThrough(self.kernel.mode, self.kernel.principal.name)

    @property
    def first_pot(self) -> str:
        """The pot that the token asks from, where none is named."""
        pots = self.kernel.principal.pots
        return pots[0] if pots else "total"

    def view(self, pot: str) -> LedgerView:
        """Read the terms of a pot, and take the newest registered version.

        With `uses_kept_views` those that were read before, which saves a call: where a version was
        registered since, the curator refuses the release under its old key, for free.
        """
        kept = self.kernel.find_view(pot) if self.uses_kept_views else None
        return self.kernel.view(pot) if kept is None else kept

    def has_answer(self, priced: Priced) -> bool:
        """Whether the curator has stored the answer to a request."""
        call = messages.PriceRequest(
            request=documents.write_request(priced.request), rules=priced.version.rules
        )
        return self._transport.call(call, messages.PricedRequest).stored

    def release(self, priced: Priced, *, fresh: bool, sql: str | None) -> Release:
        """Ask the curator for a release."""
        call = messages.ReleaseRequest(
            request=documents.write_request(priced.request),
            rules=priced.version.rules,
            key=priced.key,
            fresh=fresh,
            remark=sql,
            idempotency_key=self._make_release_key(),
        )
        answer = self._transport.call(call, messages.ReleasedAnswer)
        self.has_released = True
        return documents.read_release(answer, priced)

    def list_earlier(self, view: LedgerView, plan: Plan) -> tuple[Release, ...]:
        """Releases over the rows of a plan that were asked from the pot of a view.

        Each is priced again here: one whose key differs, for whatever reason, is no source.
        """
        if not view.path:
            return ()
        rows = documents.write_rows(plan)
        call = messages.ReadSources(pot=view.path[0].name, rows=rows)
        reply = self._transport.call(call, messages.EarlierReleases)
        sources = []
        for document in reply.sources:
            with suppress(DitherError):
                priced = self.kernel.price_at(documents.read_request(document.request), view)
                if priced.key == document.key:
                    sources.append(documents.read_release(document.release, priced))
        return tuple(sources)

    def certify_earlier(
        self, sources: tuple[Release, ...], recipe: Recipe, steps: tuple[str, ...], commitment: str
    ) -> dict[str, Any]:
        """The curator's certificate of an answer from earlier releases, checked against them."""
        call = messages.CertifySources(
            pot=sources[0].priced.request.pot,
            rows=documents.write_rows(_find_common_rows(sources)),
            release_ids=[source.release_id for source in sources],
            plan_hash=recipe.plan_hash,
            remarks=_write_remarks(recipe, steps, commitment),
        )
        certificate = self._transport.call(call, messages.SignedCertificate).certificate
        self._signing_key = check_derived_certificate(
            certificate, sources, commitment, self._signing_key
        )
        return certificate

    def read_public(self, table: str) -> pa.Table:
        """Refuse: rows of public tables are not sent."""
        raise ParameterError(
            f"a served dataset sends no rows of public tables: join {table} to the private table "
            "inside the question that is answered with noise, or join the answer to your own copy"
        )

    def rehearse(self, request: Request) -> Release:
        """The request on rows that the curator invents from the catalog."""
        call = messages.RehearseRequest(request=documents.write_request(request))
        answer = self._transport.call(call, messages.ReleasedAnswer)
        priced = self.kernel.price_at(replace(request, context=DRY_RUN))
        return documents.read_release(answer, priced)

    def open_lease(self, price: Price, pot: str) -> OpenLease:
        """Refuse: the steps of a lease are not sent one by one."""
        raise _refuse_lease()

    def open_fixed_lease(self, first: Request, steps: int) -> OpenFixedLease:
        """Refuse: the steps of a lease are not sent one by one."""
        raise _refuse_lease()

    def open_online_lease(
        self, price: Price, cells: Cells, total_share: Fraction, epochs: int, pot: str
    ) -> OpenOnlineLease:
        """Refused: comparisons over a wire would show when each of them was made."""
        raise _refuse_lease()

    def run_algorithm(self, name: str, terms: Mapping[str, Any], pot: str) -> str | None:
        """Send a named algorithm as one job, and return the text of what it made.

        Where its reply was lost, nobody here can tell whether it was charged: the same job again is
        sent under the same key, and is given what the first one made.
        """
        written = _write_terms(name, terms)
        question = digest([pot, written.model_dump()])
        key = self._lost_jobs.pop(question, None) or self._make_release_key()
        job = RunJob(pot=pot, terms=written, idempotency_key=key)
        try:
            return self._transport.call(job, JobDone).document
        except (BusyError, KeyboardInterrupt):
            self._lost_jobs[question] = key
            raise

    @contextmanager
    def reading_pots_ahead(self, readers: Executor) -> Iterator[None]:
        """Ask for the pots at once: the first `list_pots` of the block waits for that reply."""
        self._pots_ahead = readers.submit(self._read_pots)
        try:
            yield
        finally:
            self._pots_ahead = None

    def list_pots(self) -> tuple[Pot, ...]:
        """The pots that the asker may see."""
        ahead = self._pots_ahead
        self._pots_ahead = None
        return self._read_pots() if ahead is None else ahead.result()

    def _read_pots(self) -> tuple[Pot, ...]:
        budget = self._transport.call(messages.ReadBudget(), messages.VisiblePots)
        return tuple(map(documents.read_pot, budget.pots))

    def read_status(self) -> page_messages.DatasetStatus:
        """Who the asker is now, and since when budgets are suspended."""
        return self._transport.call(page_messages.ReadStatus(), page_messages.DatasetStatus)

    def read_history(self, pot: str) -> History:
        """The releases that a pot paid for, all pages."""
        releases: list[PaidRelease] = []
        while True:
            page = self.read_history_page(pot, len(releases), messages.MOST_PAGE)
            releases += map(_read_paid_release, page.releases)
            if len(releases) >= page.total or not page.releases:
                return History(pot, tuple(releases), lambda name: self._read_values(pot, name))

    def read_history_page(self, pot: str, start: int, count: int) -> messages.HistoryPage:
        """One page of the releases that a pot paid for."""
        call = messages.ReadHistory(pot=pot, start=start, count=count)
        return self._transport.call(call, messages.HistoryPage)

    def _read_values(self, pot: str, release_id: str) -> Values:
        call = messages.ReadValues(pot=pot, release_id=release_id)
        return documents.read_values(self._transport.call(call, messages.ReleasedValues).values)

    def certify(
        self, release: Release, recipe: Recipe, steps: tuple[str, ...], commitment: str
    ) -> dict[str, Any]:
        """The curator's certificate of a release, with what is told here about its answer.

        It is checked against the answer: whoever passed it on could have sent another one.
        """
        if release.version.context == DRY_RUN:
            raise ParameterError(
                "a dry run is about nobody and promises nothing: ask without dry_run=True"
            )
        call = messages.CertifyRelease(
            request=documents.write_request(release.priced.request),
            rules=release.version.rules,
            release_id=release.release_id,
            remarks=_write_remarks(recipe, steps, commitment),
        )
        certificate = self._transport.call(call, messages.SignedCertificate).certificate
        self._signing_key = check_certificate(certificate, release, commitment, self._signing_key)
        return certificate

    def sign_lease(self, release_id: str, remarks: object) -> None:
        """None: a served dataset signs certificates of releases alone."""

    def name_commands(self, message: str) -> str:
        """The message as it is: only the steward's machine has the file of the catalog."""
        return message


class StoredAnswers(RemoteCurator):
    """A curator of which only stored answers are asked: nothing that it is asked for can charge."""

    def list_earlier(self, view: LedgerView, plan: Plan) -> tuple[Release, ...]:
        """None: an answer that is computed from others is not a stored one."""
        return ()

    def release(self, priced: Priced, *, fresh: bool, sql: str | None) -> Release:
        """The stored answer to a request; ParameterError where there is none."""
        if fresh:
            raise ParameterError("a new answer is bought by asking: this reads stored ones alone")
        call = messages.ReadStored(
            request=documents.write_request(priced.request),
            rules=priced.version.rules,
            key=priced.key,
        )
        answer = self._transport.call(call, messages.ReleasedAnswer)
        return documents.read_release(answer, priced)


def _read_paid_release(document: messages.PaidReleaseDocument) -> PaidRelease:
    numbers = {
        "charged": documents.read_number(document.charged),
        "delta": documents.read_number(document.delta),
    }
    price = documents.read_price(document.price)
    return PaidRelease(**{**document.model_dump(), **numbers, "price": price})


def _find_common_rows(sources: tuple[Release, ...]) -> Plan:
    """Rows that every source measured."""
    plans = [
        {cells.plan.hash: cells.plan for _, cells in list_measured_cells(source)}
        for source in sources
    ]
    common = set(plans[0]).intersection(*plans)
    return plans[0][min(common)]


def _write_remarks(recipe: Recipe, steps: tuple[str, ...], commitment: str) -> messages.Remarks:
    """What this side tells about an answer."""
    return messages.Remarks(
        sql=recipe.sql,
        limits=[limit for atom in recipe.atoms for limit in atom.limits],
        post_processing=list(steps),
        commitment=commitment,
    )


def _refuse_lease() -> ParameterError:
    return ParameterError(
        "a served dataset opens no leases: their steps would show when each was measured. Send "
        "steps that are fixed as one job, con.run_job([...]), use con.synthesize or fit_table, or "
        "run the algorithm where the dataset is, with dither.connect(CATALOG)"
    )


def _write_terms(name: str, terms: Mapping[str, Any]) -> JobTerms:
    """The terms of an algorithm as a message; ParameterError where they do not fit in one."""
    try:
        if name == "synthesize":
            return SynthesizeTerms(**terms)
        if name == "synthesize_linked":
            return LinkedTerms(**terms)
        return FitTerms(**{**terms, "rows": documents.write_rows(terms["rows"])})
    except ValidationError:
        raise ParameterError(
            "names of columns, labels and parameters are too long or too many for one message"
        ) from None
