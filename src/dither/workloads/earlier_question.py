"""A question in SQL that is answered from earlier releases, at no new loss.

A COUNT or SUM of declared keys is a marginal of its rows: one product of a workload. Where earlier
releases over the same rows span it, and no cell errs by more than what would be bought, nothing is
charged. Proof: docs/proofs/workloads.md#earlier-releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dither.answer.choose_mechanism import Offered
from dither.answer.column_info import ResultColumn
from dither.answer.curator_access import CuratorAccess
from dither.answer.intervals import read_level
from dither.answer.preview import EarlierSources
from dither.answer.result import Result
from dither.answer.show_result import make_shown_table
from dither.canonical import Number
from dither.laws import AdditiveErrorLaw, find_error_law
from dither.plan.algebra import Cells
from dither.privacy.kernel.kernel import Release
from dither.question.expressions import KeyValue
from dither.question.recipe import Recipe
from dither.surfaces import make_rich_text
from dither.workloads.bind import BoundWorkload
from dither.workloads.earlier import EarlierAnswer, find_earlier_answer
from dither.workloads.language import CountingWorkload, LineKind, Product
from dither.workloads.preview import find_deviations, find_interval_factor
from dither.workloads.result import fit_release, list_keys_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

FROM_EARLIER = "answered from earlier releases"
_EQUAL = 1 + 1e-9


@dataclass(frozen=True)
class EarlierQuestion:
    """A question with the releases that answer it."""

    bound: BoundWorkload
    answer: EarlierAnswer

    @property
    def product(self) -> Product:
        """The marginal that is asked for."""
        return self.bound.workload.products[0]

    def describe(self) -> EarlierSources:
        """What a preview says of it."""
        deviations = find_deviations(self.answer.offer, self.product)
        return EarlierSources(self.answer.release_ids, float(deviations.max()))

    def make_result(
        self,
        level: Fraction,
        describe: Callable[[Release, Recipe], dict[str, Any]],
        curator: CuratorAccess,
    ) -> EarlierResult:
        """The answer with intervals. Nothing is read, nothing is charged."""
        names = ", ".join(self.answer.release_ids)
        info = self.answer.describe_derived(describe(self.answer.release, self.bound.recipe))

        def certify(
            _: Release, recipe: Recipe, steps: tuple[str, ...], commitment: str
        ) -> dict[str, Any]:
            return curator.certify_earlier(self.answer.sources, recipe, steps, commitment)

        notes = (f"{FROM_EARLIER}: {names}; no new loss",)
        return EarlierResult(
            info,
            self.answer.release,
            self.bound.recipe,
            level,
            notes=notes,
            _certify=certify,
            question=self,
        )


@dataclass(frozen=True, repr=False)
class EarlierResult(Result):
    """The answer to a question from earlier releases: least squares over what they measured."""

    question: EarlierQuestion | None = None

    @property
    def _question(self) -> EarlierQuestion:
        assert self.question is not None
        return self.question

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """The keys, and the value with its interval."""
        columns: list[ResultColumn] = []
        for output in self._recipe.outputs:
            if output.role == "key":
                columns.append(ResultColumn(output.name, "key"))
                continue
            atom = self._recipe.atoms[0]
            about: dict[str, Any] = {
                "aggregate": output.aggregate or atom.aggregate,
                "confidence": self._level,
                "limits": atom.limits,
            }
            value, low, high = output.names
            columns += [
                ResultColumn(value, "value", **about),
                ResultColumn(low, "low", **about),
                ResultColumn(high, "high", **about),
            ]
        return tuple(columns)

    def _make_table(self, *, intervals: bool) -> pa.Table:
        question = self._question
        offer = question.answer.offer
        fitted = fit_release(offer, question.answer.release).answer(question.product)
        values = np.asarray(float(question.bound.unit) * fitted)
        half = find_interval_factor(offer, self._level) * find_deviations(offer, question.product)
        keys = list_keys_of(question.bound, question.product)
        table: dict[str, Any] = {}
        for output in self._recipe.outputs:
            if isinstance(output.formula, KeyValue):
                table[output.name] = keys[self._recipe.keys[output.formula.key].column]
            else:
                ends = (values, values - half, values + half)
                table |= dict(zip(output.names, ends if intervals else (values,), strict=False))
        return pa.table(table)

    def interval(self, level: Number) -> Result:
        """The same answer with intervals at another level; free."""
        changed = replace(self, _level=read_level(level), _changed=None)
        return changed if self._changed is None else changed.nonnegative()

    def consistent(self) -> Result:
        """The answer itself: it is one least-squares estimate already."""
        return self

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield make_shown_table(self.columns, self.table.to_pylist())
        yield from map(make_rich_text, self.footnotes)


def find_earlier_question(
    offered: Offered, marginal: Cells, sources: tuple[Release, ...]
) -> EarlierQuestion | None:
    """The question with the releases that answer it no worse than what is offered; None where they
    do not, or where no exact variance is known of what is offered."""
    bought = _find_variance(offered)
    if bought is None:
        return None
    bound = _bind_marginal(offered.recipe, marginal)
    answer = find_earlier_answer(bound, sources, 0.0)
    if answer is None:
        return None
    variances = answer.offer.plan.predict(bound.workload.products[0], answer.offer.variances)
    if float(variances.max()) > bought * _EQUAL:
        return None
    return EarlierQuestion(bound, answer)


def _find_variance(offered: Offered) -> float | None:
    """The variance of the one number of every cell that is offered; None where it is another."""
    steps = offered.priced.steps
    law = find_error_law(steps[0].mechanism) if len(steps) == 1 else None
    return float(law.variance) if isinstance(law, AdditiveErrorLaw) else None


def _bind_marginal(recipe: Recipe, marginal: Cells) -> BoundWorkload:
    """A plain question as the only product of a workload."""
    factors: tuple[tuple[str, LineKind], ...] = tuple(
        (column, "identity") for column in marginal.keys
    )
    domains = {
        recipe.keys[index].column: recipe.keys[index].domain for index in recipe.sets[0].keys
    }
    return BoundWorkload(CountingWorkload((Product(factors),)), recipe, domains)
