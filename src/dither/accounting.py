"""The accountant: losses in, brackets of (epsilon, delta) out. Re-exports `privacy.accounting` and `privacy.losses`.

>>> from dither import accounting as acc
>>> loss = acc.PoissonSampled(0.01, acc.Gaussian(1.1)) * 10_000
>>> round(acc.epsilon(loss, 1e-5).upper, 8)
5.19258345
"""

from dither.privacy.accounting.bounds import Bounds
from dither.privacy.accounting.curves import delta, epsilon
from dither.privacy.accounting.renyi import rdp, zcdp
from dither.privacy.losses import (
    RDP,
    ZCDP,
    Approx,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteGaussianVector,
    DiscreteLaplace,
    Gaussian,
    GaussianSum,
    Laplace,
    Loss,
    Parallel,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
    compose,
    from_json,
)
