"""The privacy cost of a release, as data.

A loss is a frozen tree that says *which mechanism ran, with which exact parameters, towards whom*.
It is never a bare epsilon: accountants (`dither.accounting`) are separate functions that interpret
it. The meaning of a type and version never changes, so a ledger of today can be re-read for ever.

Every loss stores its `neighbours` and its `unit`, shows them, and refuses to be composed with a
loss that differs in either. Numbers are exact: a float means its decimal text.

>>> DiscreteLaplace(10, 1)
DiscreteLaplace(scale=10, sensitivity=1, neighbours='add_remove', unit='unit')
>>> PoissonSampled(0.01, Gaussian(1.1)) * 10_000
Repeated(loss=PoissonSampled(q=1/100, loss=Gaussian(sigma=11/10, sensitivity=1)), count=10000,
         neighbours='add_remove', unit='unit')
>>> Pure(1) + Pure(2) == Pure(2) + Pure(1)
True

Integer mechanisms emit integer losses: the continuous curve under-reports
(docs/proofs/integer-noise.md). Only the exponential mechanism emits `BoundedRange`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from dither.canonical import Number, dumps, fraction_text, positive, quote
from dither.errors import ParameterError
from dither.privacy.numbers import Exact, count, not_negative, order, probability, rate, theorem
from dither.stored import stored, stored_items

Neighbours = Literal["add_remove", "replace"]


class Adjacency(NamedTuple):
    """Which databases are neighbours, and what the unit is called in which they differ."""

    neighbours: Neighbours = "add_remove"
    unit: str = "unit"


ADD_REMOVE = Adjacency()
_RELATIONS = get_args(Neighbours)
LOSS_TYPES: dict[str, type[Loss]] = {}
_CHECKS: dict[type, list[tuple[str, Callable[[Number, str], Any]]]] = {}


def _parameter(check: Callable[[Number, str], Any] | None = None, **default: Any) -> Any:
    """A dataclass field; a number is checked and made exact when the loss is built."""
    return field(metadata={"check": check} if check else {}, **default)


@stored(neighbours="neighbours", unit="unit")
@dataclass(frozen=True, repr=False, eq=False)
class Loss:
    """Base of all losses: neighbours, unit, exact JSON, `a + b` and `loss * k`."""

    type: ClassVar[str]
    version: ClassVar[int] = 1
    neighbours: Neighbours = field(default="add_remove", kw_only=True)
    unit: str = field(default="unit", kw_only=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register a loss class by its stored type name, for `read_loss`."""
        super().__init_subclass__(**kwargs)
        if "type" in cls.__dict__:
            LOSS_TYPES[cls.type] = cls

    def __post_init__(self) -> None:
        """Check neighbours and unit, and make each parameter exact by its own check."""
        if self.neighbours not in _RELATIONS:
            given = quote(self.neighbours)
            raise ParameterError(f"neighbours must be 'add_remove' or 'replace', got {given}")
        if not isinstance(self.unit, str) or not self.unit:
            raise ParameterError("unit must be a non-empty text such as 'person' or 'row'")
        kind = type(self)
        if kind not in _CHECKS:
            _CHECKS[kind] = [(x.name, x.metadata["check"]) for x in fields(kind) if x.metadata]
        for name, check in _CHECKS[kind]:
            object.__setattr__(self, name, check(getattr(self, name), name))

    def __add__(self, other: Loss) -> Composed:
        return compose(self, other) if isinstance(other, Loss) else NotImplemented

    def __mul__(self, count: int) -> Repeated:
        return Repeated(self, count) if isinstance(count, int) else NotImplemented

    __rmul__ = __mul__

    def to_json(self) -> dict[str, Any]:
        """Plain dict for `json.dumps`; fractions as "p/q"; children carry all of their own."""
        return self._tree(lambda losses: losses)

    @cached_property
    def canonical(self) -> str:
        """Canonical JSON text; the parts of a composition are sorted: order means nothing."""
        return dumps(self._tree(lambda losses: sorted(losses, key=dumps)))

    def _tree(self, arrange: Callable[[list[Any]], list[Any]]) -> dict[str, Any]:
        """Write the loss as a dict; `arrange` orders the dicts of composed losses."""
        tree: dict[str, Any] = {"type": self.type, "v": self.version}
        for key, value in stored_items(self):
            if isinstance(value, Loss):
                tree[key] = value._tree(arrange)
            elif isinstance(value, tuple):
                tree[key] = arrange([loss._tree(arrange) for loss in value])
            else:
                tree[key] = fraction_text(value) if isinstance(value, Fraction) else value
        return tree

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loss) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def _short(self) -> str:
        """Write the loss as text: its class and parameters, without neighbours and unit."""
        names = [field.name for field in fields(self) if field.name not in Adjacency._fields]
        arguments = [f"{name}={_write_parameter(getattr(self, name))}" for name in names]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def __repr__(self) -> str:
        return f"{self._short()[:-1]}, neighbours={self.neighbours!r}, unit={self.unit!r})"


