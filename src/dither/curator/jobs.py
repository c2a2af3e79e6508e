"""Named algorithms that run in the curator as one job: synthetic tables, and models of tables.

An algorithm is handed public facts and one lease, and never a row; what it makes follows from the
noisy numbers of that lease. What can be refused by public facts is refused before the job holds the
dataset, by a run that ends where it would charge.

How long a synthetic table takes depends on its noisy numbers. Where answers leave on a schedule it
is ended in time (`TimedLease`): the charge stays, an incident is counted, and the response is the
constant one, as where the engine is stopped. How long a training takes follows from public facts,
and one that may take too long is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from types import TracebackType
from typing import TypeVar

from dither.answer.asked import read_epsilon, read_rho
from dither.answer.leased import (
    LeaseDoor,
    OpenFixedLease,
    OpenLease,
    find_question_delta,
    write_request,
)
from dither.canonical import Number, digest, exact
from dither.catalog import Catalog
from dither.curator.ask_log import AskLog, KeptJob
from dither.curator.work_bounds import check_step, check_training
from dither.embedded import EmbeddedCurator
from dither.errors import DitherError, ParameterError, UnavailableError
from dither.plan.algebra import Query
from dither.plan.analyse import analyse
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request
from dither.privacy.ledger import LedgerView
from dither.protocol.documents import read_rows
from dither.protocol.errors import report_fault
from dither.protocol.job_messages import FitTerms, LinkedTerms, RunJob, SynthesizeTerms
from dither.strict_json import read_document

Lease = TypeVar("Lease", bound=LeaseDoor)
_SYNTH = "dither.synth.asking"
MOST_STEPS = 5_000
"""Steps of the training of one job: each reads the data once."""

_ODD_PARAMETERS = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


class ChargeReachedError(Exception):
    """All checks of a job have passed, and it would be charged now."""


@dataclass(frozen=True)
class DoneJob:
    """What a job made, and whether it was made before, under the same key."""

    made: KeptJob
    repeated: bool


def import_algorithm(call: RunJob) -> None:
    """Import what a job runs: the first job is then checked in the time that every other takes."""
    try:
        import_module("dither.learn.jobs" if isinstance(call.terms, FitTerms) else _SYNTH)
    except ImportError:
        raise DitherError(
            "this curator trains no models: its administrator runs pip install 'dither[learn]'"
        ) from None


def check_job(call: RunJob, curator: EmbeddedCurator, longest_s: float | None = None) -> None:
    """Refuse a job that public facts forbid, or whose training may take more than `longest_s`.

    Nothing is charged or read. So an error that an algorithm raises for odd parameters, such as a
    text in place of a number, is a refusal of these and no fault of the curator.
    """
    try:
        _run(call, JobAccess(curator, call.pot, may_charge=False, longest_s=longest_s))
    except ChargeReachedError:
        return
    except DitherError:
        raise
    except _ODD_PARAMETERS as error:
        report_fault(error)
        raise ParameterError(
            "this algorithm cannot use these columns and parameters: compare their types with "
            "those in its reference; nothing was charged"
        ) from None
    raise ParameterError("this job measures nothing")


def run_once(
    call: RunJob,
    curator: EmbeddedCurator,
    asks: AskLog,
    token_id: str,
    longest_s: float | None = None,
) -> DoneJob:
    """Run a job, unless one ran under its key: then what that one made is returned again.

    A synthetic table that is not made within `longest_s` seconds is a failure. Once a job is
    charged, every failure has the one constant response, and its key stays: sent again it is told
    the same, and charges nothing.
    """
    key = call.idempotency_key
    question = digest([curator.kernel.catalog.dataset, hash_job(call)])
    if not asks.begin_ask(token_id, key, question):
        made = asks.find_job(token_id, key)
        if made is None:
            raise UnavailableError
        return DoneJob(made, repeated=True)
    access = JobAccess(curator, call.pot, may_charge=True, longest_s=longest_s)
    try:
        document = _run(call, access)
    except Exception as error:
        is_refusal = isinstance(error, DitherError) and not isinstance(error, UnavailableError)
        if not access.is_charged:
            if is_refusal:
                asks.forget_ask(token_id, key)
            raise
        if not isinstance(error, UnavailableError):
            report_fault(error)
        document = None
    if document is None:
        # raised out here, so that neither cause nor frames travel with the constant response
        raise UnavailableError
    made = KeptJob(document, access.release_id)
    asks.keep_job(token_id, key, made)
    return DoneJob(made, repeated=False)


def hash_job(call: RunJob) -> str:
    """The hash of a job, by which the access log names it."""
    return digest(call.model_dump(exclude={"idempotency_key"}))


def _run(call: RunJob, access: JobAccess) -> str:
    if isinstance(call.terms, SynthesizeTerms):
        return _synthesize(call.terms, access)
    if isinstance(call.terms, LinkedTerms):
        return _synthesize_linked(call.terms, access)
    return _fit(call.terms, access)


def _synthesize(terms: SynthesizeTerms, access: JobAccess) -> str:
    from dither.synth.asking import SynthAsker
    from dither.synth.deadline import end_within
    from dither.synth.stored_model import write_model

    asker = SynthAsker(access, access.pot, access.view(access.pot))
    with end_within(access.longest_s):
        return write_model(asker.run(terms.model_dump(exclude={"algorithm"})))


def _synthesize_linked(terms: LinkedTerms, access: JobAccess) -> str:
    from dither.synth.asking import SynthAsker
    from dither.synth.deadline import end_within
    from dither.synth.stored_model import write_pair

    asker = SynthAsker(access, access.pot, access.view(access.pot))
    with end_within(access.longest_s):
        return write_pair(asker.run_linked(terms.model_dump(exclude={"algorithm"})))


def _fit(terms: FitTerms, access: JobAccess) -> str:
    from dither.learn.jobs import train_model

    plan = read_rows(terms.rows)
    rows = (plan, analyse(plan, access.catalog).columns)
    text = terms.parameters
    parameters = read_document(text, "the text of parameters", allow_floats=True)
    return train_model(access, terms.estimator, parameters, rows, terms.target, terms.columns)


class UnpaidLease(OpenLease):
    """A lease that is not charged: its first step is priced, and then the check of a job ends.

    So a step that the budget or the catalog forbids is refused before the charge.
    """

    def __init__(self, kernel: Kernel, price: Price, pot: str, longest_s: float | None) -> None:
        self._kernel = kernel
        self._pot = pot
        self._price = price
        self._longest_s = longest_s

    @property
    def left(self) -> Fraction:
        """What the steps would cost together."""
        return self._price.value

    @property
    def charged(self) -> Fraction:
        """Nothing."""
        return Fraction(0)

    @property
    def release_id(self) -> str:
        """No name: what was not charged is not in the history."""
        return ""

    def release(
        self,
        query: Query,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        family: str | None = None,
    ) -> tuple[int, ...]:
        """Price a step as a charged lease would, and end the check."""
        price = Price(read_epsilon(epsilon), read_rho(rho))
        allow_epsilon_only = self._price.rho is None
        request = write_request(query, price, self._pot, family, allow_epsilon_only)
        check_step(self._kernel.price(request), self._longest_s)
        raise ChargeReachedError

    def close(self) -> None:
        """Nothing was charged, and nothing is stored."""


class TimedLease(OpenLease):
    """A lease that fails as an incident where its job takes longer than its slots allow."""

    def release(
        self,
        query: Query,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        family: str | None = None,
    ) -> tuple[int, ...]:
        """Release a step; the engine has as much time for it as is left of the job's."""
        from dither.synth.deadline import count_seconds_left

        self._kernel.engine_limit_s = count_seconds_left()
        return super().release(query, epsilon=epsilon, rho=rho, family=family)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """Close the lease; past the time of its job nothing is stored, and that is an incident."""
        from dither.synth.deadline import DeadlineError

        if isinstance(error, DeadlineError):
            self.fail(error)
        super().__exit__(kind, error, frames)


