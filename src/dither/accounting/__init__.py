"""The accountant: losses in, brackets of (epsilon, delta) out. Re-exports this package and
`privacy.losses`.

>>> from dither import accounting as acc
>>> loss = acc.PoissonSampled(0.01, acc.Gaussian(1.1)) * 10_000
>>> round(acc.epsilon(loss, 1e-5).upper, 8)
5.19258345
"""

from dither.accounting.bounds import Bounds
from dither.accounting.calibration import CalibrationPlan, calibrate
from dither.accounting.curves import delta, epsilon
from dither.accounting.explain import LossExplanation, explain
from dither.accounting.expressions import parse
from dither.accounting.filters import (
    ApproxRule,
    CappedRule,
    Charge,
    PureRule,
    RenyiRule,
    Rule,
    Spent,
    ZcdpRule,
    charge,
    guarantee,
    parallel_spent,
)
from dither.accounting.odometers import Meter, RenyiOdometer, ZcdpOdometer
from dither.accounting.planning import (
    accuracy_floor,
    amplify,
    cautions,
    group,
    marginal_cost,
    most_queries,
    split,
    unamplify,
)
from dither.accounting.profile import Profile, TradeOff, profile, tradeoff
from dither.accounting.readers import from_dp_event, from_opacus, parse_dp_event
from dither.accounting.renyi import Concentrated, rdp, triangle, zcdp
from dither.accounting.training import banded_matrix, dpsgd, epsilon_curve, estimate_gdp
from dither.accounting.training_losses import (
    BestOfNegativeBinomial,
    BestOfPoisson,
    GaussianMixture,
    KaryResponse,
    SampledWithReplacement,
    TruncatedPoissonSampled,
)
from dither.accounting.writers import to_dp_event
from dither.privacy.loss_documents import read_loss as from_json
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
    RoundedGaussian,
    SampledWithoutReplacement,
    Shuffled,
    compose,
)

__all__ = [
    "RDP",
    "ZCDP",
    "Approx",
    "ApproxRule",
    "BestOfNegativeBinomial",
    "BestOfPoisson",
    "BoundedRange",
    "Bounds",
    "CalibrationPlan",
    "CappedRule",
    "Charge",
    "Composed",
    "Concentrated",
    "DiscreteGaussian",
    "DiscreteGaussianVector",
    "DiscreteLaplace",
    "Gaussian",
    "GaussianMixture",
    "GaussianSum",
    "KaryResponse",
    "Laplace",
    "Loss",
    "LossExplanation",
    "Meter",
    "Parallel",
    "PoissonSampled",
    "Profile",
    "Pure",
    "PureRule",
    "RandomizedResponse",
    "RenyiOdometer",
    "RenyiRule",
    "Repeated",
    "RoundedGaussian",
    "Rule",
    "SampledWithReplacement",
    "SampledWithoutReplacement",
    "Shuffled",
    "Spent",
    "TradeOff",
    "TruncatedPoissonSampled",
    "ZcdpOdometer",
    "ZcdpRule",
    "accuracy_floor",
    "amplify",
    "banded_matrix",
    "calibrate",
    "cautions",
    "charge",
    "compose",
    "delta",
    "dpsgd",
    "epsilon",
    "epsilon_curve",
    "estimate_gdp",
    "explain",
    "from_dp_event",
    "from_json",
    "from_opacus",
    "group",
    "guarantee",
    "marginal_cost",
    "most_queries",
    "parallel_spent",
    "parse",
    "parse_dp_event",
    "profile",
    "rdp",
    "split",
    "to_dp_event",
    "tradeoff",
    "triangle",
    "unamplify",
    "zcdp",
]
