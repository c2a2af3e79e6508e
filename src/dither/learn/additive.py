"""An additive model: the score of a row is a sum of one function of each column.

Every function is a table over fine public bins or listed values, so that a reader sees all of what
the model does (Nori et al. 2021 train such models privately, feature after feature). Here all
tables are trained together, by gradient descent on noisy sums.
"""

from __future__ import annotations

from typing import Any

from dither.errors import ParameterError
from dither.learn.columns import NumericColumn
from dither.learn.linear_classifiers import LogisticRegression
from dither.learn.sums import Array


class AdditiveClassifier(LogisticRegression):
    """A private additive classifier: `LogisticRegression` with fine bins, and its functions shown.

    Above `LogisticRegression` where there are many people for the price; below it where there are
    few, since finer bins have more weights to learn.
    """

    def __init__(
        self,
        epsilon: Any = None,
        *,
        delta: Any = None,
        n: int | None = None,
        bounds: Any = None,
        categories: Any = None,
        classes: Any = None,
        bins: Any = "fine",
        neighbours: str = "add_remove",
        clip: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        penalty: float = 0.0,
        solver: str = "auto",
        intervals: bool = False,
    ) -> None:
        super().__init__(
            epsilon,
            delta=delta,
            n=n,
            bounds=bounds,
            categories=categories,
            classes=classes,
            bins=bins,
            neighbours=neighbours,
            clip=clip,
            steps=steps,
            learning_rate=learning_rate,
            penalty=penalty,
            solver=solver,
            intervals=intervals,
        )

    def shape_function(self, name: Any) -> tuple[Array, Array]:
        """The function of a column: where it is evaluated, and the scores there, a row for each
        output.

        A number is evaluated at the middle of each bin, a category at each listed value.
        """
        facts = self.columns_
        first = facts.dense_width
        for column in facts.columns:
            stop = first + column.hot_width
            if column.name == name:
                return column.list_points(), self._find_scores(column, first, stop)
            first = stop
        raise ParameterError(f"no column {name!r}: there are {[c.name for c in facts.columns]}")

    def _find_scores(self, column: Any, first: int, stop: int) -> Array:
        points = column.list_points()
        scores: Array = self.weights_[:, first : first + len(points)].copy()
        if isinstance(column, NumericColumn):
            scaled = (points - column.low) * (2 / (column.high - column.low)) - 1
            slope = self.weights_[:, 1 + self.columns_.numbers.index(column)]
            linear = slope[:, None] * scaled
            scores = scores + linear if stop > first else linear
        return scores