class JobAccess:
    """What an algorithm asks of the curator: public facts, and leases of one pot."""

    def __init__(
        self,
        curator: EmbeddedCurator,
        pot: str,
        *,
        may_charge: bool,
        longest_s: float | None = None,
    ) -> None:
        self._curator = curator
        self._may_charge = may_charge
        self.longest_s = longest_s
        self.pot = pot
        self.release_id = ""

    @property
    def kernel(self) -> Kernel:
        """What prices requests."""
        return self._curator.kernel

    @property
    def catalog(self) -> Catalog:
        """The registered catalog."""
        return self._curator.kernel.catalog

    @property
    def is_charged(self) -> bool:
        """Whether a lease was opened: from then on the charge stays."""
        return bool(self.release_id)

    def view(self, pot: str) -> LedgerView:
        """The terms of a pot."""
        return self._curator.view(pot)

    @property
    def question_delta(self) -> Fraction:
        """The smallest delta that a pot of the path takes for one question; 0 where none does."""
        return find_question_delta(self.view(self.pot).path)

    def open_lease(self, price: Price, pot: str) -> OpenLease:
        """Charge the pot for a lease; in a check, one whose first step is priced and no more."""
        if not self._may_charge:
            return UnpaidLease(self.kernel, price, pot, self.longest_s)
        if self.longest_s is None:
            return self._note(self._curator.open_lease(price, pot))
        return self._note(TimedLease(self.kernel, price, pot))

    def run_algorithm(self, name: str, terms: Mapping[str, object], pot: str) -> str | None:
        """None: the algorithm runs here."""
        return None

    def sign_lease(self, release_id: str, remarks: object) -> None:
        """None: a served dataset signs certificates of releases alone."""

    def fixed_lease(self, query: Query, *, rho: Number, steps: int) -> OpenFixedLease:
        """Charge the pot for so many steps of the loss of this query."""
        if steps > MOST_STEPS:
            raise ParameterError(
                f"a job trains with at most {MOST_STEPS:,} steps, got {steps:,}: set steps lower"
            )
        first: Request = write_request(query, Price(rho=exact(rho, "rho")), self.pot, None, False)
        if not self._may_charge:
            self._curator.check_fixed_lease(first, steps)
            check_training(query, self.kernel.version.analyses, steps, self.longest_s)
        self._check_charge()
        return self._note(self._curator.open_fixed_lease(first, steps))

    def _check_charge(self) -> None:
        if not self._may_charge:
            raise ChargeReachedError

    def _note(self, lease: Lease) -> Lease:
        self.release_id = lease.release_id
        return lease
