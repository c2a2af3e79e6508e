"""EXPLAIN PRIVACY as a result: `con.sql` always returns one. Its table is the explanation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pyarrow as pa

from dither.answer.column_info import ResultColumn
from dither.answer.explain import ExplainedStep, Explanation
from dither.answer.preview import Preview
from dither.answer.result import Result
from dither.answer.unreleased_result import UnreleasedResult
from dither.canonical import Number
from dither.privacy.kernel.kernel import Release
from dither.question.recipe import Recipe

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True, repr=False)
class ExplainedResult(UnreleasedResult):
    """What a question would do, one row for each step. It holds no answer: nothing was measured."""

    _remedy: ClassVar[str] = "an explanation holds no answer: ask without EXPLAIN PRIVACY"

    explanation: Explanation | None = None

    @property
    def _explained(self) -> Explanation:
        assert self.explanation is not None
        return self.explanation

    @property
    def steps(self) -> tuple[ExplainedStep, ...]:
        """What each step asks, and how it is answered."""
        return self._explained.steps

    @property
    def preview(self) -> Preview:
        """Price and error."""
        return self._explained.preview

    @cached_property
    def table(self) -> pa.Table:
        """Make a table of the steps, a row each.

        It says what a step asks, its mechanism and its share of the price.
        """
        steps = self._explained.steps
        return pa.table(
            {
                "step": list(range(len(steps))),
                "asks": [step.asks for step in steps],
                "one_unit_moves_it_by": [step.sensitivity for step in steps],
                "mechanism": [step.mechanism for step in steps],
                "noise_scale": pa.array([step.scale for step in steps], pa.float64()),
                "share": [float(step.share) for step in steps],
                "stability": [step.stability for step in steps],
            }
        )

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """None: an explanation has no noisy columns."""
        return ()

    def to_arrow(self, *, intervals: bool = True) -> pa.Table:
        """The table of the explanation."""
        return self.table

    def to_dict(self, *, intervals: bool = True) -> dict[str, list[Any]]:
        """Column name to list of values."""
        return dict(self.table.to_pydict())

    def explain(self) -> str:
        """The explanation in words."""
        return str(self._explained)

    @property
    def footnotes(self) -> tuple[str, ...]:
        """None: an explanation shows no answer."""
        return ()

    def interval(self, level: Number) -> Result:
        """Refused: nothing was released."""
        self._refuse()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._explained

    def _repr_html_(self) -> str:
        return self._explained._repr_html_()

    def __str__(self) -> str:
        return str(self._explained)


def make_explained_result(explanation: Explanation, info: dict[str, Any]) -> ExplainedResult:
    """Wrap an explanation as the result of EXPLAIN PRIVACY. It has no release: no data was read."""
    level = explanation.preview.confidence
    no_release = cast(Release, None)
    no_recipe = cast(Recipe, None)
    return ExplainedResult(info, no_release, no_recipe, level, explanation=explanation)