def _write_parameter(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_write_parameter, value))})"
    return value._short() if isinstance(value, Loss) else str(value)


@stored(epsilon="epsilon")
@dataclass(frozen=True, repr=False, eq=False)
class Pure(Loss):
    """epsilon-DP and nothing else known."""

    type = "pure"
    epsilon: Exact = _parameter(not_negative)


@stored(epsilon="epsilon", delta="delta")
@dataclass(frozen=True, repr=False, eq=False)
class Approx(Loss):
    """(epsilon, delta)-DP and nothing else known."""

    type = "approx"
    epsilon: Exact = _parameter(not_negative)
    delta: Exact = _parameter(probability)


@stored(scale="scale", sensitivity="sensitivity")
@dataclass(frozen=True, repr=False, eq=False)
class Laplace(Loss):
    """*Continuous* Laplace noise towards an L1 sensitivity. No mechanism of dither emits it."""

    type = "laplace"
    scale: Exact = _parameter(positive)
    sensitivity: Exact = _parameter(positive, default=Fraction(1))


@stored(sigma="sigma", sensitivity="sensitivity")
@dataclass(frozen=True, repr=False, eq=False)
class Gaussian(Loss):
    """*Continuous* Gaussian noise towards an L2 sensitivity. No mechanism of dither emits it."""

    type = "gaussian"
    sigma: Exact = _parameter(positive)
    sensitivity: Exact = _parameter(positive, default=Fraction(1))


@stored(scale="scale", sensitivity="sensitivity")
@dataclass(frozen=True, repr=False, eq=False)
class DiscreteLaplace(Loss):
    """Integer noise P(z) ~ exp(-|z|/scale) on *one* integer, or a vector of one moved cell."""

    type = "discrete_laplace"
    scale: Exact = _parameter(positive)
    sensitivity: int = _parameter(count)


@stored(sigma="sigma", sensitivity="sensitivity")
@dataclass(frozen=True, repr=False, eq=False)
class DiscreteGaussian(Loss):
    """Integer noise P(z) ~ exp(-z^2 / 2 sigma^2) on *one* integer of this sensitivity.

    Also a vector of which one unit moves one cell only.
    """

    type = "discrete_gaussian"
    sigma: Exact = _parameter(positive)
    sensitivity: int = _parameter(count)


@stored(sigma="sigma", l2_squared="l2_squared")
@dataclass(frozen=True, repr=False, eq=False)
class DiscreteGaussianVector(Loss):
    """Independent integer Gaussian noise on integers of squared L2 sensitivity `l2_squared`.

    It has rho = l2_squared / (2 sigma^2) in zCDP; the scalar curve at sqrt(l2_squared) is no bound.
    """

    type = "discrete_gaussian_vector"
    sigma: Exact = _parameter(positive)
    l2_squared: int = _parameter(count)


@stored(sigma="sigma", l2_squared="l2_squared")
@dataclass(frozen=True, repr=False, eq=False)
class RoundedGaussian(Loss):
    """Continuous Gaussian noise rounded to integers: *at most* the loss of `Gaussian`."""

    type = "rounded_gaussian"
    sigma: Exact = _parameter(positive)
    l2_squared: int = _parameter(count)


@stored(epsilon="epsilon")
@dataclass(frozen=True, repr=False, eq=False)
class RandomizedResponse(Loss):
    """Binary randomised response that tells the truth with probability e^eps / (1 + e^eps)."""

    type = "randomized_response"
    epsilon: Exact = _parameter(positive)
    neighbours: Neighbours = field(default="replace", kw_only=True)


@stored(epsilon="epsilon")
@dataclass(frozen=True, repr=False, eq=False)
class BoundedRange(Loss):
    """The exponential mechanism: its log-ratios span a range of at most epsilon."""

    type = "bounded_range"
    epsilon: Exact = _parameter(positive)


@stored(rho="rho", delta="delta")
@dataclass(frozen=True, repr=False, eq=False)
class ZCDP(Loss):
    """delta-approximate rho-zero-concentrated DP (delta = 0: plain zCDP)."""

    type = "zcdp"
    rho: Exact = _parameter(not_negative)
    delta: Exact = _parameter(probability, default=Fraction(0))


@stored(alpha="alpha", epsilon="epsilon")
@dataclass(frozen=True, repr=False, eq=False)
class RDP(Loss):
    """Renyi DP at one order: D_alpha <= epsilon."""

    type = "rdp"
    alpha: Exact = _parameter(order)
    epsilon: Exact = _parameter(not_negative)


