"""For algorithms: queries of the kernel out of one charge, one after the other or as one job.

Choose what to ask next from what was answered so far. `OpenLease` prices its steps as they come
(select, measure, reconstruct); `OpenFixedLease` has a fixed number of steps of one price, paid
together (training). What comes back is noisy, so whatever is computed from it is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log
from types import TracebackType
from typing import Any, TypeVar

from dither.answer.asked import read_epsilon, read_rho
from dither.answer.explain import ExplainedStep, explain_step
from dither.answer.offered_families import choose_family
from dither.canonical import Number, exact
from dither.errors import ParameterError
from dither.plan.algebra import Cells, Keys, Linear, Query
from dither.plan.operators import LinearOperator
from dither.privacy.kernel.budget_lease import BudgetLease
from dither.privacy.kernel.families import FAMILIES, Measure
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.lease import Lease
from dither.privacy.kernel.online_lease import OnlineLease, ThresholdEpoch
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger import Pot
from dither.privacy.ledger.records import public_id

Door = TypeVar("Door", bound="LeaseDoor")
MOST_STEPS = 10**7


class LeaseDoor:
    """What both kinds of leases share: a charge on record, and an end that stores what left."""

    _lease: Lease

    @property
    def charged(self) -> Fraction:
        """What the pot paid for the whole lease, in the measure of its rule."""
        return self._lease.reservation.charge

    @property
    def release_id(self) -> str:
        """What the lease is called in history."""
        return public_id(self._lease.reservation.hash)

    def close(self) -> None:
        """Store what was released; nothing is paid back."""
        self._lease.close()

    def fail(self, error: BaseException) -> None:
        """End the lease with an incident: nothing is stored or paid back."""
        self._lease.fail(error)

    def __enter__(self: Door) -> Door:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        """Close the lease, whatever happened in the block."""
        self.close()


@dataclass(frozen=True)
class JobStep:
    """A step of a job: a query, its share of the price beside the others, and a mechanism.

    Without a `family`, it is the first mechanism that fits the price.
    """

    query: Query
    share: Number = 1
    family: str | None = None


def write_job(steps: Sequence[JobStep], price: Price, pot: str) -> Request:
    """The request of a job: all steps are fixed before the first is measured."""
    return Request(
        tuple(
            Step(step.query, _choose_family(step, price), exact(step.share, "a share"))
            for step in steps
        ),
        price,
        pot,
    )


def _choose_family(step: JobStep, price: Price) -> str:
    if step.family is not None:
        return _check_family(step.family)
    measure: Measure = "rho" if price.epsilon is None else "epsilon"
    return choose_family(step.query, measure, False).name


def _check_family(name: str) -> str:
    if name not in FAMILIES:
        raise ParameterError(f"no family {name!r}: there are {', '.join(FAMILIES)}")
    return name


class OpenLease(LeaseDoor):
    """`with con.lease(rho=0.5) as lease: noisy = lease.release(query, rho=0.1)`."""

    _lease: BudgetLease

    def __init__(self, kernel: Kernel, price: Price, pot: str) -> None:
        """Charge the pot for the whole lease."""
        self._kernel = kernel
        self._pot = pot
        self._lease = BudgetLease(kernel, price, pot)

    @property
    def left(self) -> Fraction:
        """What further steps may cost together."""
        return self._lease.left

    def release(
        self,
        query: Query,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        family: str | None = None,
    ) -> tuple[int, ...]:
        """The noisy numbers of one query, or the position of a chosen candidate.

        A step that is refused costs nothing and may be asked again for less. `family` names the
        mechanism, such as "linear_rounded_gaussian"; else it is the first that fits the price.
        """
        (values,) = self._lease.release(self._request(query, epsilon, rho, family))
        return values

    def explain(
        self,
        query: Query,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        family: str | None = None,
    ) -> ExplainedStep:
        """What a step would do: plan, sensitivity, mechanism and scale. Reads no data and spends
        nothing."""
        return _explain(self._kernel, self._request(query, epsilon, rho, family))

    def _request(
        self, query: Any, epsilon: Number | None, rho: Number | None, family: str | None
    ) -> Request:
        price = Price(read_epsilon(epsilon), read_rho(rho))
        return write_request(query, price, self._pot, family, self._lease.counts_epsilon)


class OpenFixedLease(LeaseDoor):
    """`with con.fixed_lease(query, rho=0.01, steps=100) as lease: lease.release(next_query)`."""

    def __init__(self, kernel: Kernel, first: Request, steps: int) -> None:
        """Charge the pot of the first request for so many steps of its loss.

        The losses are fixed, so the pot pays what its rule knows of all of them together.
        """
        if type(steps) is not int or not 1 <= steps <= MOST_STEPS:
            raise ParameterError(
                f"steps is a number from 1 to {MOST_STEPS:,}, got {steps!r}: choose e.g. 100"
            )
        self._kernel = kernel
        self._first = first
        priced = kernel.price(first)
        self._lease = Lease(kernel, priced.loss * steps, first.pot, priced.version)

    def release(self, query: Query) -> tuple[int, ...]:
        """The noisy numbers of the next step. A query of another loss than the planned one is
        refused, costs nothing, and another may be asked."""
        (values,) = self._lease.release(self._request(query))
        return values

    def explain(self, query: Query) -> ExplainedStep:
        """What a step would do: plan, sensitivity, mechanism and scale. Reads no data and spends
        nothing."""
        return _explain(self._kernel, self._request(query))

    def _request(self, query: Query) -> Request:
        (step,) = self._first.steps
        return Request((Step(query, step.family, Fraction(1)),), self._first.price, self._first.pot)


class OpenOnlineLease(LeaseDoor):
    """Comparisons of estimates with sums of cells, and the noisy sums of those that do not fit."""

    _lease: OnlineLease

    def __init__(
        self,
        kernel: Kernel,
        price: Price,
        cells: Cells,
        total_share: Fraction,
        epochs: int,
        pot: str,
    ) -> None:
        """Charge the pot for the total and all epochs."""
        self._pot = pot
        self._cells = cells
        self._total_price = Price(price.value * total_share)
        epoch_price = price.value * (1 - total_share) / epochs
        self._lease = OnlineLease(kernel, price, cells, epoch_price, pot)

    @property
    def epoch(self) -> ThresholdEpoch:
        """The noises of every epoch."""
        return self._lease.epoch

    @property
    def updates_left(self) -> int:
        """How many sums can still be measured."""
        return self._lease.epochs_left

    def set_threshold(self, threshold: int) -> None:
        """The public threshold of all epochs that open from now on."""
        self._lease.set_threshold(threshold)

    def measure_total(self) -> tuple[int, ...]:
        """The noisy sum of all cells."""
        total = Cells(self._cells.plan, (), self._cells.columns)
        step = Step(total, "laplace", Fraction(1))
        (values,) = self._lease.release(Request((step,), self._total_price, self._pot))
        return values

    def compare(self, operator: LinearOperator, estimate: int) -> tuple[int, ...]:
        """() where an estimate of one sum fits, else the noisy sum."""
        step = Step(Linear(self._cells, operator), "linear_laplace", Fraction(1))
        return self._lease.compare(Request((step,), self._total_price, self._pot), estimate)

    def find_value_half_width(self, level: float) -> float:
        """Half the width of the interval of a measured sum."""
        return ceil(float(self.epoch.value_scale) * log(1 / (1 - level)))


def find_question_delta(path: Sequence[Pot]) -> Fraction:
    """The smallest delta that a pot of a path takes for one question; 0 where none states one."""
    deltas = [pot.rule.delta_per_question for pot in path]
    return min((delta for delta in deltas if delta), default=Fraction(0))


def write_request(
    query: Any, price: Price, pot: str, family: str | None, allow_epsilon_only: bool
) -> Request:
    """One query as a request of one step, by the named family or the first that fits the price."""
    if isinstance(query, Keys):
        raise ParameterError("a lease has no delta: list the keys in the catalog")
    measure: Measure = "rho" if price.epsilon is None else "epsilon"
    name = (
        choose_family(query, measure, allow_epsilon_only).name
        if family is None
        else _check_family(family)
    )
    return Request((Step(query, name, Fraction(1)),), price, pot)


def _explain(kernel: Kernel, request: Request) -> ExplainedStep:
    priced = kernel.price(request)
    return explain_step(priced.steps[0], priced.version.analyses, Fraction(1))
