"""`dither demo`: what dither does, on embedded defaults, in a few seconds."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from dither.plan.sensitivity import Sensitivity
from dither.privacy import noise
from dither.privacy.mechanisms import IntegerGaussian, IntegerLaplace


def demo() -> None:
    """Show exact noise, a private histogram with intervals, and its price. Reads nothing, writes nothing."""
    console = Console()
    console.rule("exact noise")
    draws = noise.discrete_laplace(2, 100_000)
    console.print(
        f"100,000 integers with P(z) ~ exp(-|z|/2): mean {draws.mean():+.3f}, variance {draws.var():.3f} (7.835)"
    )
    draws = noise.discrete_gaussian(10, 100_000)
    console.print(
        f"100,000 integers with P(z) ~ exp(-z²/200): mean {draws.mean():+.3f}, variance {draws.var():.2f} (100)"
    )

    console.rule("a histogram of ages, one person in one band")
    bands = ["0-17", "18-39", "40-64", "65+"]
    ages = noise.uniform_below(90, 5000)  # invented people
    truth = np.bincount(np.digitize(ages, [18, 40, 65]), minlength=4)
    laplace = IntegerLaplace.for_epsilon(0.5, Sensitivity.of(largest=1), unit="person")
    gaussian = IntegerGaussian.for_epsilon_delta(0.5, 1e-6, Sensitivity.of(largest=1), unit="person")
    table = Table("age", "invented truth", "Laplace", "95 % interval", "Gaussian", "95 % interval")
    for band, exact, one, two in zip(bands, truth, laplace.release(truth), gaussian.release(truth), strict=True):
        row = [band, str(exact)]
        for mechanism, answer in ((laplace, one), (gaussian, two)):
            half = mechanism.error().interval(0.95)
            row += [str(answer), f"{answer - half} … {answer + half}"]
        table.add_row(*row)
    console.print(table)
    console.rule("the price")
    console.print(f"Laplace:  {laplace.loss()}\n          epsilon 0.5")
    console.print(f"Gaussian: {gaussian.loss()}\n          (epsilon, delta) = (0.5, 1e-06)")