@stored()
@dataclass(frozen=True, repr=False, eq=False)
class WrappingLoss(Loss):
    """A loss made of others. It has their neighbours and unit, which must all be the same."""

    neighbours: Neighbours = field(default=None, kw_only=True)  # type: ignore[arg-type]
    unit: str = field(default=None, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Take neighbours and unit from the inner losses; refuse losses that differ in them."""
        losses = self._inner_losses()
        if not losses or not all(isinstance(loss, Loss) for loss in losses):
            raise ParameterError(f"{type(self).__name__} needs losses, such as Pure(1)")
        for name in Adjacency._fields:
            values = {getattr(loss, name) for loss in losses} | ({getattr(self, name)} - {None})
            if len(values) > 1:
                raise ParameterError(
                    f"losses with different {name} have no common guarantee: {sorted(values)}. "
                    f"Account them apart, or restate one of them for the other's {name} by a "
                    f"theorem"
                )
            object.__setattr__(self, name, values.pop())
        super().__post_init__()

    def _inner_losses(self) -> tuple[Loss, ...]:
        """The losses inside: one in `loss`, or several in `losses`."""
        return (vars(self)["loss"],) if "loss" in vars(self) else vars(self).get("losses", ())


@stored(q="q", loss="loss")
@dataclass(frozen=True, repr=False, eq=False)
class PoissonSampled(WrappingLoss):
    """The loss on a secret sample that holds each unit independently with probability q."""

    type = "poisson_sampled"
    q: Exact = _parameter(rate)
    loss: Loss = _parameter()


@stored(sample_size="sample_size", population_size="population_size", loss="loss")
@dataclass(frozen=True, repr=False, eq=False)
class SampledWithoutReplacement(WrappingLoss):
    """The loss on a secret uniform sample of fixed size out of a public number of units."""

    type = "sampled_without_replacement"
    sample_size: int = _parameter(count)
    population_size: int = _parameter(count)
    loss: Loss = _parameter()

    def __post_init__(self) -> None:
        """Refuse a sample that is larger than the population."""
        super().__post_init__()
        if self.sample_size > self.population_size:
            raise ParameterError(f"sample_size exceeds population_size {self.population_size}")


@stored(loss="loss", count="count")
@dataclass(frozen=True, repr=False, eq=False)
class Repeated(WrappingLoss):
    """The same loss `count` times, the query (not the noise) chosen adaptively."""

    type = "repeated"
    loss: Loss = _parameter()
    count: int = _parameter(count)


@stored(losses="losses")
@dataclass(frozen=True, repr=False, eq=False)
class Composed(WrappingLoss):
    """Several losses on the same data, one after another; flat, and equal in any order."""

    type = "composed"
    losses: tuple[Loss, ...] = _parameter()

    def __post_init__(self) -> None:
        flat = (x.losses if isinstance(x, Composed) else (x,) for x in self.losses)
        object.__setattr__(self, "losses", tuple(chain.from_iterable(flat)))
        super().__post_init__()


@stored(losses="losses")
@dataclass(frozen=True, repr=False, eq=False)
class FixedPlan(Composed):
    """A composition whose losses were all fixed before the first: its exact curve may be paid."""

    type = "fixed_plan"


@stored(losses="losses")
@dataclass(frozen=True, repr=False, eq=False)
class FixedNoise(FixedPlan):
    """A plan of Gaussian noise alone, all of one question: rule approx charges its exact curve."""

    type = "fixed_noise"


@stored(losses="losses")
@dataclass(frozen=True, repr=False, eq=False)
class Parallel(WrappingLoss):
    """Losses on disjoint parts of the units, each unit in one (rule parts-follow-the-unit)."""

    type = "parallel"
    losses: tuple[Loss, ...] = _parameter()

    def __post_init__(self) -> None:
        object.__setattr__(self, "losses", tuple(self.losses))
        super().__post_init__()


def compose(*losses: Loss) -> Composed:
    """All of `losses` on the same data, flattened: (a + b) beside c is three losses."""
    return Composed(losses)


@stored(sigma="sigma", clip_norm="clip_norm")
@dataclass(frozen=True, repr=False, eq=False)
class GaussianSum(Loss):
    """*Continuous* Gaussian noise on a sum of vectors, one a unit, of norm at most `clip_norm`."""

    type = "gaussian_sum"
    sigma: Exact = _parameter(positive)
    clip_norm: Exact = _parameter(positive)


@stored(epsilon="epsilon", users="users", theorem="theorem")
@dataclass(frozen=True, repr=False, eq=False)
class Shuffled(Loss):
    """One `epsilon`-local report of each of `users`, mixed by a trusted shuffler."""

    type = "shuffled"
    epsilon: Exact = _parameter(positive)
    users: int = _parameter(count)
    theorem: str = _parameter(theorem, kw_only=True)
    neighbours: Neighbours = field(default="replace", kw_only=True)

    def __post_init__(self) -> None:
        """Refuse neighbours other than replace: the public number of users stays the same."""
        super().__post_init__()
        if self.neighbours != "replace":
            raise ParameterError("shuffling is proved for neighbours='replace' only")
